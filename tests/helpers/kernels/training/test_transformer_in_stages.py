"""Whole models as pipelines: the chain of devices, the loop that the sources print, the small Transformer step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training import training_step
from helpers.costs.training.layout import Layout
from helpers.costs.training.pipeline_schedules import pipeline as order
from helpers.costs.transformers.config import MoE
from helpers.kernels import mesh as meshes
from helpers.kernels.training import pipeline_parallel, transformer_in_stages
from helpers.kernels.transformers import decoder
from helpers.kernels.transformers.adam import Adam
from tests.helpers.kernels.transformers.families import random_params, tokens, toy

ADAM = Adam(rate=0.01)


def chain(n=8, width=16):
    draw = np.random.default_rng(5)
    weights = [jnp.asarray(draw.standard_normal((width, width)) * width**-0.5, jnp.float32) for _ in range(n)]
    return weights, jnp.asarray(draw.standard_normal((4, width)), jnp.float32)


def layer(x, w):
    return jnp.tanh(x @ w)


def mean_square(y):
    return jnp.mean(y**2)


def of_the_whole_net(weights, x):
    def loss(weights):
        y = x
        for w in weights:
            y = layer(y, w)
        return mean_square(y)

    return jax.jit(jax.value_and_grad(loss))(weights)


def test_a_chain_of_devices():
    """Each gradient, on the device of its stage, is `jax.grad`'s of the whole net."""
    devices = meshes.devices(8)
    weights, x = chain()
    value, gradients = transformer_in_stages.one_after_the_other(layer, mean_square, weights, x, devices)
    loss, want = of_the_whole_net(weights, x)
    np.testing.assert_allclose(value, loss, rtol=1e-5)
    for d, device, a in zip(gradients, devices, want):
        assert d.devices() == {device}
        np.testing.assert_allclose(d, a, rtol=1e-4, atol=1e-6)


C = toy(D=8, L=4, N=2, K=2, H=4, F=12, V=13)


@jax.jit
def one_device_step(params, moments, rows):
    loss, gradients = jax.value_and_grad(decoder.loss)(params, rows, C)
    return *ADAM.update(params, gradients, moments), loss


@pytest.mark.parametrize(
    "name, grid, m, v",
    [
        ("1F1B", ((2, 4), ("X", "Z")), 4, 1),
        ("ZB-H1", ((4,), ("Z",)), 8, 1),
        ("interleaved", ((2,), ("Z",)), 4, 2),
    ],
)
@pytest.mark.slow("compiles a pipeline of Transformers")
def test_the_small_transformer_as_a_pipeline(name, grid, m, v):
    """Two steps of Adam equal those of one device; each holds its stages' layers and moments only."""
    mesh, rows = meshes.mesh(*grid), tokens(C, 8, 7)
    p = mesh.shape["Z"]
    step = transformer_in_stages.step(C, order(name, p, m, v), mesh, ADAM)
    plain = want = random_params(C)
    params, moments = transformer_in_stages.start(C, mesh, plain)
    still = ADAM.start(want)
    for _ in range(2):
        want, still, loss = one_device_step(want, still, rows)
        params, moments, said = step(params, moments, rows)
        np.testing.assert_allclose(said, loss, rtol=1e-5)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=3e-4), params, want)
    for a in jax.tree.leaves((params["layers"], moments.mean["layers"], moments.square["layers"])):
        assert a.addressable_shards[0].data.size * p == a.size


def test_messages_are_those_of_the_predicted_step():
    """`training.step` prices m activations and m gradients of a device between two others; the program hops each tick."""
    p, m, B, T = 4, 4, 8, 6
    bf16 = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, jnp.bfloat16), random_params(C))
    run = transformer_in_stages.step(C, order("1F1B", p, m), meshes.mesh((p,), ("Z",)), ADAM)
    sent = trace.sent(run, bf16, jax.eval_shape(ADAM.start, bf16), jax.ShapeDtypeStruct((B, T + 1), jnp.int32))
    hops = [c for c in sent if c.kind == "Permute"]
    layout, s = Layout(pp=p, microbatches=m, policy="matmuls"), Slice(chip("v5p"), (p, 1, 1))
    said = [x for x in training_step.step(C, layout, B * T, T, s).sent if x.kind == "Permute"]
    assert [c.bytes for c in hops] == [x.bytes for x in said] and {c.dtype for c in hops} == {"bf16"}
    t = pipeline_parallel.ticks(order("1F1B", p, m))
    assert t.permutes == sum(c.times for c in hops)
    assert (
        t.messages == p * sum(x.times for x in said) - 2 * m
    )  # the last sends no activations on, the first no gradients


def test_what_does_not_fit_is_refused():
    mesh = meshes.mesh((2,), ("Z",))
    with pytest.raises(ValueError, match="layers of one kind"):
        transformer_in_stages.step(toy(L=4, window=3, full_every=2), order("GPipe", 2, 2), mesh, ADAM)
    with pytest.raises(ValueError, match="layers of one kind"):
        transformer_in_stages.step(toy(L=4, moe=MoE(E=4, k=2, F=9, first_dense=1)), order("GPipe", 2, 2), mesh, ADAM)
    with pytest.raises(ValueError, match="8 devices do not share 4 layers evenly: make L a multiple of 8"):
        transformer_in_stages.start(C, meshes.mesh((8,), ("Z",)), random_params(C))
    for make in (
        lambda X: transformer_in_stages.step(C, order("GPipe", 2, 2), X, ADAM),
        lambda X: transformer_in_stages.start(C, X, {}),
    ):
        with pytest.raises(ValueError, match="no axis Z for the stages, only X: name one of them Z"):
            make(meshes.mesh((2,), ("X",)))
    with pytest.raises(ValueError, match="4 stages lie on as many devices, not on 3: give each stage its own"):
        weights, x = chain(n=4)
        transformer_in_stages.one_after_the_other(layer, mean_square, weights, x, meshes.devices(3))
    params = random_params(C)
    with pytest.raises(ValueError, match="3 microbatches do not share 4 sequences"):
        transformer_in_stages.step(C, order("GPipe", 2, 3), mesh, ADAM)(params, ADAM.start(params), tokens(C, 4, 7))
