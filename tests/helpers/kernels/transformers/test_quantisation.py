"""Fewer bits, and fewer caches: errors within their bounds, bytes as stated, logits close; layers that share are what they were."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.costs.transformers.parameters_and_flops import kv_cache
from helpers.kernels.inference import kv_cache as slots
from helpers.kernels.transformers import decoder, quantisation
from tests.helpers.kernels.transformers.families import FAMILIES, random_params, tokens, toy

close = partial(np.testing.assert_allclose, rtol=2e-3, atol=2e-4)
c, B, T = toy(L=2, H=8), 2, 8  # a head of 8 numbers


def matrix(*shape, spread=3.0):
    """Columns of different sizes, so that one scale for all would be seen."""
    draw = np.random.default_rng(0)
    return (draw.standard_normal(shape) * spread ** draw.standard_normal(shape[-1])).astype(np.float32)


# ---- numbers


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_a_number_is_off_by_half_a_step_at_most(kind):
    w = matrix(40, 6)
    w[:, 2] = 0
    made = quantisation.quantise(w, 0, kind)
    assert made.scale.shape == (1, 6) and int(jnp.max(made.q.astype(jnp.int8))) == quantisation.KINDS[kind][1]
    off = np.abs(w - np.asarray(made.plain()))
    assert (off <= np.asarray(made.scale) / 2 * (1 + 1e-5)).all() and (off[:, 2] == 0).all()
    assert (off / np.asarray(made.scale)).max() > 0.45  # the bound is no looser than it has to be


def test_fp8_is_off_by_a_sixteenth_at_most():
    w = matrix(40, 6)
    made = quantisation.quantise(w, 0, "fp8")
    normal = np.abs(w) >= 2**-6 * np.asarray(made.scale)
    off = np.abs(w - np.asarray(made.plain()))
    assert (off <= np.where(normal, np.abs(w) / 16, 2**-10 * np.asarray(made.scale)) * (1 + 1e-5)).all()
    assert (off / np.abs(w))[normal].max() > 1 / 20


@pytest.mark.parametrize("kind", quantisation.KINDS)
def test_scales_may_wait_until_after_the_sum(kind):
    w, x = matrix(40, 6), matrix(5, 40)
    made = quantisation.quantise(w, 0, kind)
    np.testing.assert_allclose(quantisation.matmul(x, made), x @ np.asarray(made.plain()), rtol=1e-4, atol=1e-3)
    assert quantisation.size(made) == w.size * quantisation.KINDS[kind][2] / 8 + 6 * 4


@pytest.mark.parametrize("name", ["llama", "deepseek-v3"])
def test_every_scale_belongs_to_what_a_product_leaves(name):
    """A scale has 1 along the axes that are summed over: einsum of q, then scale, is einsum of the matrix."""
    params = jax.eval_shape(lambda: random_params(FAMILIES[name]))
    made = jax.eval_shape(quantisation.weights, params)
    summed = {"W_O": "nh", "W_UQ": "r", "W_UK": "r", "W_UV": "r", "W_out": "f"}
    letters = {
        "W_Q": "dnh",
        "W_K": "dkh",
        "W_V": "dkh",
        "W_O": "nhd",
        "W_UQ": "rnh",
        "W_UK": "rnh",
        "W_UV": "rnh",
        "W_out": "fd",
    }
    seen = 0
    for path, a in jax.tree_util.tree_leaves_with_path(made, is_leaf=lambda a: isinstance(a, quantisation.Quantised)):
        w = path[-1].key
        if not isinstance(a, quantisation.Quantised):
            assert not w.startswith("W_") or w == "W_R"
            continue
        axes = letters.get(w, "df")  # W_in, W_gate, W_DQ, W_DKV, W_KR, unembedding
        for letter, n, m in zip(reversed(axes), reversed(a.q.shape), reversed(a.scale.shape)):
            assert m == (1 if letter in summed.get(w, "d") else n), (w, letter)
        assert a.q.dtype == jnp.int8
        seen += 1
    assert seen >= 8


# ---- a decoder, and its cache
"""Largest difference of a logit from the exact one, over the largest logit, in this toy: stated, and the test measures it."""


def test_bytes_halve():
    """int8 against bf16: half, and a scale for each head of each token besides; fp8 exactly half. Weights likewise."""
    made = {d: jax.eval_shape(lambda d=d: slots.empty(c, B, T, d)) for d in (jnp.bfloat16, jnp.int8, jnp.float8_e4m3fn)}
    size = [decoder.cache_bytes(a) for a in made.values()]
    assert size[0] == kv_cache(c, T, B) and size[2] == size[0] / 2
    assert size[1] == size[0] / 2 + 4 * 2 * c.L * B * T * c.K  # a scale is 4 bytes, so 4/H of a byte for each number
    params = jax.eval_shape(lambda: decoder.init(c, jax.random.key(0), jnp.bfloat16))
    small = jax.eval_shape(quantisation.weights, params)
    matrices, scales = 0, 0
    for a in jax.tree.leaves(small, is_leaf=lambda a: isinstance(a, quantisation.Quantised)):
        if isinstance(a, quantisation.Quantised):
            matrices, scales = matrices + a.q.size, scales + a.scale.size
    assert quantisation.size(params) - quantisation.size(small) == matrices - 2 * scales

    def step(params, cache, x):
        return slots.extend(params, cache, x, jnp.zeros(B, jnp.int32), c)

    x = jax.ShapeDtypeStruct((B, 1), jnp.int32)
    read = [trace.attended(step, small, a, x).read for a in made.values()]
    assert read == size  # what a step reads is what is held


def test_fp8_has_no_infinity():
    cache = quantisation.scaled(dict(k=jnp.zeros((1, 1, 1, 2))), jnp.float8_e4m3fn)
    new = quantisation.encode(dict(k=jnp.array([[[[1e4, -1e9]]]])), cache)
    assert new["k"].astype(cache["k"].dtype).astype(jnp.float32).tolist() == [[[[448, -448]]]]


# ---- layers that share

SHARED = toy(D=8, N=2, K=1, H=4, F=12, L=4)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.slow("compiles two decoders")
def test_shared_layers_with_a_cache_are_those_without(group):
    params, text = random_params(SHARED), tokens(SHARED, B, T)
    mine = slots.strip(params, SHARED, group)

    def dense(x):
        """Layer by layer without a cache; the first of each group says what the others look at."""
        at, said = jnp.arange(T), None
        x = decoder.embed(params, x, at, SHARED)
        for i in range(SHARED.L):
            p = jax.tree.map(lambda a, i=i: a[i], params["layers"][0])
            recall = None if i % group == 0 else lambda _, said=said: (said, said, jnp.tri(T, dtype=bool))
            x, said = decoder.block(p, x, at, SHARED, SHARED.kind(i), recall)
        return decoder.unembed(params, x, SHARED)

    def pieces(x):
        cache, out = slots.empty_shared(SHARED, B, T, group), []
        for i, j in ((0, 5), (5, 8)):
            said, cache = slots.extend_shared(mine, cache, x[:, i:j], jnp.full(B, i), SHARED, group)
            out.append(said)
        return jnp.concatenate(out, 1)

    both = jax.jit(lambda x: (dense(x), pieces(x)))(text)
    close(*both)
    plain = jax.jit(lambda x: decoder.forward(params, x, SHARED))(text)
    assert (np.abs(plain - both[0]).max() < 1e-3) == (group == 1)


def test_sharing_holds_less_and_reads_as_much():
    full = jax.eval_shape(lambda: random_params(SHARED))
    x, held, read, weights = jax.ShapeDtypeStruct((B, 1), jnp.int32), [], [], []
    for group in (1, 2, 4):
        params = jax.eval_shape(lambda p, g=group: slots.strip(p, SHARED, g), full)
        cache = jax.eval_shape(lambda g=group: slots.empty_shared(SHARED, B, T, g))
        step = lambda p, k, x, g=group: slots.extend_shared(p, k, x, jnp.zeros(B, jnp.int32), SHARED, g)  # noqa: E731
        held.append(decoder.cache_bytes(cache))
        read.append(trace.attended(step, params, cache, x).read)
        weights.append(decoder.cache_bytes(params["layers"][0]["W_K"]))
    assert held == [kv_cache(SHARED, T, B, 4) // g for g in (1, 2, 4)]
    assert read == [held[0]] * 3
    assert weights == [weights[0] // g for g in (1, 2, 4)]


def test_groups_that_do_not_fit():
    with pytest.raises(ValueError, match="groups of 3 do not fill 4 layers: take a divisor of 4"):
        slots.empty_shared(SHARED, 1, 4, 3)
    with pytest.raises(ValueError, match="of one kind, and without latent attention"):
        slots.empty_shared(FAMILIES["gemma-2"], 1, 4, 2)
