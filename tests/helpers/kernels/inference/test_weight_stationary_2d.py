"""An MLP with weights over one or two dimensions: equal to dense; which mesh is best, by counting what is sent (test_sharded_costs)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.kernels import mesh as meshes
from helpers.kernels.inference import sharded_mlp
from tests.helpers.kernels.abstract_arrays import bf16, mesh as mesh_of
from tests.helpers.kernels.inference.arrays_and_meshes import normal


def grids_of(n):
    """Every (|X|, |Y|, |Z|) of n devices."""
    return [(x, y, n // (x * y)) for x in range(1, n + 1) for y in range(1, n + 1) if n % (x * y) == 0]


@pytest.mark.parametrize(
    "make, grid",
    [
        (sharded_mlp.two_dimensions, (2, 2, 2)),
        (sharded_mlp.one_dimension, (2, 2, 2)),
        *[
            pytest.param(sharded_mlp.two_dimensions, g, marks=pytest.mark.slow)
            for g in ((8, 1, 1), (1, 4, 2), (4, 2, 1))
        ],
    ],
)
def test_weights_cut_both_ways_equal_dense(make, grid):
    """The five steps, with a gelu between the products."""
    In, W_in, W_out = normal(4, 16), normal(16, 32), normal(32, 16)
    got = make(meshes.mesh(grid, ("X", "Y", "Z")))(In, W_in, W_out)
    np.testing.assert_allclose(got, jax.nn.gelu(In @ W_in) @ W_out, rtol=1e-4, atol=1e-4)
    assert got.sharding.shard_shape(got.shape) == (4, 2)


def mlp_sends(make, grid, B, D, F):
    return trace.sent(make(mesh_of(**dict(zip("XYZ", grid)))), bf16(B, D), bf16(D, F), bf16(F, D))


def volume(sent, weight=lambda c: 1):
    """V of all collectives, an AllReduce twice, each by a weight of its own."""
    return sum((2 if c.kind == "AllReduce" else 1) * c.bytes * weight(c) for c in sent)


@pytest.mark.parametrize("F, best", [(1024, {2, 4}), (512, {4}), (2048, {2}), (8192, {1})])
@pytest.mark.sample(quick=2)
def test_the_best_mesh_of_eight_devices_by_counting_all(F, best):
    """Fewest bytes at X = sqrt(8·D/F) if the mesh has it, else at a neighbour: 4, 2.83, 2, 1."""
    D = 1024
    counted = {}
    for grid in grids_of(8):
        counted.setdefault(grid[0], set()).add(volume(mlp_sends(sharded_mlp.two_dimensions, grid, 16, D, F)))
    assert all(len(same) == 1 for same in counted.values())  # only |X| matters
    least = min(map(min, counted.values()))
    assert {X for X, (v,) in counted.items() if v == least} == best
    assert min(best) <= (8 * D / F) ** 0.5 <= max(best)


def test_two_dimensions_refuse_what_does_not_lie_over_the_mesh():
    run = sharded_mlp.two_dimensions(meshes.mesh((2, 2, 2), ("X", "Y", "Z")))
    with pytest.raises(ValueError, match=r"In\[B, D_XYZ\]: XYZ is 8 and does not divide D = 20; .* are 16 and 24"):
        run(jnp.zeros((4, 20)), jnp.zeros((20, 32)), jnp.zeros((32, 20)))
