"""One new token looks at a cache that is cut over devices: how the devices' partial results become one (chapter 6).

q[B, N, H] is the same on every device; k and v[B, S_X, K, H] are its part of the places. Of these it makes the running softmax
(m, l, o) of every head, H + 2 numbers however long the text is, and these are put together by
`softmax.together`, which does not mind the order:

    chain     from device to device round the ring, each adding what comes by: N - 1 rounds
    doubling  every device hears from the one 1, 2, 4, … places back: ⌈log2 N⌉ rounds, and everybody has the result

l and o are sums, so no device may be heard twice. Where N is a power of two, `doubling` comes out even: after round r a device has
2^r neighbours. For other N it keeps two results, of the last c devices and of the last c - 1, with c = ⌈N / 2^(rounds left)⌉, and each
round makes the next two of them out of its own two and those that it receives: messages are twice as long, rounds as few.

Source: Shyam et al., "Tree Attention" (2024), which reduces m, then l and o scaled to it; Bruck et al., "Efficient algorithms for
all-to-all communications" (1997) for the rounds of `doubling`.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from helpers.costs.attention.ring_attention import rounds as rounds
from helpers.kernels import operands
from helpers.kernels.sharding.collectives import RIGHT, hop

from . import masks
from .softmax import Running, chunk, nothing, result, together


def seen_of(q, k, v, is_filled=None) -> Running:
    """What q[B, N, H] sees of keys and values [B, S, K, H], in float32: M[B, K, G], L[B, K, G], O[B, K, G, H].

    is_filled  [B, S], which places hold keys; None: all of them
    """
    # The heads of a group are the queries of `chunk`.
    q = q.reshape(len(q), k.shape[2], -1, q.shape[-1]).astype(jnp.float32)
    k, v = (operands.blank(x, is_filled).swapaxes(1, 2).astype(jnp.float32) for x in (k, v))  # [B, K, S, H]
    return chunk(q, k, v, None if is_filled is None else is_filled[:, None, None])


def decode(q, k, v, axis: str, lengths, combine: Callable):
    """Attention of one query for each row, q[B, N, H], with keys and values k and v[B, S_axis, K, H] cut over a mesh axis: [B, N, H], on
    every device. Without keys it is 0.

    lengths  [B] or None: how many tokens of the whole text each row has; device 0 has the first places
    combine  `doubling` or `chain`
    """
    masks.check(q[:, None], k, v)
    lengths, S = operands.lengths(lengths, len(q)), k.shape[1]
    places = lax.axis_index(axis) * S + jnp.arange(S)
    seen = combine(seen_of(q, k, v, None if lengths is None else places < lengths[:, None]), axis)
    return result(seen).reshape(*q.shape[:2], -1).astype(q.dtype)


def chain(running: Running, axis: str) -> Running:
    """N - 1 rounds: everybody's own part goes once round the ring."""

    def step(carry, _):
        passing, sum_ = carry
        passing = hop(passing, axis, RIGHT)
        return (passing, together(sum_, unpacked(passing))), None

    return lax.scan(step, (packed(running), running), None, length=lax.axis_size(axis) - 1)[0][1]


def doubling(running: Running, axis: str) -> Running:
    """⌈log2 N⌉ rounds, for any N: windows of c devices that end here, c = ⌈N / 2^(rounds left)⌉."""
    n = lax.axis_size(axis)
    if n & (n - 1) == 0:
        for t in range(rounds(n)):
            running = together(running, unpacked(hop(packed(running), axis, 2**t)))
        return running
    # Of the last c devices, and of the last c - 1 of these.
    c, last, before = 1, running, nothing(running.M.shape, running.O.shape[-1])
    for left in reversed(range(rounds(n))):
        wide = -(-n // 2**left)  # 2c or 2c - 1
        back = wide - c
        there_last, there_before = map(unpacked, hop(jnp.stack([packed(last), packed(before)]), axis, back))
        mine = last if back == c else before  # of the last `back`: those that the sender's do not hold
        c, last, before = wide, together(mine, there_last), together(mine, there_before)
    return last


def packed(running: Running):
    """One array of H + 2 numbers a head, so that a round is one message."""
    return jnp.concatenate([running.M[..., None], running.L[..., None], running.O], -1)


def unpacked(x) -> Running:
    return Running(x[..., 0], x[..., 1], x[..., 2:])


def program(mesh: jax.sharding.Mesh, axis: str, combine: Callable = doubling) -> Callable:
    """`decode` of whole arrays: q[B, N, H], k and v[B, S, K, H], lengths[B] or None -> [B, N, H]; |axis| need not divide S."""
    n, cut, same = operands.axis(mesh, axis), jax.P(None, axis), jax.P()

    @jax.jit
    def run(q, k, v, lengths=None):
        S, more = k.shape[1], -k.shape[1] % n
        if more and lengths is None:
            lengths = jnp.full(len(k), S)
        k, v = (jnp.pad(x, [(0, 0), (0, more), (0, 0), (0, 0)]) for x in (k, v))
        return jax.shard_map(
            lambda q, k, v, s: decode(q, k, v, axis, s, combine),
            mesh=mesh, in_specs=(same, cut, cut, same), out_specs=same, check_vma=False,
        )(q, k, v, lengths)  # fmt: skip

    return run
