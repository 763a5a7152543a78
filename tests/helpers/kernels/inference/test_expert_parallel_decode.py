"""Experts on different devices: equal to dense, and what is sent is predicted."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.costs.transformers.config import MoE
from helpers.kernels import mesh as meshes
from helpers.kernels.inference import sharded_mlp
from helpers.kernels.transformers import mixture_of_experts
from tests.helpers.kernels.inference.arrays_and_meshes import normal
from tests.helpers.kernels.transformers.families import random_params, toy

EXPERTS = toy(D=16, L=1, moe=MoE(E=8, k=2, F=6))
TOKENS = 16


def weights():
    return jax.tree.map(lambda a: a[0], random_params(EXPERTS)["layers"][0])


@cache
def layer_of_experts():
    """(its arrays, tokens, result without a capacity, result with 4 places for each expert, with 1 for each of 4 parts)."""
    p, x = weights(), normal(TOKENS, EXPERTS.D)

    @jax.jit
    def dense(p, x):
        parts = [mixture_of_experts.with_capacity(p, part, EXPERTS, 1)[0] for part in jnp.split(x, 4)]
        return (
            mixture_of_experts.dropless(p, x, EXPERTS),
            mixture_of_experts.with_capacity(p, x, EXPERTS, 4)[0],
            jnp.concatenate(parts),
        )

    return p, x, *dense(p, x)


@pytest.mark.slow
@pytest.mark.parametrize(
    "cut, factor, want",
    [("whole", None, 2), ("whole", 1.0, 3), ("batch", None, 2), ("batch", 1.0, 4)],
)
def test_spread_experts_equal_dense(cut, factor, want):
    """Room for all, or a capacity: of the whole batch, or of each device's part."""
    given = layer_of_experts()
    assert not np.allclose(given[2], given[want]) or want == 2  # the capacities do drop something
    mesh = meshes.mesh((2, 4), ("Y", "Z"))
    got = sharded_mlp.program(EXPERTS, mesh, cut, factor)(given[1], *sharded_mlp.arrays(given[0]))
    np.testing.assert_allclose(got, given[want], rtol=1e-4, atol=1e-5)


def test_spread_experts_refuse_what_does_not_fit():
    mesh, arrays = meshes.mesh((2, 4), ("Y", "Z")), sharded_mlp.arrays(weights())
    make = sharded_mlp.program
    for said, call in (
        (r"W_in\[E_Z, D, F_Y\] names axis Y", lambda: make(EXPERTS, meshes.mesh((8,), ("Z",)))),
        (
            r"x\[B_Z, D\]: Z is 4 and does not divide B = 6",
            lambda: make(EXPERTS, mesh, "batch")(normal(6, 16), *arrays),
        ),
        ("tokens are cut 'whole' or 'batch', not 'B'", lambda: make(EXPERTS, mesh, "B")),
        ("give it a Config with such a moe", lambda: make(toy(D=16, L=1), mesh)),
    ):
        with pytest.raises(ValueError, match=said):
            call()
