"""FlashAttention forward as a Pallas kernel in the form that a GPU takes (chapter 6).

A GPU starts a program for each point of the grid, many at once and in no order: nothing is handed from one to the next, as
`pallas_flash_attention_tpu` does along a TPU's grid. So a program has a block of queries of one head to itself, and goes over
the keys in a loop: m, ℓ and O live in its registers, and the loop's bounds leave out blocks in which nothing is seen. Blocks
that are seen whole come first and need no mask. Programs with the longest loops start first, so that no SM begins one when the
others are done.

Sides of blocks are powers of two, 16 at least, as its matrix unit has them; whatever a length or a head leaves of a block is masked
when it is read and written. Query head n reads KV head n // G by its index: nothing is repeated, nothing is transposed.

This is Pallas' Triton form, which JAX deprecates from 0.11 on in favour of its Mosaic GPU form: one program for every NVIDIA chip,
without Hopper's and Blackwell's own products and copies. `interpret=True` runs it on any machine.

Source: Dao, "FlashAttention-2" (2023); Tillet et al., "Triton" (2019); the kernel of the same kind in JAX, pallas.ops.gpu.attention.
"""

from functools import partial
from math import log, log2

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from . import flash_attention as plain, masks
from .masks import FULL, Mask, Plan
from .softmax import NEVER, finite

LEAST = 16
"""The smallest side of a product on a tensor core."""


def flash(
    q, k, v, mask: Mask = FULL, lengths=None, rows: int = 128, columns: int = 64,
    interpret: bool | None = None, warps: int | None = None, stages: int = 2,
):  # fmt: skip
    """`flash_attention.flash` as a kernel for GPUs: q[B, T, N, H], k and v[B, S, K, H] -> [B, T, N, H]; its gradient is that of `flash`.

    rows, columns   queries and keys of a block: powers of two, 16 or more; T and S may be anything
    interpret       True: on any machine; False: compiled, on a GPU; None: as this machine needs
    warps           warps of 32 threads that share a block; 4, and 8 for heads of more than 64, if left out
    stages          blocks of keys that are on their way at once

    mask, lengths and other errors as there. Products of float32 are exact, and slow, also to compile: bfloat16 is what this
    form is for.
    """
    k, v, lengths = masks.checked(q, k, v, masks.ruled(mask), lengths)
    T, S = q.shape[1], k.shape[1]
    plan = Plan(T, S, _side(rows, T, "rows"), _side(columns, S, "columns"), mask)
    lengths = jnp.full(q.shape[0], S, jnp.int32) if lengths is None else lengths.astype(jnp.int32)
    how = warps or (4 if q.shape[-1] <= 64 else 8), stages, plain.interprets(interpret, "gpu")
    return _flash(q, k, v, lengths, plan, how)


def forward(q, k, v, plan: Plan, lengths, warps: int, stages: int, interpret: bool):
    """(result[B, T, N, H], log-sums[B, T, N] in float32)."""
    B, T, N, H = q.shape
    S, G, last, V = plan.S, N // k.shape[2], plan.shape[0] - 1, v.shape[-1]
    wide = {h: _power(h) for h in (H, V)}

    def kernel(n_ref, q_ref, k_ref, v_ref, o_ref, total_ref):
        i, length = last - pl.program_id(0), jnp.minimum(n_ref[0], S)
        real = i * plan.rows + jnp.arange(plan.rows) < T
        q = triton.load(q_ref, mask=real[:, None] & _head(H), other=0.0)

        def look(unmasked, j, running):
            """What `softmax.onward` does, with powers of two: a GPU has an instruction for them."""
            M, L, O = running
            where = pl.ds(j * plan.columns, plan.columns)

            def load(ref, h):
                here = _head(h)
                if not unmasked:
                    here = (j * plan.columns + jnp.arange(plan.columns) < length)[:, None] & here
                here = None if unmasked and h == wide[h] else jnp.broadcast_to(here, (plan.columns, wide[h]))
                return triton.load(ref.at[where, :], mask=here, other=None if here is None else 0.0)

            keys, values = load(k_ref, H), load(v_ref, V)
            scores = H**-0.5 * log2(np.e) * _dot(q, keys.T)
            if not unmasked:
                scores = jnp.where(plan.sees(i, j, length), scores, NEVER)
            new = jnp.maximum(M, scores.max(-1))
            weights, old = jnp.exp2(scores - finite(new)[:, None]), jnp.exp2(M - finite(new))
            O = old[:, None] * O + _dot(weights.astype(values.dtype), values)
            return new, old * L + weights.sum(-1), O

        seen = jnp.full(plan.rows, NEVER), jnp.zeros(plan.rows), jnp.zeros((plan.rows, wide[V]))
        for start, stop, whole in spans(i, plan, length):
            seen = lax.fori_loop(start, stop, partial(look, whole), seen)
        M, L, O = seen
        L = jnp.where(L == 0, 1, L)
        triton.store(o_ref, (O / L[:, None]).astype(o_ref.dtype), mask=real[:, None] & _head(V))
        triton.store(total_ref, log(2) * (finite(M) + jnp.log2(L)), mask=real)

    queries, out = (pl.BlockSpec((None, plan.rows, None, wide[h]), lambda i, n, b: (b, last - i, n, 0)) for h in (H, V))
    keys, values = (
        pl.BlockSpec((None, S, None, wide[h]), lambda i, n, b: (b, 0, lax.div(n, jnp.int32(G)), 0)) for h in (H, V)
    )
    total = pl.BlockSpec((None, plan.rows, None), lambda i, n, b: (b, last - i, n))
    return pl.pallas_call(
        kernel, grid=(last + 1, N, B), in_specs=[pl.BlockSpec((1,), lambda i, n, b: (b,)), queries, keys, values],
        out_specs=[out, total], interpret=interpret, name="flash",
        out_shape=[jax.ShapeDtypeStruct((B, T, N, V), q.dtype), jax.ShapeDtypeStruct((B, T, N), jnp.float32)],
        compiler_params=triton.CompilerParams(num_warps=warps, num_stages=stages),
    )(lengths, q, k, v)  # fmt: skip


def spans(i, plan: Plan, length):
    """The loops of block i of the queries, (first block of keys, the one after the last, whether all of them are seen whole).

    They visit what `plan.row(i)` lists, but for keys that a text of `length` keys does not have. With a window no block is
    taken as whole: one loop for the sinks, one for the window, both masked.

    >>> plan = Plan(128, 128, 32, 16, masks.CAUSAL)
    >>> [(int(a), int(b), whole) for a, b, whole in spans(2, plan, 128)]        # queries 64 to 95
    [(0, 4, True), (4, 6, False)]
    """
    rule, first = plan.mask, i * plan.rows + plan.S - plan.T
    last = jnp.minimum(first + plan.rows, plan.S) - 1  # where the block's first and last queries stand
    end = jnp.minimum(last + 1, length) if rule.causal else length
    if rule.window is None:
        whole = jnp.maximum(jnp.minimum(first + 1, length) if rule.causal else length, 0)
        whole = lax.div(whole, jnp.int32(plan.columns))
        return (0, whole, True), (whole, _up(end, plan.columns), False)
    near = end if rule.causal else jnp.minimum(last + rule.window, length)
    low = lax.div(jnp.maximum(first - rule.window + 1, 0), jnp.int32(plan.columns))
    sinks = jnp.minimum(_up(jnp.minimum(end, rule.sinks), plan.columns), low)
    return (0, sinks, False), (low, _up(near, plan.columns), False)


def _head(H: int):
    """Which places of a padded head are the head's, [1, a power of two]."""
    return (jnp.arange(_power(H)) < H)[None]


def _dot(a, b):
    """a b, summed in float32; float32 itself is not cut to 19 bits, as a tensor core would have it."""
    exact = lax.Precision.HIGHEST if a.dtype == jnp.float32 else None
    return lax.dot(a, b, precision=exact, preferred_element_type=jnp.float32)


def _up(n, side: int):
    """Blocks that n places take; none for n < 0."""
    return lax.div(jnp.maximum(n, 0) + side - 1, jnp.int32(side))


def _side(side: int, length: int, name: str) -> int:
    """A side of a block: `side`, or less where the sequence's `length` is."""
    if side < LEAST or side & (side - 1):
        raise ValueError(f"a GPU's block has a power of two of {name}, {LEAST} or more, not {side}")
    return min(side, _power(length))


def _power(n: int) -> int:
    """The least power of two that is n or more, 16 at least."""
    return max(LEAST, 1 << (n - 1).bit_length())


def _gradients(q, k, v, out, total, dout, plan: Plan, lengths, *launch_options):
    return plain.backward(q, k, v, out, total, dout, plan, lengths)


_flash = plain.with_gradient(forward, _gradients)
