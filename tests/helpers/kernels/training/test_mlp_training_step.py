"""The two-matmul layer under each strategy: equal to one device step by step, and what is sent is the strategy table."""

from dataclasses import replace
from functools import cache
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.costs.training import dp_fsdp_tp
from helpers.kernels import mesh as meshes
from helpers.kernels.training import (
    data_parallel_and_fsdp,
    data_parallel_and_fsdp as hsdp,
    mlp_training_step,
    mlp_training_step as layer,
)
from helpers.trace.jaxpr.collectives import device_program
from tests.helpers.kernels.training.mlp import ADAM, X2Y4, X4, Y4, absent, given, two_steps

B, D, F, L = 16, 8, 24, 3

STRATEGIES = {
    "data": (data_parallel_and_fsdp.DATA, X4),
    "ZeRO-1": (data_parallel_and_fsdp.ZERO1, X4),
    "ZeRO-2": (data_parallel_and_fsdp.ZERO2, X4),
    "FSDP": (data_parallel_and_fsdp.FSDP, X4),
    "tensor": (data_parallel_and_fsdp.TENSOR, Y4),
    "mixed": (data_parallel_and_fsdp.MIXED, X2Y4),
}


def loss_of(w, In, Target):
    for W_in, W_out in zip(*w):
        In = In @ W_in @ W_out
    return jnp.mean((In - Target) ** 2) / 2


@cache
def one_device():
    """Weights and losses of three steps by `jax.grad` and Adam as its paper has it, in NumPy."""
    w, In, Target = given()
    gradient = jax.jit(jax.value_and_grad(loss_of))
    m = v = tuple(np.zeros(a.shape) for a in w)
    out = []
    for t in range(1, 4):
        loss, dw = gradient(w, In, Target)
        m = tuple(0.9 * a + 0.1 * np.float64(g) for a, g in zip(m, dw))
        v = tuple(0.999 * a + 0.001 * np.float64(g) ** 2 for a, g in zip(v, dw))
        w = mlp_training_step.Weights(
            *(
                np.float32(p - 0.02 * (a / (1 - 0.9**t)) / (np.sqrt(b / (1 - 0.999**t)) + 1e-8))
                for p, a, b in zip(w, m, v)
            )
        )
        out.append((w, loss))
    return out


@pytest.mark.parametrize("s, grid", STRATEGIES.values(), ids=STRATEGIES)
@pytest.mark.sample(quick=2)
def test_weights_equal_one_device_step_by_step(s, grid):
    """Three steps of Adam; what each device holds is the part that the notation says."""
    mesh = meshes.mesh(*grid)
    w, In, Target = given()
    held, moments = mlp_training_step.start(s, mesh, w)
    step = mlp_training_step.step(s, mesh, ADAM)
    losses = []
    for want, loss in one_device():
        held, moments, said = step(held, moments, In, Target)
        losses.append(said)
        np.testing.assert_allclose(said, loss, rtol=1e-5)
        for a, b in zip(held, want):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
    assert losses[0] > losses[1] > losses[2]
    parts = {"W_in": prod(mesh.shape[a] for a in "XY" if f"_{a}" in s.W_in)}
    assert held.W_in.addressable_shards[0].data.size * parts["W_in"] == L * D * F
    adam = s.moments or (s.W_in, s.W_out)
    cut = prod(mesh.shape[a] for a in "XY" if f"_{a}" in adam[0])
    assert moments.mean.W_in.addressable_shards[0].data.size * cut == L * D * F


# What is sent. V of a collective: bytes of the whole array, twice for an AllReduce, as the sources' table counts.

BIG = dict(B=4096, D=512, F=2048)


@cache
def traced(name):
    """(mesh, forward, backward, a whole step, FLOPs of both passes) of bf16 arrays; nothing is run."""
    s, grid = STRATEGIES[name]
    mesh, (w, moments, In, _) = meshes.mesh(*grid), absent(**BIG, L=L)
    forward, backward = mlp_training_step.passes(s, mesh)
    Out, kept = jax.eval_shape(forward, In, w)
    programs = [(forward, In, w), (backward, Out, kept, w)]
    sent = [trace.sent(*p) for p in (*programs, (mlp_training_step.step(s, mesh, ADAM), w, moments, In, In))]
    return mesh, *sent, [trace.count(*p).matmul_flops for p in programs]


PREDICTED = {"data": ("DP", False), "FSDP": ("FSDP", False), "tensor": ("TP", False), "mixed": ("FSDP+TP", False)}


@pytest.mark.parametrize("name", PREDICTED)
def test_a_program_sends_what_the_algorithm_says_in_its_order(name):
    """Each line of `costs.training.dp_fsdp_tp` that sends, with its axes, shapes and type, once in each layer."""
    mesh, *passes, _, _ = traced(name)
    said = dp_fsdp_tp.algorithm(*PREDICTED[name])
    for sent, lines in zip(passes, (said.forward, said.backward)):
        want = [a.collective(BIG, meshes.costs_mesh(mesh)) for a in lines if a.kind != "Matmul"]
        assert list(sent) == [replace(c, times=L) for c in want]


@pytest.mark.parametrize(
    "name, weights, averages", [("data", 1, 1), ("ZeRO-1", 1, 4), ("ZeRO-2", 1, 4), ("FSDP", 4, 4)]
)
def test_bytes_that_a_device_holds_between_steps(name, weights, averages):
    """2 bytes of a weight in bf16 and 8 of its averages in f32, each whole or 1/X: 10P under data, 10P/X under FSDP."""
    s, grid = STRATEGIES[name]
    w = jax.tree.map(lambda a: a.astype(jnp.bfloat16), given()[0])
    held, moments = mlp_training_step.start(s, meshes.mesh(*grid), w)
    here = sum(a.addressable_shards[0].data.nbytes for a in jax.tree.leaves((held, moments.mean, moments.square)))
    numbers = L * 2 * D * F
    assert here == 2 * numbers / weights + 8 * numbers / averages


def test_fsdp_holds_one_whole_matrix_at_a_time():
    """No array of a device is larger than one gathered matrix or 1/X of all layers; data parallelism holds all."""
    mesh, layers, wide = meshes.mesh(*X4), 12, 64

    def largest(s):
        step = mlp_training_step.step(s, mesh, ADAM)
        made = device_program(jax.make_jaxpr(step)(*absent(8, wide, 4 * wide, layers, "float32"))).made
        return max(prod(shape) for shape, _ in made)

    matrix = 4 * wide * wide
    assert largest(data_parallel_and_fsdp.FSDP) == max(matrix, layers * matrix // 4)
    assert largest(data_parallel_and_fsdp.DATA) == layers * matrix


def test_what_does_not_fit_is_refused():
    """Batches, widths and hidden numbers that devices do not divide; a mesh without the axis; weights that do not fit each other."""

    def take(s, grid, b=8, d=8, f=8, f_out=None):
        w = mlp_training_step.Weights(jnp.zeros((1, d, f)), jnp.zeros((1, f_out or f, d)))
        mlp_training_step.step(s, meshes.mesh(*grid), ADAM)(w, ADAM.start(w), jnp.zeros((b, d)), jnp.zeros((b, d)))

    mixed, odd = data_parallel_and_fsdp.MIXED, mlp_training_step.Weights(jnp.zeros((1, 6, 8)), jnp.zeros((1, 8, 6)))
    x4 = meshes.mesh(*X4)
    no_axis, width = (
        r"In\[B_X, D_Y\] names axis Y: use one that the mesh has, X",
        r"W_in\[D_X, F\]: X is 4 and does not divide D = 6",
    )
    for said, call in (
        (
            r"In\[B_X, D\]: X is 4 and does not divide B = 6; .* are 4 and 8",
            lambda: take(data_parallel_and_fsdp.DATA, X4, b=6),
        ),
        (width, lambda: take(data_parallel_and_fsdp.FSDP, X4, d=6)),
        (width, lambda: mlp_training_step.start(data_parallel_and_fsdp.FSDP, x4, odd)),
        (r"W_in\[D, F_Y\]: Y is 4 and does not divide F = 6", lambda: take(data_parallel_and_fsdp.TENSOR, Y4, f=6)),
        (
            r"W_out\[L, F, D\] has the shape \[1, 4, 8\], and F is 8",
            lambda: take(data_parallel_and_fsdp.DATA, X4, f_out=4),
        ),
        (no_axis, lambda: take(mixed, X4)),
        (no_axis, lambda: mlp_training_step.passes(mixed, x4)),
        (no_axis, lambda: mlp_training_step.start(mixed, x4, odd)),
    ):
        with pytest.raises(ValueError, match=said):
            call()


@pytest.mark.parametrize(("s", "micro"), [(hsdp.HSDP, 2), (hsdp.FSDP_OVER_HOSTS, 1)], ids=["HSDP", "FSDP"])
@pytest.mark.sample(quick=1)
def test_steps_equal_those_of_one_device(s, micro):
    (alone, one), (held, eight) = two_steps(layer.ONE, ((1,), "X")), two_steps(s, ((2, 4), "XY"), micro)
    assert np.allclose(one, eight, rtol=1e-5)
    assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(alone, held))
    shard = held.W_in.sharding.shard_shape(held.W_in.shape)
    assert prod(shard) * (4 if s is hsdp.HSDP else 8) == L * D * F
