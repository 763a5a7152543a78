"""Ring attention, also striped: a sequence cut over devices; keys and values go round the ring, past every device's queries (chapter 6).

Per-device functions for use inside `jax.shard_map`; `program` makes one for whole arrays. q[B, T_X, N, H], k and v[B, S_X, K, H].

A device sends its keys and values to the next one while it looks at them, N - 1 times in all: after r hops it holds those of device
(own - r) mod N. With a window, hops that bring nobody anything are left out. Of what a query has seen the running softmax is kept.

Backward, keys and values go round once more. Their gradients follow one hop behind: a device sends those that it has while it works on
its share of the next ones. They need one hop more to be back home.

places  which tokens lie where: a function of (device, N, T) that gives the positions of its T tokens, in rising order; `blocks`,
        or `stripes`
ways    2 sends half of the keys to the right and half to the left: the same N - 1 hops, half the bytes on each wire
tile    a device's queries and keys are taken so many at a time, and tiles in which no query sees a key are not computed.
        Without it a device's block is one tile: with a causal mask and `blocks`, those that come from the right are left out

Queries and keys are those of the same tokens.
Softmax and sums are float32 whatever the arrays are; keys, values and their gradients travel in their own type.

Source: Liu et al., "Ring Attention with Blockwise Transformers" (2023), with a block index that fits the way that
keys go (errata E004-7); Brandon et al., "Striped Attention" (2023); Austin et al. 2025, Section 5.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from helpers.kernels import operands
from helpers.kernels.sharding.collectives import LEFT, RIGHT, hop

from . import masks
from .flash_attention import block_gradients
from .softmax import chunk, logsum, nothing, result, together

KEPT = "ring"
"""The name of what the backward pass needs from the forward pass: the result, and log of the softmax's sum."""


def blocks(device, n: int, T: int):
    """Device 0 has the first T tokens, device 1 the next ones.

    >>> blocks(1, 4, 3).tolist()
    [3, 4, 5]
    """
    return device * T + jnp.arange(T)


# Striped attention: token i lies on device i mod N, so that a causal mask halves everybody's work.
#
# With `blocks` a device's keys are, at each look after the first, all seen or all masked, and every hop waits for a device that
# sees all C · C of them. With stripes the query t of a device and the key s that it holds are tokens t·N + own and s·N + other: it
# sees the key if s < t, or if s = t and the other is no later than itself. So each look is a triangle,
#
#     C(C + 1)/2 scores if other <= own, else C(C - 1)/2
#
# on every device. Summed over the looks, the slowest device of a ring does (N - 1)C² + C(C + 1)/2, that of stripes N·C(C + 1)/2: for
# large C a ratio of 2 - 1/N. Only a program that leaves masked tiles out is faster for it: give the ring a `tile`.
#
# Positions (rotations, masks) must go with the tokens: permute the text before the first layer, and the positions with it.


def stripes(device, n: int, T: int):
    """Device 0 has tokens 0, N, 2N, …

    >>> stripes(1, 4, 3).tolist()
    [1, 5, 9]
    """
    return device + n * jnp.arange(T)


def held(device, hops, n: int, direction: int = RIGHT):
    """Whose keys a device holds after so many hops to the right (or to the left).

    >>> [held(0, r, 4) for r in range(4)], [held(0, r, 4, LEFT) for r in range(4)]
    ([0, 3, 2, 1], [0, 1, 2, 3])
    """
    return (device - direction * hops) % n


class How(NamedTuple):
    """What is the same on all devices and known before the program is made; see the module."""

    axis: str
    causal: bool = True
    window: int | None = None
    places: Callable = blocks
    ways: int = 1
    tile: int | None = None


def ring(q, k, v, axis: str, causal: bool = True, window: int | None = None, **options):
    """Attention of a sequence cut over `axis`: [B, T_X, N, H].

    window   a query sees so many keys, with its own
    options  `places`, `ways`, `tile`: see the module
    """
    return _ring(q, k, v, _checked(q, k, v, How(axis, causal, window, **options)))


def counted(q, k, v, axis: str, causal: bool = True, window: int | None = None, **options):
    """(`ring`, how many scores of one head this device computed at each of its N looks: [1, N], whole numbers)."""
    (out, _, _), scores = _look(q, k, v, _checked(q, k, v, How(axis, causal, window, **options)))
    return out, scores[None]


def program(mesh: jax.sharding.Mesh, axis: str, f: Callable = ring, **options) -> Callable:
    """`ring` (or `counted`) of whole arrays, q[B, T, N, H], k and v[B, T, K, H]: cut, looked at, put together.

    Tokens are laid out as `places` says, and the result stands in the order of the text again.
    """
    n, cut = operands.axis(mesh, axis), jax.P(None, axis)
    outs = cut if f is ring else (cut, jax.P(axis))
    on_devices = jax.shard_map(
        partial(f, axis=axis, **options), mesh=mesh, in_specs=cut, out_specs=outs, check_vma=False
    )

    @jax.jit
    def run(q, k, v):
        _checked(q, k, v, How(axis, **options))  # here too: on a device a refusal would name the sizes of a block
        T = q.shape[1]
        if T % n:
            raise ValueError(f"{n} devices do not share {T} tokens evenly: take a multiple of {n}")
        order = np.concatenate([_numbers(options.get("places", blocks), i, n, T // n) for i in range(n)])
        got = on_devices(q[:, order], k[:, order], v[:, order])
        out, *scores = (got,) if f is ring else got
        out = out[:, np.argsort(order)]
        return (out, *scores) if scores else out

    return run


def _numbers(places, i, n, T) -> np.ndarray:
    with jax.ensure_compile_time_eval():
        return np.asarray(places(i, n, T))


def _checked(q, k, v, options: How) -> How:
    """`options`, if it and the arrays fit; ValueError in one sentence if not."""
    masks.check(q, k, v)
    operands.fit({"q[B, T, N, H]": q, "k[B, T, K, H]": k, "v[B, T, K, H]": v})  # of the same tokens, and both travel
    operands.whole(window=options.window, ways=options.ways, tile=options.tile)
    if options.window is not None and not options.causal:
        raise ValueError(f"a window looks back, under a causal mask: not {options.window} with causal={options.causal}")
    if options.ways not in (1, 2):
        raise ValueError(f"keys go one way round or both ways, so ways is 1 or 2, not {options.ways}")
    return options


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def _ring(q, k, v, options: How):
    return _look(q, k, v, options)[0][0]


def _forward(q, k, v, options):
    (out, tiles, total), _ = _look(q, k, v, options)
    return out, (q, k, v, tiles, total)


def _look(q, k, v, options):
    """(result, the same in tiles, log of the softmax's sum), scores computed at each look."""
    cut = _Cut(q, k, options)
    Q, positions = cut.queries(q), cut.positions()

    def look(running, lanes, hop):
        scores = 0
        for lane, kv in enumerate(lanes):
            running, more = _seen(cut, Q, positions, running, kv, cut.where(lane, hop))
            scores += more
        return running, scores

    def step(carry, hop):
        lanes, seen = carry
        coming = cut.send(lanes)  # needs nothing of what is computed meanwhile
        seen, scores = look(seen, lanes, hop)
        return (coming, seen), scores

    start = cut.keys(k, v), nothing(Q.shape[:-1], Q.shape[-1])
    (lanes, seen), scores = lax.scan(step, start, jnp.arange(cut.hops))
    seen, last = look(seen, lanes, cut.hops)
    tiles = checkpoint_name(result(seen).astype(q.dtype), KEPT)
    scores = jnp.pad(jnp.append(scores, last), (0, cut.n - 1 - cut.hops))  # looks that a window makes needless
    return (cut.whole(tiles), tiles, checkpoint_name(logsum(seen), KEPT)), scores


def _seen(cut, Q, positions, running, kv, key_positions):
    """The running softmax of all tiles of queries after some keys more, and how many scores were computed."""

    def row(_, x):
        Q, seen, positions = x

        def tile(carry, y):
            (k, v), where = y
            mask = cut.mask(positions, where)
            look = mask.any()
            more = lambda s: together(s, chunk(Q, k.astype(jnp.float32), v.astype(jnp.float32), mask))  # noqa: E731
            seen, scores = carry
            return (lax.cond(look, more, lambda s: s, seen), scores + look * positions.size * where.size), None

        return None, _over(tile, (seen, 0), (kv, key_positions))[0]

    kv = cut.tiles(kv)
    _, (running, scores) = _over(row, None, (Q, running, positions))
    return running, scores.sum()


def _backward(options, residuals, dout):
    """dq, dk, dv. P = e^(tau q·k - total) is the softmax again; sum_j P_ij dP_ij = dO_i · O_i, so no other block is needed."""
    q, k, v, out, total = residuals
    cut = _Cut(q, k, options)
    dO = cut.queries(dout)
    rows = cut.queries(q), dO, total, jnp.sum(dO * out, -1), cut.positions()

    def look(dQ, lanes, hop):
        dkv = []
        for lane, kv in enumerate(lanes):
            dq, more = _gradients(cut, rows, kv, cut.where(lane, hop))
            dQ, dkv = dQ + dq, [*dkv, more]
        return dQ, dkv

    def plus(dkv, addend):
        return [(a + b).astype(k.dtype) for a, b in zip(dkv, addend)]

    def step(carry, hop):
        dQ, lanes, dkv = carry
        coming, arrived = cut.send(lanes), cut.send(dkv)  # gradients: those of the keys that this device now looks at
        dQ, more = look(dQ, lanes, hop)
        return (dQ, coming, plus(arrived, more)), None

    lanes = cut.keys(k, v)
    coming = cut.send(lanes) if cut.hops else lanes
    dQ, dkv = look(jnp.zeros(rows[0].shape), lanes, 0)
    dkv = plus(map(jnp.zeros_like, lanes), dkv)
    if cut.hops:
        (dQ, lanes, dkv), _ = lax.scan(step, (dQ, coming, dkv), jnp.arange(1, cut.hops))
        arrived = cut.send(dkv)
        dQ, more = look(dQ, lanes, cut.hops)
        dkv = cut.send(plus(arrived, more), -cut.hops)  # home: after N - 1 hops, one more
    return cut.whole(dQ).astype(q.dtype), *map(masks.tokens, jnp.concatenate(dkv, -2))


def _gradients(cut, rows, kv, key_positions):
    """What some keys add to dQ, in tiles, and what all queries here add to the gradients of those keys and values."""

    def row(dkv, x):
        Q, dO, total, identity, positions = x

        def tile(dQ, y):
            kv, where = y
            mask = cut.mask(positions, where)

            def more(dQ):
                dq, *dkv = block_gradients(Q, *kv.astype(jnp.float32), dO, total, identity, mask)
                return dQ + dq, jnp.stack(dkv)

            return lax.cond(mask.any(), more, lambda dQ: (dQ, jnp.zeros(kv.shape)), dQ)

        dQ, more = _over(tile, jnp.zeros(Q.shape), (kv, key_positions))
        return dkv + more, dQ

    S, kv = kv.shape[-2], cut.tiles(kv)
    dkv, dQ = _over(row, jnp.zeros(kv.shape), rows)
    return dQ, masks.joined(dkv, S)


def _over(f, carry, xs):
    """`lax.scan`, without a loop where there is one tile."""
    if len(jax.tree.leaves(xs)[0]) > 1:
        return lax.scan(f, carry, xs)
    carry, y = f(carry, jax.tree.map(lambda x: x[0], xs))
    return carry, jax.tree.map(lambda y: y[None], y)


_ring.defvjp(_forward, _backward)


class _Cut:
    """A device's tokens in tiles, and its keys in one lane for each way round. Places that a tile has too many stand at -1."""

    def __init__(self, q, k, options: How):
        self.T, self.K = q.shape[1], k.shape[2]
        self.how, self.n = options, lax.axis_size(options.axis)
        half = -(-self.T // options.ways)
        self.lanes = [(RIGHT, 0, half), (LEFT, half, self.T)][: 1 if half == self.T else 2]
        self.hops = self._hops()

    def _hops(self) -> int:
        """After how many no device needs what would come."""
        window, n = self.how.window, self.n
        if window is None:
            return n - 1
        places = [_numbers(self.how.places, i, n, self.T) for i in range(n)]
        meets = lambda i, j: places[j][0] <= places[i][-1] and places[i][0] - places[j][-1] < window  # noqa: E731
        ways = {way for way, _, _ in self.lanes}
        return max(r for r in range(n) for i in range(n) for way in ways if r == 0 or meets(i, held(i, r, n, way)))

    def send(self, lanes, places: int = 1):
        """Each lane so many places on its way round (back, if fewer than 0)."""
        return [hop(kv, self.how.axis, way * places) for kv, (way, _, _) in zip(lanes, self.lanes)]

    def queries(self, x):
        """[B, T, N, H] -> [tiles, B, K, G, tile, H], float32."""
        return self.tiles(masks.queries(x.astype(jnp.float32), self.K))

    def whole(self, x):
        """[tiles, B, K, G, tile, H] -> [B, T, N, H]."""
        return masks.tokens(masks.joined(x, self.T))

    def keys(self, k, v):
        """[B, T, K, H] each -> for each lane [2, B, K, 1, its T, H], as it travels."""
        both = jnp.stack([masks.keys(k), masks.keys(v)])
        return [both[..., a:b, :] for _, a, b in self.lanes]

    def tiles(self, x):
        """[..., T, H] -> [tiles, ..., tile, H]."""
        return masks.cut(x, min(self.how.tile or x.shape[-2], x.shape[-2]))

    def positions(self):
        """Positions of the queries here, [tiles, tile]."""
        return self._tiles(self.how.places(lax.axis_index(self.how.axis), self.n, self.T))

    def where(self, lane: int, hop):
        """Positions of the keys of a lane that are here after so many hops, [tiles, tile]."""
        way, a, b = self.lanes[lane]
        return self._tiles(self.how.places(held(lax.axis_index(self.how.axis), hop, self.n, way), self.n, self.T)[a:b])

    def mask(self, query_positions, key_positions):
        """Which keys the queries see, [tile, tile]."""
        there = (query_positions >= 0)[:, None] & (key_positions >= 0)  # not a place that a tile has too many
        return there & masks.Mask(self.how.causal, self.how.window).sees(query_positions[:, None], key_positions)

    def _tiles(self, places):
        """Places [T] cut into [tiles, tile]."""
        tile = min(self.how.tile or len(places), len(places))
        return jnp.pad(places, (0, -len(places) % tile), constant_values=-1).reshape(-1, tile)
