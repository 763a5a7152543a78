"""Softmax of the last axis in every order of reading, and with its k largest in the same pass (chapter 6).

What a vector of n numbers costs if it is read from memory each time it is needed:

    naive    e^x / Σ e^x         reads x for the sum, reads x and writes the result          3 n
    safe     first the maximum   reads x once more, before                                   4 n
    online   maximum and sum m, ℓ in one pass                                                3 n
    top_k    m, ℓ and the k largest in one pass; nothing but these k is written              n + 2 k

`naive` is wrong for numbers above 88.7, where e^x is no float32 (compiled, 88.0 is enough: a sum's reciprocal is then too small).
The others are right for all numbers and for -inf, which is a number that was masked; a row of nothing else gives zeros.

Source: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from helpers.kernels import operands
from helpers.kernels.transformers.backward_pass import softmax_backward

# The running softmax: what a set of keys leaves behind, and ⊕, which puts two sets together.
#
# Of the keys seen so far a query keeps
#
#     M   its largest score m        L   the sum ℓ of e^(score - m)        O   the sum of e^(score - m) · v
#
# and O / L is the softmax-weighted mean of the values. ⊕ brings both sides to the larger m and adds. It is associative and
# commutative, and (-∞, 0, 0) is its identity, for a side without keys weighs 0: e^(-∞ - (-∞)) is taken as 0 and not as NaN.
# Without values (O is None) the same ⊕ gives the softmax of a vector (`softmax`).
#
# Source: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018); Rabe and Staats, "Self-attention does not need
# O(n^2) memory" (2021); Dao, "FlashAttention-2" (2023).


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


def scored(q, k, mask=None):
    """q k^T / sqrt(H) in float32, [..., T, C]; -inf where mask[..., T, C] is not True."""
    scores = q.shape[-1] ** -0.5 * row_products(q, k)
    return scores if mask is None else jnp.where(mask, scores, NEVER)


def chunk(q, k, v, mask=None) -> Running:
    """One chunk of keys by itself: q[..., T, H], k and v[..., C, H], mask[T, C] True where a query sees a key."""
    scores = scored(q, k, mask)
    M = scores.max(-1)
    weights = jnp.exp(scores - finite(M)[..., None])
    return Running(M, weights.sum(-1), jnp.einsum("...tc,...ch->...th", weights, v))


def together(a: Running, b: Running) -> Running:
    """a ⊕ b: two sets of keys as one, in any order and any grouping."""
    M = jnp.maximum(a.M, b.M)
    wa, wb = jnp.exp(a.M - finite(M)), jnp.exp(b.M - finite(M))
    O = None if a.O is None else wa[..., None] * a.O + wb[..., None] * b.O
    return Running(M, wa * a.L + wb * b.L, O)


def onward(running: Running, q, k, v, mask=None) -> Running:
    """running ⊕ chunk(q, k, v, mask) with one rescaling: the chunk is made at the new maximum to begin with."""
    scores = scored(q, k, mask)
    M = jnp.maximum(running.M, scores.max(-1))
    weights, old = jnp.exp(scores - finite(M)[..., None]), jnp.exp(running.M - finite(M))
    O = old[..., None] * running.O + jnp.einsum("...tc,...ch->...th", weights, v)
    return Running(M, old * running.L + weights.sum(-1), O)


def result(running: Running):
    """The softmax-weighted mean of the values; 0 for a query that saw no key."""
    return running.O / jnp.where(running.L == 0, 1, running.L)[..., None]


def logsum(running: Running):
    """log of the sum of e^score, [..., T]: all that a backward pass needs to make weights again; 0 where no key was seen."""
    return finite(running.M) + jnp.log(jnp.where(running.L == 0, 1, running.L))


def finite(M):
    """M, with 0 where no key was seen: -inf minus -inf would be NaN."""
    return jnp.where(M == NEVER, 0, M)


# The softmax of a vector.


def naive(x):
    """e^x / Σ e^x of x[..., n]: NaN or 0 where e^x is too large, NaN for a row of -inf."""
    e = jnp.exp(x)
    return e / e.sum(-1, keepdims=True)


def safe(x):
    """The same after taking away the maximum of each row."""
    e = jnp.exp(x - finite(x.max(-1, keepdims=True)))
    total = e.sum(-1, keepdims=True)
    return e / jnp.where(total == 0, 1, total)


def online(x):
    """One number after the other: m ← max(m, x), ℓ ← ℓ e^(m_old - m) + e^(x - m); then a second pass divides."""
    operands.real(x=x)
    seen, _ = lax.scan(
        lambda running, x: (together(running, leaf(x)), None), nothing(x.shape[:-1]), jnp.moveaxis(x, -1, 0)
    )
    return divided(x, seen)


def reduced(x):
    """`online` with ⊕ as the operation of a reduction, which may run in any order.

    The guard matters here: XLA may put the identity (-∞, 0) anywhere, and -∞ - (-∞) would be NaN. JAX cannot differentiate such
    a reduction: the gradient is softmax's own, y (dy - Σ y dy).
    """
    operands.real(x=x)
    return _reduced(x)


@jax.custom_vjp
def _reduced(x):
    one = leaf(x)
    M, L = lax.reduce(
        (one.M, one.L), (-jnp.inf, 0.0), lambda a, b: tuple(together(Running(*a), Running(*b))[:2]), (x.ndim - 1,)
    )
    return divided(x, Running(M, L))


_reduced.defvjp(lambda x: (_reduced(x),) * 2, lambda y, dy: (softmax_backward(dy, y),))


def prefixes(x) -> Running:
    """M[..., n] and L[..., n] of the first 1, 2, … n numbers, by an associative scan: log2 n rounds of ⊕."""
    return lax.associative_scan(together, leaf(x), axis=-1)


def folded(x):
    """`online` as a tree: one half ⊕ the other half, until one is left; an odd one waits for the next round."""
    operands.real(x=x)
    seen = leaf(x)
    while (n := seen.M.shape[-1]) > 1:
        half = n // 2
        ends = (0, half), (half, 2 * half), (2 * half, n)
        left, right, odd = (Running(seen.M[..., start:stop], seen.L[..., start:stop]) for start, stop in ends)
        both = together(left, right)
        seen = Running(*(jnp.concatenate(ab, -1) for ab in zip(both[:2], odd[:2])))
    return divided(x, Running(seen.M[..., 0], seen.L[..., 0]))


def leaf(x) -> Running:
    """Each number by itself, (x, 1), in float32; a masked one is the identity, (-∞, 0)."""
    return Running(x.astype(jnp.float32), jnp.where(x == -jnp.inf, 0.0, 1.0))


def divided(x, running: Running):
    """The second pass: e^(x - m) / ℓ."""
    return (jnp.exp(x - finite(running.M)[..., None]) / jnp.where(running.L == 0, 1, running.L)[..., None]).astype(
        x.dtype
    )


def top_k(x, k: int, chunk: int = 128):
    """(values[..., k], indices[..., k]) of the k largest of softmax(x[..., n]), largest first, x read once.

    chunk   how many numbers are read at a time; it does not have to divide n

    The largest of x are the largest of its softmax, and m and ℓ are known when the pass ends: the softmax itself is never made.
    Of equal numbers the first comes first, as in `lax.top_k`. ValueError if there are no k numbers.
    """
    operands.real(x=x)
    operands.whole(chunk=chunk)
    n = x.shape[-1]
    if not 1 <= k <= n:
        raise ValueError(f"the k largest of {n} numbers: take a k from 1 to {n}, not {k}")
    start = min(max(k, chunk), n)
    best, at = lax.top_k(x[..., :start], k)
    seen = _all(x[..., :start])
    rest = jnp.pad(x[..., start:], [(0, 0)] * (x.ndim - 1) + [(0, (start - n) % chunk)], constant_values=-jnp.inf)
    rest = jnp.moveaxis(rest.reshape(*x.shape[:-1], -1, chunk), -2, 0)
    firsts = start + chunk * jnp.arange(len(rest))

    def look(carry, next_chunk):
        (best, at, seen), (x, first) = carry, next_chunk
        where = jnp.broadcast_to(first + jnp.arange(chunk), x.shape)
        best, pick = lax.top_k(jnp.concatenate([best, x], -1), k)  # older ones first: they win a tie
        at = jnp.take_along_axis(jnp.concatenate([at, where], -1), pick, -1)
        return (best, at, together(seen, _all(x))), None

    (best, at, seen), _ = lax.scan(look, (best, at, seen), (rest, firsts))
    return divided(best, seen), at


def _all(x) -> Running:
    x = x.astype(jnp.float32)
    M = x.max(-1)
    return Running(M, jnp.exp(x - finite(M)[..., None]).sum(-1))
