"""A layer that decodes over a mesh: equal to the dense layer, nobody holds a copy of the cache.

What is sent is listed in sends.txt, and predicted in test_sharded_costs.
"""

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from helpers.kernels import mesh as meshes
from helpers.kernels.inference import (
    decode_layouts,
    sharded_decode_step,
)
from tests.helpers.kernels.inference.arrays_and_meshes import dense_layer, upto
from tests.helpers.kernels.transformers.families import toy

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
    (TENSOR, Y4, dict(window=4), B, S, "full layers with two norms and rotations.* leave those out"),
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
    with pytest.raises(ValueError, match=rf"B = 8 sequences .* \[8, 16\] and \[8\], not \[8, 16\] and \[{rows}\]"):
        sharded_decode_step.decode(decode_layouts.HEADS, C, meshes.mesh(*Y2Z4))(p, held, x[:, 0], np.zeros(rows, int))
