"""A batch in microbatches: equal to one large batch, and what is sent is what the cost formula says."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.costs.training.closed_forms import WAYS, accumulation_bytes
from helpers.kernels import mesh as meshes
from helpers.kernels.training import (
    data_parallel_and_fsdp,
    data_parallel_and_fsdp as data,
    mlp_training_step,
)
from helpers.trace.jaxpr.walk import scan_counts, walk
from tests.helpers.kernels.training.mlp import ADAM, X2Y4, X4, Y4, absent, given, two_steps, volume

STRATEGIES = {
    s.name: (s, X4) for s in (data.DATA, data.DATA_ONCE, data.ZERO1, data.ZERO2, data.FSDP, data.FSDP_ONCE)
} | {"TP": (data_parallel_and_fsdp.TENSOR, Y4), "FSDP+TP": (data_parallel_and_fsdp.MIXED, X2Y4)}


@pytest.fixture(scope="module")
def one_batch():
    return two_steps(mlp_training_step.ONE, ((1,), ("X",)))


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.sample(quick=2)
def test_microbatches_with_equal_weights_to_one_large_batch(name, one_batch):
    got = two_steps(*STRATEGIES[name], micro=4 if name in WAYS else 2)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-4), got, one_batch)


@pytest.mark.parametrize("name", WAYS)
def test_a_step_sends_what_the_formula_says(name):
    s, grid = STRATEGIES[name]
    for micro in (1, 4, 16):
        B, D, F, L = 256, 64, 128, 3
        sent = trace.sent(mlp_training_step.step(s, meshes.mesh(*grid), ADAM, micro), *absent(B, D, F, L))
        assert volume(sent) == L * accumulation_bytes(name, micro, D, F)
        assert {c.dtype for c in sent} == {"bf16"} and not sent.doubts


def test_gradients_that_a_device_adds_up():
    """What the loop over microbatches carries: whole gradients or 1/X of them, in float32."""
    D, F, L = 64, 128, 3
    for name, way in WAYS.items():
        s, grid = STRATEGIES[name]
        jaxpr = jax.make_jaxpr(mlp_training_step.step(s, meshes.mesh(*grid), ADAM, 4))(*absent(256, D, F, L))
        carried = max(carry(v.eqn) for v in walk(jaxpr) if v.name == "scan")
        assert carried == 4 * L * 2 * D * F / (4 if way.cut else 1) + 4, (name, way)  # and the loss


def carry(e):
    """Bytes of float32 that a loop hands on."""
    n, m = scan_counts(e)
    return sum(v.aval.size * 4 for v in e.invars[n : n + m] if v.aval.dtype == jnp.float32)


def test_sums_of_bf16_gradients_lose_nothing_for_their_number():
    """1 + 1/256 + 1/256 … in bf16 stays 1; in float32 it is the sum."""
    x = jnp.concatenate([jnp.ones(1), jnp.full(255, 1 / 256)]).astype(jnp.bfloat16)
    assert mlp_training_step.accumulated(jnp.sum, 256, x) == 1 + 255 / 256
    assert jax.lax.scan(lambda total, one: (total + one, None), jnp.zeros((), x.dtype), x)[0] == 1


def test_tokens_that_do_not_divide_are_refused():
    w, In, Target = given(B=12)
    mesh = meshes.mesh(*X4)
    step = mlp_training_step.step(data.FSDP, mesh, ADAM, micro=2)
    with pytest.raises(ValueError, match="2 microbatches do not share 3 tokens of a device evenly"):
        step(w, ADAM.start(w), In, Target)
