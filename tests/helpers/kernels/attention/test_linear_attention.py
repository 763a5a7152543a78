"""Linear attention: every form equals the masked weights, in result and gradients; the state does not grow."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.kernels.attention import linear_attention
from tests.helpers.kernels.attention.reference import pulled

B, T, N, K, H = 2, 7, 4, 2, 3
MAPS = dict(
    elu=linear_attention.elu,
    relu=linear_attention.relu,
    taylor=lambda x: linear_attention.taylor(x * H**-0.25),
    hedgehog=partial(
        linear_attention.hedgehog, jax.device_put(np.random.default_rng(1).standard_normal((H, 4)).astype("float32"))
    ),
)


@cache
def given(dtype="float32"):
    draw = np.random.default_rng(0)
    q, *rest = [draw.standard_normal((B, T, n, H)) for n in (N, K, K, N)]
    q[0, 3] = -abs(q[0, 3])  # ReLU gives these queries no weights at all
    return [jnp.asarray(x, dtype) for x in (q, *rest)]


def dense(q, k, v, phi):
    """From the formula, one weight after the other, in NumPy's float64."""
    f, g = (np.asarray(phi(x.astype(jnp.float32)), float) for x in (q, k))
    v, out = np.asarray(v, float), np.zeros((B, T, N, H))
    for b, i, n in np.ndindex(B, T, N):
        weigh = np.array([f[b, i, n] @ g[b, j, n * K // N] for j in range(i + 1)])
        if weigh.sum():
            out[b, i, n] = weigh @ v[b, : i + 1, n * K // N] / weigh.sum()
    return out


@cache
def by_weights(name):
    return jax.jit(pulled(lambda *x: linear_attention.parallel(*x, MAPS[name])))(*given())


FORMS = {
    "chunks of 3": lambda *x: linear_attention.chunked(*x, chunk=3)[0],
    "one chunk": lambda *x: linear_attention.chunked(*x)[0],
    "token by token": lambda *x: linear_attention.recurrent(*x)[0],
}
CASES = sorted(((form, name) for form in FORMS for name in MAPS), key=lambda case: case != ("chunks of 3", "relu"))


@pytest.mark.parametrize("form, name", CASES)
@pytest.mark.sample(quick=1, slow=6)
def test_every_form_equals_the_masked_weights(form, name):
    """Results, and the gradients that `jax.vjp` finds through the T x T matrix; GQA, T that no chunk divides.

    Queries without any weight get 0.
    """
    got = jax.jit(pulled(lambda *x: FORMS[form](*x, MAPS[name])))(*given())
    assert all(np.isfinite(x).all() for x in got) and np.any(got[0][0, 3]) == (name != "relu")
    for a, b in zip(got, by_weights(name)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[0], dense(*given()[:3], MAPS[name]), rtol=1e-4, atol=1e-5)


WAYS = {
    "chunks": lambda *x: linear_attention.chunked(*x, linear_attention.elu, chunk=3)[0],
    "no mask": lambda *x: linear_attention.unmasked(*x, linear_attention.elu),
    "from a state": lambda q, k, v: linear_attention.chunked(
        q[:, 3:],
        k[:, 3:],
        v[:, 3:],
        linear_attention.elu,
        2,
        linear_attention.chunked(q[:, :3], k[:, :3], v[:, :3], linear_attention.elu)[1],
    )[0],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.sample(quick=1)
def test_gradients_in_bfloat16(way):
    """Within one rounding of those of the weights at the same numbers in float32, through a state too."""
    first = 3 if way == "from a state" else 0
    weights = lambda *x: linear_attention.parallel(*x, linear_attention.elu, way != "no mask")[:, first:]  # noqa: E731
    *args, dout = given("bfloat16")
    args.append(dout[:, first:])
    exact = [x.astype(jnp.float32) for x in args]
    for got, want in zip(jax.jit(pulled(WAYS[way]))(*args), jax.jit(pulled(weights))(*exact)):
        assert got.dtype == jnp.bfloat16
        np.testing.assert_allclose(got.astype(np.float32), want, rtol=2**-8, atol=2e-5)


@pytest.mark.slow
def test_a_prompt_is_handed_to_the_steps_that_follow():
    """The state after a prompt, made in chunks or by steps, and decoding from it."""
    q, k, v, _ = given()
    cut = 4

    @jax.jit
    def go(q, k, v):
        front, back = [x[:, :cut] for x in (q, k, v)], [x[:, cut:] for x in (q, k, v)]
        a, state = linear_attention.chunked(*front, linear_attention.elu, chunk=3)
        b, end = linear_attention.recurrent(*back, linear_attention.elu, state)
        c, same = linear_attention.chunked(*back, linear_attention.elu, chunk=2, state=state)
        d, one = linear_attention.step(*(x[:, 0] for x in back), linear_attention.elu, state)
        return jnp.concatenate([a, b], 1), jnp.concatenate([a, c], 1), d, state, one, end, same

    first, second, d, state, one, end, same = go(q, k, v)
    want = dense(q, k, v, linear_attention.elu)
    for got in (first, second):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(d, want[:, cut], rtol=1e-4, atol=1e-5)
    f, x = (np.asarray(a, float) for a in (linear_attention.elu(k), v))
    U = lambda n: (np.einsum("bskf,bskh->bkfh", f[:, :n], x[:, :n]), f[:, :n].sum(1))  # noqa: E731
    for got, exact in ((state, U(cut)), (one, U(cut + 1)), (end, U(T)), (same, U(T))):
        for a, b in zip((got[..., :-1], got[..., -1]), exact):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_the_state_does_not_grow_and_neither_does_a_step():
    """F(H + 1) numbers a KV head whatever T is; in chunks no T x T array and no state of every token is made."""
    C, big = 8, 256
    go = lambda q, k, v: linear_attention.chunked(q, k, v, linear_attention.elu, C)  # noqa: E731
    for T in (big, 4 * big):
        q, k = (jax.ShapeDtypeStruct((1, T, n, H), jnp.float32) for n in (N, K))
        _, state = jax.eval_shape(go, q, k, k)
        assert state.size == linear_attention.empty(1, K, H, H).size == K * H * (H + 1)
        gradient = jax.grad(lambda *x: go(*x)[0].sum(), (0, 1, 2))
        made = [
            x.aval.size for v in trace.walk(jax.make_jaxpr(gradient)(q, k, k)) if not v.opens for x in v.eqn.outvars
        ]
        assert max(made) == N * T * (H + 1)  # the numerators and denominators
        assert trace.saved(lambda *x: go(*x)[0].sum(), q, k, k).bytes < 4 * T * 10 * N * (H + 1)


def test_what_does_not_fit_is_refused():
    q, k, v = (np.zeros((B, T, n, H), np.float32) for n in (N, K, K))
    with pytest.raises(ValueError, match="an empty sequence"):
        linear_attention.recurrent(q[:, :0], k[:, :0], v[:, :0], linear_attention.elu)
    with pytest.raises(ValueError, match=r"k\[B, T, K, H\] has the shape \[2, 6, 2, 3\], and T is 7"):
        linear_attention.chunked(q, k[:, 1:], v[:, 1:], linear_attention.elu)
    with pytest.raises(ValueError, match="chunk is a whole number, 1 or more, not 0"):
        linear_attention.chunked(q, k, v, linear_attention.elu, 0)
    with pytest.raises(ValueError, match=r"v\[B, S, K, V\] has the shape \[2, 6, 2, 3\], and S is 7"):
        linear_attention.parallel(q, k, v[:, 1:], linear_attention.elu)
