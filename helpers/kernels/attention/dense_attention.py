"""Attention with its whole T x S matrix: what all other forms are compared with (chapter 6)."""

import jax.numpy as jnp

from helpers.kernels import operands

from . import gqa_shapes, masks
from .masks import Mask
from .online_softmax import finite, scored


def attention(q, k, v, mask=None, tau: float | None = None):
    """softmax(tau · q k^T) v for q[B, T, N, H], k and v[B, S, K, H] -> [B, T, N, H], in q's type.

    mask   a Mask, or True where a query sees a key: [T, S], [B, T, S] or [B, N, T, S]
    tau    scale of the scores; 1 / sqrt(H) if left out

    K may be any divisor of N; keys and values are not repeated. Scores and sums are float32. A query that sees no key gives
    zeros, and passes no gradient on. ValueError for shapes and masks that do not fit.
    """
    P, there = _grouped(q, k, v, mask, tau)
    v = operands.blank(gqa_shapes.keys(v), there, 3)
    return gqa_shapes.tokens(jnp.einsum("bkgts,bkish->bkgth", P, v)).astype(q.dtype)


def weights(q, k, mask=None, tau: float | None = None):
    """The softmax itself, P[B, N, T, S] in float32; a row without keys is 0."""
    P, _ = _grouped(q, k, k, mask, tau)
    return P.reshape(P.shape[0], -1, *P.shape[3:])


def _grouped(q, k, v, mask, tau):
    """P[B, K, G, T, S], and which keys some query of a row sees, [B or 1, S], or None for all: the others are not looked at."""
    gqa_shapes.check(q, k, v)
    (B, T, N, H), (S, K) = q.shape, k.shape[1:3]
    seen = masks.checked(mask, B, N, T, S)
    seen = seen[:, :, None] if seen.shape[1] == 1 else seen.reshape(seen.shape[0], K, N // K, *seen.shape[2:])
    every = mask is None or (isinstance(mask, Mask) and mask.reach(T, S).all())
    there = None if every else seen.any((1, 2, 3))
    k = operands.blank(gqa_shapes.keys(k), there, 3)
    scores = scored(gqa_shapes.queries(q, K), k, seen, H**-0.5 if tau is None else tau)
    e = jnp.exp(scores - finite(scores.max(-1, keepdims=True)))
    total = e.sum(-1, keepdims=True)
    return e / jnp.where(total == 0, 1, total), there
