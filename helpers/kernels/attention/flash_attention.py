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

from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from helpers.kernels import operands
from helpers.kernels.transformers.quantisation import Quantised, quantise

from . import masks
from .masks import CAUSAL, FULL, Block, Mask, Plan
from .softmax import Running, chunk, logsum, nothing, onward, result, row_products, scored, together


def flash(q, k, v, mask: Mask = FULL, lengths=None, rows: int = 128, columns: int = 128, skip_masked: bool = True):
    """softmax(q k^T / sqrt(H)) v for q[B, T, N, H], k and v[B, S, K, H] -> [B, T, N, H], without any array of T by S.

    mask         a rule, `masks.Mask`: causal, window, sinks. The last query stands at the last key
    lengths      [B]: of S places the first lengths[b] hold keys; 0 gives zeros
    rows         queries of a block; columns: its keys. Neither has to divide T or S
    skip_masked  do not compute blocks in which nothing is seen

    K may be any divisor of N. Scores and sums are float32, the result is of q's type. Kept for the backward pass besides the
    arguments: the result, and one number for each query and head. ValueError for shapes that do not fit.
    """
    k, v, lengths = masks.checked(q, k, v, masks.ruled(mask), lengths)
    plan = masks.plan(q.shape[1], k.shape[1], rows, columns, mask, skip_masked)
    return _flash(q, k, v, lengths, plan, ())


def forward(q, k, v, plan: Plan, lengths=None, blocks: Sequence[Block] | None = None):
    """(result[B, T, N, H], log of the softmax's sum [B, T, N]); `blocks` are those of the plan, in any order."""
    Q, K, V = _cut(plan, q, k, v)

    def look(running: Running, i, j):
        return onward(running, Q[i], K[j], V[j], plan.sees(i, j, lengths))

    seen = over_blocks(look, nothing(Q.shape[:-1], v.shape[-1]), plan.blocks if blocks is None else blocks)
    out, total = masks.joined(result(seen), plan.T), masks.joined(logsum(seen)[..., None], plan.T)
    return masks.tokens(out).astype(q.dtype), masks.tokens(total)[..., 0]


def backward(q, k, v, out, total, dout, plan: Plan, lengths=None, blocks: Sequence[Block] | None = None):
    """dq, dk, dv from the result and the log-sums, `blocks` in any order; column after column if left out.

    P = e^(q·k/sqrt(H) - total) is the softmax; dv = P^T dO; dP = dO v^T; d(q·k) = P (dP - dO·O) / sqrt(H), because of
    sum_j P_ij dP_ij = dO_i · O_i: a block needs no other block of its row.
    """
    Q, K, V = _cut(plan, q, k, v)
    identity = jnp.sum(dout.astype(jnp.float32) * out.astype(jnp.float32), -1)
    dO, total, identity = (_rows(plan, x, k.shape[2]) for x in (dout, total[..., None], identity[..., None]))

    def look(gradients, block):
        i, j = block
        mask = plan.sees(i, j, lengths)
        dq, dk, dv = block_gradients(Q[i], K[j], V[j], dO[i], total[i][..., 0], identity[i][..., 0], mask)
        dQ, dK, dV = gradients
        return (dQ.at[i].add(dq), dK.at[j].add(dk), dV.at[j].add(dv)), None

    zeros = tuple(jnp.zeros(x.shape) for x in (Q, K, V))
    (dQ, dK, dV), _ = lax.scan(look, zeros, steps(by_columns(plan.blocks) if blocks is None else blocks))
    whole = lambda x, n, argument: masks.tokens(masks.joined(x, n)).astype(argument.dtype)  # noqa: E731
    return whole(dQ, plan.T, q), whole(dK, plan.S, k), whole(dV, plan.S, v)


def block_gradients(q, k, v, dout, total, delta, mask):
    """What one block adds to dq[B, K, G, rows, H], dk and dv[B, K, 1, columns, H]: five products, the scores made again."""
    P = jnp.exp(scored(q, k, mask) - total[..., None])
    dP = row_products(dout, v)
    ds = q.shape[-1] ** -0.5 * P * (dP - delta[..., None])
    dk = jnp.einsum("bkgtc,bkgth->bkch", ds, q)[:, :, None]  # a group's queries share the key
    dv = jnp.einsum("bkgtc,bkgth->bkch", P, dout)[:, :, None]
    return jnp.einsum("...tc,...ch->...th", ds, k), dk, dv


def with_gradient(forward: Callable, backward: Callable) -> Callable:
    """(q, k, v, lengths, plan, how) -> what `forward` gives, with `backward` as its gradient.

    forward    (q, k, v, plan, lengths, *how) -> (result, log-sums)
    backward   (q, k, v, result, log-sums, the result's gradient, plan, lengths, *how) -> dq, dk, dv
    """

    @partial(jax.custom_vjp, nondiff_argnums=(4, 5))
    def flash(q, k, v, lengths, plan, options):
        return forward(q, k, v, plan, lengths, *options)[0]

    def kept(q, k, v, lengths, plan, options):
        out, total = forward(q, k, v, plan, lengths, *options)
        return out, (q, k, v, lengths, out, total)

    def gradients(plan, options, residuals, dout):
        q, k, v, lengths, out, total = residuals
        return (*backward(q, k, v, out, total, dout, plan, lengths, *options), None)

    flash.defvjp(kept, gradients)
    return flash


_flash = with_gradient(forward, backward)


def interprets(interpret: bool | None, platform: str) -> bool:
    """Whether a Pallas kernel for that platform runs as ordinary JAX operations; None: as this machine needs."""
    return jax.default_backend() != platform if interpret is None else interpret


def first(q, k, v, mask: Mask = FULL, rows: int = 128, columns: int = 128, writes: str = "Olm"):
    """FlashAttention-1's forward pass: as `flash`, column after column, O, ℓ and m of a row read and written at each visit.

    writes   which of O, l and m go back to memory. The text that this course follows leaves out l: the result is then
             attention over the last block that a row visits, as if it had seen no other
    """
    k, v, _ = masks.checked(q, k, v, masks.ruled(mask))
    plan = masks.plan(q.shape[1], k.shape[1], rows, columns, mask)
    Q, K, V = _cut(plan, q, k, v)

    def look(running: Running, i, j):
        # O is divided by ℓ in memory, so it is multiplied by ℓ first.
        new = together(
            Running(running.M, running.L, running.L[..., None] * running.O), chunk(Q[i], K[j], V[j], plan.sees(i, j))
        )
        new = Running(new.M, new.L, result(new))
        return Running(*(n if w in writes else o for w, n, o in zip("mlO", new, running)))

    memory = over_blocks(look, nothing(Q.shape[:-1], v.shape[-1]), by_columns(plan.blocks))
    return masks.tokens(masks.joined(memory.O, plan.T)).astype(q.dtype)


def by_columns(blocks: Sequence[Block]) -> list[Block]:
    """Blocks of one column after those of the other, rows in order."""
    return sorted(blocks, key=lambda b: (b.j, b.i))


def over_blocks(look_at_block: Callable, running: Running, blocks: Sequence[Block]) -> Running:
    """The state of every block of rows, [m, …], after look_at_block(state of row i, i, j) for each in turn."""

    def visit(running, block):
        mine = look_at_block(jax.tree.map(lambda a: a[block[0]], running), *block)
        return jax.tree.map(lambda a, b: a.at[block[0]].set(b), running, mine), None

    return lax.scan(visit, running, steps(blocks))[0]


def steps(blocks: Sequence[Block]) -> tuple[np.ndarray, np.ndarray]:
    ij = np.array([(b.i, b.j) for b in blocks], np.int32).reshape(-1, 2)
    return ij[:, 0], ij[:, 1]


def _rows(plan: Plan, x, K: int):
    """[B, T, N, H] -> blocks [m, B, K, G, rows, H]."""
    return masks.cut(masks.queries(x, K), plan.rows)


def _cut(plan: Plan, q, k, v):
    """Blocks of queries [m, B, K, G, rows, H], and of keys and values [n, B, K, 1, columns, H]."""
    return _rows(plan, q, k.shape[2]), *(masks.cut(masks.keys(x), plan.columns) for x in (k, v))


# Which blocks may run apart: rows in the forward pass, columns in the backward pass.
#
# A row of blocks needs nothing of another row, so rows are what a chip's cores share out in the forward pass. Backward, a column of
# blocks has the gradients of its keys and values to itself, and only the gradient of the queries is a sum over columns; shared out
# by rows it would be the other way about, two sums instead of one.
#
# Source: Dao, "FlashAttention-2" (2023), Section 3.2.


def forward_by_rows(q, k, v, plan: Plan, order: Sequence[int]):
    """Rows in any order, each by itself: (result[B, T, N, H], log-sums[B, T, N]), bit for bit the same."""
    done = {}
    for i in order:
        mine = slice(i * plan.rows, (i + 1) * plan.rows)
        done[i] = [a[:, mine] for a in forward(q, k, v, plan, blocks=plan.row(i))]
    return tuple(jnp.concatenate([done[i][n] for i in sorted(done)], 1) for n in (0, 1))


def backward_by_columns(q, k, v, out, total, dout, plan: Plan, order: Sequence[int]):
    """Columns in any order, each by itself: dk and dv bit for bit the same; dq, a sum in that order, is rounded otherwise."""
    dq, done = 0, {}
    for j in order:
        mine = slice(j * plan.columns, (j + 1) * plan.columns)
        more, *of_keys = backward(q, k, v, out, total, dout, plan, blocks=[b for b in plan.blocks if b.j == j])
        dq, done[j] = dq + more, [a[:, mine] for a in of_keys]
    return dq, *(jnp.concatenate([done[j][n] for j in sorted(done)], 1) for n in (0, 1))


# Attention without its T x S matrix, as chapter 3 needs it: a running maximum, sum and output, and the gradient from them.
#
# As `flash`, but every block is computed, also those in which nothing is seen. The forward pass keeps O and m + log ℓ, T(H + 1)
# numbers for each head instead of T · S; the backward pass makes a chunk's softmax from them again.
#
# Source: Rabe and Staats, "Self-attention does not need O(n^2) memory" (2021); Dao et al., "FlashAttention" (2022).


def flash_all_blocks(q, k, v, causal: bool = True, rows: int = 128, columns: int = 128):
    """softmax(q k^T / sqrt(H)) v, `rows` queries with `columns` keys at a time; neither has to divide T or S.

    q[B, T, N, H], k and v[B, S, K, H] with N a multiple of K. With `causal`, the last query sees the last key, and chunks that
    nobody sees are computed all the same: this is the plain form, whose FLOPs are those of the whole rectangle.
    """
    return flash(q, k, v, CAUSAL if causal else FULL, None, rows, columns, skip_masked=False)


# Attention in 8 bits: one scale for a tensor, or one for each block.
#
# FlashAttention-3 multiplies in fp8, which halves the bytes and doubles the rate of bf16. One scale for all of q has to fit its
# largest number; one scale for each block of rows costs a block of scores one multiplication with scale_q · scale_k, and an outlier
# spoils its own block only. Softmax and sums stay in float32.
#
# int8 has steps of one size, so any outlier coarsens them all. fp8 is a float, and rounds a number to 1/16 of itself wherever it
# stands: an outlier costs the others nothing until they fall below the smallest normal one, 1/28,672 of the largest. A few tokens of
# large models do that ("massive activations").
#
# Source: Shah et al., "FlashAttention-3" (2024), Section 3.3; Sun et al., "Massive activations in large language models" (2024).


def quantised(x, size: int | None, kind: str = "fp8") -> Quantised:
    """x[B, T, N, H] as blocks [m, B, N, size, H] in 8 bits, each head of each block with a scale of its own, [m, B, N, 1, 1].

    size   rows of a block, not necessarily a divisor of T; None: one block of T rows, and one scale for the whole tensor
    kind   "int8" or "fp8"
    """
    operands.whole(size=size)
    whole = masks.cut(x.swapaxes(1, 2), x.shape[1] if size is None else size).astype(jnp.float32)
    return quantise(whole, axis=(0, 1, 2, 3, 4) if size is None else (3, 4), kind=kind)


def eight_bit(q, k, v, size: int | None = 128, kind: str = "fp8", mask: Mask = FULL):
    """`flash` of 8-bit q, k and v: [B, T, N, H] in float32. Forward only.

    size   rows of a block of q, k and v, each with its scale; None: one scale for each tensor

    Scores are products of 8-bit numbers, times the scales of their two blocks; the weights are not quantised. Keys and values
    that no query sees count for no scale.
    """
    k, v, _ = masks.checked(q, k, v, masks.ruled(mask))
    (T, S), K = (q.shape[1], k.shape[1]), k.shape[2]
    plan = masks.plan(T, S, size or T, size or S, mask)
    sides = (None, None) if size is None else (plan.rows, plan.columns)
    Q, Ks, V = (quantised(x, side, kind) for x, side in zip((q, k, v), (sides[0], sides[1], sides[1])))
    pick = lambda a, i: a[jnp.minimum(i, len(a) - 1)]  # one scale, or one for each block  # noqa: E731
    group = lambda a: a.reshape(a.shape[0], K if a.shape[1] > 1 else 1, -1, *a.shape[2:])  # noqa: E731

    def look(running, i, j):
        q8, k8, v8 = (group(pick(x.q, n)).astype(jnp.float32) for x, n in ((Q, i), (Ks, j), (V, j)))
        sq, sk, sv = (group(pick(x.scale, n)) for x, n in ((Q, i), (Ks, j), (V, j)))
        return onward(running, q8 * (sq * sk), k8, v8 * sv, plan.sees(i, j))

    rows = group(Q.q[0]).shape
    seen = over_blocks(look, nothing((len(Q.q), *rows[:-1]), v.shape[-1]), plan.blocks)
    return masks.tokens(masks.joined(result(seen), T))


def error(result, expected) -> float:
    """Root mean square of the difference, relative to that of `expected`."""
    return float(jnp.sqrt(jnp.mean((result - expected) ** 2) / jnp.mean(expected**2)))
