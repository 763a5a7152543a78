"""Attention with its whole T x S matrix, what all other forms are compared with; key by key, in chunks, in a rolling buffer (chapter 6)."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from helpers.kernels import operands
from helpers.kernels.transformers import decoder_layers

from . import masks
from .masks import FULL, Mask
from .softmax import nothing, onward, result, safe, scored


def attention(q, k, v, mask=None):
    """softmax(q k^T / sqrt(H)) v for q[B, T, N, H], k and v[B, S, K, H] -> [B, T, N, H], in q's type.

    mask   a Mask, or True where a query sees a key: [T, S], [B, T, S] or [B, N, T, S]

    K may be any divisor of N; keys and values are not repeated. Scores and sums are float32. A query that sees no key gives
    zeros, and passes no gradient on. ValueError for shapes and masks that do not fit.
    """
    masks.check(q, k, v)
    (B, T, N, _), (S, K) = q.shape, k.shape[1:3]
    seen = masks.as_array(mask, B, N, T, S)
    seen = seen[:, :, None] if seen.shape[1] == 1 else seen.reshape(seen.shape[0], K, N // K, *seen.shape[2:])
    # Keys that no query of a row sees are not looked at: what stands in their places may be NaN.
    every = mask is None or (isinstance(mask, Mask) and mask.reach(T, S).all())
    there = None if every else seen.any((1, 2, 3))
    k, v = (operands.blank(masks.keys(x), there, 3) for x in (k, v))
    P = safe(scored(masks.queries(q, K), k, seen))  # [B, K, G, T, S]
    return masks.tokens(jnp.einsum("bkgts,bkish->bkgth", P, v)).astype(q.dtype)


def exact(q, k, v, see=True, power: float = -0.5) -> np.ndarray:
    """softmax(q kᵀ H^power) v in NumPy and double precision, for comparison: q[..., T, H], k and v[..., S, H] -> [..., T, H].

    see   True where a query sees a key, or how often it does: [..., T, S]. A query that sees none gives zeros

    >>> exact([[2.0], [0.0]], [[0.0], [1.0]], [[1.0], [3.0]], [[1, 0], [1, 1]])
    array([[1.],
           [2.]])
    """
    q, k, v = (np.asarray(x, float) for x in (q, k, v))
    x = np.where(see, q @ k.swapaxes(-1, -2) * q.shape[-1] ** power, -np.inf)
    p = see * np.exp(x - x.max(-1, keepdims=True, initial=-1e300))
    return p @ v / np.maximum(p.sum(-1, keepdims=True), 1e-300)


# Attention that divides last, and attention in chunks whose gradient remembers nothing.
#
# The division by ℓ may wait for the end of the row: Σ e^s v / Σ e^s. So a query needs one number and one vector, however many keys
# pass. Plain, e^s overflows; stabilised, the largest score m is kept as well and both sums are rescaled when it grows.
#
# `efficient` does so chunk by chunk. Reverse-mode differentiation would keep each chunk's scores, T · S numbers in the end:
# `jax.checkpoint` on a chunk's summary keeps what goes in and makes the scores again. What is left is the state between chunks.
#
# Source: Rabe and Staats, "Self-attention does not need O(n^2) memory" (2021), whose update of ℓ is
# ℓ ← ℓ · e^(m_old - m) + e^(s - m): both factors and both terms are needed.


def plain(q, k, v, mask: Mask = FULL):
    """One key after the other, v ← v + V e^s and ℓ ← ℓ + e^s: q[B, T, N, H], k and v[B, S, K, H] -> [B, T, N, H].

    A score above 88.7 makes it NaN.
    """
    k, v, _ = masks.checked(q, k, v, masks.ruled(mask))
    T, S = q.shape[1], k.shape[1]
    Q, positions = masks.queries(q, k.shape[2]), jnp.arange(T)[:, None] + S - T

    def look(running, chunk):
        k, v, where = chunk
        e = jnp.exp(scored(Q, k, mask.sees(positions, where))[..., 0])
        return (running[0] + e, running[1] + e[..., None] * v), None

    by_key = *(masks.cut(masks.keys(x), 1) for x in (k, v)), jnp.arange(S)
    (L, O), _ = lax.scan(look, nothing(Q.shape[:-1], v.shape[-1])[1:], by_key)
    return masks.tokens(O / jnp.where(L == 0, 1, L)[..., None]).astype(q.dtype)


def stabilised(q, k, v, mask: Mask = FULL):
    """The same with the largest score so far: right for scores of any size."""
    return efficient(q, k, v, mask, None, q.shape[1], 1, "scores")


def efficient(q, k, v, mask: Mask = FULL, lengths=None, rows: int = 128, columns: int = 128, keep: str = "state"):
    """`rows` queries with `columns` keys at a time, to be differentiated by JAX: q[B, T, N, H] -> [B, T, N, H].

    lengths   [B]: of S places the first lengths[b] hold keys
    keep      what the backward pass finds, for each head, besides the arguments in their blocks:
              "scores"  all weights, T · S numbers and more: no checkpoint
              "state"   m, ℓ and O before each chunk of keys, T · (S / columns) · (H + 2) numbers: a checkpoint on each chunk
              "rows"    nothing: a checkpoint on each block of queries too, which is done once more in the backward pass

    Neither has to divide T or S. With `columns` a fixed part of S, "state" is linear in T. Every block is computed, seen or not.
    """
    k, v, lengths = masks.checked(q, k, v, masks.ruled(mask), lengths)
    if keep not in ("scores", "state", "rows"):
        raise ValueError(f'keep is "scores", "state" or "rows", not {keep!r}')
    plan = masks.plan(q.shape[1], k.shape[1], rows, columns, mask)
    Q = masks.cut(masks.queries(q, k.shape[2]), plan.rows)
    K, V = (masks.cut(masks.keys(x), plan.columns) for x in (k, v))
    often = jax.checkpoint if keep != "scores" else lambda f: f
    whole = jax.checkpoint if keep == "rows" else lambda f: f

    @often
    def summary(running, Q, i, j):
        return onward(running, Q, K[j], V[j], plan.sees(i, j, lengths))

    @whole
    def row(Q, i):
        start = nothing(Q.shape[:-1], v.shape[-1])
        return result(lax.scan(lambda running, j: (summary(running, Q, i, j), None), start, jnp.arange(len(K)))[0])

    out = lax.map(lambda block: row(*block), (Q, jnp.arange(len(Q))))
    return masks.tokens(masks.joined(out, plan.T)).astype(q.dtype)


# A window's keys and values in a buffer that rolls: window + sinks rows, however long the text.
#
# The first `sinks` tokens keep their rows. A later token takes the row of the one that stands `window` before it, which nobody sees
# any more: position t ≥ sinks has row sinks + (t - sinks) mod window. The buffer knows no order, so who sees whom is decided by the
# positions that its rows hold. A piece of a prompt overwrites keys that its own first queries still see; these are read before.
#
# The rows are those of chapter 5's caches (`helpers.kernels.transformers.decoder_layers.remember`), here without a model around them.
#
# Source: Beltagy et al., "Longformer" (2020) for windows; Jiang et al., "Mistral 7B" (2023) for the buffer; Xiao et al., "Efficient
# streaming language models with attention sinks" (2023).


def empty(B: int, K: int, H: int, mask: Mask, dtype=jnp.float32) -> dict:
    """Room for what the rule lets a query see: k and v[B, window + sinks, K, H].

    >>> empty(1, 2, 8, Mask(True, 4096, 4))["k"].shape
    (1, 4100, 2, 8)
    """
    operands.whole(B=B, K=K, H=H)
    rows = _rolls(mask).window + mask.sinks
    return {name: jnp.zeros((B, rows, K, H), dtype) for name in ("k", "v")}


def extend(cache: dict, q, k, v, position, mask: Mask):
    """(attention of T tokens [B, T, N, H] to all that the rule shows them, the cache with them).

    q[B, T, N, H], k and v[B, T, K, H] are the tokens at `position`, `position` + 1, …, which is a number, or [B]. T = 1 is a step of
    generation, T > 1 a piece of a prompt, of any length. Pieces come in order, none is left out. ValueError for shapes that do
    not fit, and for rules without a window.
    """
    masks.check(q, k, v)
    B, _, K, H = cache["k"].shape
    sizes = dict(B=B, K=K, H=H, rows=_rolls(mask).window + mask.sinks)
    operands.fit({"q[B, T, N, H]": q, "k[B, T, K, H]": k, "cache[B, rows, K, H]": cache["k"]}, sizes)
    positions = jnp.broadcast_to(jnp.asarray(position), (B,))[:, None] + jnp.arange(q.shape[1])
    cache, seen, sees = decoder_layers.remember(cache, {"k": k, "v": v}, positions, mask.window, mask.sinks)
    return attention(q, seen["k"], seen["v"], sees), cache


def _rolls(mask: Mask) -> Mask:
    if not masks.ruled(mask).causal or mask.window is None:
        raise ValueError(f"a buffer rolls under Mask(True, window, sinks), a causal rule with a window, not {mask}")
    return mask
