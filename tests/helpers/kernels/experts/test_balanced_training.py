"""A tiny run: experts are evened out by a bias and by a loss, more than by chance; over devices a step is that of one."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.kernels import mesh as meshes
from helpers.kernels.experts import balanced_training as tiny
from helpers.kernels.transformers.adam import Adam

run = cache(tiny.trained)


def late(**how) -> float:
    return run(**how).fullest()[-50:].mean()


@pytest.mark.slow("it trains for seconds")
def test_a_bias_and_a_loss_even_experts_out_and_all_runs_learn():
    alone, bias, loss = ({}, dict(nudge=0.01), dict(weight=1.0))
    assert late(**alone) > 2 and late(**bias) < 1.5 and late(**loss) < 1.5
    for how in (alone, bias, loss):
        assert run(**how).loss[-50:].mean() < run(**how).loss[0] / 5
        assert (run(**how).load.sum(1) == 2 * 512).all()
    assert run(**bias).fullest()[0] == run(**alone).fullest()[0]  # it is moved after the step
    assert not run(**alone).bias.any() and run(**bias).bias.any()


def test_a_step_over_devices_is_that_of_one():
    x, target = (a[0] for a in tiny.tokens(1, 64))
    params = tiny.start()
    state = params, Adam.start(params), jnp.zeros(tiny.E)

    def on_device(state, x, target):
        return tiny.step(state, x, target, 0.01, 0.5, "X")

    mesh = meshes.mesh((8,), ("X",))
    over = jax.shard_map(
        on_device, mesh=mesh, in_specs=(jax.P(), jax.P("X"), jax.P("X")), out_specs=jax.P(), check_vma=False
    )
    (got, _, bias), (loss, load) = jax.jit(over)(state, x, target)
    (right, _, one_bias), (one_loss, one_load) = jax.jit(tiny.step)(state, x, target, 0.01, 0.5)
    assert (load == one_load).all() and (bias == one_bias).all() and loss == pytest.approx(float(one_loss), rel=1e-5)
    assert all(np.allclose(got[name], right[name], atol=2e-3) for name in right)
    counted = [c for c in trace.sent(over, state, x, target) if c.shape == (tiny.E,)]
    assert counted and {c.kind for c in counted} == {"AllReduce"}


def test_tokens_are_the_same_every_time_and_kinds_are_uneven():
    x, target = tiny.tokens(3, 400)
    assert (x == tiny.tokens(3, 400)[0]).all() and np.abs(target).max() <= 1
    with pytest.raises(ValueError, match="steps is a whole number"):
        tiny.trained(steps=0)
