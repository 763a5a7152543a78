"""Far into a long text: rotations are as good at position 100,000 as at 0, in bfloat16 too, in every decoder, cache and ring."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.kernels.inference import kv_cache, paged_kv_cache, sharded_decode_step
from helpers.kernels.transformers import decoder, decoder_layers
from helpers.kernels.transformers.decoder_layers import rotate
from tests.helpers.kernels.transformers.families import FAMILIES, random_params, tokens

FAR = 100_000
ONE = 2**-8  # one rounding of bfloat16
B, T = 2, 6


def by_hand(x, at, base=10_000.0):
    """Pairs as complex numbers times e^(i · angle), NumPy in float64: x[T, H] at positions at[T]."""
    half = x.shape[-1] // 2
    turn = np.exp(1j * at[:, None] * base ** (-np.arange(half) / half))
    z = (x[:, :half] + 1j * x[:, half : 2 * half]) * turn
    return np.concatenate([z.real, z.imag, x[:, 2 * half :]], -1)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_rotations_against_complex_numbers(dtype):
    """A float32 angle near 100,000 is 1/256 off at most, its frequency as much again; the result is rounded once."""
    x = jax.device_put(np.random.default_rng(0).standard_normal((40, 17)).astype(dtype))
    at = np.concatenate([np.arange(10), 1000 + np.arange(20), FAR + np.arange(10)])
    got = jax.jit(rotate)(x[None], jnp.asarray(at))[0]
    assert got.dtype == dtype
    off = np.abs(np.asarray(got, float) - by_hand(np.asarray(x, float), at)).max(1)
    largest = np.abs(np.asarray(x, float)).max()
    assert off[:10].max() < (jnp.finfo(dtype).eps + 1e-5) * largest
    assert off.max() < (jnp.finfo(dtype).eps + 0.012) * largest


def off(got, want):
    """Root mean square of the difference, relative to that of `want`."""
    got, want = (np.asarray(x, float) for x in (got, want))
    return np.sqrt(np.mean((got - want) ** 2) / np.mean(want**2))


def lowered(tree, dtype=jnp.bfloat16):
    return jax.tree.map(lambda a: jax.device_put(np.asarray(a).astype(dtype)), tree)


def raised(tree):
    return lowered(tree, np.float32)


def one_layer(c):
    """The first layer of each kind, in bfloat16, with its window."""
    return [
        (jax.tree.map(lambda a: np.asarray(a)[0], s), kind.window)
        for (kind, _), s in zip(decoder.runs(c), lowered(random_params(c))["layers"])
    ]


@pytest.mark.parametrize("c", FAMILIES.values(), ids=FAMILIES)
@pytest.mark.sample(quick=1, slow=5, kind=lambda params: params["c"].mla is not None)
def test_attention_of_every_family(c):
    """At 100,000 in bfloat16 it is as close to float32 near 0 as bfloat16 near 0 is."""
    attend = decoder_layers.latent_attention if c.mla else decoder_layers.attention
    x = jax.device_put(np.random.default_rng(1).standard_normal((B, T, c.D)).astype(jnp.bfloat16))
    for p, window in one_layer(c):
        run = jax.jit(lambda p, x, first, window=window: attend(p, x, first + jnp.arange(T), c, window)[0])
        exact, far = run(raised(p), raised(x), 0), run(raised(p), raised(x), FAR)
        assert off(far, exact) < 0.01
        assert off(run(p, x, FAR), exact) < 1.5 * off(run(p, x, 0), exact) + 0.01


@pytest.mark.slow("compiles caches of 100,000 places in two types, rows and pages")
@pytest.mark.parametrize("name", ["llama", "deepseek-v3", "mistral"])
def test_what_a_cache_holds(name):
    """Rows at 5 and at 100,000, in places of their own, in pages, and in a ring: keys are within two roundings of float32's."""
    c = FAMILIES[name]
    low = lowered(random_params(c))
    text, at, size = tokens(c, B, T), jnp.array([5, FAR]), 4096
    pages = -(-(FAR + T) // size)
    tables = jnp.stack([jnp.arange(pages), pages + jnp.arange(pages)])
    keep = lambda params, dtype: (  # noqa: E731
        kv_cache.extend(params, kv_cache.empty(c, B, FAR + T, dtype), text, at, c)[1],
        paged_kv_cache.extend(params, paged_kv_cache.empty(c, 2 * pages, size, dtype), tables, text, at, c)[1],
    )
    got, want = keep(low, jnp.bfloat16), keep(raised(low), jnp.float32)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want)):
        a, b = (np.asarray(x[0].astype(jnp.float32)) for x in (a, b))  # of the first layer, before anything adds up
        there = np.abs(b).max(tuple(range(2, b.ndim))) > 0
        assert there.sum() == (B * T if a.shape[1] > T else B * a.shape[1])
        assert off(a[there], b[there]) < 2 * ONE


def test_a_step_over_devices():
    """The queries and keys that every way to decode over a mesh turns."""
    c = FAMILIES["llama"]
    ((p, _),) = one_layer(c)
    y, at = jax.device_put(np.random.default_rng(2).standard_normal((2, c.D)).astype(jnp.bfloat16)), jnp.array([5, FAR])
    for name in ("W_Q", "W_K"):
        turned = jax.jit(lambda p, y, name=name: sharded_decode_step.turned(p, name, y, at))
        got, want = turned(p, y), turned(raised(p), raised(y))
        assert all(off(a, b) < 2 * ONE for a, b in zip(got.astype(jnp.float32), want))


def test_the_loss_of_many_tokens_counts_them_all():
    """Numbers of tokens are no bfloat16: a mean of 4,097 of them is taken in float32."""
    c = FAMILIES["llama"]
    params, text = lowered(random_params(c)), tokens(c, 1, 18)
    got, logits = jax.jit(lambda text: (decoder.loss(params, text, c), decoder.forward(params, text[:, :-1], c)))(text)
    logits = np.asarray(logits.astype(jnp.float32), float)
    surprise = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, np.asarray(text)[:, 1:, None], -1)[..., 0]
    assert got.dtype == jnp.float32
    np.testing.assert_allclose(got, surprise.mean(), rtol=1e-5)
