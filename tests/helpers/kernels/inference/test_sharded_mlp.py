"""Prefill over a mesh, weights cut both ways, experts on different devices: equal to dense, and what is sent is predicted."""

from functools import cache
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.costs.sharding.collectives import Collective
from helpers.costs.transformers.config import LayerKind, MoE
from helpers.kernels import mesh as meshes
from helpers.kernels.inference import (
    expert_parallel_decode,
    kv_cache_by_heads,
    sharded_decode_step,
    sharded_prefill,
    weight_stationary_2d,
)
from helpers.kernels.transformers import decoder, mixture_of_experts
from tests.helpers.kernels.transformers.families import random_params, tokens, toy

C = toy(D=16, L=1, N=8, K=4, H=4, F=24)


def normal(*shape):
    return jnp.asarray(np.random.default_rng(prod(shape)).standard_normal(shape), jnp.float32)


def bf16(*shape):
    return jax.ShapeDtypeStruct(shape, "bfloat16")


def absent(shape, names):
    """A mesh of devices that are not there, for tracing."""
    return jax.sharding.AbstractMesh(shape, names, axis_types=(jax.sharding.AxisType.Auto,) * len(names))


def one(kind, axes, shape, out, times=1):
    return Collective(kind, tuple(axes), shape, out, "bf16", times)


# Prefill.


@cache
def prompt():
    p = jax.tree.map(lambda a: a[0], random_params(C)["layers"][0])
    x = normal(2, 16, C.D)
    return p, x, *jax.jit(lambda p, x: decoder.block(p, x, jnp.arange(16), C, LayerKind()))(p, x)


@pytest.mark.parametrize(
    "keys, grid",
    [
        ("ring", (4, 2)),
        ("gathered", (2, 4)),
        pytest.param("gathered", (4, 2), marks=pytest.mark.slow),
        pytest.param("ring", (8, 1), marks=pytest.mark.slow),
        pytest.param("ring", (1, 4), marks=pytest.mark.slow),
    ],
)
def test_prefill_equals_the_dense_layer(keys, grid):
    """systems E16: heads over Y, the sequence over X; and the cache that decoding begins with."""
    p, x, want, held = prompt()
    got, kept = sharded_prefill.prefill(C, meshes.mesh(grid, ("X", "Y")), keys)(p, x)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=3e-5)
    for name in "kv":
        np.testing.assert_allclose(kept[name], held[name], rtol=1e-5, atol=1e-5)
        assert kept[name].sharding.shard_shape((2, 16, 4, 4)) == (2, 16 // grid[0], 4 // grid[1], 4)


@pytest.mark.slow("compiles a decoder for two meshes")
def test_a_text_begins_on_one_mesh_and_goes_on_on_another():
    """systems E16, E18: two prompts cut over X and Y, then four steps with the cache cut over KV heads and sequences: the same tokens."""
    c, B, T, size = toy(D=16, L=2, N=8, K=4, H=4, F=24), 4, 8, 12
    params, row = random_params(c), tokens(c, B, T)

    def greedy(prefill, step, laid=lambda *a: a):
        logits, cache = prefill(params, row)
        here, cache = laid(params, cache)
        said = [logits]
        for t in range(T, size):
            logits, cache = step(here, cache, logits.argmax(-1), t)
            said.append(logits)
        return np.stack(said)

    want = greedy(jax.jit(lambda *a: decoder.prefill(*a, c, size)), jax.jit(lambda *a: decoder.decode(*a, c)))
    grid, mesh = meshes.mesh((4, 2), ("X", "Y")), meshes.mesh((4, 2), ("Y", "Z"))
    run = sharded_decode_step.step(kv_cache_by_heads.HEADS, c, mesh)
    got = greedy(
        sharded_prefill.prompt(c, grid, size),
        lambda p, cache, token, t: run(p, cache, token, np.full(B, t)),
        lambda p, cache: sharded_decode_step.start(kv_cache_by_heads.HEADS, c, mesh, p, cache),
    )
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(got.argmax(-1), want.argmax(-1))
    given = (params, decoder.empty_cache(c, B, size), np.zeros(B, int), np.zeros(B, int))
    assert [(x.kind, x.times) for x in trace.sent(run, *given)] == [
        (k, 2) for k in ["AllToAll"] * 2 + ["AllReduce"] * 2
    ]


@pytest.mark.parametrize("X, Y", [(4, 2), (2, 4), (16, 8)])
def test_prefill_sends_four_activations_and_each_key_once(X, Y):
    """systems E16: 2 AllGathers and 2 ReduceScatters over Y of B·T·D/|X|; keys and values round X, by a ring or by gathers."""
    c, B, T = toy(D=512, L=1, N=32, K=8, H=64, F=2048), 1, 4096
    p = {n: bf16(*a[1:]) for n, a in decoder.shapes(c)["layers"][0].items()}
    part, whole = (B, T // X, c.D // Y), (B, T // X, c.D)
    gather, scatter = one("AllGather", "Y", part, whole), one("ReduceScatter", "Y", whole, part)
    kv = (B, T // X, c.K // Y, c.H)
    hops = one("Permute", "X", (2, B, c.K // Y, 1, T // X, c.H), (2, B, c.K // Y, 1, T // X, c.H), X - 1)
    whole_kv = one("AllGather", "X", kv, (B, T, c.K // Y, c.H))
    mesh, wires = absent((X, Y), ("X", "Y")), {}
    for keys, middle in (("ring", [hops]), ("gathered", [whole_kv] * 2)):
        got = trace.sent(sharded_prefill.prefill(c, mesh, keys), p, bf16(B, T, c.D))
        assert list(got) == [gather, *middle, scatter, gather, scatter] and not got.doubts
        wires[keys] = got.by_axis
    assert wires["ring"] == wires["gathered"]
    assert sum(x.V(meshes.costs_mesh(mesh)) for x in got if x.axes == ("Y",)) == 4 * 2 * B * T * c.D / X


@pytest.mark.parametrize(
    "run, said",
    [
        (
            lambda: sharded_prefill.prefill(C, meshes.mesh((2,), ("X",))),
            r"x\[B, T_X, D_Y\] names axis Y: use one that the mesh has, X",
        ),
        (
            lambda: sharded_prefill.prefill(C, meshes.mesh((4, 2), ("X", "Y")))({}, jnp.zeros((1, 18, 16))),
            r"x\[B, T_X, D_Y\]: X is 4 and does not divide T = 18; the nearest that it divides are 16 and 20",
        ),
        (
            lambda: sharded_prefill.prefill(C, meshes.mesh((1, 8), ("X", "Y"))),
            r"W_K\[D, K_Y, H\]: Y is 8 and does not divide K = 4",
        ),
        (
            lambda: sharded_prefill.prefill(C, meshes.mesh((4, 2), ("X", "Y")), "sent"),
            "come by 'ring' or 'gathered', not by 'sent'",
        ),
        (
            lambda: sharded_prefill.prompt(C, meshes.mesh((4, 2), ("X", "Y")), 8)(None, jnp.zeros((1, 12), int)),
            "a prompt has 1 to 8 tokens, the places of the cache, and this one has 12",
        ),
        (
            lambda: sharded_prefill.prompt(C, meshes.mesh((4, 2), ("X", "Y")), 8)(None, jnp.zeros((1, 0), int)),
            "a prompt has 1 to 8 tokens, the places of the cache, and this one has 0",
        ),
    ],
    ids=["axis", "tokens", "heads", "keys", "long prompt", "empty prompt"],
)
def test_prefill_refuses_what_does_not_lie_over_the_mesh(run, said):
    with pytest.raises(ValueError, match=said):
        run()


# Weights that stay, cut along one or both dimensions.


@pytest.mark.parametrize(
    "make, grid",
    [
        (weight_stationary_2d.two_dimensions, (2, 2, 2)),
        (weight_stationary_2d.one_dimension, (2, 2, 2)),
        *[
            pytest.param(weight_stationary_2d.two_dimensions, g, marks=pytest.mark.slow)
            for g in ((8, 1, 1), (1, 4, 2), (4, 2, 1))
        ],
    ],
)
def test_weights_cut_both_ways_equal_dense(make, grid):
    """systems E26: the five steps, with a gelu between the products."""
    In, W_in, W_out = normal(4, 16), normal(16, 32), normal(32, 16)
    got = make(meshes.mesh(grid, ("X", "Y", "Z")))(In, W_in, W_out)
    np.testing.assert_allclose(got, jax.nn.gelu(In @ W_in) @ W_out, rtol=1e-4, atol=1e-4)
    assert got.sharding.shard_shape(got.shape) == (4, 2)


def mlp_sends(make, grid, B, D, F):
    return trace.sent(make(absent(grid, ("X", "Y", "Z"))), bf16(B, D), bf16(D, F), bf16(F, D))


def volume(sent, weight=lambda c: 1):
    """V of all collectives, an AllReduce twice, each by a weight of its own."""
    return sum((2 if c.kind == "AllReduce" else 1) * c.bytes * weight(c) for c in sent)


def test_what_weights_cut_both_ways_send():
    """systems E26: in order 2BD/X gathered, 2BF/YZ added up, 2BD/X scattered, on every mesh of 8 and of 64 devices."""
    B, D, F = 32, 512, 1024
    for X, Y, Z in (*weight_stationary_2d.grids(8), *weight_stationary_2d.grids(64)):
        n = X * Y * Z
        got = mlp_sends(weight_stationary_2d.two_dimensions, (X, Y, Z), B, D, F)
        assert list(got) == [
            one("AllGather", "YZ", (B, D // n), (B, D // X)),
            one("AllReduce", "X", (B, F // (Y * Z)), (B, F // (Y * Z))),
            one("ReduceScatter", "YZ", (B, D // X), (B, D // n)),
        ]
        assert volume(got) == 4 * B * D / X + 4 * B * F / (Y * Z)
    assert volume(mlp_sends(weight_stationary_2d.one_dimension, (2, 2, 2), B, D, F)) == 4 * B * D


@pytest.mark.parametrize("F, best", [(512, {4}), (1024, {2, 4}), (2048, {2}), (8192, {1})])
def test_the_best_mesh_of_eight_devices_by_counting_all(F, best):
    """systems E26: fewest bytes at X = sqrt(8·D/F) if the mesh has it, else at a neighbour: 4, 2.83, 2, 1."""
    D = 1024
    counted = {}
    for grid in weight_stationary_2d.grids(8):
        counted.setdefault(grid[0], set()).add(volume(mlp_sends(weight_stationary_2d.two_dimensions, grid, 16, D, F)))
    assert all(len(same) == 1 for same in counted.values())  # only |X| matters
    least = min(map(min, counted.values()))
    assert {X for X, (v,) in counted.items() if v == least} == best
    assert min(best) <= (8 * D / F) ** 0.5 <= max(best)


@pytest.mark.parametrize("n, wins", [(8, False), (64, False), (72, None), (128, True)])
def test_two_dimensions_win_beyond_72_devices(n, wins):
    """systems E26: F = 4D; a collective over several torus axes has their bandwidths together, so 1D has three times one link's."""
    B, D = 8, 9 * 128
    grids = [g for g in weight_stationary_2d.grids(n) if D % n == 0 and g[1] > 1 and g[2] > 1]
    time = lambda s: volume(s, lambda c: 1 / len(c.axes))  # noqa: E731
    two = min((time(mlp_sends(weight_stationary_2d.two_dimensions, g, B, D, 4 * D)), g[0]) for g in grids)
    alone = time(mlp_sends(weight_stationary_2d.one_dimension, grids[0], B, D, 4 * D))
    assert alone == pytest.approx(4 * B * D / 3)
    if wins is None:
        assert two[0] == pytest.approx(alone) and two[1] == (n / 8) ** 0.5 == 3
    else:
        assert (two[0] < alone) == wins


@pytest.mark.parametrize(
    "grid, names, D, said",
    [
        ((4, 2), ("X", "Y"), 16, r"In\[B, D_XYZ\] names axis Z: use one that the mesh has, X, Y"),
        ((2, 2, 2), ("X", "Y", "Z"), 20, r"In\[B, D_XYZ\]: XYZ is 8 and does not divide D = 20; .* are 16 and 24"),
    ],
)
def test_two_dimensions_refuse_what_does_not_lie_over_the_mesh(grid, names, D, said):
    with pytest.raises(ValueError, match=said):
        weight_stationary_2d.two_dimensions(meshes.mesh(grid, names))(
            jnp.zeros((4, D)), jnp.zeros((D, 32)), jnp.zeros((32, D))
        )


# Experts.

EXPERTS = toy(D=16, L=1, moe=MoE(E=8, k=2, F=6))
TOKENS = 16


@cache
def layer_of_experts():
    """(its arrays, tokens, result without a capacity, result with 4 places for each expert, with 1 for each of 4 parts)."""
    p = jax.tree.map(lambda a: a[0], random_params(EXPERTS)["layers"][0])
    x = normal(TOKENS, EXPERTS.D)

    @jax.jit
    def dense(p, x):
        parts = [mixture_of_experts.with_capacity(p, part, EXPERTS, 1)[0] for part in jnp.split(x, 4)]
        return (
            mixture_of_experts.dropless(p, x, EXPERTS),
            mixture_of_experts.with_capacity(p, x, EXPERTS, 4)[0],
            jnp.concatenate(parts),
        )

    return p, x, *dense(p, x)


@pytest.mark.parametrize(
    "cut, factor, want",
    [
        ("whole", None, 2),
        pytest.param("whole", 1.0, 3, marks=pytest.mark.slow),
        pytest.param("batch", None, 2, marks=pytest.mark.slow),
        ("batch", 1.0, 4),
    ],
)
def test_spread_experts_equal_dense(cut, factor, want):
    """systems E30: room for all, or a capacity: of the whole batch, or of each device's part."""
    given = layer_of_experts()
    assert not np.allclose(given[2], given[want]) or want == 2  # the capacities do drop something
    mesh = meshes.mesh((2, 4), ("Y", "Z"))
    got = expert_parallel_decode.program(EXPERTS, mesh, cut, factor)(given[1], *expert_parallel_decode.arrays(given[0]))
    np.testing.assert_allclose(got, given[want], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("Y, Z", [(2, 4), (8, 16)])
def test_what_spread_experts_send(Y, Z):
    """systems E30: whole tokens: one AllReduce of B·D, whatever k; cut tokens: E·C places there and back, then B·D/|Z| over Y."""
    B, D, E, k, F = 64, 256, 32, 2, 512
    mesh = absent((Y, Z), ("Y", "Z"))
    c = toy(D=D, moe=MoE(E=E, k=k, F=F))
    given = (bf16(B, D), bf16(D, E), bf16(E, D, F), bf16(E, D, F), bf16(E, F, D))
    assert list(trace.sent(expert_parallel_decode.program(c, mesh), *given)) == [one("AllReduce", "YZ", (B, D), (B, D))]
    for factor, places in ((None, B // Z), (4.0, mixture_of_experts.capacity(B // Z, E, k, 4.0))):
        there, here = (E, places, D), (E // Z, Z * places, D)
        assert list(trace.sent(expert_parallel_decode.program(c, mesh, "batch", factor), *given)) == [
            one("AllToAll", "Z", there, here),
            one("AllToAll", "Z", here, there),
            one("AllReduce", "Y", (B // Z, D), (B // Z, D)),
        ]


def test_each_device_holds_its_share_of_the_experts():
    """systems E30: E/|Z| experts of width F/|Y|, each number on one device of |Y|·|Z|: what a step loads."""
    p, mesh = layer_of_experts()[0], meshes.mesh((2, 4), ("Y", "Z"))
    laid = [
        meshes.put(a, mesh, how)
        for a, how in zip(expert_parallel_decode.arrays(p), expert_parallel_decode.weights(EXPERTS))
    ]
    assert [a.addressable_shards[0].data.shape for a in laid[1:]] == [(2, 16, 3), (2, 16, 3), (2, 3, 16)]
    assert 8 * sum(a.addressable_shards[0].data.nbytes for a in laid[1:]) == 4 * 3 * 8 * 16 * 6


@pytest.mark.parametrize(
    "run, said",
    [
        (
            lambda: expert_parallel_decode.program(EXPERTS, meshes.mesh((8,), ("Z",))),
            r"W_in\[E_Z, D, F_Y\] names axis Y: use one that the mesh has, Z",
        ),
        (
            lambda: expert_parallel_decode.program(EXPERTS, meshes.mesh((4, 2), ("Y", "Z")))(
                normal(4, 16), *expert_parallel_decode.arrays(layer_of_experts()[0])
            ),
            r"W_in\[E_Z, D, F_Y\]: Y is 4 and does not divide F = 6; the nearest that it divides are 4 and 8",
        ),
        (
            lambda: expert_parallel_decode.program(EXPERTS, meshes.mesh((2, 4), ("Y", "Z")), "batch")(
                normal(6, 16), *expert_parallel_decode.arrays(layer_of_experts()[0])
            ),
            r"x\[B_Z, D\]: Z is 4 and does not divide B = 6; the nearest that it divides are 4 and 8",
        ),
        (
            lambda: expert_parallel_decode.program(EXPERTS, meshes.mesh((2, 4), ("Y", "Z")), "B"),
            "tokens are cut 'whole' or 'batch', not 'B'",
        ),
        (
            lambda: expert_parallel_decode.program(C, meshes.mesh((2, 4), ("Y", "Z"))),
            "give it a Config with such a moe",
        ),
    ],
    ids=["axis", "hidden", "batch", "cut", "dense"],
)
def test_spread_experts_refuse_what_does_not_fit(run, said):
    with pytest.raises(ValueError, match=said):
        run()
