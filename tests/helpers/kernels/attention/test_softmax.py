"""Softmax in every order, ⊕, and the k largest in one pass."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.kernels.attention import softmax
from helpers.kernels.attention.softmax import Running, nothing, together

ONCE = [softmax.safe, softmax.online, softmax.reduced, softmax.folded]


def truth(x):
    """In float64; a row of -inf is 0."""
    x = np.asarray(x, float)
    e = np.exp(x - np.where(np.isneginf(x.max(-1)), 0, x.max(-1))[..., None])
    return e / np.where(e.sum(-1) == 0, 1, e.sum(-1))[..., None]


def rows():
    """Odd length; ordinary numbers, large ones, masked ones in front, behind and everywhere."""
    x = np.random.default_rng(1).normal(size=(7, 13)).astype("float32")
    x[1] += 1000
    x[2, :4] = x[3, 9:] = x[4] = x[5, 1:] = -np.inf
    x[6, 3] = 89
    return jnp.asarray(x)


@pytest.mark.parametrize("f", ONCE, ids=lambda f: f.__name__)
def test_every_order_gives_the_softmax(f):
    """With rows that begin with -inf, and rows of nothing else; its gradient is y (dy - Σ y dy)."""
    dy, want = np.random.default_rng(3).normal(size=(7, 13)), truth(rows())
    half = rows()[:1].astype(jnp.bfloat16)
    y, dx, rounded = jax.jit(lambda x, dy, half: (f(x), jax.vjp(f, x)[1](dy)[0], f(half)))(
        rows(), dy.astype("float32"), half
    )
    np.testing.assert_allclose(y, want, rtol=2e-6, atol=1e-7)
    np.testing.assert_allclose(dx, want * (dy - (want * dy).sum(-1, keepdims=True)), rtol=1e-5, atol=1e-6)
    assert rounded.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(rounded, float), truth(np.asarray(half, float)), rtol=1e-2)


def test_where_naive_fails():
    """NaN from 88.8 on; 0 already at 88.0 once compiled, where 1 is right; without a guard, NaN on leading -inf."""
    np.testing.assert_allclose(softmax.naive(rows()[0]), truth(rows()[0]), rtol=2e-6)
    assert np.isnan(softmax.naive(jnp.array([88.8, 0.0]))).any()
    # XLA on a CPU takes e^88 · (1/Σ), and 1/Σ is denormal.
    assert jax.jit(softmax.naive)(jnp.array([88.0, 0.0]))[0] == 0
    assert np.isfinite(softmax.naive(jnp.array([86.0, 0.0]))).all()
    assert np.isnan(softmax.naive(rows()[4])).all()


def test_combine_is_associative_and_commutative_and_has_an_identity():
    """On (m, ℓ, o), bit for bit where an operand is empty, and to rounding in any grouping."""
    rng = np.random.default_rng(2)
    a, b, c = (Running(*(rng.normal(size=s).astype("float32") for s in ((5,), (5,), (5, 3)))) for _ in range(3))
    a.M[0], a.L[0], a.O[0] = -np.inf, 0, 0
    empty, one, two = nothing((5,), 3), Running(jnp.float32(3), jnp.float32(1)), Running(jnp.float32(1), jnp.float32(1))

    @jax.jit
    def run(a, b, c):
        same = (together(a, b), together(b, a)), (together(together(a, b), c), together(a, together(b, c)))
        return same, (together(empty, a), together(a, empty)), together(empty, empty), together(one, two)

    same, neutral, both, (m, l, o) = run(a, b, c)
    for x, y in same:
        jax.tree.map(lambda s, t: np.testing.assert_allclose(s, t, rtol=2e-6, atol=1e-6), x, y)
    for x in neutral:
        jax.tree.map(np.testing.assert_array_equal, x, a)
    jax.tree.map(np.testing.assert_array_equal, both, empty)
    assert m == 3 and abs(l - (1 + np.exp(-2))) < 1e-6 and o is None


def test_prefixes_are_the_statistics_of_every_beginning():
    """The associative scan, masked numbers among them."""
    x = np.asarray(rows())[2]
    got = jax.tree.map(np.asarray, jax.jit(softmax.prefixes)(x))
    for n in range(1, 14):
        part = np.asarray(x[:n], float)
        assert got.M[n - 1] == part.max()
        np.testing.assert_allclose(got.L[n - 1], np.exp(part - part.max()).sum() if n > 4 else 0, rtol=2e-6)


@pytest.mark.parametrize("dtype, rtol", [("float32", 2e-6), ("bfloat16", 2**-8)])
@pytest.mark.parametrize(("k", "chunk"), [(3, 5), (6, 4), (13, 128), (1, 4)])
@pytest.mark.sample(quick=1, kind="dtype")
def test_the_k_largest_in_one_pass(k, chunk, dtype, rtol):
    """As `lax.top_k` of the softmax, ties and masked numbers with it; which ones they are is exact, in bfloat16 too."""
    x = rows()[:6].at[0, 7].set(rows()[0].max()).at[0, 9].set(rows()[0].max()).astype(dtype)
    values, at = jax.jit(lambda x: softmax.top_k(x, k, chunk))(x)
    want, where = jax.lax.top_k(truth(x), k)
    assert values.dtype == dtype
    np.testing.assert_allclose(np.asarray(values, float), want, rtol=rtol, atol=1e-7)
    np.testing.assert_array_equal(at, jax.lax.top_k(x, k)[1])
    assert (np.asarray(at)[:2] == np.asarray(where)[:2]).all()
    for bad in (0, 14):
        with pytest.raises(ValueError, match=f"take a k from 1 to 13, not {bad}"):
            softmax.top_k(x, bad)


def test_gradients_of_the_k_largest():
    """By hand, float32: those of p_j are p_j (1[i = j] - p_i), of every number of the row and not of the k alone."""
    rng = np.random.default_rng(1)
    x, dy = rng.normal(size=(2, 11)).astype("float32"), rng.normal(size=(2, 3)).astype("float32")
    x[1, :6] = -np.inf
    at = jax.lax.top_k(x, 3)[1]
    got = jax.jit(jax.grad(lambda x: (dy * softmax.top_k(x, 3, 4)[0]).sum()))(x)
    p = np.exp(x.astype(float))
    p /= p.sum(-1, keepdims=True)
    whole = np.zeros(x.shape)
    np.put_along_axis(whole, np.asarray(at), dy, -1)
    np.testing.assert_allclose(got, p * (whole - (p * whole).sum(-1, keepdims=True)), rtol=1e-5, atol=1e-6)


def test_one_pass_reads_each_number_once():
    """The softmax is never made: nothing of n numbers but x itself and its rearrangement for the loop."""
    n, k, chunk = 4096, 8, 64
    count = trace.count(lambda x: softmax.top_k(x, k, chunk), jax.ShapeDtypeStruct((n,), jnp.float32))
    # Each number once, two rescalings a chunk, the k.
    assert count.by_primitive["exp"].flops == n + 2 * (n // chunk - 1) + k
    assert count.io_bytes == 4 * n + 8 * k
