"""Prefill over a mesh: equal to the dense layer, and what is sent is predicted."""

import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.kernels import mesh as meshes
from helpers.kernels.inference import (
    sharded_prefill,
)
from tests.helpers.kernels.abstract_arrays import bf16, mesh as mesh_of
from tests.helpers.kernels.inference.arrays_and_meshes import abstract_weights, dense_layer, one
from tests.helpers.kernels.transformers.families import toy

C = toy(D=16, L=1, N=8, K=4, H=4, F=24)


@pytest.mark.parametrize(
    "keys, grid",
    [
        ("ring", (2, 2)),
        ("ring", (4, 2)),
        ("gathered", (2, 4)),
        ("gathered", (4, 2)),
        ("ring", (8, 1)),
        ("ring", (1, 4)),
    ],
)
@pytest.mark.sample(quick=1)
def test_prefill_equals_the_dense_layer(keys, grid):
    """Heads over Y, the sequence over X; and the cache that decoding begins with."""
    p, x, want, held = dense_layer(C, 2, 16)
    got, kept = sharded_prefill.prefill(C, meshes.mesh(grid, ("X", "Y")), keys)(p, x)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=3e-5)
    for name in "kv":
        np.testing.assert_allclose(kept[name], held[name], rtol=1e-5, atol=1e-5)
        assert kept[name].sharding.shard_shape((2, 16, 4, 4)) == (2, 16 // grid[0], 4 // grid[1], 4)


@pytest.mark.parametrize("X, Y", [(4, 2), (2, 4), (16, 8)])
def test_prefill_sends_four_activations_and_each_key_once(X, Y):
    """2 AllGathers and 2 ReduceScatters over Y of B·T·D/|X|; keys and values round X, by a ring or by gathers."""
    c, B, T = toy(D=512, L=1, N=32, K=8, H=64, F=2048), 1, 4096
    part, whole = (B, T // X, c.D // Y), (B, T // X, c.D)
    gather, scatter = one("AllGather", "Y", part, whole), one("ReduceScatter", "Y", whole, part)
    kv = (B, T // X, c.K // Y, c.H)
    hops = one("Permute", "X", (2, B, c.K // Y, 1, T // X, c.H), (2, B, c.K // Y, 1, T // X, c.H), X - 1)
    whole_kv = one("AllGather", "X", kv, (B, T, c.K // Y, c.H))
    mesh, wires = mesh_of(X=X, Y=Y), {}
    for keys, middle in (("ring", [hops]), ("gathered", [whole_kv] * 2)):
        got = trace.sent(sharded_prefill.prefill(c, mesh, keys), abstract_weights(c), bf16(B, T, c.D))
        assert list(got) == [gather, *middle, scatter, gather, scatter] and not got.doubts
        wires[keys] = got.by_axis
    assert wires["ring"] == wires["gathered"]
    assert sum(x.V(meshes.costs_mesh(mesh)) for x in got if x.axes == ("Y",)) == 4 * 2 * B * T * c.D / X


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
