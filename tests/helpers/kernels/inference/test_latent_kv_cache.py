"""Latent attention over a mesh, absorbed: equal to the dense layer that makes all keys and values, sent as predicted, counted."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from helpers import trace
from helpers.costs.inference import sharded_decode_step as predicted, sharding_limits
from helpers.costs.inference.prefill_and_decode_step import Replica
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.sharding.sharded_array import Axis, Mesh
from helpers.costs.transformers.config import MLA
from helpers.costs.transformers.parameters_and_flops import kv_cache
from helpers.costs.transformers.public_models import model
from helpers.kernels import mesh as meshes
from helpers.kernels.inference import decode_layouts as latent, sharded_decode_step, sharded_prefill
from tests.helpers.kernels.abstract_arrays import bf16, mesh as mesh_of
from tests.helpers.kernels.inference.arrays_and_meshes import abstract_step, abstract_weights, dense_layer, upto
from tests.helpers.kernels.transformers.families import toy

B, S = 8, 16
C = toy(D=16, L=1, N=8, K=8, H=None, F=24, mla=MLA(24, kv_rank=16, nope=6, rope=8, v=5))
AT = np.array([0, 15, 7, 8, 3, 4, 11, 12])  # an empty cache, a full one, and both sides of every cut of S
Y4, Y1Z8, Y2Z4 = ((4,), ("Y",)), ((1, 8), ("Y", "Z")), ((2, 4), ("Y", "Z"))
WAYS = {
    "whole": (latent.LATENT, Y4),
    "sequences": (latent.LATENT_BATCH, Y2Z4),
    "sequences, Z alone": (latent.LATENT_BATCH, Y1Z8),
    "places": (latent.LATENT_SEQUENCE, Y2Z4),
    "places, Z alone": (latent.LATENT_SEQUENCE, Y1Z8),
}


def is_dense(way, grid, c):
    p, x, out, held = dense_layer(c, B, S)
    mesh, rows = meshes.mesh(*grid), np.arange(B)
    laid = sharded_decode_step.lay(way, c, mesh, p, upto(held, AT))
    got, new = sharded_decode_step.decode(way, c, mesh)(*laid, x[rows, AT], AT)
    np.testing.assert_allclose(got, out[rows, AT], rtol=1e-4, atol=2e-5)
    for name, want in upto(held, AT + 1).items():
        np.testing.assert_allclose(new[name], want, rtol=1e-4, atol=1e-5)
    assert sum(a.addressable_shards[0].data.nbytes for a in new.values()) == way.cache_bytes(c, mesh, B, S, "f32")
    weights = [n for n, a in laid[0].items() if "norm" not in n]
    for n in weights:  # nobody holds a copy of a weight
        assert laid[0][n].addressable_shards[0].data.nbytes * mesh.size == laid[0][n].nbytes


@pytest.mark.parametrize("way, grid", WAYS.values(), ids=WAYS)
@pytest.mark.sample(quick=1, draw=2)
def test_a_step_equals_the_dense_layer(way, grid):
    is_dense(way, grid, C)


@pytest.mark.parametrize("way", [latent.LATENT_SEQUENCE, latent.LATENT_BATCH], ids=["places", "sequences"])
@pytest.mark.sample(quick=1)
def test_queries_without_a_rank_and_no_norms(way):
    is_dense(way, Y2Z4, replace(C, mla=replace(C.mla, q_rank=None), norm="none"))


# What is sent and computed; no device is there.

BIG = toy(D=512, L=3, N=64, K=64, H=None, F=2048, mla=MLA(256, kv_rank=128, nope=32, rope=64, v=32))
ROWS, PLACES = 64, 1024


@pytest.mark.parametrize("Y, Z", [(8, 1), (2, 4), (4, 16)])
@pytest.mark.parametrize("q_rank", [256, None])
@pytest.mark.sample(quick=3)
def test_what_attention_sends(Y, Z, q_rank):
    """Kind, axes, shapes and type of every collective in its order; nothing grows with the places."""
    c = replace(BIG, mla=replace(BIG.mla, q_rank=q_rank))
    given = ROWS, c.N, c.D, c.mla, Y, Z
    if Z == 1:
        ways = {latent.LATENT: sharding_limits.latent_collectives(*given)}
        mesh = mesh_of(Y=Y)
    else:
        ways = {
            latent.LATENT_BATCH: sharding_limits.latent_collectives(*given),
            latent.LATENT_SEQUENCE: sharding_limits.latent_collectives(*given, cache_cut="sequence"),
        }
        mesh = mesh_of(Y=Y, Z=Z)
    for way, want in ways.items():
        program = sharded_decode_step.attention(way, c, mesh)
        assert tuple(trace.sent(program, *abstract_step(c, ROWS, PLACES))) == want
        assert tuple(trace.sent(program, *abstract_step(c, ROWS, 16 * PLACES))) == want


@pytest.mark.parametrize("Y, Z", [(1, 64), (16, 16), (64, 1)])
def test_what_a_step_sends_on_a_slice(Y, Z):
    """Bytes over the busiest link and hops, all layers, of the priced step are those of the traced program."""
    s = Slice(chip("v5e"), (16, 16)) if Y == Z else Slice(chip("v5p"), (4, 4, 4))
    every = tuple(range(len(s.shape)))
    laid = {"Y": (0,), "Z": (1,)} if Y == Z else {"Y": every if Z == 1 else (), "Z": every if Y == 1 else ()}
    ways = [Axis(n, w) for n, w in zip(s.shape, s.wraps)]
    grid = Mesh({a: tuple(ways[i] for i in at) or (Axis(1),) for a, at in laid.items()})
    c = replace(BIG, N=256, K=256, mla=MLA(1024, kv_rank=512, nope=32, rope=256, v=32))
    way, mesh = (latent.LATENT, mesh_of(Y=Y)) if Z == 1 else (latent.LATENT_BATCH, mesh_of(Y=Y, Z=Z))
    sent = trace.sent(sharded_decode_step.decode(way, c, mesh), *abstract_step(c, ROWS, PLACES))
    moves = [x.move(grid) for x in sent]
    said = [
        m
        for work in predicted.mixed_works(Replica(c, s.chip), s, Y, Z, ROWS, PLACES, 0, 0).values()
        for m in work.moves
    ]
    assert sum(m.bytes for m in said) == pytest.approx(c.L * sum(m.bytes for m in moves))
    assert sum(m.hops for m in said) == c.L * sum(m.hops for m in moves)


@pytest.mark.parametrize("Y, Z", [(8, 1), (2, 4), (1, 8)])
def test_flops_and_cache_of_a_device(Y, Z):
    """Of a traced layer: an even share of the absorbed products; of the cache, what its Z leaves, on each of Y."""
    c = replace(BIG, L=1)
    way, mesh = (latent.LATENT, mesh_of(Y=Y)) if Z == 1 else (latent.LATENT_BATCH, mesh_of(Y=Y, Z=Z))
    r, s = Replica(c, chip("v5e"), 8), Slice(chip("v5e"), (2, 4))
    whole = r.works(ROWS, 1, PLACES, absorbed=True)
    counted = trace.count(sharded_decode_step.decode(way, c, mesh), *abstract_step(c, ROWS, PLACES))
    want = sum(w.flops for role, w in whole.items() if role != "unembedding")
    assert counted.matmul_flops == pytest.approx(want)
    held = way.cache_bytes(c, mesh, ROWS, PLACES)
    assert held == kv_cache(c, PLACES, ROWS) / Z == predicted.held(r, s, Y, Z, ROWS, PLACES) - r.weight_bytes / 8


def test_intensity_of_a_cache_with_and_without_heads():
    """FLOPs per byte of attention in a decode step tend to G in bf16, to 2G in int8, and for one latent vector to about 2N."""

    def at(name, kept):
        r = Replica(model(name), chip("H200"), cache=kept)
        return r.works(1, 1, 10**7, absorbed=r.config.mla is not None)["attention"].intensity

    assert [at("llama-3-70b", kept) for kept in ("bf16", "int8")] == pytest.approx([8, 16], rel=1e-3)
    v3 = model("deepseek-v3")
    for kept, x in (("bf16", 2), ("fp8", 1)):
        want = sharding_limits.absorbed_intensity(v3.N, v3.mla, x)
        assert at("deepseek-v3", kept) == pytest.approx(want, rel=1e-3) and want == pytest.approx(484 / x, rel=1e-3)
    assert (
        sharding_limits.pair_flops(v3.N, v3.mla) == 278_528
    )  # published for DeepSeek-V3: 278,528 FLOPs a cached token
    on = Replica(v3, chip("H200"), 16, weights="fp8")
    assert on.decode(64, 8192).roles["attention"].bound == "math"


@pytest.mark.parametrize(
    "way, grid, c, said",
    [
        (latent.LATENT, Y4, toy(D=16, N=8, K=4, F=24), "LATENT and its like are for latent attention"),
        (latent.HEADS, Y2Z4, C, "the others for heads that have keys"),
        (latent.LATENT_BATCH, Y1Z8, replace(C, mla=replace(C.mla, rope=4)), r"W_KR\[D, P_YZ\]: YZ is 8 and does not divide P = 4"),
        (latent.LATENT, Y4, replace(C, N=6, K=6), r"W_UQ\[Q, N_Y, H\]: Y is 4 and does not divide N = 6"),
    ],
    ids=["heads", "latent", "rope", "N"],
)  # fmt: skip
def test_what_does_not_lie_over_the_mesh_is_refused(way, grid, c, said):
    with pytest.raises(ValueError, match=said):
        sharded_decode_step.decode(way, c, meshes.mesh(*grid))


def test_what_is_no_cut():
    m = BIG.mla
    for call, said in (
        (lambda: sharding_limits.latent_collectives(6, 64, 512, m, 1, 4), "Z=4 must divide B=6"),
        (
            lambda: sharding_limits.latent_collectives(8, 64, 512, replace(m, rope=4), 1, 8),
            "do not divide rope=4 columns",
        ),
        (lambda: sharding_limits.latent_collectives(8, 60, 512, m, 1, 8, cache_cut="sequence"), "must divide N=60"),
    ):
        with pytest.raises(ValueError, match=said):
            call()
    assert sharding_limits.latent_collectives(8, 64, 512, m, 1, 1) == ()
    assert prod(sharding_limits.latent_collectives(8, 64, 512, m, 4, 1)[0].shape) == 8 * (256 + 128 + 64) // 4


# Prefill: keys and values are made, heads over Y and tokens over X.


@pytest.mark.parametrize("q_rank", [24, pytest.param(None, marks=pytest.mark.slow("one more of these"))])
def test_a_prefill_equals_the_dense_layer(q_rank):
    c, mesh = replace(C, mla=replace(C.mla, q_rank=q_rank)), meshes.mesh((4, 2), ("X", "Y"))
    p, x, out, held = dense_layer(c, B, S)
    got, kept = sharded_prefill.prefill(c, mesh)(p, x)
    np.testing.assert_allclose(got, out, rtol=1e-4, atol=2e-5)
    for name, want in held.items():
        np.testing.assert_allclose(kept[name], want, rtol=1e-4, atol=1e-5)
        assert kept[name].addressable_shards[0].data.nbytes == want.nbytes / 4  # over X, and the same on each of Y


@pytest.mark.parametrize("X, Y", [(16, 16), (1, 256), (256, 1)])
def test_what_a_prefill_sends_and_computes(X, Y):
    """On 16x16 v5e: bytes over the busiest link, and FLOPs of all chips: those of X make the keys of all tokens each."""
    s, T = Slice(chip("v5e"), (16, 16)), 4096
    c = replace(BIG, N=256, K=256, mla=MLA(1024, kv_rank=512, nope=32, rope=256, v=32))
    laid = {"Y": (0,), "X": (1,)} if X == Y else {"Y": (0, 1) if X == 1 else (), "X": (0, 1) if Y == 1 else ()}
    grid = Mesh({a: tuple(Axis(16, True) for _ in at) or (Axis(1),) for a, at in laid.items()})
    given = abstract_weights(c), bf16(1, T, c.D)
    program = sharded_prefill.prefill(c, mesh_of(X=X, Y=Y))
    said = predicted.prefill_works(Replica(c, s.chip), s, Y, X, T)
    moves = [m for work in said.values() for m in work.moves]
    assert sum(m.bytes for m in moves) == pytest.approx(
        c.L * sum(x.move(grid).bytes for x in trace.sent(program, *given))
    )
    flops = {role: 256 * work.flops for role, work in said.items() if role != "unembedding"}
    flops["attention"] *= 2 * T / (T + 1)  # the program computes masked pairs, too
    assert sum(flops.values()) == pytest.approx(c.L * trace.count(program, *given).matmul_flops)
