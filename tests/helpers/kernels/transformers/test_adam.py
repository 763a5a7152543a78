"""Adam with a master copy of bf16 weights, against Adam in float32; what the copy takes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.kernels import mesh as meshes
from helpers.kernels.training import data_parallel_and_fsdp as data, mlp_training_step
from helpers.kernels.transformers.adam import Adam


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
