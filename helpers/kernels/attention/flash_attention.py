"""FlashAttention in plain JAX: blocks of the score matrix, one after the other, none kept (chapter 6).

`flash` is the second version: a block of queries meets its blocks of keys in turn, each one rescaling of what was seen before, and
one division at the end. The backward pass makes weights again from log ℓ + m and goes through the columns: a block of keys and
values meets the blocks of queries that see it, and only the gradient of the queries is added up across columns.
`first` is the first version as its authors wrote it: columns outside, rows inside, and O, ℓ and m of a block of rows come from
memory and go back there at each visit, O divided by ℓ each time.

What is computed is a list of blocks (`masks.Plan`), and the loop takes them in whatever order the list has: the state of every row
lies in one array. On a chip the order decides what stays where (`pallas_flash_attention_tpu`).

Source: Dao et al., "FlashAttention" (2022); Dao, "FlashAttention-2" (2023).
"""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from . import gqa_shapes, masks
from .masks import FULL, Block, Mask, Plan
from .online_softmax import Running, chunk, logsum, nothing, onward, result, row_products, scored, together


def flash(
    q, k, v, mask: Mask = FULL, lengths=None, rows: int = 128, columns: int = 128, skip: bool = True, tau: float | None = None
):  # fmt: skip
    """softmax(tau · q k^T) v for q[B, T, N, H], k and v[B, S, K, H] -> [B, T, N, H], without any array of T by S.

    mask      a rule, `masks.Mask`: causal, window, sinks. The last query stands at the last key
    lengths   [B]: of S places the first lengths[b] hold keys; 0 gives zeros
    rows      queries of a block; columns: its keys. Neither has to divide T or S
    skip      do not compute blocks in which nothing is seen
    tau       scale of the scores; 1 / sqrt(H) if left out

    K may be any divisor of N. Scores and sums are float32, the result is of q's type. Kept for the backward pass besides the
    arguments: the result, and one number for each query and head. ValueError for shapes that do not fit.
    """
    k, v, lengths = gqa_shapes.checked(q, k, v, masks.ruled(mask), lengths)
    plan = masks.plan(q.shape[1], k.shape[1], rows, columns, mask, skip)
    return _flash(q, k, v, lengths, plan, q.shape[-1] ** -0.5 if tau is None else tau)


@partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def _flash(q, k, v, lengths, plan, tau):
    return forward(q, k, v, plan, tau, lengths)[0]


def _kept(q, k, v, lengths, plan, tau):
    out, total = forward(q, k, v, plan, tau, lengths)
    return out, (q, k, v, lengths, out, total)


def _gradients(plan, tau, kept, dout):
    q, k, v, lengths, out, total = kept
    return (*backward(q, k, v, out, total, dout, plan, tau, lengths), None)


_flash.defvjp(_kept, _gradients)


def forward(q, k, v, plan: Plan, tau: float, lengths=None, blocks: Sequence[Block] | None = None):
    """(result[B, T, N, H], log of the softmax's sum [B, T, N]); `blocks` are those of the plan, in any order."""
    Q, K, V = _cut(plan, q, k, v)

    def look(seen: Running, at):
        i, j = at
        mine = onward(_take(seen, i), Q[i], K[j], V[j], plan.sees(i, j, lengths), tau)
        return _put(seen, i, mine), None

    seen, _ = lax.scan(look, nothing(Q.shape[:-1], v.shape[-1]), steps(plan.blocks if blocks is None else blocks))
    out, total = gqa_shapes.joined(result(seen), plan.T), gqa_shapes.joined(logsum(seen)[..., None], plan.T)
    return gqa_shapes.tokens(out).astype(q.dtype), gqa_shapes.tokens(total)[..., 0]


def backward(
    q, k, v, out, total, dout, plan: Plan, tau: float, lengths=None, blocks: Sequence[Block] | None = None
):  # fmt: skip
    """dq, dk, dv from the result and the log-sums, `blocks` in any order; column after column if left out.

    P = e^(tau q·k - total) is the softmax; dv = P^T dO; dP = dO v^T; d(q·k) = tau · P (dP - dO·O), because of
    sum_j P_ij dP_ij = dO_i · O_i: a block needs no other block of its row.
    """
    Q, K, V = _cut(plan, q, k, v)
    identity = jnp.sum(dout.astype(jnp.float32) * out.astype(jnp.float32), -1)
    dO, total, identity = (_rows(plan, x, k.shape[2]) for x in (dout, total[..., None], identity[..., None]))

    def look(gradients, at):
        i, j = at
        dq, dk, dv = block_gradients(
            Q[i], K[j], V[j], dO[i], total[i][..., 0], identity[i][..., 0], plan.sees(i, j, lengths), tau
        )
        dQ, dK, dV = gradients
        return (dQ.at[i].add(dq), dK.at[j].add(dk), dV.at[j].add(dv)), None

    zeros = tuple(jnp.zeros(x.shape) for x in (Q, K, V))
    (dQ, dK, dV), _ = lax.scan(look, zeros, steps(by_columns(plan.blocks) if blocks is None else blocks))
    whole = lambda x, n, like: gqa_shapes.tokens(gqa_shapes.joined(x, n)).astype(like.dtype)  # noqa: E731
    return whole(dQ, plan.T, q), whole(dK, plan.S, k), whole(dV, plan.S, v)


def block_gradients(q, k, v, dout, total, identity, mask, tau: float):
    """What one block adds to dq[B, K, G, rows, H], dk and dv[B, K, 1, columns, H]: five products, the scores made again."""
    P = jnp.exp(scored(q, k, mask, tau) - total[..., None])
    dP = row_products(dout, v)
    ds = tau * P * (dP - identity[..., None])
    dk = jnp.einsum("bkgtc,bkgth->bkch", ds, q)[:, :, None]  # a group's queries share the key
    dv = jnp.einsum("bkgtc,bkgth->bkch", P, dout)[:, :, None]
    return jnp.einsum("...tc,...ch->...th", ds, k), dk, dv


def first(
    q, k, v, mask: Mask = FULL, rows: int = 128, columns: int = 128, skip: bool = True, tau: float | None = None,
    writes: str = "Olm",
):  # fmt: skip
    """FlashAttention-1's forward pass: as `flash`, column after column, O, ℓ and m of a row read and written at each visit.

    writes   which of O, l and m go back to memory. The text that this course follows leaves out l: the result is then
             attention over the last block that a row visits, as if it had seen no other
    """
    k, v, _ = gqa_shapes.checked(q, k, v, masks.ruled(mask))
    plan = masks.plan(q.shape[1], k.shape[1], rows, columns, mask, skip)
    Q, K, V = _cut(plan, q, k, v)
    tau = q.shape[-1] ** -0.5 if tau is None else tau

    def look(memory: Running, at):
        i, j = at
        old = _take(memory, i)  # O is divided by ℓ there, so it is multiplied by ℓ first
        new = together(Running(old.M, old.L, old.L[..., None] * old.O), chunk(Q[i], K[j], V[j], plan.sees(i, j), tau))
        new = Running(new.M, new.L, result(new))
        return _put(memory, i, Running(*(n if w in writes else o for w, n, o in zip("mlO", new, old)))), None

    memory, _ = lax.scan(look, nothing(Q.shape[:-1], v.shape[-1]), steps(by_columns(plan.blocks)))
    return gqa_shapes.tokens(gqa_shapes.joined(memory.O, plan.T)).astype(q.dtype)


def by_columns(blocks: Sequence[Block]) -> list[Block]:
    """Blocks of one column after those of the other, rows in order."""
    return sorted(blocks, key=lambda b: (b.j, b.i))


def steps(blocks: Sequence[Block]) -> tuple[np.ndarray, np.ndarray]:
    ij = np.array([(b.i, b.j) for b in blocks], np.int32).reshape(-1, 2)
    return ij[:, 0], ij[:, 1]


def _rows(plan: Plan, x, K: int):
    """[B, T, N, H] -> blocks [m, B, K, G, rows, H]."""
    return gqa_shapes.cut(gqa_shapes.queries(x, K), plan.rows)


def _cut(plan: Plan, q, k, v):
    """Blocks of queries [m, B, K, G, rows, H], and of keys and values [n, B, K, 1, columns, H]."""
    return _rows(plan, q, k.shape[2]), *(gqa_shapes.cut(gqa_shapes.keys(x), plan.columns) for x in (k, v))


def _take(seen: Running, i) -> Running:
    return jax.tree.map(lambda a: a[i], seen)


def _put(seen: Running, i, mine: Running) -> Running:
    return jax.tree.map(lambda a, b: a.at[i].set(b), seen, mine)
