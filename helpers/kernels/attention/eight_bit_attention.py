"""Attention in 8 bits: one scale for a tensor, or one for each block (chapter 6).

FlashAttention-3 multiplies in fp8, which halves the bytes and doubles the rate of bf16. One scale for all of q has to fit its
largest number; one scale for each block of rows costs a block of scores one multiplication with scale_q · scale_k, and an outlier
spoils its own block only. Softmax and sums stay in float32.

int8 has steps of one size, so any outlier coarsens them all. fp8 is a float, and rounds a number to 1/16 of itself wherever it
stands: an outlier costs the others nothing until they fall below the smallest normal one, 1/28,672 of the largest. A few tokens of
large models do that ("massive activations").

`spread` turns the head dimension of q and k by one random rotation, which leaves q · k as it is and shares an outlier out over
all H numbers of its vector ("incoherent processing").

Source: Shah et al., "FlashAttention-3" (2024), Section 3.3; Sun et al., "Massive activations in large language models" (2024).
"""

import jax
import jax.numpy as jnp
from jax import lax

from helpers.kernels.transformers.quantisation import KINDS, Quantised, quantise

from . import flash_attention, gqa_shapes, masks
from .masks import FULL, Mask
from .online_softmax import nothing, onward, result

__all__ = ["KINDS", "attention", "blocks", "error", "round_trip", "spread"]


def blocks(x, size: int | None, kind: str = "fp8") -> Quantised:
    """x[B, T, N, H] as blocks [m, B, N, size, H] in 8 bits, each head of each block with a scale of its own, [m, B, N, 1, 1].

    size   rows of a block, not necessarily a divisor of T; None: one block of T rows, and one scale for the whole tensor
    kind   "int8" or "fp8"
    """
    if size is not None and size < 1:
        raise ValueError(f"a block has one row or more, not {size}; None is one scale for all")
    whole = gqa_shapes.cut(x.swapaxes(1, 2), x.shape[1] if size is None else size).astype(jnp.float32)
    return quantise(whole, axis=(0, 1, 2, 3, 4) if size is None else (3, 4), kind=kind)


def round_trip(x, size: int | None, kind: str = "fp8"):
    """x[B, T, N, H] after it was quantised, in float32."""
    return gqa_shapes.joined(blocks(x, size, kind).plain(jnp.float32), x.shape[1]).swapaxes(1, 2)


def attention(q, k, v, size: int | None = 128, kind: str = "fp8", mask: Mask = FULL, tau: float | None = None):
    """`flash_attention.flash` of 8-bit q, k and v: [B, T, N, H] in float32. Forward only.

    size   rows of a block of q, k and v, each with its scale; None: one scale for each tensor

    Scores are products of 8-bit numbers, times the scales of their two blocks; the weights are not quantised. Keys and values
    that no query sees count for no scale.
    """
    k, v, _ = gqa_shapes.checked(q, k, v, masks.ruled(mask))
    (T, S), K = (q.shape[1], k.shape[1]), k.shape[2]
    plan = masks.plan(T, S, size or T, size or S, mask)
    scale = q.shape[-1] ** -0.5 if tau is None else tau
    Q, Ks, V = (
        blocks(q, size and plan.rows, kind),
        blocks(k, size and plan.columns, kind),
        blocks(v, size and plan.columns, kind),
    )
    of = lambda a, i: lax.dynamic_index_in_dim(a, jnp.minimum(i, len(a) - 1), keepdims=False)  # noqa: E731
    group = lambda a: a.reshape(a.shape[0], K if a.shape[1] > 1 else 1, -1, *a.shape[2:])  # noqa: E731

    def look(seen, at):
        i, j = at
        q8, k8, v8 = (group(of(x.q, n)).astype(jnp.float32) for x, n in ((Q, i), (Ks, j), (V, j)))
        sq, sk, sv = (group(of(x.scale, n)) for x, n in ((Q, i), (Ks, j), (V, j)))
        mine = onward(jax.tree.map(lambda a: a[i], seen), q8 * (sq * sk), k8, v8 * sv, plan.sees(i, j), scale)
        return jax.tree.map(lambda a, b: a.at[i].set(b), seen, mine), None

    rows = group(Q.q[0]).shape
    seen, _ = lax.scan(look, nothing((len(Q.q), *rows[:-1]), v.shape[-1]), flash_attention.steps(plan.blocks))
    return gqa_shapes.tokens(gqa_shapes.joined(result(seen), T))


def spread(q, k, key):
    """(q, k) with their last axis turned by the same random rotation: q · k stays, outliers go. Any float32 H."""
    turn = jnp.linalg.qr(jax.random.normal(key, (q.shape[-1],) * 2))[0]
    return q @ turn, k @ turn


def error(got, want) -> float:
    """Root mean square of the difference, relative to that of `want`."""
    return float(jnp.sqrt(jnp.mean((got - want) ** 2) / jnp.mean(want**2)))
