"""Layers over a mesh, decoding, at prefill, with spread experts: equal to the dense layer; nobody holds a copy of the cache.

What is sent is listed in sends.txt, and predicted in test_sharded_costs.
"""

from dataclasses import replace
from functools import cache
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.costs.transformers.config import MoE
from helpers.kernels import mesh as meshes
from helpers.kernels.inference import decode_layouts, sharded_decode_step, sharded_mlp, sharded_prefill
from helpers.kernels.transformers import mixture_of_experts
from tests.helpers.kernels.inference.arrays_and_meshes import dense_layer, normal, upto
from tests.helpers.kernels.transformers.families import random_params, toy

B, S = 8, 16
C = toy(D=16, L=1, N=8, K=4, H=4, F=24)
AT = np.array([0, 15, 7, 8, 3, 4, 11, 12])  # an empty cache, a full one, and both sides of every cut of S
X8, Y4, Y2Z4, Y4Z2 = ((8,), ("X",)), ((4,), ("Y",)), ((2, 4), ("Y", "Z")), ((4, 2), ("Y", "Z"))

WAYS = {
    "TP": (decode_layouts.TENSOR, Y4),
    "FSDP": (decode_layouts.FSDP, X8),
    "DP": (decode_layouts.DATA, X8),
    "heads": (decode_layouts.HEADS, Y2Z4),
    "heads, |Y| = K": (decode_layouts.HEADS, Y4Z2),
    "sequence": (decode_layouts.SEQUENCE, Y2Z4),
}
LATER = ("DP", "heads, |Y| = K")
every_way = pytest.mark.parametrize(
    "way, grid", [pytest.param(*w, id=n, marks=[pytest.mark.slow] * (n in LATER)) for n, w in WAYS.items()]
)


def is_dense(way, grid, c=C):
    p, x, out, held = dense_layer(c, B, S)
    mesh, rows = meshes.mesh(*grid), np.arange(B)
    got, new = sharded_decode_step.decode(way, c, mesh)(
        *sharded_decode_step.lay(way, c, mesh, p, upto(held, AT)), x[rows, AT], AT
    )
    np.testing.assert_allclose(got, out[rows, AT], rtol=1e-4, atol=2e-5)
    for name, want in upto(held, AT + 1).items():
        np.testing.assert_allclose(new[name], want, rtol=1e-5, atol=1e-5)
        assert new[name].sharding.shard_shape(want.shape) == cut(way, mesh, want.shape)


def cut(way, mesh, shape):
    """A device's block of the cache, from the mesh axes that its notation names behind each dimension."""
    over = [d.partition("_")[2] for d in way.cache[2:-1].split(", ")]
    return tuple(n // prod(mesh.shape[a] for a in axes) for n, axes in zip(shape, over))


@every_way
@pytest.mark.sample(quick=2)
def test_a_step_equals_the_dense_layer(way, grid):
    """Sequences at eight different places; the new keys and values stand in theirs, all others stay."""
    is_dense(way, grid)


@pytest.mark.slow
@pytest.mark.parametrize("way", [decode_layouts.HEADS, decode_layouts.SEQUENCE], ids=["heads", "sequence"])
@pytest.mark.parametrize(
    "changes, grid",
    [
        (dict(K=1), ((1, 8), ("Y", "Z"))),
        (dict(K=8), ((8, 1), ("Y", "Z"))),
        (dict(K=8), ((2, 2), ("Y", "Z"))),
        (dict(K=2, gated=False, norm="layer"), ((2, 4), ("Y", "Z"))),
    ],
    ids=["MQA", "MHA on one axis", "MHA", "two matrices, LayerNorm"],
)
def test_other_layers_and_meshes(way, changes, grid):
    """K = 1 over sequences or places alone, K = N, K between."""
    is_dense(way, grid, toy(**(dict(D=16, L=1, N=8, H=4, F=24) | changes)))


# What is sent.


@every_way
def test_cache_bytes_of_a_device(way, grid):
    """2·B·S·K·H numbers, over the devices that the notation names; counted from the arrays."""
    mesh, c = meshes.mesh(*grid), replace(C, L=3)
    laid = sharded_decode_step.lay(way, C, mesh, *(dense_layer(C, B, S)[i] for i in (0, 3)))[1]
    for shards in zip(*(a.addressable_shards for a in laid.values())):
        assert 3 * sum(s.data.nbytes for s in shards) == way.cache_bytes(c, mesh, B, S, "f32")
    whole = 2 * 4 * B * S * C.K * C.H
    assert way.cache_bytes(C, mesh, B, S, "f32") == whole / mesh.size  # no place is held twice


# Bad input.


HEADS, SEQUENCE, TENSOR = decode_layouts.HEADS, decode_layouts.SEQUENCE, decode_layouts.TENSOR
REFUSED = [  # way, mesh, changes of the config, rows and places of the cache
    (HEADS, Y4, {}, B, S, r"W_Q\[D, N_YZ, H\] names axis Z: use one that the mesh has, Y"),
    (TENSOR, ((8,), ("Y",)), {}, B, S, r"W_K\[D, K_Y, H\]: Y is 8 and does not divide K = 4"),
    (HEADS, Y2Z4, {}, 6, S, r"K\[B_Z, S, K_Y, H\]: Z is 4 and does not divide B = 6; .* are 4 and 8"),
    (SEQUENCE, Y2Z4, {}, B, 18, r"K\[B, S_Z, K_Y, H\]: Z is 4 and does not divide S = 18; .* are 16 and 20"),
    (TENSOR, Y4, dict(window=4), B, S, "full layers of two norms and rotations"),
]


@pytest.mark.parametrize("way, grid, changes, rows, places, said", REFUSED)
def test_what_does_not_lie_over_the_mesh_is_refused(way, grid, changes, rows, places, said):
    c, mesh = replace(C, **changes), meshes.mesh(*grid)
    kept = np.zeros((rows, places, c.K, c.H), np.float32)
    for run in (
        lambda: sharded_decode_step.decode(way, c, mesh)({}, dict(k=kept, v=kept), None, None),
        lambda: sharded_decode_step.lay(way, c, mesh, {}, dict(k=kept)),
    ):
        with pytest.raises(ValueError, match=said):
            run()


@pytest.mark.parametrize("rows", [6, 16])
def test_every_sequence_has_one_token_and_one_position(rows):
    p, x, _, held = dense_layer(C, B, S)
    with pytest.raises(ValueError, match=rf"positions\[B\] has the shape \[{rows}\], and B is 8"):
        sharded_decode_step.decode(decode_layouts.HEADS, C, meshes.mesh(*Y2Z4))(p, held, x[:, 0], np.zeros(rows, int))


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
    "cut, factor, want", [("whole", None, 2), ("whole", 1.0, 3), ("batch", None, 2), ("batch", 1.0, 4)]
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
