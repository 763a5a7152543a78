"""Attention without its T x S matrix: a running maximum, sum and output, and the backward pass from them (chapter 3).

q[B, T, N, H], k and v[B, S, K, H] with N a multiple of K; tau is the scale of the scores, 1/sqrt(H). Keys come in chunks.
Of those seen so far a query keeps

    M   its largest score          L   the sum of e^(score - M)          O   the sum of e^(score - M) · v

and the result is O / L in the end. The forward pass keeps O and M + log L, T(H + 1) numbers for each head instead of
T · S; the backward pass makes a chunk's softmax from them again.

Source: Rabe and Staats, "Self-attention does not need O(n^2) memory" (2021); Dao et al., "FlashAttention" (2022).
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

NEVER = -jnp.inf


class Running(NamedTuple):
    """What a query has seen so far: M[..., T], L[..., T], O[..., T, H]."""

    M: jax.Array
    L: jax.Array
    O: jax.Array  # noqa: E741


def nothing(shape: tuple[int, ...], H: int) -> Running:
    """Before the first key; together(nothing, r) is r."""
    return Running(jnp.full(shape, NEVER), jnp.zeros(shape), jnp.zeros((*shape, H)))


def chunk(q, k, v, mask=None, tau: float = 1.0) -> Running:
    """One chunk of keys by itself: q[..., T, H], k and v[..., C, H], mask[T, C] True where a query sees a key."""
    scores = tau * jnp.einsum("...th,...ch->...tc", q, k)
    scores = scores if mask is None else jnp.where(mask, scores, NEVER)
    M = scores.max(-1)
    weights = jnp.exp(scores - _finite(M)[..., None])
    return Running(M, weights.sum(-1), jnp.einsum("...tc,...ch->...th", weights, v))


def together(a: Running, b: Running) -> Running:
    """Two sets of keys as one, in any order and any grouping: both are brought to the larger maximum."""
    M = jnp.maximum(a.M, b.M)
    wa, wb = jnp.exp(a.M - _finite(M)), jnp.exp(b.M - _finite(M))
    return Running(M, wa * a.L + wb * b.L, wa[..., None] * a.O + wb[..., None] * b.O)


def result(r: Running):
    """The softmax-weighted mean of the values; 0 for a query that saw no key."""
    return r.O / jnp.where(r.L == 0, 1, r.L)[..., None]


def _finite(M):
    """M, with 0 where no key was seen: -inf minus -inf would be NaN."""
    return jnp.where(M == NEVER, 0, M)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def flash(q, k, v, causal: bool = True, rows: int = 128, columns: int = 128):
    """softmax(q k^T / sqrt(H)) v, `rows` queries with `columns` keys at a time; neither has to divide T or S.

    With `causal`, the last query sees the last key, and chunks that nobody sees are computed all the same: this is the plain
    form, whose FLOPs are those of the whole rectangle.
    """
    return _forward(q, k, v, causal, rows, columns)[0]


def _forward(q, k, v, causal, rows, columns):
    cut = _Cut(q, k, causal, rows, columns)
    Q, (K, V) = cut.queries(q), map(cut.keys, (k, v))

    def one_row(i):
        def one_chunk(seen, j):
            return together(seen, chunk(Q[i], K[j], V[j], cut.mask(i, j), cut.tau)), None

        seen, _ = lax.scan(one_chunk, nothing(Q.shape[1:-1], q.shape[-1]), jnp.arange(len(K)))
        return result(seen), _finite(seen.M) + jnp.log(jnp.where(seen.L == 0, 1, seen.L))

    out, logsum = lax.map(one_row, jnp.arange(len(Q)))
    out = cut.whole(out)
    return out, (q, k, v, out, logsum)


def _backward(causal, rows, columns, kept, dout):
    """dq, dk, dv. Row identity: sum_j P_ij dP_ij = dO_i · O_i, so a chunk needs no other chunk of its row.

    P = e^(tau q·k - logsum) is the softmax; dP = dO · v; d(q·k) = tau · P (dP - dO·O).
    """
    q, k, v, out, logsum = kept
    cut = _Cut(q, k, causal, rows, columns)
    Q, dO, (K, V) = cut.queries(q), cut.queries(dout), map(cut.keys, (k, v))
    identity = cut.queries(jnp.sum(dout * out, -1, keepdims=True))[..., 0]

    def one_column(dQ, j):
        def one_chunk(dkv, i):
            scores = jnp.where(cut.mask(i, j), cut.tau * jnp.einsum("...th,...ch->...tc", Q[i], K[j]), NEVER)
            P = jnp.exp(scores - logsum[i][..., None])
            dP = jnp.einsum("...th,...ch->...tc", dO[i], V[j])
            ds = cut.tau * P * (dP - identity[i][..., None])
            dk = jnp.einsum("...tc,...th->...ch", ds, Q[i])
            dv = jnp.einsum("...tc,...th->...ch", P, dO[i])
            return (dkv[0] + dk, dkv[1] + dv), jnp.einsum("...tc,...ch->...th", ds, K[j])

        zero = jnp.zeros(jnp.broadcast_shapes(K[j].shape, (*Q.shape[1:-2], 1, 1)))
        dkv, dq = lax.scan(one_chunk, (zero, zero), jnp.arange(len(Q)))
        return dQ + dq, dkv

    dQ, (dK, dV) = lax.scan(one_column, jnp.zeros_like(Q), jnp.arange(len(K)))
    return cut.whole(dQ), cut.whole_keys(dK), cut.whole_keys(dV)


flash.defvjp(_forward, _backward)


class _Cut:
    """Chunks of queries [rows of T] and of keys: padded to whole chunks, what was padded is masked."""

    def __init__(self, q, k, causal: bool, rows: int, columns: int):
        if rows < 1 or columns < 1:
            raise ValueError(f"a chunk has at least one query and one key, not rows = {rows} and columns = {columns}")
        if q.shape[2] % k.shape[2]:
            raise ValueError(f"{k.shape[2]} KV heads do not divide {q.shape[2]} query heads: make N a multiple of K")
        self.T, self.S, self.K = q.shape[1], k.shape[1], k.shape[2]
        self.causal, self.rows, self.columns = causal, min(rows, self.T), min(columns, self.S)
        self.tau = q.shape[-1] ** -0.5

    def queries(self, x):
        """[B, T, N, H] -> [chunks, B, K, G, rows, H]."""
        B, T, N, H = x.shape
        x = _padded(x, self.rows).reshape(B, -1, self.rows, self.K, N // self.K, H)
        return x.transpose(1, 0, 3, 4, 2, 5)

    def keys(self, x):
        """[B, S, K, H] -> [chunks, B, K, 1, columns, H]."""
        B, S, K, H = x.shape
        return _padded(x, self.columns).reshape(B, -1, self.columns, K, 1, H).transpose(1, 0, 3, 4, 2, 5)

    def whole(self, x):
        """[chunks, B, K, G, rows, H] -> [B, T, N, H]."""
        n, B, K, G, rows, H = x.shape
        return x.transpose(1, 0, 4, 2, 3, 5).reshape(B, n * rows, K * G, H)[:, : self.T]

    def whole_keys(self, x):
        """[chunks, B, K, G, columns, H], the slopes of a group's queries added up -> [B, S, K, H]."""
        n, B, K, _, columns, H = x.shape
        return x.sum(3).transpose(1, 0, 3, 2, 4).reshape(B, n * columns, K, H)[:, : self.S]

    def mask(self, i, j):
        """[rows, columns]: which keys of chunk j the queries of chunk i see."""
        at = i * self.rows + jnp.arange(self.rows)[:, None] + self.S - self.T
        where = j * self.columns + jnp.arange(self.columns)[None, :]
        seen = where < self.S
        return seen & (where <= at) if self.causal else seen & jnp.full(at.shape, True)


def _padded(x, n: int):
    return jnp.pad(x, [(0, 0), (0, -x.shape[1] % n), (0, 0), (0, 0)])
