"""Backward passes by hand are those of `jax.grad`; checkpoint policies save and compute again what `costs` says, for every family."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.costs.transformers import training_memory_bytes as costs
from helpers.costs.transformers.config import MoE
from helpers.costs.transformers.parameters_and_flops import flops
from helpers.kernels.transformers import backward_pass as hand, backward_pass as rematerialisation, decoder as kernels
from tests.helpers.kernels.transformers.families import COUNTED, each, random_params, tokens, toy

EACH = each(COUNTED)
POLICY = pytest.mark.parametrize("policy", rematerialisation.POLICIES)
B, T = 2, 7


def abstract(c, dtype=jnp.float32):
    return jax.eval_shape(lambda key: kernels.init(c, key, dtype), jax.random.key(0))


@POLICY
@EACH
@pytest.mark.sample(quick=1, slow=4, kind="policy")
def test_flops_of_a_training_step_are_those_of_the_program(c, policy):
    """Forward, backward, and what is computed again; exact."""
    step = jax.value_and_grad(lambda p, t: rematerialisation.loss(p, t, c, policy))
    counted = trace.count(step, abstract(c), jax.ShapeDtypeStruct((B, T + 1), jnp.int32))
    assert counted.matmul_flops == costs.train_flops(c, B, T, policy) and not counted.doubts
    assert counted.matmul_flops - flops(c, B, T).train == costs.recomputed(c, B, T, policy)


@EACH
@pytest.mark.sample(quick=1, slow=4)
def test_saved_bytes_are_those_of_the_program(c):
    """What JAX hands from the forward to the backward pass, to the last byte."""
    for policy, dtype, size in (("matmuls", "float32", 4), ("block", "bfloat16", 2), ("nothing", "float32", 4)):
        assert saved_bytes(c, policy, dtype) == costs.saved(c, B, T, policy, bytes_each=size), policy


def saved_bytes(c, policy, dtype):
    x = jax.ShapeDtypeStruct((B, T, c.D), dtype)
    return trace.saved(
        lambda stacks, x: rematerialisation.layers(stacks, x, c, policy), abstract(c, dtype)["layers"], x
    ).bytes


@pytest.mark.parametrize(
    "change", [{}, dict(K=1, norms=4, gated=False, moe=MoE(E=3, k=2, F=5))], ids=["dense", "experts"]
)
@pytest.mark.slow("compiles a training step for each policy")
def test_gradients_are_the_same(change):
    """Gradients identical."""
    c = toy(L=1, **change)
    params, x = random_params(c), tokens(c, B, T + 1)
    plain, *others = (
        jax.jit(jax.value_and_grad(lambda p, pol=p: rematerialisation.loss(p, x, c, pol)))(params)
        for p in rematerialisation.POLICIES
    )
    for other in others:
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), plain, other)


def test_saved_lists_arrays_once():
    x = jax.ShapeDtypeStruct((3, 5), jnp.float32)
    kept = trace.saved(lambda x: jnp.sin(jnp.exp(x)) + jnp.exp(x), x)
    assert kept.bytes == 4 * 15 * len(kept) and "f32[3, 5]" in str(kept) and "<table" in kept._repr_html_()
    assert trace.saved(lambda x: 2.0 * x, x) == () and str(trace.saved(lambda x: 2.0 * x, x)) == "saved: 0 B"
    many = trace.saved(lambda x: jax.lax.scan(lambda x, _: (jnp.sin(x), None), x, None, length=4)[0], x)
    assert tuple(many) == (((4, 3, 5), "f32"),)
    ints = jax.ShapeDtypeStruct((3,), jnp.int32)
    assert trace.saved(lambda x, i: jnp.sin(x[i]), x, ints).bytes > 0


def draw(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [jax.device_put(rng.standard_normal(s).astype("float32")) for s in shapes]


def close(a, b, tol=2e-5):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=tol, atol=tol), a, b)


def test_a_product():
    """DA = dC Bᵀ and dB = Aᵀ dC, 2NPM FLOPs each."""
    N, P, M = 3, 5, 4
    A, W, dC = draw((N, P), (P, M), (N, M))
    close(hand.matmul_backward(A, W, dC), jax.vjp(jnp.matmul, A, W)[1](dC))
    assert trace.count(hand.matmul_backward, A, W, dC).matmul_flops == 4 * N * P * M


def test_a_softmax():
    x, dy = draw((2, 7, 12), (2, 7, 12))
    close(hand.softmax_backward(dy, jax.nn.softmax(x)), jax.vjp(jax.nn.softmax, x)[1](dy)[0])
