"""Pipelines on simulated devices: the gradients of one device under every order; bubbles and memory of what was carried out."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training import training_step
from helpers.costs.training.layout import Layout
from helpers.costs.training.pipeline_schedules import pipeline as order, simulate
from helpers.kernels import mesh as meshes
from helpers.kernels.training import mlp_training_step, pipeline_parallel
from tests.helpers.kernels.abstract_arrays import bf16
from tests.helpers.kernels.transformers.families import toy

L, D, F, MICRO = 8, 4, 6, 3  # MICRO tokens in a microbatch


def given(m):
    draw = np.random.default_rng(m)
    normal = lambda *shape: jax.device_put(draw.standard_normal(shape).astype("float32"))  # noqa: E731
    w = mlp_training_step.Weights(normal(L, D, F) * D**-0.5, normal(L, F, D) * F**-0.5)
    return w, normal(m, MICRO, D), normal(m, MICRO, D)


@cache
def by_grad(m):
    """jax.grad of the whole net on the whole batch."""

    def loss(w, xs, targets):
        for W_in, W_out in zip(*w):
            xs = xs @ W_in @ W_out
        return jnp.mean((xs - targets) ** 2) / 2

    w, xs, targets = given(m)
    return jax.jit(jax.value_and_grad(loss, (0, 1)))(w, xs, targets)


CASES = {
    "1F1B on two devices": ("1F1B", 2, 2, 1),
    "naive": ("naive", 4, 4, 1),
    "GPipe": ("GPipe", 4, 8, 1),
    "1F1B": ("1F1B", 4, 8, 1),
    "interleaved": ("interleaved", 4, 8, 2),
    "ZB-H1": ("ZB-H1", 4, 8, 1),
    "ZB-H2": ("ZB-H2", 4, 8, 1),
    "1F1B on eight devices": ("1F1B", 8, 8, 1),
    "GPipe, one microbatch": ("GPipe", 2, 1, 1),
}


@pytest.mark.parametrize("name, p, m, v", CASES.values(), ids=CASES)
@pytest.mark.sample(quick=1)
def test_gradients_equal_those_of_the_whole_net(name, p, m, v):
    """Every order, with its microbatches; and the devices did what the order says, when it says."""
    orders, mesh = order(name, p, m, v), meshes.mesh((p,), ("Z",))
    w, xs, targets = given(m)
    got = pipeline_parallel.gradients(pipeline_parallel.two_matmul(xs.size), orders, mesh)(
        w, jnp.zeros(()), xs, targets
    )
    loss, (dw, dxs) = by_grad(m)
    np.testing.assert_allclose(got.loss, loss, rtol=1e-5)
    for a, b in zip((*got.dw, got.dxs), (*dw, dxs)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    timeline = simulate(orders)
    assert got.done.shape == (timeline.span, p)
    assert np.mean(np.asarray(got.done) == 0) == pytest.approx(timeline.bubble)
    for d in range(p):
        tasks = [pipeline_parallel.TASKS[k] for k in np.asarray(got.done)[:, d] if k]
        assert "".join(tasks) == "".join(t.kind for t in orders[d])


@pytest.mark.parametrize("name, p, m, v", CASES.values(), ids=CASES)
def test_buffers_are_no_larger_than_the_schedule_needs(name, p, m, v):
    """M microbatches kept by GPipe, p by 1F1B."""
    orders = order(name, p, m, v)
    t = pipeline_parallel.ticks(orders)
    if v == 1:
        assert t.places["kept"] == max(simulate(orders).peak)
    assert t.places["kept"] == {"naive": 1, "GPipe": m, "1F1B": min(p, m)}.get(name, t.places["kept"])


def test_messages_are_those_of_the_predicted_step():
    """`training_step.step` prices m activations and m gradients of a device between two others; the program hops each tick."""
    p, m, T, c = 4, 4, 6, toy(D=8, L=4, N=2, K=2, H=4, F=12, V=13)
    w, x = mlp_training_step.Weights(bf16(4, 8, 12), bf16(4, 12, 8)), bf16(m, 2 * T, 8)
    run = pipeline_parallel.gradients(pipeline_parallel.two_matmul(1), order("1F1B", p, m), meshes.mesh((p,), ("Z",)))
    hops = [x for x in trace.sent(run, w, bf16(), x, x) if x.kind == "Permute"]
    layout, s = Layout(pp=p, microbatches=m, policy="matmuls"), Slice(chip("v5p"), (p, 1, 1))
    said = [x for x in training_step.step(c, layout, m * 2 * T, T, s).sent if x.kind == "Permute"]
    assert [x.bytes for x in hops] == [x.bytes for x in said] and {x.dtype for x in hops} == {"bf16"}
    t = pipeline_parallel.ticks(order("1F1B", p, m))
    assert 2 * len(t.task) == sum(x.times for x in hops)
    # The last sends no activations on, the first no gradients.
    assert 2 * m * (t.stages - 1) == p * sum(x.times for x in said) - 2 * m


@pytest.mark.parametrize("p, m, layers, said", [
    (4, 4, 6, "4 stages do not share 6 layers evenly: make L a multiple of 4"),
    (2, 4, 8, "for 2 devices, and axis Z of the mesh has 4: make them equal"),
    (8, 4, 8, "for 8 devices, and axis Z of the mesh has 4: make them equal"),
    (4, 3, 8, "for 3 microbatches, not 4"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(p, m, layers, said):
    w, xs, targets = given(4)
    w = jax.tree.map(lambda a: a[:layers], w)
    make = partial(
        pipeline_parallel.gradients, pipeline_parallel.two_matmul(1), order("GPipe", p, m), meshes.mesh((4,), ("Z",))
    )
    with pytest.raises(ValueError, match=said):
        make()(w, jnp.zeros(()), xs, targets)


def test_stages_lie_along_an_axis_in_their_order():
    with pytest.raises(ValueError, match="the mesh has no axis 'Z': it has X"):
        pipeline_parallel.gradients(pipeline_parallel.two_matmul(1), order("GPipe", 4, 4), meshes.mesh((4,), ("X",)))
    with pytest.raises(ValueError, match="stage s lies on device s mod 2"):
        pipeline_parallel.ticks(order("GPipe", 2, 2)[::-1])


# Without microbatches.


def chain(n, width=16):
    draw = np.random.default_rng(5)
    weights = [jax.device_put((draw.standard_normal((width, width)) * width**-0.5).astype("float32")) for _ in range(n)]
    return weights, jax.device_put(draw.standard_normal((4, width)).astype("float32"))


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
    devices = meshes.devices(8)[:3]  # on each its operations are compiled anew
    weights, x = chain(n=3)
    value, gradients = pipeline_parallel.one_after_the_other(layer, mean_square, weights, x, devices)
    loss, want = of_the_whole_net(weights, x)
    np.testing.assert_allclose(value, loss, rtol=1e-5)
    for d, device, a in zip(gradients, devices, want):
        assert d.devices() == {device}
        np.testing.assert_allclose(d, a, rtol=1e-4, atol=1e-6)
