"""Small models with experts: a run evens them out by a bias and by a loss; over devices, steps and tokens are those of one."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.costs.transformers.config import MLA, MoE
from helpers.kernels import mesh as meshes
from helpers.kernels.experts import balanced_training as tiny, two_meshes
from helpers.kernels.transformers import decoder
from helpers.kernels.transformers.adam import Adam
from tests.helpers.kernels.transformers.families import random_params, toy

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


V3 = toy(K=4, H=None, mla=MLA(8, kv_rank=10, nope=6, rope=4, v=5), moe=MoE(E=8, k=3, F=7, shared=1, first_dense=1))
MODELS = {"latent, shared and a dense layer": V3, "grouped, a window": toy(L=2, window=3, moe=MoE(E=16, k=2, F=9))}
B, T, NEW = 8, 5, 4


def alone(params, prompt, c):
    logits, cache = decoder.prefill(params, prompt, c, size=T + NEW)
    out = [logits.argmax(-1)]
    for t in range(T, T + NEW - 1):
        logits, cache = decoder.decode(params, cache, out[-1], t, c)
        out.append(logits.argmax(-1))
    return jnp.stack(out, 1)


@pytest.mark.parametrize("c", MODELS.values(), ids=MODELS)
@pytest.mark.slow("it compiles two decoders")
def test_tokens_are_those_of_one_device(c):
    params, mesh = random_params(c), meshes.mesh((8,), ("X",))
    prompt = np.random.default_rng(0).integers(0, c.V, (B, T))
    got = two_meshes.generate(c, mesh, NEW)(params, prompt)
    assert (got == jax.jit(alone, static_argnums=2)(params, prompt, c)).all()
    assert len(np.unique(got)) > 3


def test_what_it_does_not_know_is_refused():
    with pytest.raises(ValueError, match="with experts"):
        two_meshes.generate(toy(), meshes.mesh((8,), ("X",)), 3)
