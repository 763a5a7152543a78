"""One new token looks at a cache that is cut over devices: how the devices' partial results become one (chapter 6).

q[B, N, H] is the same on every device; k and v[B, S_X, K, H] are its part of the places. Of these it makes the running softmax
(m, l, o) of every head, H + 2 numbers however long the text is, and these are put together by
`online_softmax.together`, which does not mind the order:

    chain     from device to device round the ring, each adding what comes by: N - 1 rounds
    tree      pairs, pairs of pairs, … to device 0, and back down the same tree: 2 ⌈log2 N⌉ rounds, half of them for the result
    doubling  every device hears from the one 1, 2, 4, … places back: ⌈log2 N⌉ rounds, and everybody has the result
    reduced   an AllReduce of m, then one of (l, o) scaled to that m

l and o are sums, so no device may be heard twice. Where N is a power of two, `doubling` comes out even: after round r a device has
2^r neighbours. For other N it keeps two results, of the last c devices and of the last c - 1, with c = ⌈N / 2^(rounds left)⌉, and each
round makes the next two of them out of its own two and those that it receives: messages are twice as long, rounds as few.

Source: Shyam et al., "Tree Attention" (2024), which takes the form of `reduced`; Bruck et al., "Efficient algorithms for all-to-all
communications" (1997) for the rounds of `doubling`.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from helpers.kernels import operands
from helpers.kernels.sharding.collectives import RIGHT, hop

from .gqa_shapes import group
from .online_softmax import NEVER, Running, chunk, result, together


def rounds(n: int) -> int:
    """⌈log2 n⌉: how often a set of n can be halved, rounding up, until one is left.

    >>> [rounds(n) for n in (1, 2, 3, 4, 5, 8, 9)]
    [0, 1, 2, 2, 3, 3, 4]
    """
    return (n - 1).bit_length()


def seen_here(q, k, v, lengths, axis: str) -> Running:
    """What q[B, N, H] sees of the keys on this device, in float32: M[B, K, G], L[B, K, G], O[B, K, G, H].

    lengths[B] or None: how many tokens of the whole text each row has; device 0 has the first places.
    """
    B, N, H = q.shape
    S, K = k.shape[1:3]
    if k.shape != v.shape or k.shape[0] != B or k.shape[3] != H:
        raise ValueError(f"q{[B, N, H]}, k{[*k.shape]}, v{[*v.shape]}: give q[B, N, H], k and v[B, S, K, H]")
    group(N, K)
    operands.real(q=q, k=k, v=v)
    lengths = operands.lengths(lengths, B)
    where = lax.axis_index(axis) * S + jnp.arange(S)
    there = None if lengths is None else where < lengths[:, None]
    k, v = operands.blank(k, there), operands.blank(v, there)
    q = q.reshape(B, K, N // K, H).astype(jnp.float32)  # the heads of a group are the queries of `chunk`
    k, v = (x.transpose(0, 2, 1, 3).astype(jnp.float32) for x in (k, v))  # [B, K, S, H]
    mask = None if there is None else there[:, None, None]
    return chunk(q, k, v, mask, H**-0.5)


def decode(q, k, v, axis: str, lengths=None, combine: Callable | None = None):
    """Attention of one query for each row with keys cut over `axis`: [B, N, H], on every device. Without keys it is 0.

    combine  `doubling` (also without it), `tree`, `chain` or `reduced`
    """
    return result((combine or doubling)(seen_here(q, k, v, lengths, axis), axis)).reshape(q.shape).astype(q.dtype)


def chain(r: Running, axis: str) -> Running:
    """N - 1 rounds: everybody's own part goes once round the ring."""

    def step(carry, _):
        passing, sum_ = carry
        passing = hop(passing, axis, RIGHT)
        return (passing, together(sum_, _unpacked(passing))), None

    return lax.scan(step, (_packed(r), r), None, length=lax.axis_size(axis) - 1)[0][1]


def tree(r: Running, axis: str) -> Running:
    """⌈log2 N⌉ rounds to device 0, as many back."""
    return downwards(upwards(r, axis), axis)


def upwards(r: Running, axis: str) -> Running:
    """In round t device i with i mod 2^(t+1) = 2^t sends to i - 2^t: device 0 has everything after ⌈log2 N⌉ rounds, others parts."""
    n, i = lax.axis_size(axis), lax.axis_index(axis)
    for t in range(rounds(n)):
        d = 2**t
        pairs = [(j, j - d) for j in range(d, n, 2 * d)]
        got = lax.ppermute(_packed(r), axis, pairs)
        r = together(
            r, _unpacked(got, (i % (2 * d) == 0) & (i + d < n))
        )  # who receives nothing gets zeros: not a running softmax
    return r


def downwards(r: Running, axis: str) -> Running:
    """What device 0 has, on every device: the tree from its root."""
    n, i, row = lax.axis_size(axis), lax.axis_index(axis), _packed(r)
    for t in reversed(range(rounds(n))):
        d = 2**t
        got = lax.ppermute(row, axis, [(j - d, j) for j in range(d, n, 2 * d)])
        row = jnp.where(i % (2 * d) == d, got, row)
    return _unpacked(row)


def doubling(r: Running, axis: str) -> Running:
    """⌈log2 N⌉ rounds, for any N: windows of c devices that end here, c = ⌈N / 2^(rounds left)⌉."""
    n = lax.axis_size(axis)
    if n & (n - 1) == 0:
        for t in range(rounds(n)):
            r = together(r, _unpacked(_from(_packed(r), axis, 2**t)))
        return r
    c, last, before = 1, r, _nothing(r)  # of the last c devices, and of the last c - 1 of these
    for left in reversed(range(rounds(n))):
        wide = -(-n // 2**left)  # 2c or 2c - 1
        back = wide - c
        there_last, there_before = (
            _unpacked(x) for x in _from(jnp.stack([_packed(last), _packed(before)]), axis, back)
        )
        mine = last if back == c else before  # of the last `back`: those that the sender's do not hold
        c, last, before = wide, together(mine, there_last), together(mine, there_before)
    return last


def reduced(r: Running, axis: str) -> Running:
    """The largest m; then l and o, scaled to it, are sums like any other. O / L is the same for any M, so M needs no gradient."""
    M = lax.pmax(lax.stop_gradient(r.M), axis)
    scale = jnp.exp(r.M - jnp.where(M == NEVER, 0, M))[..., None]
    sums = lax.psum(scale * jnp.concatenate([r.L[..., None], r.O], -1), axis)
    return Running(M, sums[..., 0], sums[..., 1:])


WAYS = dict(chain=chain, tree=tree, doubling=doubling, reduced=reduced)


def program(mesh: jax.sharding.Mesh, axis: str, combine: Callable = doubling) -> Callable:
    """`decode` of whole arrays: q[B, N, H], k and v[B, S, K, H], lengths[B] or None -> [B, N, H]; |axis| need not divide S."""
    n, cut, same = operands.axis(mesh, axis), jax.P(None, axis), jax.P()

    @jax.jit
    def run(q, k, v, lengths=None):
        S, more = k.shape[1], -k.shape[1] % n
        if S == 0:
            raise ValueError("an empty cache has nothing to attend to: give at least one token")
        if more and lengths is None:
            lengths = jnp.full(len(k), S)
        k, v = (jnp.pad(x, [(0, 0), (0, more), (0, 0), (0, 0)]) for x in (k, v))
        return jax.shard_map(
            lambda q, k, v, s: decode(q, k, v, axis, s, combine),
            mesh=mesh, in_specs=(same, cut, cut, same), out_specs=same, check_vma=False,
        )(q, k, v, lengths)  # fmt: skip

    return run


def _from(x, axis: str, back: int):
    n = lax.axis_size(axis)
    return lax.ppermute(x, axis, [(j, (j + back) % n) for j in range(n)])


def _nothing(r: Running) -> Running:
    return Running(jnp.full_like(r.M, NEVER), jnp.zeros_like(r.L), jnp.zeros_like(r.O))


def _packed(r: Running):
    """One array of H + 2 numbers a head, so that a round is one message."""
    return jnp.concatenate([r.M[..., None], r.L[..., None], r.O], -1)


def _unpacked(x, heard=True) -> Running:
    return Running(jnp.where(heard, x[..., 0], NEVER), x[..., 1], x[..., 2:])
