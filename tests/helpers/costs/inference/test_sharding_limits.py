"""Sharding a model that answers: limits against searches, seconds against collectives on a slice, bytes chip by chip."""

from dataclasses import replace

import pytest

from helpers.costs.inference import sharded_decode_step as on_slice, sharding_limits as limits
from helpers.costs.inference.prefill_and_decode_step import Replica
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.sharding.collectives import all_gather, all_reduce, seconds
from helpers.costs.sharding.sharded_array import Axis, Mesh
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import flops
from helpers.costs.transformers.public_models import model
from tests.helpers.costs.tables import refused, walks

V5E, V5P = chip("v5e"), chip("v5p")
SQUARE = Slice(V5E, (4, 4))
SEED = Config(4096, 64, 32, 8, 256, 16384, 32128, tied=True, norm="none")
INT8 = dict(weights="int8", cache="int8", math="int8")


@walks([(16384, 32), (16384, 512), (8192, 7)])
def test_limits_by_search(F, B):
    """The largest ring on which reading two matrices takes longer than the two collectives of [B, D]; D does not matter."""
    D, W, ring = 4096, V5E.link_bandwidth, lambda n: Axis(n)
    most = limits.decode_limit(F, B, limits.ici_ratio(V5E))

    def waits_for_hbm(Y):
        links = 2 * seconds(all_gather(2 * B * D, ring(Y)), W, hop=0)
        return 2 * 2 * D * F / Y / V5E.hbm_bandwidth >= links

    found = max((Y for Y in range(2, 2000, 2) if waits_for_hbm(Y)), default=0)
    assert found <= most < found + 2
    T = 512  # a prefill: the prompt's length does not matter
    most = limits.prefill_limit(F, V5E.rate(), W)
    math = lambda Y: 4 * T * D * F / (Y * V5E.rate())  # noqa: E731
    found = max(Y for Y in range(2, 200, 2) if math(Y) >= 2 * seconds(all_gather(2 * T * D, ring(Y)), W, hop=0))
    assert found <= most < found + 2


def test_the_two_all_to_alls():
    """Queries there, results back, one sum; nothing grows with S, and bytes are what is said."""
    B, N, K, H, D, Y, Z = 32, 32, 8, 256, 4096, 8, 2
    there, back, total = limits.attention_collectives(B, N, K, H, D, Y, Z)
    mesh = Mesh({"Y": Y, "Z": Z})
    assert there.V(mesh) == back.V(mesh) == limits.all_to_all_bytes(B, N, H, Y)
    assert (there.shape, there.out) == (back.out, back.shape) and total.axes == ("Y", "Z")
    assert limits.attention_collectives(B, N, K, H, D, 1, 1) == ()
    assert [c.kind for c in limits.attention_collectives(B, N, K, H, D, Y, 1)] == ["AllReduce"]
    refused(
        (lambda: limits.attention_collectives(B, N, K, H, D, 16, 1), "Y=16 ways do not divide K=8 KV heads"),
        (lambda: limits.attention_collectives(B, N, K, H, D, 8, 3), "Z=3 must divide B=32"),
    )


@walks([(8, 8, 2), (8, 16, 1), (1, 16, 1), (1, 1, 16), (8, 2, 8)])
def test_the_share_of_a_cache_chip_by_chip(K, Y, Z):
    """Each chip holds the heads that its query heads need, of its own sequences."""
    B, N = 16, 32
    held = []
    for y in range(Y):
        heads = {n * K // N for n in range(N) if n * Y // N == y}
        held += [len(heads) * B // Z] * Z
    assert set(held) == {held[0]} and held[0] / (K * B) == limits.cache_time(1, 1.0, K, Y, Z, 1.0)


def two_d_time(B, D, F, N, X, W, M_X=1, M_YZ=2):
    """Seconds of the links with D over X and F over the other N/X: AllGather, AllReduce_X of [B, F_YZ], ReduceScatter."""
    return 2 * 2 * B * (D / (X * M_YZ) + F * X / (N * M_X)) / (2 * W)


@walks([(64, 8192, 32768), (256, 4096, 16384), (16, 8192, 8192)])
def test_two_dimensions_against_collectives_on_a_cube(B, D, F):
    """On v5p 4x4x4: X one ring, YZ two; 1D all three."""
    W, ring = V5P.link_bandwidth, Axis(4)
    x_axis, yz, N = (ring,), (ring, ring), 64
    outer = seconds(all_gather(2 * B * D / 4, yz), W, hop=0)
    inner = seconds(all_reduce(2 * B * F / 16, x_axis), W, hop=0)
    assert two_d_time(B, D, F, N, 4, W) == pytest.approx(2 * outer + inner)
    assert limits.one_d_time(B, D, W) == pytest.approx(2 * seconds(all_gather(2 * B * D, (ring,) * 3), W, hop=0))


def test_the_best_two_dimensions_by_search():
    B, D, W = 64, 8192, 9e10
    for N, ratio, M in ((64, 4, (1, 2)), (512, 4, (1, 2)), (256, 1, (1, 2)), (256, 4, (1, 1)), (128, 3.5, (2, 1))):
        F = ratio * D
        tried = {X: two_d_time(B, D, F, N, X, W, *M) for X in (x / 100 for x in range(50, 3000))}
        X = (N * D * M[0] / (F * M[1])) ** 0.5
        assert min(tried, key=tried.get) == pytest.approx(X, abs=0.006)
        assert min(tried.values()) == pytest.approx(limits.two_d_best(B, D, F, N, W, *M), rel=1e-5)
    for ratio in (1, 4, 2.6875):  # from here on 2D sends less, and not before
        N = limits.two_d_crossover(D, ratio * D)
        assert N == pytest.approx(18 * ratio)
        for more, wins in ((0.99, False), (1.01, True)):
            assert (limits.two_d_best(B, D, ratio * D, more * N, W) < limits.one_d_time(B, D, W)) == wins


@walks(["seed", "parallel"], [(4, 4, (4, 4)), (16, 1, (4, 4)), (1, 16, (4, 4)), (16, 16, (16, 16))])
def test_links_of_a_decode_step_one_by_one(name, Y, Z, shape):
    """Two sums and two AllToAlls in each layer, on the slice's own lines and rings."""
    s, B = Slice(V5E, shape), 64
    c = replace(SEED, N=256, K=64, H=32, parallel=name == "parallel", norms=1 if name == "parallel" else 2)
    r = Replica(c, V5E, **INT8)
    laid = {"Y": (0,), "Z": (1,)} if Y == Z else {"Y": (0, 1), "Z": ()} if Y > 1 else {"Y": (), "Z": (0, 1)}
    ways = [Axis(n, w) for n, w in zip(s.shape, s.wraps)]
    mesh = Mesh({a: tuple(ways[i] for i in at) or (Axis(1),) for a, at in laid.items()})
    sent = list(limits.attention_collectives(B, c.N, c.K, c.H, c.D, Y, Z, "int8"))
    sent += [sent[-1]] * (name == "seed")
    want = c.L * sum(seconds(x.move(mesh), V5E.link_bandwidth) for x in sent)
    assert on_slice.decode(r, s, Y, Z, B, 4096).time.parts["ici"] == pytest.approx(want)


def test_what_a_chip_reads_in_a_decode_step():
    """An even share of weights and activations; of the cache its own heads and sequences."""
    r, B, S = Replica(SEED, V5E, 16, **INT8), 32, 8192
    whole = r.decode(B, S).time.parts
    for Y, Z, copies in ((8, 2, 1), (4, 4, 1), (16, 1, 2)):
        parts = on_slice.decode(r, SQUARE, Y, Z, B, S).time.parts
        more = (copies - 1) * r.kv(S, B) / 16 / V5E.hbm_bandwidth
        assert parts["hbm"] == pytest.approx(whole["hbm"] + more) and parts["math"] == pytest.approx(whole["math"])
        assert on_slice.held(r, SQUARE, Y, Z, B, S) == pytest.approx((r.weight_bytes + copies * r.kv(S, B)) / 16)
    # seven sequences on two halves: four on one
    odd = on_slice.decode(r, SQUARE, 8, 2, 7, S).time.parts["hbm"]
    even = Replica(SEED, V5E, 16, **INT8).decode(7, S).time.parts["hbm"]
    assert odd - even == pytest.approx(r.kv(S, 1) / 16 / V5E.hbm_bandwidth)


def test_the_best_cut():
    """systems J, question 4: over K heads and twice over the batch; six sequences of 131,072 tokens fit, seven do not."""
    r = Replica(SEED, V5E, **INT8)
    best = on_slice.splits(r, SQUARE, "decode", B=6, S=131_072)
    assert (best[0].Y, best[0].Z, best[0].fits) == (8, 2, True) and not any(c.fits for c in best[1:])
    hops = SEED.L * (2 * 6 + 2 * 1) * 1e-6  # two sums over lines of 4 and 4, two exchanges between pairs
    assert best[0].time.seconds == pytest.approx(1.42e-3 + 6 * 2.59e-3 * 131_072 / 128_000 + hops, rel=0.02)
    every = on_slice.splits(r, SQUARE, "decode", B=64, S=2048)
    assert {(c.Y, c.Z) for c in every} == {(1, 16), (2, 8), (4, 4), (8, 2), (16, 1)}
    assert [c.time.seconds for c in every] == sorted(c.time.seconds for c in every) and all(c.fits for c in every)
    long = on_slice.splits(r, SQUARE, "prefill", S=8192)
    assert long[0].fits and long[0].Y < 8 and long[-1].Y == 1 and not long[-1].fits  # whole weights on each chip
    gqa = on_slice.splits(Replica(replace(SEED, K=1), V5E, **INT8), SQUARE, "decode", B=64, S=8192)
    assert gqa[0].Z == 16  # one KV head: the batch is cut


def test_a_prefill_on_a_slice():
    """TP's gathers do not fall with Y, the sequence's keys do not depend on it; every Z reads its weights again."""
    r, s, T = Replica(model("llama-3-8b"), V5E), Slice(V5E, (4, 4)), 8192
    c, W = r.config, V5E.link_bandwidth
    line = Axis(4, wraps=False)
    parts = on_slice.prefill(r, s, 4, 4, T).time.parts
    around = 4 * seconds(all_gather(2 * T / 4 * c.D, line), W)
    ring = seconds(all_gather(2 * T * 2 * c.K / 4 * c.H, line), W)
    assert parts["ici"] == pytest.approx(c.L * (around + ring))
    whole = Replica(c, V5E, 16).prefill(T).time.parts
    weights = 2 * (r.parameters.matmul) * (1 / 4 - 1 / 16) / V5E.hbm_bandwidth
    assert parts["hbm"] == pytest.approx(whole["hbm"] + weights) and parts["math"] == pytest.approx(whole["math"])


def test_a_switch_and_what_cannot_be_cut():
    gpu = Slice(chip("H100"), (8,))
    assert (
        on_slice.splits(Replica(model("llama-3-8b"), gpu.chip), gpu, "decode", B=32, S=8192)[0].time.time.parts["ici"]
        > 0
    )
    assert on_slice.splits(Replica(model("deepseek-v3"), gpu.chip, weights="fp8"), gpu, "decode", B=32, S=8192)
    r = Replica(model("llama-3-8b"), V5E)
    refused(
        (lambda: on_slice.decode(r, SQUARE, 4, 2, 8, 1), "Y·Z = 4·2 = 8 is not the slice's 16 chips"),
        (lambda: on_slice.decode(r, Slice(V5E, (2, 3)), 3, 2, 8, 1), "Y=3 does not lie along 2x3 chips in whole rows"),
        (lambda: on_slice.decode(r, Slice(V5E, (8, 8)), 8, 8, 8, 1), "N=32 heads do not divide over 64 ways"),
        (lambda: on_slice.decode(r, SQUARE, 8, 2, 0, 1), "a sequence or a token of a prompt or both, got B=0"),
        (lambda: on_slice.splits(r, SQUARE, "train"), "'decode' or 'prefill', not 'train'"),
        (lambda: on_slice.splits(r, Slice(V5E, (8, 8)), "decode"), "N=32 heads cannot be cut over 64 chips"),
    )


SEVERAL_KINDS = ["qwen-3-next-80b-a3b", "deepseek-v3.2", "gemma-3n-e4b"]


@walks(SEVERAL_KINDS)
def test_a_step_of_layers_of_several_kinds(name):
    """Its FLOPs and weights are the model's; cached numbers have the bytes of their type, states those of float32."""
    c, B, S = model(name), 4, 8192
    wide, narrow = (Replica(c, V5E, 64, cache=x).works(B, 1, S, absorbed=bool(c.mla)) for x in ("bf16", "int8"))
    assert sum(w.flops for w in wide.values()) == flops(c, B, 1, S, "causal", absorbed=bool(c.mla)).forward
    reads = sum(min(k.window or S, S) * n for k, n in c.groups if not k.linear) * 2 * c.K * c.H
    if c.mla:
        reads = c.L * (2048 * 576 + S * 128)
    assert wide["attention"].bytes - narrow["attention"].bytes == pytest.approx(B * reads)
    r = Replica(c, V5E, 64)
    both, step, piece = (
        sum(w.bytes for w in r.mixed_works(*x).values()) for x in ((B, S, 64, 0), (B, S, 0, 0), (0, 0, 64, 0))
    )
    assert max(step, piece) < both < step + piece


@walks(SEVERAL_KINDS)
def test_what_a_sharded_pass_does_not_know_is_refused(name):
    s, r = Slice(V5E, (4, 4)), Replica(model(name), V5E, 16)
    said = f"does not know .*, and {name} has one: parameters, flops and kv_cache count it$"
    refused(
        (lambda: on_slice.decode(r, s, 4, 4, 16, 1024), said),
        (lambda: on_slice.mixed(r, s, 4, 4, 16, 1024, 64, 0), said),
        (lambda: on_slice.prefill(r, s, 4, 4, 1024), said),
        (lambda: on_slice.held(r, s, 4, 4, 16, 1024), said),
        (r.reload_crossover, said),
    )
