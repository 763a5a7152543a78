"""An MLP with weights over one or two dimensions: equal to dense; which mesh is best, by counting what is sent (test_sharded_costs)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.kernels import mesh as meshes
from helpers.kernels.inference import sharded_mlp
from tests.helpers.kernels.inference.arrays_and_meshes import normal


@pytest.mark.parametrize("make, grid", [
    (sharded_mlp.two_dimensions, (2, 2, 2)),
    (sharded_mlp.one_dimension, (2, 2, 2)),
    *[
        pytest.param(sharded_mlp.two_dimensions, g, marks=pytest.mark.slow)
        for g in ((8, 1, 1), (1, 4, 2), (4, 2, 1))
    ],
])  # fmt: skip
def test_weights_cut_both_ways_equal_dense(make, grid):
    """The five steps, with a gelu between the products."""
    In, W_in, W_out = normal(4, 16), normal(16, 32), normal(32, 16)
    got = make(meshes.mesh(grid, ("X", "Y", "Z")))(In, W_in, W_out)
    np.testing.assert_allclose(got, jax.nn.gelu(In @ W_in) @ W_out, rtol=1e-4, atol=1e-4)
    assert got.sharding.shard_shape(got.shape) == (4, 2)


def test_two_dimensions_refuse_what_does_not_lie_over_the_mesh():
    run = sharded_mlp.two_dimensions(meshes.mesh((2, 2, 2), ("X", "Y", "Z")))
    with pytest.raises(ValueError, match=r"In\[B, D_XYZ\]: XYZ is 8 and does not divide D = 20; .* are 16 and 24"):
        run(jnp.zeros((4, 20)), jnp.zeros((20, 32)), jnp.zeros((32, 20)))
