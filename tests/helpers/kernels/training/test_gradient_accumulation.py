"""A batch in microbatches: equal to one large batch, and what is sent is what the cost formula says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.costs.training.dp_fsdp_tp import cost
from helpers.costs.training.gradient_accumulation import WAYS, accumulated_gradients, accumulation_bytes
from helpers.kernels import mesh as meshes
from helpers.kernels.training import (
    data_parallel_and_fsdp as data,
    fsdp_and_tensor_parallel,
    mlp_layer,
    tensor_parallel,
)
from helpers.kernels.transformers.adam import Adam
from helpers.trace.jaxpr.walk import walk

ADAM = Adam(rate=0.02)
X4, Y4, X2Y4 = ((4,), ("X",)), ((4,), ("Y",)), ((2, 4), ("X", "Y"))
STRATEGIES = {
    s.name: (s, X4) for s in (data.DATA, data.DATA_ONCE, data.ZERO1, data.ZERO2, data.FSDP, data.FSDP_ONCE)
} | {"TP": (tensor_parallel.TENSOR, Y4), "FSDP+TP": (fsdp_and_tensor_parallel.MIXED, X2Y4)}


def given(B=16, D=8, F=24, L=2, dtype="float32"):
    draw = np.random.default_rng(0)
    normal = lambda *shape: jnp.asarray(draw.standard_normal(shape), dtype)  # noqa: E731
    return mlp_layer.Weights(normal(L, D, F) * D**-0.5, normal(L, F, D) * F**-0.5), normal(B, D), normal(B, D)


def two_steps(s, grid, micro):
    mesh, (w, In, Target) = meshes.mesh(*grid), given()
    held, moments = mlp_layer.start(s, mesh, w)
    step = mlp_layer.step(s, mesh, ADAM, micro)
    for _ in range(2):
        held, moments, loss = step(held, moments, In, Target)
    return [*map(np.asarray, held), np.asarray(loss)]


@pytest.fixture(scope="module")
def one_batch():
    return two_steps(mlp_layer.ONE, ((1,), ("X",)), 1)


@pytest.mark.parametrize("name", STRATEGIES)
def test_microbatches_with_equal_weights_to_one_large_batch(name, one_batch):
    s, grid = STRATEGIES[name]
    micro = 4 if name in WAYS else 2
    for a, b in zip(two_steps(s, grid, micro), one_batch):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def absent(B, D, F, L, dtype="bfloat16"):
    like = lambda *shape: jax.ShapeDtypeStruct(shape, dtype)  # noqa: E731
    w = mlp_layer.Weights(like(L, D, F), like(L, F, D))
    return w, jax.eval_shape(ADAM.start, w), like(B, D), like(B, D)


def volume(sent):
    """Bytes as the strategy table counts them."""
    return sum((2 if c.kind == "AllReduce" else 1) * c.times * c.bytes for c in sent)


@pytest.mark.parametrize("name", WAYS)
def test_a_step_sends_what_the_formula_says(name):
    s, grid = STRATEGIES[name]
    for micro in (1, 4, 16):
        B, D, F, L = 256, 64, 128, 3
        sent = trace.sent(mlp_layer.step(s, meshes.mesh(*grid), ADAM, micro), *absent(B, D, F, L))
        assert volume(sent) == L * accumulation_bytes(name, micro, D, F)
        assert {c.dtype for c in sent} == {"bf16"} and not sent.doubts


def test_tensor_parallelism_sends_as_much_in_microbatches():
    """Its activations are shared out among them, so they send less each."""
    sizes = dict(B=256, D=64, F=128)
    (there, back), mesh = cost("TP", **sizes, Y=4), meshes.mesh(*Y4)
    for micro in (1, 2, 8):
        sent = trace.sent(mlp_layer.step(tensor_parallel.TENSOR, mesh, ADAM, micro), *absent(**sizes, L=3))
        assert volume(sent) == 3 * (there.total + back.total)


def test_slopes_that_a_device_adds_up():
    """What the loop over microbatches carries: whole slopes or 1/X of them, in float32."""
    D, F, L = 64, 128, 3
    for name, way in WAYS.items():
        s, grid = STRATEGIES[name]
        jaxpr = jax.make_jaxpr(mlp_layer.step(s, meshes.mesh(*grid), ADAM, 4))(*absent(256, D, F, L))
        carried = max(carry(v.eqn) for v in walk(jaxpr) if v.name == "scan")
        assert carried == accumulated_gradients(name, L * 2 * D * F, 4) + 4, (name, way)  # and the loss


def carry(e):
    """Bytes of float32 that a loop hands on."""
    n, m = e.params["num_consts"], e.params["num_carry"]
    return sum(v.aval.size * 4 for v in e.invars[n : n + m] if v.aval.dtype == jnp.float32)


def test_sums_of_bf16_slopes_lose_nothing_for_their_number():
    """1 + 1/256 + 1/256 … in bf16 stays 1; in float32 it is the sum."""
    x = jnp.concatenate([jnp.ones(1), jnp.full(255, 1 / 256)]).astype(jnp.bfloat16)
    assert mlp_layer.accumulated(jnp.sum, 256, x) == 1 + 255 / 256
    assert jax.lax.scan(lambda total, one: (total + one, None), jnp.zeros((), x.dtype), x)[0] == 1


def test_tokens_that_do_not_divide_are_refused():
    w, In, Target = given(B=12)
    mesh = meshes.mesh(*X4)
    step = mlp_layer.step(data.FSDP, mesh, ADAM, micro=2)
    with pytest.raises(ValueError, match="2 microbatches do not share 3 tokens of a device evenly"):
        step(w, ADAM.start(w), In, Target)
