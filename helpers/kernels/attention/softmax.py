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

import jax
import jax.numpy as jnp
from jax import lax

from helpers.kernels import operands

from .online_softmax import Running, finite, nothing, together


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
    seen, _ = lax.scan(lambda seen, x: (together(seen, leaf(x)), None), nothing(x.shape[:-1]), jnp.moveaxis(x, -1, 0))
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
        (one.M, one.L),
        (-jnp.inf, 0.0),
        lambda a, b: tuple(together(Running(*a), Running(*b))[:2]),
        (x.ndim - 1,),
    )
    return divided(x, Running(M, L))


def _kept(x):
    return (_reduced(x),) * 2


def _gradients(y, dy):
    return (y * (dy - (y * dy).sum(-1, keepdims=True)),)


_reduced.defvjp(_kept, _gradients)


def prefixes(x) -> Running:
    """M[..., n] and L[..., n] of the first 1, 2, … n numbers, by an associative scan: log2 n rounds of ⊕."""
    return lax.associative_scan(together, leaf(x), axis=-1)


def folded(x):
    """`online` as a tree: one half ⊕ the other half, until one is left; an odd one waits for the next round."""
    operands.real(x=x)
    seen = leaf(x)
    while (n := seen.M.shape[-1]) > 1:
        half = n // 2
        left, right, odd = (_part(seen, *ends) for ends in ((0, half), (half, 2 * half), (2 * half, n)))
        both = together(left, right)
        seen = Running(*(jnp.concatenate(ab, -1) for ab in zip(both[:2], odd[:2])))
    return divided(x, Running(seen.M[..., 0], seen.L[..., 0]))


def _part(seen: Running, start: int, stop: int) -> Running:
    return Running(seen.M[..., start:stop], seen.L[..., start:stop])


def leaf(x) -> Running:
    """Each number by itself, (x, 1), in float32; a masked one is the identity, (-∞, 0)."""
    return Running(x.astype(jnp.float32), jnp.where(x == -jnp.inf, 0.0, 1.0))


def divided(x, seen: Running):
    """The second pass: e^(x - m) / ℓ."""
    return (jnp.exp(x - finite(seen.M)[..., None]) / jnp.where(seen.L == 0, 1, seen.L)[..., None]).astype(x.dtype)


def top_k(x, k: int, chunk: int = 128):
    """(values[..., k], indices[..., k]) of the k largest of softmax(x[..., n]), largest first, x read once.

    chunk   how many numbers are read at a time; it does not have to divide n

    The largest of x are the largest of its softmax, and m and ℓ are known when the pass ends: the softmax itself is never made.
    Of equal numbers the first comes first, as in `lax.top_k`. ValueError if there are no k numbers.
    """
    operands.real(x=x)
    operands.whole(k=k, least=None)
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

    def look(carry, new):
        (best, at, seen), (x, first) = carry, new
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
