"""Attention that divides last, and attention in chunks whose gradient remembers nothing (chapter 6).

The division by ℓ may wait for the end of the row: Σ e^s v / Σ e^s. So a query needs one number and one vector, however many keys
pass. Plain, e^s overflows; stabilised, the largest score m is kept as well and both sums are rescaled when it grows.

`efficient` does so chunk by chunk. Reverse-mode differentiation would keep each chunk's scores, T · S numbers in the end:
`jax.checkpoint` on a chunk's summary keeps what goes in and makes the scores again. What is left is the state between chunks.

Source: Rabe and Staats, "Self-attention does not need O(n^2) memory" (2021), whose update of ℓ is
ℓ ← ℓ · e^(m_old - m) + e^(s - m): both factors and both terms are needed.
"""

import jax
import jax.numpy as jnp
from jax import lax

from . import gqa_shapes, masks
from .masks import FULL, Mask
from .online_softmax import nothing, onward, result, scored


def plain(q, k, v, mask: Mask = FULL, tau: float | None = None):
    """One key after the other, v ← v + V e^s and ℓ ← ℓ + e^s: q[B, T, N, H], k and v[B, S, K, H] -> [B, T, N, H].

    A score above 88.7 makes it NaN.
    """

    def look(seen, new):
        k, v, where = new
        e = jnp.exp(scored(Q, k, mask.sees(at, where), scale)[..., 0])
        return (seen[0] + e, seen[1] + e[..., None] * v), None

    Q, at, over, scale = _by_key(q, k, v, mask, tau)
    (L, O), _ = lax.scan(look, nothing(Q.shape[:-1], v.shape[-1])[1:], over)
    return gqa_shapes.tokens(O / jnp.where(L == 0, 1, L)[..., None]).astype(q.dtype)


def stabilised(q, k, v, mask: Mask = FULL, tau: float | None = None):
    """The same with the largest score so far: right for scores of any size."""

    def look(seen, new):
        k, v, where = new
        return onward(seen, Q, k, v, mask.sees(at, where), scale), None

    Q, at, over, scale = _by_key(q, k, v, mask, tau)
    seen, _ = lax.scan(look, nothing(Q.shape[:-1], v.shape[-1]), over)
    return gqa_shapes.tokens(result(seen)).astype(q.dtype)


def _by_key(q, k, v, mask, tau):
    """Q[B, K, G, T, H]; its positions [T, 1]; keys and values [S, B, K, 1, 1, H] with their positions; the scale of the scores."""
    k, v, _ = gqa_shapes.checked(q, k, v, masks.ruled(mask))
    T, S = q.shape[1], k.shape[1]
    K, V = (gqa_shapes.cut(gqa_shapes.keys(x), 1) for x in (k, v))
    at = jnp.arange(T)[:, None] + S - T
    return gqa_shapes.queries(q, k.shape[2]), at, (K, V, jnp.arange(S)), q.shape[-1] ** -0.5 if tau is None else tau


def efficient(
    q, k, v, mask: Mask = FULL, lengths=None, rows: int = 128, columns: int = 128, keep: str = "state", tau: float | None = None
):  # fmt: skip
    """`rows` queries with `columns` keys at a time, to be differentiated by JAX: q[B, T, N, H] -> [B, T, N, H].

    lengths   [B]: of S places the first lengths[b] hold keys
    keep      what the backward pass finds, for each head, besides the arguments in their blocks:
              "scores"  all weights, T · S numbers and more: no checkpoint
              "state"   m, ℓ and O before each chunk of keys, T · (S / columns) · (H + 2) numbers: a checkpoint on each chunk
              "rows"    nothing: a checkpoint on each block of queries too, which is done once more in the backward pass

    Neither has to divide T or S. With `columns` a fixed part of S, "state" is linear in T. Every block is computed, seen or not.
    """
    k, v, lengths = gqa_shapes.checked(q, k, v, masks.ruled(mask), lengths)
    if keep not in ("scores", "state", "rows"):
        raise ValueError(f'keep is "scores", "state" or "rows", not {keep!r}')
    plan = masks.plan(q.shape[1], k.shape[1], rows, columns, mask)
    Q = gqa_shapes.cut(gqa_shapes.queries(q, k.shape[2]), plan.rows)
    K, V = (gqa_shapes.cut(gqa_shapes.keys(x), plan.columns) for x in (k, v))
    scale = q.shape[-1] ** -0.5 if tau is None else tau
    often = jax.checkpoint if keep != "scores" else lambda f: f
    whole = jax.checkpoint if keep == "rows" else lambda f: f

    @often
    def summary(seen, Q, i, j):
        return onward(seen, Q, K[j], V[j], plan.sees(i, j, lengths), scale)

    @whole
    def row(Q, i):
        start = nothing(Q.shape[:-1], v.shape[-1])
        return result(lax.scan(lambda seen, j: (summary(seen, Q, i, j), None), start, jnp.arange(len(K)))[0])

    out = lax.map(lambda at: row(*at), (Q, jnp.arange(len(Q))))
    return gqa_shapes.tokens(gqa_shapes.joined(out, plan.T)).astype(q.dtype)
