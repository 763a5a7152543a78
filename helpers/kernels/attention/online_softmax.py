"""The running softmax: what a set of keys leaves behind, and ⊕, which puts two sets together (chapters 3 and 6).

Of the keys seen so far a query keeps

    M   its largest score m        L   the sum ℓ of e^(score - m)        O   the sum of e^(score - m) · v

and O / L is the softmax-weighted mean of the values. ⊕ brings both sides to the larger m and adds. It is associative and
commutative, and (-∞, 0, 0) is its identity, for a side without keys weighs 0: e^(-∞ - (-∞)) is taken as 0 and not as NaN.
Without values (O is None) the same ⊕ gives the softmax of a vector (`softmax`).

Source: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018); Rabe and Staats, "Self-attention does not need
O(n^2) memory" (2021); Dao, "FlashAttention-2" (2023).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

NEVER = -jnp.inf


class Running(NamedTuple):
    """What a query has seen so far: M[..., T], L[..., T], O[..., T, H], or O = None for a softmax without values."""

    M: jax.Array
    L: jax.Array
    O: jax.Array | None = None  # noqa: E741


def nothing(shape: tuple[int, ...], H: int | None = None) -> Running:
    """Before the first key, in float32; together(nothing, r) is r.

    >>> nothing((2,)).M.tolist(), nothing((2,)).L.tolist()
    ([-inf, -inf], [0.0, 0.0])
    """
    return Running(jnp.full(shape, NEVER), jnp.zeros(shape), None if H is None else jnp.zeros((*shape, H)))


def row_products(a, b):
    """a[..., T, H] and b[..., C, H] -> a b^T[..., T, C], with sums in float32.

    Before JAX 0.9 programs for CPUs lack that for some products of bfloat16, so there the rows become float32 first.
    """
    if jax.__version_info__ < (0, 9):
        a, b = a.astype(jnp.float32), b.astype(jnp.float32)
    return jnp.einsum("...th,...ch->...tc", a, b, preferred_element_type=jnp.float32)


def scored(q, k, mask=None, tau: float = 1.0):
    """tau · q k^T in float32, [..., T, C]; -inf where mask[..., T, C] is not True."""
    scores = tau * row_products(q, k)
    return scores if mask is None else jnp.where(mask, scores, NEVER)


def chunk(q, k, v, mask=None, tau: float = 1.0) -> Running:
    """One chunk of keys by itself: q[..., T, H], k and v[..., C, H], mask[T, C] True where a query sees a key."""
    scores = scored(q, k, mask, tau)
    M = scores.max(-1)
    weights = jnp.exp(scores - finite(M)[..., None])
    return Running(M, weights.sum(-1), jnp.einsum("...tc,...ch->...th", weights, v))


def together(a: Running, b: Running) -> Running:
    """a ⊕ b: two sets of keys as one, in any order and any grouping."""
    M = jnp.maximum(a.M, b.M)
    wa, wb = jnp.exp(a.M - finite(M)), jnp.exp(b.M - finite(M))
    O = None if a.O is None else wa[..., None] * a.O + wb[..., None] * b.O
    return Running(M, wa * a.L + wb * b.L, O)


def onward(seen: Running, q, k, v, mask=None, tau: float = 1.0) -> Running:
    """seen ⊕ chunk(q, k, v, mask, tau) with one rescaling: the chunk is made at the new maximum to begin with."""
    scores = scored(q, k, mask, tau)
    M = jnp.maximum(seen.M, scores.max(-1))
    weights, old = jnp.exp(scores - finite(M)[..., None]), jnp.exp(seen.M - finite(M))
    O = old[..., None] * seen.O + jnp.einsum("...tc,...ch->...th", weights, v)
    return Running(M, old * seen.L + weights.sum(-1), O)


def result(r: Running):
    """The softmax-weighted mean of the values; 0 for a query that saw no key."""
    return r.O / jnp.where(r.L == 0, 1, r.L)[..., None]


def logsum(r: Running):
    """log of the sum of e^score, [..., T]: all that a backward pass needs to make weights again; 0 where no key was seen."""
    return finite(r.M) + jnp.log(jnp.where(r.L == 0, 1, r.L))


def finite(M):
    """M, with 0 where no key was seen: -inf minus -inf would be NaN."""
    return jnp.where(M == NEVER, 0, M)
