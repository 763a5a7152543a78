"""Arrays as attention takes them, q[B, T, N, H], k and v[B, S, K, H], and as its blocks need them (chapter 6).

Query head n belongs to KV head n // G with G = N / K. Queries go into groups, [B, K, G, T, H], and keys get an axis of length 1
in the group's place, [B, K, 1, S, H], so that no key is ever repeated.
"""

import jax.numpy as jnp

from helpers.kernels import operands


def check(q, k, v) -> None:
    """ValueError in one sentence if q, k and v are no operands of attention."""
    operands.arrays(q=q, k=k, v=v)
    if (q.ndim, k.ndim, v.ndim) != (4, 4, 4):
        raise ValueError(
            f"attention takes q[B, T, N, H], k and v[B, S, K, H], not shapes {q.shape}, {k.shape}, {v.shape}"
        )
    B, T, N, H = q.shape
    if k.shape[:3] != v.shape[:3] or k.shape[0] != B or k.shape[3] != H:
        raise ValueError(
            f"k{list(k.shape)} and v{list(v.shape)} do not fit q{list(q.shape)}: k is [B, S, K, H], v has its S and K"
        )
    group(N, k.shape[2])
    if T == 0 or k.shape[1] == 0:
        raise ValueError(f"an empty sequence: attention needs a query and a key, not T = {T} and S = {k.shape[1]}")
    operands.real(q=q, k=k, v=v)


def group(N: int, K: int) -> int:
    """Query heads of one KV head; ValueError if they do not come out even."""
    if K == 0 or N % K:
        raise ValueError(f"{K} KV heads do not divide {N} query heads: make N a multiple of K")
    return N // K


def checked(q, k, v, mask, lengths=None):
    """(k, v, lengths) after `check`: keys and values that no query sees are zeros, lengths an array or None.

    mask   a rule, `masks.Mask`: also where it leaves keys to nobody, as a window does to the first of many keys
    """
    check(q, k, v)
    T, S = q.shape[1], k.shape[1]
    lengths, there = operands.lengths(lengths, len(q), S), mask.reach(T, S)
    if lengths is None:
        there = None if there.all() else there
    else:
        there = there & (jnp.arange(S) < lengths[:, None])
    return operands.blank(k, there), operands.blank(v, there), lengths


def queries(x, K: int):
    """[B, T, N, H] -> [B, K, G, T, H]."""
    B, T, N, H = x.shape
    return x.reshape(B, T, K, N // K, H).transpose(0, 2, 3, 1, 4)


def keys(x):
    """[B, S, K, H] -> [B, K, 1, S, H]."""
    return x.transpose(0, 2, 1, 3)[:, :, None]


def tokens(x):
    """[B, K, G, T, H] -> [B, T, N, H]; of keys, [B, K, 1, S, H] -> [B, S, K, H]."""
    B, K, G, T, H = x.shape
    return x.transpose(0, 3, 1, 2, 4).reshape(B, T, K * G, H)


def cut(x, n: int):
    """[..., T, H] -> blocks[m, ..., n, H], the last one filled up with zeros."""
    *front, T, H = x.shape
    x = jnp.pad(x, [(0, 0)] * len(front) + [(0, -T % n), (0, 0)])
    return jnp.moveaxis(x.reshape(*front, -1, n, H), -3, 0)


def joined(x, T: int):
    """The blocks in a row again, what was filled up taken off: [m, ..., n, H] -> [..., T, H]."""
    x = jnp.moveaxis(x, 0, -3)
    return x.reshape(*x.shape[:-3], -1, x.shape[-1])[..., :T, :]
