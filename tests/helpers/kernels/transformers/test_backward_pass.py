"""Backward passes by hand, checkpoint policies for every family, and Adam with a master copy of bf16 weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.costs.transformers import training_memory_bytes as costs
from helpers.costs.transformers.config import MoE
from helpers.costs.transformers.parameters_and_flops import flops
from helpers.kernels import mesh as meshes
from helpers.kernels.training import data_parallel_and_fsdp as data, mlp_training_step
from helpers.kernels.transformers import backward_pass as hand, backward_pass as rematerialisation, decoder as kernels
from helpers.kernels.transformers.adam import Adam
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


def after(w, master, steps=300, rate=1e-4):
    """Weights after steps with gradient 1, and the state."""
    adam = Adam(rate)
    return jax.lax.fori_loop(
        0, steps, lambda _, now: adam.update(now[0], jnp.ones_like(w), now[1]), (w, Adam.start(w, master))
    )


def test_bf16_weights_stand_still_without_a_master_copy():
    """Each of 300 steps is the rate, 1e-4, which next to 1 is less than half of bf16's spacing, 2^-8 below 1."""
    alone, _ = after(jnp.ones(3, jnp.bfloat16), False)
    exact, _ = after(jnp.ones(3, jnp.float32), False)
    held, moments = after(jnp.ones(3, jnp.bfloat16), True)
    assert (alone == 1).all() and alone.dtype == held.dtype == jnp.bfloat16
    np.testing.assert_allclose(exact, 1 - 300e-4, rtol=1e-4)
    np.testing.assert_array_equal(moments.master, exact)
    np.testing.assert_array_equal(held, exact.astype(jnp.bfloat16))


@pytest.mark.parametrize("s", [data.ZERO2, data.DATA, data.ZERO1, data.FSDP], ids=lambda s: s.name)
@pytest.mark.sample(quick=1)
def test_every_strategy_trains_the_master_copy(s):
    """bf16 weights are those of the master copy, rounded; the copy is cut like the moments and moves where bf16 would not."""
    mesh, draw = meshes.mesh((4,), ("X",)), np.random.default_rng(0)
    normal = lambda *shape: jax.device_put(draw.standard_normal(shape).astype(jnp.bfloat16))  # noqa: E731
    w, In, Target = mlp_training_step.Weights(normal(2, 8, 24), normal(2, 24, 8)), normal(16, 8), normal(16, 8)
    held, moments = mlp_training_step.start(s, mesh, w, master=True)
    step = mlp_training_step.step(s, mesh, Adam(rate=1e-5))
    for _ in range(3):
        held, moments, _ = step(held, moments, In, Target)
    for now, master, before in zip(held, moments.master, w):
        np.testing.assert_array_equal(np.asarray(now), np.asarray(master).astype(jnp.bfloat16))
        moved = np.abs(np.asarray(master) - np.asarray(before, np.float32))
        np.testing.assert_allclose(np.median(moved), 3e-5, rtol=0.2)
    here = lambda tree: sum(a.addressable_shards[0].data.nbytes for a in jax.tree.leaves(tree))  # noqa: E731
    numbers = 2 * 2 * 8 * 24
    assert here(moments.master) * (1 if s is data.DATA else 4) == 4 * numbers
