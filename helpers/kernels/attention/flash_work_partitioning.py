"""Which blocks may run apart: rows in the forward pass, columns in the backward pass (chapter 6).

A row of blocks needs nothing of another row, so rows are what a chip's cores share out in the forward pass. Backward, a column of
blocks has the gradients of its keys and values to itself, and only the gradient of the queries is a sum over columns; shared out
by rows it would be the other way about, two sums instead of one.

Source: Dao, "FlashAttention-2" (2023), Section 3.2.
"""

from collections.abc import Sequence

import jax.numpy as jnp

from . import flash_attention, gqa_shapes
from .masks import Plan


def row(q, k, v, plan: Plan, i: int, tau: float):
    """Block i of the queries by itself: (result[B, rows, N, H], log-sums[B, rows, N]), padding cut off."""
    here = slice(i * plan.rows, min((i + 1) * plan.rows, plan.T))
    out, total = flash_attention.forward(q, k, v, plan, tau, blocks=plan.row(i))
    return out[:, here], total[:, here]


def column(q, k, v, out, total, dout, plan: Plan, j: int, tau: float):
    """Block j of the keys by itself: (what it adds to dq[B, T, N, H], its dk and dv[B, columns, K, H] for good)."""
    here = slice(j * plan.columns, min((j + 1) * plan.columns, plan.S))
    mine = [b for b in plan.blocks if b.j == j]
    dq, dk, dv = flash_attention.backward(q, k, v, out, total, dout, plan, tau, blocks=mine)
    return dq, dk[:, here], dv[:, here]


def forward(q, k, v, plan: Plan, order: Sequence[int], tau: float | None = None):
    """Rows in any order: (result[B, T, N, H], log-sums[B, T, N]), bit for bit the same."""
    gqa_shapes.check(q, k, v)
    _all(order, plan.shape[0], "rows")
    tau = q.shape[-1] ** -0.5 if tau is None else tau
    done = {i: row(q, k, v, plan, i, tau) for i in order}
    return tuple(jnp.concatenate([done[i][n] for i in sorted(done)], 1) for n in (0, 1))


def backward(q, k, v, out, total, dout, plan: Plan, order: Sequence[int], tau: float | None = None):
    """Columns in any order: dk and dv bit for bit the same; dq is a sum in that order, so the same but for rounding."""
    _all(order, plan.shape[1], "columns")
    tau = q.shape[-1] ** -0.5 if tau is None else tau
    done = {j: column(q, k, v, out, total, dout, plan, j, tau) for j in order}
    dk, dv = (jnp.concatenate([done[j][n] for j in sorted(done)], 1) for n in (1, 2))
    return sum(done[j][0] for j in order), dk, dv


def _all(order: Sequence[int], n: int, what: str) -> None:
    if sorted(order) != list(range(n)):
        raise ValueError(f"an order of {n} {what} has each of 0 to {n - 1} once, not {list(order)}")
