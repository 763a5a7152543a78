"""The decoder that runs is the one that is counted: parameters, FLOPs, causality, and a cache that changes nothing."""

from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.costs.transformers.config import UNUSUAL as UNUSUAL_PARTS, Config
from helpers.costs.transformers.parameters_and_flops import flops, kv_cache, parameters
from helpers.kernels.inference.decode_layouts import TENSOR
from helpers.kernels.training import transformer_over_mesh
from helpers.kernels.transformers import decoder as kernels
from tests.helpers.costs.transformers.decoders import UNUSUAL
from tests.helpers.kernels.transformers.families import COUNTED, DISTINCT, FAMILIES, each, random_params, tokens, toy

EACH = each(FAMILIES)
ALL = pytest.mark.parametrize("c", COUNTED.values(), ids=COUNTED)
B, T = 2, 8


def abstract(c, dtype=jnp.float32):
    return jax.eval_shape(lambda key: kernels.init(c, key, dtype), jax.random.key(0))


def ids(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.int32)


# ---- predicted against counted


@ALL
@pytest.mark.sample(quick=8, slow=8)
def test_parameters_are_those_that_jax_makes(c):
    made = abstract(c)
    assert sum(a.size for a in jax.tree.leaves(made)) == parameters(c).total
    assert kernels.cache_bytes(abstract(c, jnp.bfloat16)) == 2 * parameters(c).total
    p = parameters(c)
    assert prod(made["embedding"].shape) == p.embedding and ("unembedding" in made) == (not c.tied)
    sinks = sum(a.size for stack in made["layers"] for name, a in stack.items() if name == "sinks")
    assert sinks == p.sinks


@ALL
@pytest.mark.sample(quick=6, slow=8)
def test_flops_are_those_of_the_program(c):
    """Forward, a prompt that unembeds its last token only, and a step of generation on a full cache."""
    params, size = abstract(c), 6
    forward = trace.count(lambda p, t: kernels.forward(p, t, c), params, ids(B, T))
    assert forward.matmul_flops == flops(c, B, T).forward and not forward.doubts
    prompt = trace.count(lambda p, t: kernels.prefill(p, t, c, size=T), params, ids(B, T))
    assert prompt.matmul_flops == flops(c, B, T, logits=1).forward
    cache = jax.eval_shape(lambda: kernels.empty_cache(c, B, size))
    step = trace.count(lambda p, k, x, t: kernels.decode(p, k, x, t, c), params, cache, ids(B), ids())
    assert step.matmul_flops == flops(c, B, 1, size, count="causal", absorbed=True).forward


@ALL
@pytest.mark.sample(quick=8, slow=8)
def test_the_cache_is_as_large_as_predicted(c):
    for size in (2, 5, 9):
        cache = jax.eval_shape(lambda size=size: kernels.empty_cache(c, B, size, jnp.bfloat16))
        assert kernels.cache_bytes(cache) == kv_cache(c, size, B)


# ---- what it computes


@pytest.mark.parametrize("name", ["llama", "gpt-2", "mistral", "mixtral", "deepseek-v3"])
@pytest.mark.sample(quick=2)
def test_later_tokens_change_nothing(name):
    """A causal decoder; and earlier ones change something. (For the others the cache's test says so.)"""
    c = FAMILIES[name]
    params, x = random_params(c), tokens(c, B, T)
    forward = jax.jit(lambda t: kernels.forward(params, t, c))
    before, after = forward(x), forward(x.at[:, 5:].set((x[:, 5:] + 1) % c.V))
    np.testing.assert_allclose(before[:, :5], after[:, :5], rtol=1e-4, atol=1e-5)
    assert np.abs(before[:, 5:] - after[:, 5:]).max() > 1e-3
    first = forward(x.at[:, 0].set((x[:, 0] + 1) % c.V))
    assert np.abs(first[:, 1:] - before[:, 1:]).max() > 1e-3


@pytest.mark.slow
@EACH
@pytest.mark.sample(quick=0, slow=3)
def test_a_cache_changes_nothing(c, prompt=5):
    """Token by token with a cache is the whole sequence at once, for windows shorter than the text too."""
    params, x = random_params(c), tokens(c, B, T)
    whole = jax.jit(lambda x: kernels.forward(params, x, c))(x)
    logits, cache = jax.jit(lambda x: kernels.prefill(params, x, c, size=T))(x[:, :prompt])
    step = jax.jit(lambda cache, token, t: kernels.decode(params, cache, token, t, c))
    for t in range(prompt, T):
        np.testing.assert_allclose(logits, whole[:, t - 1], rtol=2e-3, atol=2e-4)
        logits, cache = step(cache, x[:, t], t)
    np.testing.assert_allclose(logits, whole[:, -1], rtol=2e-3, atol=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTINCT)
@pytest.mark.sample(quick=0, slow=2)
def test_every_parameter_has_a_gradient(name):
    """None is counted that the program does not use."""
    c = FAMILIES[name]
    params, x = random_params(c), tokens(c, 4, 13)
    gradients = jax.jit(jax.grad(lambda p: kernels.loss(p, x, c)))(params)
    for path, gradient in jax.tree_util.tree_leaves_with_path(gradients):
        assert np.isfinite(gradient).all() and np.abs(gradient).max() > 0, path


# ---- said in one sentence


def test_bad_input():
    c = toy(positions=4)
    params = random_params(c)
    with pytest.raises(ValueError, match="8 tokens do not fit 4 learned positions: shorten"):
        kernels.forward(params, tokens(c, B, T), c)
    with pytest.raises(ValueError, match="a prompt of 8 tokens does not fit a cache of 3: make it at least 8"):
        kernels.prefill(params, tokens(c, B, T), c, size=3)
    with pytest.raises(ValueError, match="a layer has 2 or 4 norms"):
        kernels.shapes(Config(D=8, L=1, N=2, K=1, H=4, F=8, V=9, norms=3))


@pytest.mark.parametrize("c", UNUSUAL.values(), ids=UNUSUAL)
def test_parts_that_no_program_runs_are_refused(c):
    for refuses in (
        abstract,
        lambda c: transformer_over_mesh.specs(c, transformer_over_mesh.Axes()),
        lambda c: TENSOR.check(c, None),
    ):
        with pytest.raises(ValueError, match=f"does not know {UNUSUAL_PARTS[c.unusual[0]]}, and this model has one"):
            refuses(c)
