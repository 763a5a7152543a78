"""Attention of one token per row over its true length, block by block: what is read is what is there (chapter 5).

A padded program reads B · S_max keys whatever the rows hold. Here a list has the blocks that hold any: those of row 0, then those
of row 1, and so on; one loop takes them in turn and keeps a running softmax for each row. The loop's length is known when the
program runs, so the program returns how many blocks it has read: Σ ceil(length / block), and in bytes that times a block.
A kernel takes the same list in parallel.

Source: Dao et al., "FlashAttention" (2022) for the running softmax; Kwon et al., "PagedAttention" (2023); Austin et al. 2025, Section 7.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from helpers.kernels import operands
from helpers.kernels.attention import gqa_shapes, online_softmax


def attend(q, k, v, lengths, block: int):
    """q[B, N, H] over the first lengths[B] of k and v[B, S, K, H] -> (y[B, N, H], blocks read).

    block   keys that are read together; it divides S. A row of length 0 gets 0
    """
    operands.whole(least=None, block=block)
    S = operands.fit({"q[B, N, H]": q, "k[B, S, K, H]": k, "v[B, S, K, V]": v})["S"]
    if block < 1 or S % block:
        raise ValueError(f"blocks of {block} do not fill the {S} places of a row: take a divisor of {S}")

    def read(a, row, i):
        return lax.dynamic_slice(a, (row, i * block, 0, 0), (1, block, *a.shape[2:]))[0]

    return _over(q, k, v, jnp.minimum(operands.lengths(lengths, len(q), S), S), block, read)


def attend_pages(q, k, v, tables, lengths):
    """The same over pages: k and v[pages, size, K, H], row b's in the order of tables[b] -> (y[B, N, H], pages read)."""
    n = operands.fit({"q[B, N, H]": q, "k[pages, size, K, H]": k, "v[pages, size, K, V]": v, "tables[B, P]": tables})
    most = n["P"] * n["size"]
    operands.numbers("page", jnp.maximum(jnp.asarray(tables), 0), n["pages"])
    lengths = jnp.minimum(operands.lengths(lengths, len(q), most), most)
    return _over(q, k, v, lengths, n["size"], lambda a, row, i: a[tables[row, i]])


def _over(q, k, v, lengths, block: int, read: Callable):
    """`read` gives block i of a row, [block, K, H]."""
    (B, N, H), K = q.shape, k.shape[2]
    gqa_shapes.group(N, K)
    operands.real(q=q, k=k, v=v)
    q = q.reshape(B, K, N // K, H)  # query heads in groups, one for each KV head
    ends = jnp.cumsum(-(-lengths // block))  # where each row's blocks end in the list of all

    def one(n, seen):
        row = jnp.searchsorted(ends, n, side="right")
        i = n - jnp.where(row > 0, ends[row - 1], 0)
        mine = jax.tree.map(lambda a: a[row], seen)
        there = i * block + jnp.arange(block) < lengths[row]
        keys, values = (operands.blank(read(a, row, i), there, 0).swapaxes(0, 1) for a in (k, v))  # [K, block, H]
        new = online_softmax.together(mine, online_softmax.chunk(q[row], keys, values, there, H**-0.5))
        return jax.tree.map(lambda a, b: a.at[row].set(b), seen, new)

    seen = lax.fori_loop(0, ends[-1], one, online_softmax.nothing((B, K, N // K), v.shape[-1]))
    return online_softmax.result(seen).reshape(B, N, -1), ends[-1]
