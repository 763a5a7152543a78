"""The small Transformer under each strategy: weights equal one device step by step, and what is sent, from shapes alone."""

from collections import Counter
from dataclasses import replace
from functools import cache
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training import training_step
from helpers.costs.training.layout import Layout
from helpers.costs.transformers.config import MoE
from helpers.kernels import mesh as meshes
from helpers.kernels.training import transformer_over_mesh
from helpers.kernels.training.transformer_over_mesh import Axes
from helpers.kernels.transformers import decoder
from helpers.kernels.transformers.adam import Adam
from tests.helpers.kernels.transformers.families import random_params, tokens, toy

B, T, ADAM = 4, 8, Adam(rate=0.01)
DENSE = toy(D=8, L=2, N=4, K=2, H=4, F=12, V=13)
EXPERTS = toy(D=8, L=2, N=4, K=2, H=4, F=12, V=13, moe=MoE(E=4, k=2, F=6))

WAYS = {
    "data": (DENSE, ((4,), ("X",)), Axes(data="X")),
    "FSDP": (DENSE, ((4,), ("X",)), Axes(fsdp="X")),
    "tensor": (DENSE, ((2,), ("Y",)), Axes(tensor="Y")),
    "FSDP + tensor": (DENSE, ((4, 2), ("X", "Y")), Axes(fsdp="X", tensor="Y")),
    "context": (DENSE, ((4,), ("S",)), Axes(context="S")),
    "data + context + tensor": (DENSE, ((2, 2, 2), ("X", "S", "Y")), Axes(data="X", context="S", tensor="Y")),
    "experts": (EXPERTS, ((4,), ("E",)), Axes(experts="E")),
    "FSDP + experts": (EXPERTS, ((2, 2), ("X", "E")), Axes(fsdp="X", experts="E")),
}


@cache
def one_device(c):
    params, rows = random_params(c), tokens(c, B, T + 1)

    @jax.jit
    def step(params, moments):
        loss, gradients = jax.value_and_grad(decoder.loss)(params, rows, c)
        return *ADAM.update(params, gradients, moments), loss

    out, moments = [], ADAM.start(params)
    for _ in range(2):
        params, moments, loss = step(params, moments)
        out.append((params, loss))
    return out


@pytest.mark.parametrize("c, grid, axes", WAYS.values(), ids=WAYS)
@pytest.mark.sample(quick=1, slow=3)
def test_weights_equal_one_device_step_by_step(c, grid, axes):
    """Two steps of Adam, every array of parameters."""
    mesh, rows = meshes.mesh(*grid), tokens(c, B, T + 1)
    params, moments = transformer_over_mesh.start(c, mesh, axes, random_params(c))
    step = transformer_over_mesh.step(c, mesh, axes, ADAM)
    for want, loss in one_device(c):
        params, moments, said = step(params, moments, rows)
        np.testing.assert_allclose(said, loss, rtol=1e-5)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=3e-4), params, want)
    if axes.fsdp:
        n = mesh.shape[axes.fsdp]
        for a in jax.tree.leaves((params, moments.mean)):
            assert a.addressable_shards[0].data.size * n <= a.size


# What is sent: V of each kind of collective, forward and in all, per run.


@cache
def traced(c, grid, axes, B=8, T=16):
    """What the forward pass sends, and what a whole step does; nothing is run."""
    mesh = meshes.mesh(*grid)
    bf16 = lambda tree: jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, jnp.bfloat16), tree)  # noqa: E731
    params = bf16(jax.eval_shape(lambda: decoder.init(c, jax.random.key(0))))
    rows = jax.ShapeDtypeStruct((B, T + 1), jnp.int32)
    moments = jax.eval_shape(ADAM.start, params)
    return (
        trace.sent(transformer_over_mesh.loss(c, mesh, axes), params, rows),
        trace.sent(transformer_over_mesh.step(c, mesh, axes, ADAM), params, moments, rows),
    )


def bytes_of(c, B=8, T=16):
    """Bytes of all weights of the layers, of those outside, of the norms inside, and of one activation."""
    D, N, K, H, F, V, L = c.D, c.N, c.K, c.H, c.F, c.V, c.L
    layers, norms = 2 * L * (2 * D * N * H + 2 * D * K * H + 3 * D * F), 2 * L * 2 * D
    return layers, 2 * (2 * V * D + D), norms, 2 * B * T * D


PODS = (DENSE, ((2, 2, 2), ("P", "X", "Y")), Axes(data="P", fsdp="X", tensor="Y"))
LAYOUTS = {
    "data": Layout(dp=4),
    "FSDP": Layout(fsdp=4),
    "tensor": Layout(tp=2),
    "FSDP + tensor": Layout(fsdp=4, tp=2),
    "context": Layout(cp=4),
    "data + context + tensor": Layout(dp=2, cp=2, tp=2),
    "experts": Layout(ep=4),
    "FSDP + experts": Layout(fsdp=2, ep=2),
    "pods": Layout(pods=2, fsdp=2, tp=2),
}


def predicted(c, layout, axes):
    """[forward, the rest]: {(kind, mesh axes): bytes V} that `training.step` says the layers send; a ring's keys as its hops."""
    v5p, names = (
        chip("v5p"),
        dict(dp=axes.data, pods=axes.data, fsdp=axes.fsdp, tp=axes.tensor, cp=axes.context, ep=axes.experts),
    )
    out = Counter(), Counter()
    for L, sign in ((2 * c.L, 1), (c.L, -1)):  # what stands outside of the layers cancels
        s = Slice(v5p, (layout.chips, 1, 1))
        for x in training_step.step(replace(c, L=L), replace(layout, policy="matmuls"), 8 * 16, 16, s).sent:
            over = [a for a in x.axes if getattr(layout, a) > 1]
            n, ring = prod(getattr(layout, a) for a in over), x.role == "keys"
            key = "Permute" if ring else x.kind, frozenset(names[a] for a in over)
            out[x.when != "forward"][key] += sign * x.times * x.bytes * ((n - 1) / n if ring else 1)
    return [dict(some) for some in out]


def counted(c, grid, axes, layers=True):
    """The same, of the traced program: what stands in the loop over layers, or outside of it."""
    mesh, out = meshes.mesh(*grid), [Counter(), Counter()]
    for some, sent in zip(out, traced(c, grid, axes)):
        for x in sent:
            if ("scan" in x.note) == layers:
                some[x.kind, frozenset(x.axes)] += x.times * x.V(meshes.costs_mesh(mesh))
    return [dict(out[0]), dict(out[1] - out[0])]


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.sample(quick=3, slow=4)
def test_layers_send_what_the_predicted_step_does(name):
    """Kind, axes and bytes, but for what the docstring of `transformer_over_mesh` owns up to."""
    c, grid, axes = WAYS.get(name, PODS)
    axes = replace(axes, capacity=1.0) if axes.experts else axes  # as many places as tokens ask for: k
    layout, norms, kv = LAYOUTS[name], bytes_of(c)[2], 2 * 2 * 8 * 16 * c.K * c.H * c.L
    there, rest = predicted(c, layout, axes)
    if axes.context:
        share = layout.dp * layout.tp * layout.cp  # keys and values of one device
        rest["Permute", frozenset("S")] += kv / share  # the gradients' last hop, home
    if axes.tensor:
        copies = frozenset(filter(None, (axes.data, axes.context)))
        if copies:
            rest["AllReduce", copies] -= norms / layout.fsdp
        rest["AllReduce", copies | {"Y"}] = norms / layout.fsdp
    assert counted(c, grid, axes) == [there, rest]
    # The embedding, the unembedding and the last norm, once each: gathered, scattered, and added up where they are copies.
    outside, over, copies = bytes_of(c)[1], frozenset(axes.fsdp or ""), frozenset(grid[1]) - {axes.fsdp}
    gather, scatter = ({(kind, over): outside} if over else {} for kind in ("AllGather", "ReduceScatter"))
    added = {("AllReduce", copies): outside / layout.fsdp} if copies else {}
    assert counted(c, grid, axes, layers=False) == [gather, scatter | added]


@pytest.mark.parametrize("c, grid, axes, said", [
    (DENSE, ((8,), ("X",)), Axes(data="X"), "8 devices do not divide 4 sequences: take a multiple of 8"),
    (DENSE, ((4,), ("Y",)), Axes(tensor="Y"), "4 devices do not divide 2 KV heads"),
    (DENSE, ((4,), ("X",)), Axes(), "each axis of the mesh, X, has one way to train, and these have: none"),
    (DENSE, ((4,), ("X",)), Axes(data="X", fsdp="Q"), "each axis of the mesh, X, has one way to train, and these have: X, Q"),
    (EXPERTS, ((4,), ("X",)), Axes(data="X"), "a decoder of experts"),
    (toy(biases=("qkv",)), ((4,), ("X",)), Axes(data="X"), "without biases"),
    (toy(D=10), ((4,), ("X",)), Axes(fsdp="X"), "4 devices do not divide 10 numbers of D"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(c, grid, axes, said):
    rows = jax.ShapeDtypeStruct((B, T + 1), jnp.int32)
    with pytest.raises(ValueError, match=said):
        jax.eval_shape(transformer_over_mesh.loss(c, meshes.mesh(*grid), axes), random_params(c), rows)


@pytest.mark.parametrize(
    "c, axes, said", [(DENSE, Axes(data="Q"), "axis of the mesh, X"), (toy(D=10), Axes(fsdp="X"), "10 numbers of D")]
)
def test_what_does_not_fit_is_refused_at_the_start(c, axes, said):
    with pytest.raises(ValueError, match=said):
        transformer_over_mesh.start(c, meshes.mesh((4,), ("X",)), axes, random_params(c))
