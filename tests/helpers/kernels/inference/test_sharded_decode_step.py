"""A layer that decodes over a mesh: equal to the dense layer, what is sent is predicted line by line, nobody holds a copy of the cache."""

from dataclasses import replace
from functools import cache
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.costs.sharding.collectives import Collective
from helpers.costs.transformers.config import LayerKind
from helpers.kernels import mesh as meshes
from helpers.kernels.inference import (
    decode_tp_fsdp_dp,
    kv_cache_by_heads,
    kv_cache_by_sequence,
    sharded_decode_step,
)
from helpers.kernels.transformers import decoder
from tests.helpers.kernels.transformers.families import random_params, toy

B, S = 8, 16
C = toy(D=16, L=1, N=8, K=4, H=4, F=24)
AT = np.array([0, 15, 7, 8, 3, 4, 11, 12])  # an empty cache, a full one, and both sides of every cut of S
X8, Y4, Y2Z4, Y4Z2 = ((8,), ("X",)), ((4,), ("Y",)), ((2, 4), ("Y", "Z")), ((4, 2), ("Y", "Z"))

WAYS = {
    "TP": (decode_tp_fsdp_dp.TENSOR, Y4),
    "FSDP": (decode_tp_fsdp_dp.FSDP, X8),
    "DP": (decode_tp_fsdp_dp.DATA, X8),
    "heads": (kv_cache_by_heads.HEADS, Y2Z4),
    "heads, |Y| = K": (kv_cache_by_heads.HEADS, Y4Z2),
    "groups": (kv_cache_by_heads.GROUPS, Y4Z2),
    "sequence": (kv_cache_by_sequence.SEQUENCE, Y2Z4),
    "sequence, reduced": (kv_cache_by_sequence.REDUCED, Y2Z4),
}
LATER = ("DP", "heads, |Y| = K")
every_way = pytest.mark.parametrize(
    "way, grid", [pytest.param(*w, id=n, marks=[pytest.mark.slow] * (n in LATER)) for n, w in WAYS.items()]
)


@cache
def dense(c=C):
    """(the layer's arrays, its input at all places, its output and keys and values there) by chapter 3's layer, all at once."""
    p = jax.tree.map(lambda a: a[0], random_params(c)["layers"][0])
    x = jnp.asarray(np.random.default_rng(1).standard_normal((B, S, c.D)), jnp.float32)
    out, held = jax.jit(lambda p, x: decoder.block(p, x, jnp.arange(S), c, LayerKind()))(p, x)
    return p, np.asarray(x), np.asarray(out), {n: np.asarray(a) for n, a in held.items()}


def upto(held, at):
    """The cache of sequences with at[B] tokens; what stands behind them must not matter."""
    free = (np.arange(S) >= at[:, None])[:, :, None, None]
    return {n: np.where(free, np.float32(99), a) for n, a in held.items()}


def is_dense(way, grid, c=C):
    p, x, out, held = dense(c)
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
@pytest.mark.sample(quick=3)
def test_a_step_equals_the_dense_layer(way, grid):
    """Sequences at eight different places; the new keys and values stand in theirs, all others stay."""
    is_dense(way, grid)


@pytest.mark.slow
@pytest.mark.parametrize("way", [kv_cache_by_heads.HEADS, kv_cache_by_sequence.SEQUENCE], ids=["heads", "sequence"])
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


def test_the_reshape_alone_mixes_up_heads_where_a_device_has_two():
    """With |Y| < K the heads of M_Z are not those of the device's rows of W_O, so that way is refused there."""
    grid = ((2, 2), ("Y", "Z"))
    with pytest.raises(
        ValueError, match=r"\|Y\| = K and \|Z\| dividing M, and here Y = 2, K = 4, Z = 2, M = 2: use HEADS"
    ):
        sharded_decode_step.decode(kv_cache_by_heads.GROUPS, C, meshes.mesh(*grid))
    with pytest.raises(AssertionError):
        is_dense(replace(kv_cache_by_heads.GROUPS, rule=lambda c, n: ""), grid)


# What is sent.

BIG = toy(D=512, L=1, N=32, K=8, H=64, F=2048)
ROWS, PLACES = 16, 1024


def bf16(*shape):
    return jax.ShapeDtypeStruct(shape, "bfloat16")


def arguments(c, S=PLACES):
    p = {n: bf16(*a[1:]) for n, a in decoder.shapes(c)["layers"][0].items()}
    kept = bf16(ROWS, S, c.K, c.H)
    return p, dict(k=kept, v=kept), bf16(ROWS, c.D), jax.ShapeDtypeStruct((ROWS,), "int32")


def sent(way, grid, S=PLACES, whole=sharded_decode_step.decode):
    return trace.sent(whole(way, BIG, meshes.mesh(*grid)), *arguments(BIG, S))


def predicted(name, X=1, Y=1, Z=1):
    """Every collective of a step, in its order, from the algorithm's own shardings."""
    D, N, K, H, F, b = BIG.D, BIG.N, BIG.K, BIG.H, BIG.F, ROWS
    one = lambda kind, axes, shape, out, dtype="bf16": Collective(kind, tuple(axes), shape, out, dtype)  # noqa: E731
    total = lambda axes: one("AllReduce", axes, (b, D), (b, D))  # noqa: E731
    there = one("AllToAll", "Z", (b, N // (Y * Z), H), (b // Z, N // Y, H))
    queries = one("AllGather", "Z", (b, N // (Y * Z), H), (b, N // Y, H))
    M, n = N // K, N // Y
    weights = [((D, N, H), 0), ((D, K, H), 0), ((D, K, H), 0), ((N, H, D), 2), ((D, F), 0), ((D, F), 0), ((F, D), 1)]
    shard = lambda s, i: (*s[:i], s[i] // X, *s[i + 1 :])  # noqa: E731
    return {
        "TP": [total("Y")] * 2,
        "FSDP": [one("AllGather", "X", shard(s, i), s) for s, i in weights],
        "DP": [],
        "heads": [there, one("AllToAll", "Z", (b // Z, n, H), (b, n // Z, H)), *[total("YZ")] * 2],
        "groups": [there, one("AllToAll", "Z", (b // Z, 1, M, H), (b, 1, M // Z, H)), *[total("YZ")] * 2],
        "sequence": [
            queries,
            one("AllToAll", "Z", (1, b, n, H + 2), (Z, b, n // Z, H + 2), "f32"),
            *[total("YZ")] * 2,
        ],
        "sequence, reduced": [
            queries,
            one("AllReduce", "Z", (b, n), (b, n), "f32"),
            one("ReduceScatter", "Z", (b, n, H + 1), (b, n // Z, H + 1), "f32"),
            *[total("YZ")] * 2,
        ],
    }[name]


@pytest.mark.parametrize("name", [n for n in WAYS if n != "heads, |Y| = K"])
def test_a_step_sends_what_its_algorithm_says_in_its_order(name):
    """Kind, axes, shapes and type of every collective, on eight devices."""
    way, _ = WAYS[name]
    grid = {"TP": ((8,), ("Y",)), "groups": ((8, 1), ("Y", "Z"))}.get(name, WAYS[name][1])
    mesh = meshes.mesh(*grid)
    got = sent(way, grid)
    assert list(got) == predicted(name, **mesh.shape) and not got.doubts


@pytest.mark.parametrize("way", [kv_cache_by_heads.HEADS, kv_cache_by_heads.GROUPS], ids=["over heads", "over groups"])
def test_attention_with_a_cut_cache_sends_two_exchanges_and_a_sum(way):
    """Exactly 2 AllToAlls + 1 AllReduce, also on 32 devices of which none is there."""
    for grid in (((8, 1), ("Y", "Z")), ((8, 4), ("Y", "Z"))):
        mesh = jax.sharding.AbstractMesh(*grid, axis_types=(jax.sharding.AxisType.Auto,) * 2)
        got = trace.sent(sharded_decode_step.attention(way, BIG, mesh), *arguments(BIG))
        assert [(c.kind, c.axes, c.times) for c in got] == [
            ("AllToAll", ("Z",), 1),
            ("AllToAll", ("Z",), 1),
            ("AllReduce", ("Y", "Z"), 1),
        ]
        Y, Z = grid[0]
        assert [c.V(meshes.costs_mesh(mesh)) for c in got[:2]] == [2 * ROWS * BIG.N * BIG.H / Y] * 2


def test_both_ways_back_send_the_same_bytes():
    """With |Y| = K and |Z| dividing M they are one exchange, read as M_Z or as N_YZ."""
    grid = ((8, 4), ("Y", "Z"))
    mesh = jax.sharding.AbstractMesh(*grid, axis_types=(jax.sharding.AxisType.Auto,) * 2)
    a, b = (
        trace.sent(sharded_decode_step.attention(w, BIG, mesh), *arguments(BIG)).wire
        for w in (kv_cache_by_heads.HEADS, kv_cache_by_heads.GROUPS)
    )
    assert a == b > 0


@pytest.mark.parametrize("name", ["sequence", "sequence, reduced"])
def test_what_a_cut_sequence_sends_does_not_grow_with_it(name):
    """1,024 places or 16,384; the exchanged (m, l, o) are H + 2 float32 for each of B·N/|Y| heads."""
    way, grid = WAYS[name]
    short, long = sent(way, grid), sent(way, grid, 16 * PLACES)
    assert tuple(short) == tuple(long)
    if name == "sequence":
        assert short[1].bytes == 4 * ROWS * BIG.N / 2 * (BIG.H + 2)


def test_fsdp_sends_the_weights_and_tensor_parallelism_the_activations():
    """Bytes V of a step, an AllReduce twice: the layer's weights against 8·B·D; the ratio is that of one to other."""
    volume = lambda s: sum((2 if c.kind == "AllReduce" else 1) * c.bytes for c in s)  # noqa: E731
    D, N, K, H, F = BIG.D, BIG.N, BIG.K, BIG.H, BIG.F
    weights = 2 * (2 * D * N * H + 2 * D * K * H + 3 * D * F)
    right, wrong = (
        volume(sent(w, g)) for w, g in ((decode_tp_fsdp_dp.TENSOR, ((8,), ("Y",))), (decode_tp_fsdp_dp.FSDP, X8))
    )
    assert (right, wrong) == (8 * ROWS * D, weights)
    assert wrong / right == (2 * N * H + 2 * K * H + 3 * F) / (4 * ROWS)  # 180 at B = 16


def test_what_each_device_reads_of_the_weights():
    """A step reads all that a device holds of a layer; data parallelism reads all of it on each device."""
    p, _, _, held = dense()
    held = upto(held, AT)
    total = sum(a.nbytes for n, a in p.items() if n != "norms")
    reads = {}
    for name, (way, grid) in WAYS.items():
        laid, _ = sharded_decode_step.lay(way, C, meshes.mesh(*grid), p, held)
        reads[name] = sum(a.addressable_shards[0].data.nbytes for n, a in laid.items() if n != "norms")
    few = 4 * 2 * C.D * C.K * C.H  # W_K and W_V, which are copied along Z
    assert reads["DP"] == total and reads["FSDP"] == total / 8 and reads["TP"] == total / 4
    assert reads["heads"] == reads["sequence"] == (total - few) / 8 + few / 2


@every_way
def test_cache_bytes_of_a_device(way, grid):
    """2·B·S·K·H numbers, over the devices that the notation names; counted from the arrays."""
    mesh, c = meshes.mesh(*grid), replace(C, L=3)
    laid = sharded_decode_step.lay(way, C, mesh, *(dense()[i] for i in (0, 3)))[1]
    for shards in zip(*(a.addressable_shards for a in laid.values())):
        assert 3 * sum(s.data.nbytes for s in shards) == way.cache_bytes(c, mesh, B, S, "f32")
    whole = 2 * 4 * B * S * C.K * C.H
    assert way.cache_bytes(C, mesh, B, S, "f32") == whole / mesh.size  # no place is held twice


# Bad input.


@pytest.mark.parametrize(
    "way, grid, changes, rows, places, said",
    [
        (kv_cache_by_heads.HEADS, Y4, {}, B, S, r"W_Q\[D, N_YZ, H\] names axis Z: use one that the mesh has, Y"),
        (decode_tp_fsdp_dp.TENSOR, ((8,), ("Y",)), {}, B, S, r"W_K\[D, K_Y, H\]: Y is 8 and does not divide K = 4"),
        (
            kv_cache_by_heads.HEADS,
            ((2, 4), ("Y", "Z")),
            dict(N=4, K=2),
            B,
            S,
            r"W_Q\[D, N_YZ, H\]: YZ is 8 and does not divide N = 4",
        ),
        (
            kv_cache_by_heads.HEADS,
            Y2Z4,
            {},
            6,
            S,
            r"K\[B_Z, S, K_Y, H\]: Z is 4 and does not divide B = 6; .* are 4 and 8",
        ),
        (
            kv_cache_by_sequence.SEQUENCE,
            Y2Z4,
            {},
            B,
            18,
            r"K\[B, S_Z, K_Y, H\]: Z is 4 and does not divide S = 18; .* are 16 and 20",
        ),
        (decode_tp_fsdp_dp.FSDP, X8, {}, 12, S, r"x\[B_X, D\]: X is 8 and does not divide B = 12"),
        (decode_tp_fsdp_dp.TENSOR, Y4, dict(F=26), B, S, r"W_in\[D, F_Y\]: Y is 4 and does not divide F = 26"),
        (
            decode_tp_fsdp_dp.TENSOR,
            Y4,
            dict(window=4),
            B,
            S,
            "full layers with two norms and rotations.* leave those out",
        ),
    ],
    ids=["no axis", "too few KV heads", "heads", "batch", "places", "batch of FSDP", "hidden", "window"],
)
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
    p, x, _, held = dense()
    with pytest.raises(ValueError, match=rf"B = 8 sequences .* \[8, 16\] and \[8\], not \[8, 16\] and \[{rows}\]"):
        sharded_decode_step.decode(kv_cache_by_heads.HEADS, C, meshes.mesh(*Y2Z4))(
            p, held, x[:, 0], np.zeros(rows, int)
        )
