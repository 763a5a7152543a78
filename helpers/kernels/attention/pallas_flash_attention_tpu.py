"""FlashAttention as Pallas kernels in the form that a TPU takes, forward and backward, and softmax as one kernel (chapter 6).

A TPU core runs a kernel's grid in order and copies the next step's blocks into its on-chip memory meanwhile. So the grid is
(heads, blocks to compute), and which block a step takes stands in small arrays that are there before it starts (scalar prefetch):
blocks in which nothing is seen are neither computed nor copied. As long as a step stays in its row, the same block of queries and
the scratch arrays m, ℓ and O stay on the chip; the row's last step divides and writes.

Query head n reads KV head n // G by its index: nothing is repeated. On a TPU `rows` is a multiple of 8, `columns` of 128;
`interpret=True` runs any sizes on any machine, as ordinary JAX operations.

Source: Dao, "FlashAttention-2" (2023); the Pallas TPU documentation for grids, scratch arrays and scalar prefetch.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from helpers.kernels import operands

from . import flash_attention as plain, masks
from .masks import FULL, Mask, Plan
from .softmax import NEVER, finite

LANES = 128
"""A TPU's registers are 8 x 128: one number for each row is held 128 times over."""


def softmax(x, rows: int = 8, interpret: bool | None = None):
    """softmax of x[L, n] along n in one kernel, `rows` at a time: L·n numbers read, L·n written, nothing in between.

    rows        does not have to divide L
    interpret   True: on any machine; False: compiled, on a TPU; None: as this machine needs
    """
    operands.real(x=x)
    operands.whole(rows=rows)
    L, n = operands.fit({"x[L, n]": x}).values()

    def kernel(x_ref, y_ref):
        x = x_ref[...].astype(jnp.float32)
        e = jnp.exp(x - finite(x.max(-1, keepdims=True)))
        total = e.sum(-1, keepdims=True)
        y_ref[...] = (e / jnp.where(total == 0, 1, total)).astype(y_ref.dtype)

    block = pl.BlockSpec((min(rows, L), n), lambda i: (i, 0))
    return pl.pallas_call(
        kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(pl.cdiv(L, min(rows, L)),),
        in_specs=[block], out_specs=block, interpret=plain.interprets(interpret, "tpu"),
    )(x)  # fmt: skip


def flash(
    q, k, v, mask: Mask = FULL, lengths=None, rows: int = 128, columns: int = 128, interpret: bool | None = None
):  # fmt: skip
    """`flash_attention.flash` as a kernel, and its gradient as two: q[B, T, N, H], k and v[B, S, K, H] -> [B, T, N, H].

    interpret   True: on any machine; False: compiled, on a TPU; None: as this machine needs

    mask, lengths, rows, columns and errors as there.
    """
    k, v, lengths = masks.checked(q, k, v, masks.ruled(mask), lengths)
    plan = masks.plan(q.shape[1], k.shape[1], rows, columns, mask)
    lengths = jnp.full(q.shape[0], k.shape[1], jnp.int32) if lengths is None else lengths.astype(jnp.int32)
    return _flash(q, k, v, lengths, plan, (plain.interprets(interpret, "tpu"),))


def forward(q, k, v, plan: Plan, lengths, interpret: bool):
    """(result[B, T, N, H], log-sums[B·N, 1, T of whole blocks] in float32)."""
    (B, _, N, H), G = q.shape, q.shape[2] // k.shape[2]
    Q, K, V = _heads(q, plan.rows), _heads(k, plan.columns), _heads(v, plan.columns)
    steps = _steps(plan)

    def kernel(I, J, _, edge, n, q_ref, k_ref, v_ref, o_ref, total_ref, M, L, O):
        head, step = pl.program_id(0), pl.program_id(1)

        @pl.when(edge[step] & 1 == 1)
        def _():
            M[...], L[...], O[...] = jnp.full(M.shape, NEVER), jnp.zeros(L.shape), jnp.zeros(O.shape)

        scores = _scores(q_ref[0], k_ref[0], plan, I[step], J[step], n[head // N])
        old = M[:, :1]
        new = jnp.maximum(old, scores.max(-1, keepdims=True))
        weights, scale = jnp.exp(scores - finite(new)), jnp.exp(old - finite(new))
        M[...] = jnp.broadcast_to(new, M.shape)
        L[...] = scale * L[...] + weights.sum(-1, keepdims=True)
        O[...] = scale * O[...] + _dot(weights.astype(v_ref.dtype), v_ref[0], 1, 0)

        @pl.when(edge[step] & 2 == 2)
        def _():
            total = jnp.where(L[...] == 0, 1, L[...])
            o_ref[0] = (O[...] / total[:, :1]).astype(o_ref.dtype)
            total_ref[0] = (finite(M[...]) + jnp.log(total)).T[:1]

    rows, keys, values, results, line = _specs(plan, H, V.shape[-1], G)
    out = jax.ShapeDtypeStruct((*Q.shape[:2], V.shape[-1]), q.dtype)
    out, total = _call(
        kernel, (B * N, len(steps[0])), [rows, keys, values], [results, line],
        [out, jax.ShapeDtypeStruct((B * N, 1, Q.shape[1]), jnp.float32)],
        [(plan.rows, LANES), (plan.rows, LANES), (plan.rows, V.shape[-1])], interpret,
    )(*steps, lengths, Q, K, V)  # fmt: skip
    return _tokens(out, B, plan.T), total


def backward(q, k, v, out, total, dout, plan: Plan, lengths, interpret: bool):
    """dq by a kernel that goes along the rows; dk and dv by one that goes down the columns, all heads of a group in turn."""
    B, N, (S, K) = q.shape[0], q.shape[2], k.shape[1:3]
    identity = jnp.sum(dout.astype(jnp.float32) * out.astype(jnp.float32), -1)[..., None]
    identity = _heads(identity, plan.rows).swapaxes(1, 2)  # [B·N, 1, T]
    given = _heads(q, plan.rows), _heads(k, plan.columns), _heads(v, plan.columns), _heads(dout, plan.rows)
    make = partial(_gradients, given, total, identity, lengths, plan, N // K, interpret)
    (dq,), (dk, dv) = make(columns=False), make(columns=True)
    return _tokens(dq, B, plan.T), _tokens(dk, B, S), _tokens(dv, B, S)


_flash = plain.with_gradient(forward, backward)


def _gradients(operands, total, delta, lengths, plan, G, interpret, columns: bool) -> list:
    """dK and dV down the columns, or dQ along the rows."""
    (Q, K, V, _), steps = operands, _steps(plan, G if columns else 1, columns)
    made = [K, V] if columns else [Q]
    heads = len(made[0]) // len(lengths)  # of a text

    def kernel(I, J, _, edge, n, q_ref, k_ref, v_ref, do_ref, total_ref, delta_ref, *refs):
        outs, sums, step = refs[: len(made)], refs[len(made) :], pl.program_id(1)

        @pl.when(edge[step] & 1 == 1)
        def _():
            for mine in sums:
                mine[...] = jnp.zeros(mine.shape)

        scores = _scores(q_ref[0], k_ref[0], plan, I[step], J[step], n[pl.program_id(0) // heads])
        P = jnp.exp(scores - total_ref[0].T)  # total and identity are [1, rows]
        ds = Q.shape[-1] ** -0.5 * P * (_dot(do_ref[0], v_ref[0], 1, 1) - delta_ref[0].T)
        if columns:
            sums[0][...] += _dot(ds.astype(q_ref.dtype), q_ref[0], 0, 0)
            sums[1][...] += _dot(P.astype(do_ref.dtype), do_ref[0], 0, 0)
        else:
            sums[0][...] += _dot(ds.astype(k_ref.dtype), k_ref[0], 1, 0)

        @pl.when(edge[step] & 2 == 2)
        def _():
            for out, mine in zip(outs, sums):
                out[0] = mine[...].astype(out.dtype)

    rows, keys, values, gradients, line = _specs(plan, Q.shape[-1], V.shape[-1], G, columns)
    outs = [keys, values] if columns else [rows]
    return _call(
        kernel, (len(made[0]), len(steps[0])), [rows, keys, values, gradients, line, line], outs, made,
        [out.block_shape[1:] for out in outs], interpret,
    )(*steps, lengths, *operands, total, delta)  # fmt: skip


def _scores(q, k, plan: Plan, i, j, length):
    """Masked scores of a block, [rows, columns] in float32."""
    return jnp.where(plan.sees(i, j, length), q.shape[-1] ** -0.5 * _dot(q, k, 1, 1), NEVER)


def _dot(a, b, x: int, y: int):
    """a and b multiplied over axis x of a and axis y of b, summed in float32."""
    return lax.dot_general(a, b, (((x,), (y,)), ((), ())), preferred_element_type=jnp.float32)


def _steps(plan: Plan, G: int = 1, columns: bool = False) -> tuple[np.ndarray, ...]:
    """I, J, head of the group, and edge (1: first step of its row, 2: last, 3: both) of each step; down columns if asked.

    A row or column in which nothing is seen gets one step all the same, which writes its zeros.
    """
    seen = {(b.i, b.j) for b in plan.blocks}
    across = 1 if columns else 0
    missing = set(range(plan.shape[across])) - {ij[across] for ij in seen}
    seen |= {(0, n) if columns else (n, 0) for n in missing}
    order = sorted((ij[across], g, ij[1 - across]) for ij in seen for g in range(G))
    mine, group, other = np.array(order, np.int32).T
    turn = np.flatnonzero(np.diff(mine)) + 1
    edge = np.zeros(len(mine), np.int32)
    edge[[0, *turn]] += 1
    edge[[*(turn - 1), -1]] += 2
    return (other, mine, group, edge) if columns else (mine, other, group, edge)


def _specs(plan: Plan, H: int, V: int, G: int, columns: bool = False) -> list[pl.BlockSpec]:
    """The blocks of a step: q, k, v, an array like the result, a number for each query. Heads of the grid are those of q, or of k."""
    row = lambda h, s, I, J, group, *_: (h * G + group[s] if columns else h, I[s], 0)  # noqa: E731
    column = lambda h, s, I, J, *_: (h if columns else h // G, J[s], 0)  # noqa: E731
    rows, results = (pl.BlockSpec((1, plan.rows, n), row) for n in (H, V))
    keys, values = (pl.BlockSpec((1, plan.columns, n), column) for n in (H, V))
    line = pl.BlockSpec((1, 1, plan.rows), lambda *step: (row(*step)[0], 0, row(*step)[1]))
    return [rows, keys, values, results, line]


def _call(kernel, grid, ins, outs, shapes, scratch, interpret: bool):
    """The kernel over its grid; I, J, group, edge and lengths are there before it starts."""
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=5, grid=grid, in_specs=ins, out_specs=outs,
        scratch_shapes=[pltpu.VMEM(s, jnp.float32) for s in scratch],
    )  # fmt: skip
    return pl.pallas_call(
        kernel, grid_spec=spec, out_shape=[jax.ShapeDtypeStruct(s.shape, s.dtype) for s in shapes],
        interpret=interpret, compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )  # fmt: skip


def _heads(x, n: int):
    """[B, T, N, H] -> [B·N, T, H], filled up with zeros to whole blocks of n."""
    B, T, N, H = x.shape
    return jnp.pad(x.transpose(0, 2, 1, 3).reshape(B * N, T, H), [(0, 0), (0, -T % n), (0, 0)])


def _tokens(x, B: int, T: int):
    """[B·N, T, H] -> [B, T, N, H] without what was filled up."""
    return x.reshape(B, -1, *x.shape[1:])[:, :, :T].transpose(0, 2, 1, 3)
