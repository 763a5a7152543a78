"""Flash attention: equal to dense attention and its vjp for any chunks, and no T x S array anywhere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from helpers import trace
from helpers.kernels.attention import online_softmax
from helpers.kernels.attention.flash_attention_all_blocks import flash
from helpers.kernels.transformers.decoder_layers import visible

CASES = [  # B, T, S, N, K, H, rows, columns
    (2, 8, 8, 4, 2, 6, 4, 4), (1, 7, 7, 3, 3, 5, 3, 2), (2, 5, 11, 4, 1, 4, 2, 3), (1, 9, 9, 2, 2, 4, 1, 9), (1, 6, 6, 2, 1, 8, 64, 64),
    (1, 1, 13, 4, 2, 4, 1, 4),
]  # fmt: skip


def draw(B, T, S, N, K, H, seed=0):
    shapes = (B, T, N, H), (B, S, K, H), (B, S, K, H), (B, T, N, H)
    return [jax.random.normal(key, s) for key, s in zip(jax.random.split(jax.random.key(seed), 4), shapes)]


def dense(q, k, v, causal=True):
    k, v = (jnp.repeat(a, q.shape[2] // k.shape[2], axis=2) for a in (k, v))
    scores = jnp.einsum("btnh,bsnh->bnts", q, k) * q.shape[-1] ** -0.5
    if causal:
        T, S = scores.shape[-2:]
        scores = jnp.where(visible(jnp.arange(T) + S - T, jnp.arange(S), None), scores, -jnp.inf)
    return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(scores, axis=-1), v)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.sample(quick=1, slow=2)
def test_forward_and_backward_are_those_of_dense_attention(case, causal):
    """To 1e-6, for chunks that divide nothing too."""
    *sizes, rows, columns = case
    q, k, v, do = draw(*sizes)
    mine, pull = jax.vjp(lambda q, k, v: flash(q, k, v, causal, rows, columns), q, k, v)
    want, dense_pull = jax.vjp(lambda q, k, v: dense(q, k, v, causal), q, k, v)
    np.testing.assert_allclose(mine, want, rtol=1e-6, atol=1e-6)
    for a, b in zip(pull(do), dense_pull(do)):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=5e-6)


def pieces(S, C, seed=1):
    q, k, v = (jax.random.normal(key, (n, 4)) for key, n in zip(jax.random.split(jax.random.key(seed), 3), (3, S, S)))
    return (q, k, v), [online_softmax.chunk(q, k[i : i + C], v[i : i + C]) for i in range(0, S, C)]


@given(st.integers(1, 9), st.integers(1, 9), st.randoms())
@settings(max_examples=15, deadline=None)
@pytest.mark.slow("compiles a program for each order")
def test_the_order_of_chunks_does_not_matter(S, C, random):
    """Without a mask, any order and any grouping."""
    (q, k, v), parts = pieces(S, C)
    random.shuffle(parts)
    while len(parts) > 1:
        i = random.randrange(len(parts) - 1)
        parts[i : i + 2] = [online_softmax.together(*parts[i : i + 2])]
    np.testing.assert_allclose(online_softmax.result(parts[0]), jax.nn.softmax(q @ k.T) @ v, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_nothing_seen_is_neutral_and_never_nan():
    (q, k, v), (part, *_) = pieces(4, 4)
    empty = online_softmax.nothing((3,), 4)
    for both in (online_softmax.together(empty, part), online_softmax.together(part, empty)):
        jax.tree.map(np.testing.assert_array_equal, both, part)
    assert np.array_equal(online_softmax.result(online_softmax.together(empty, empty)), np.zeros((3, 4)))
    hidden = online_softmax.chunk(q, k, v, jnp.zeros((3, 4), bool))
    assert np.array_equal(online_softmax.result(hidden), np.zeros((3, 4))) and np.isneginf(hidden.M).all()


@pytest.mark.slow
def test_large_scores_do_not_overflow():
    """E^89 is not a float32."""
    q, k, v, _ = draw(1, 4, 4, 1, 1, 4)
    out = flash(1e3 * q, k, v, True, 2, 2)
    assert np.isfinite(out).all()
    np.testing.assert_allclose(out, dense(1e3 * q, k, v), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_the_row_identity():
    """Σ_j P dP = dO · O, what lets a chunk do without the others of its row; and τ is a factor of the gradient (errata E000-3)."""
    q, k, v, do = (a[0, :, 0] for a in draw(1, 5, 5, 1, 1, 4))
    tau = 0.5
    P = jax.nn.softmax(tau * q @ k.T)
    dP = do @ v.T
    np.testing.assert_allclose((P * dP).sum(-1), (do * (P @ v)).sum(-1), rtol=1e-5, atol=1e-6)
    gradient = jax.grad(lambda qk: jnp.sum(do * (jax.nn.softmax(tau * qk) @ v)))(q @ k.T)
    np.testing.assert_allclose(gradient, tau * P * (dP - (do * (P @ v)).sum(-1, keepdims=True)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(P.sum(-1), 1, rtol=1e-6)  # errata E000-4: over all keys, so rows add up to 1 and differ
    assert P.std() > 1e-2


def test_no_array_is_as_large_as_the_scores():
    """Forward and backward hold a chunk of scores; what is kept grows with T alone."""
    B, T, N, H, rows, columns = 1, 1024, 2, 4, 32, 64
    q = jax.ShapeDtypeStruct((B, T, N, H), jnp.float32)
    step = lambda q, k, v: jnp.sum(flash(q, k, v, True, rows, columns))  # noqa: E731
    made = [
        x.aval
        for v in trace.walk(jax.make_jaxpr(jax.grad(step, (0, 1, 2)))(q, q, q))
        if not v.opens
        for x in v.eqn.outvars
    ]
    assert max(a.size for a in made) < T * T / 16 and any(a.shape[-2:] == (rows, columns) for a in made)
    kept = lambda f: trace.saved(f, q, q, q).bytes  # noqa: E731
    assert kept(step) == 4 * B * T * N * (H + 1)  # O, and M + log L
    assert kept(lambda q, k, v: jnp.sum(dense(q, k, v))) > 4 * T * T


@pytest.mark.parametrize(("rows", "columns"), [(8, 8), (4, 16), (16, 2)])
def test_flops_are_those_of_the_whole_rectangle(rows, columns):
    """Forward two products; backward five, for the scores are made again: 2.5 times."""
    B, T, N, H = 1, 16, 2, 4
    q, k, v, _ = draw(B, T, T, N, N, H)
    rectangle = 2 * B * N * T * T * H
    assert trace.count(lambda *x: flash(*x, True, rows, columns), q, k, v).matmul_flops == 2 * rectangle
    both = jax.value_and_grad(lambda *x: jnp.sum(flash(*x, True, rows, columns)), (0, 1, 2))
    assert trace.count(both, q, k, v).matmul_flops == (2 + 5) * rectangle


def test_bad_chunks():
    q, k, v, _ = draw(1, 4, 4, 2, 2, 4)
    with pytest.raises(ValueError, match="at least one query and one key, not rows = 0"):
        flash(q, k, v, True, 0, 4)
    with pytest.raises(ValueError, match="3 KV heads do not divide 2 query heads"):
        flash(q, *(jnp.zeros((1, 4, 3, 4)),) * 2)
