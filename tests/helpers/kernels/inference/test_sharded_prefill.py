"""Prefill over a mesh: equal to the dense layer, and what is sent is predicted."""

import jax.numpy as jnp
import numpy as np
import pytest

from helpers.kernels import mesh as meshes
from helpers.kernels.inference import (
    sharded_prefill,
)
from tests.helpers.kernels.inference.arrays_and_meshes import dense_layer
from tests.helpers.kernels.transformers.families import toy

C = toy(D=16, L=1, N=8, K=4, H=4, F=24)


@pytest.mark.parametrize("keys, grid", [
    ("ring", (2, 2)),
    ("ring", (4, 2)),
    ("gathered", (2, 4)),
    ("gathered", (4, 2)),
    ("ring", (8, 1)),
    ("ring", (1, 4)),
])  # fmt: skip
@pytest.mark.sample(quick=1)
def test_prefill_equals_the_dense_layer(keys, grid):
    """Heads over Y, the sequence over X; and the cache that decoding begins with."""
    p, x, want, held = dense_layer(C, 2, 16)
    got, kept = sharded_prefill.prefill(C, meshes.mesh(grid, ("X", "Y")), keys)(p, x)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=3e-5)
    for name in "kv":
        np.testing.assert_allclose(kept[name], held[name], rtol=1e-5, atol=1e-5)
        assert kept[name].sharding.shard_shape((2, 16, 4, 4)) == (2, 16 // grid[0], 4 // grid[1], 4)


def test_prefill_refuses_what_does_not_lie_over_the_mesh():
    grid = meshes.mesh((4, 2), ("X", "Y"))
    prefill = sharded_prefill.prefill
    for said, call in (
        (r"x\[B, T_X, D_Y\] names axis Y", lambda: prefill(C, meshes.mesh((2,), ("X",)))),
        (r"x\[B, T_X, D_Y\]: X is 4 and does not divide T = 18", lambda: prefill(C, grid)({}, jnp.zeros((1, 18, 16)))),
        (r"W_K\[D, K_Y, H\]: Y is 8 and does not divide K = 4", lambda: prefill(C, meshes.mesh((1, 8), ("X", "Y")))),
        ("come by 'ring' or 'gathered', not by 'sent'", lambda: prefill(C, grid, "sent")),
    ):
        with pytest.raises(ValueError, match=said):
            call()
