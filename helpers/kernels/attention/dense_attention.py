"""Attention with its whole T x S matrix: what all other forms are compared with (chapter 6)."""

import jax.numpy as jnp

from . import grouped_heads, masks
from .online_softmax import finite, scored


def attention(q, k, v, mask=None, tau: float | None = None):
    """softmax(tau · q k^T) v for q[B, T, N, H], k and v[B, S, K, H] -> [B, T, N, H], in q's type.

    mask   a Mask, or True where a query sees a key: [T, S], [B, T, S] or [B, N, T, S]
    tau    scale of the scores; 1 / sqrt(H) if left out

    K may be any divisor of N; keys and values are not repeated. Scores and sums are float32. A query that sees no key gives
    zeros, and passes no gradient on. ValueError for shapes and masks that do not fit.
    """
    P = _grouped(q, k, v, mask, tau)
    return grouped_heads.tokens(jnp.einsum("bkgts,bkish->bkgth", P, grouped_heads.keys(v))).astype(q.dtype)


def weights(q, k, mask=None, tau: float | None = None):
    """The softmax itself, P[B, N, T, S] in float32; a row without keys is 0."""
    P = _grouped(q, k, k, mask, tau)
    return P.reshape(P.shape[0], -1, *P.shape[3:])


def _grouped(q, k, v, mask, tau):
    """P[B, K, G, T, S]."""
    grouped_heads.check(q, k, v)
    (B, T, N, H), (S, K) = q.shape, k.shape[1:3]
    seen = masks.checked(mask, B, N, T, S)
    seen = seen[:, :, None] if seen.shape[1] == 1 else seen.reshape(seen.shape[0], K, N // K, *seen.shape[2:])
    scores = scored(grouped_heads.queries(q, K), grouped_heads.keys(k), seen, H**-0.5 if tau is None else tau)
    e = jnp.exp(scores - finite(scores.max(-1, keepdims=True)))
    total = e.sum(-1, keepdims=True)
    return e / jnp.where(total == 0, 1, total)
