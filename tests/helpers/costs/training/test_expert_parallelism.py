"""Widths of experts that hide their AllToAlls: against a count of links, the traced program and the predicted step."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest

from helpers import trace
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training import closed_forms as experts, training_step
from helpers.costs.training.layout import Layout
from helpers.costs.transformers.config import Config, MoE
from helpers.costs.transformers.public_models import model
from helpers.kernels import mesh as meshes
from helpers.kernels.training.transformer_over_mesh import Axes, loss
from helpers.kernels.transformers import decoder
from tests.helpers.costs.tables import walks


def links_of(shape, wraps):
    """The most bytes that a link carries, one direction, if each chip of a torus sends 1/chips to every one, axis by axis."""
    from collections import Counter
    from itertools import product

    chips = list(product(*map(range, shape)))
    load = Counter()
    for a, b in product(chips, chips):
        at = list(a)
        for i, n in enumerate(shape):
            far = b[i] - at[i]
            ways = [(+1, far % n), (-1, -far % n)] if wraps else [(+1, far), (-1, -far)]
            least = min(d for _, d in ways if d >= 0)
            best = [(sign, d) for sign, d in ways if d == least and d]
            for sign, d in best:  # what is as far both ways goes half each way
                x = list(at)
                for _ in range(d):
                    load[i, sign, tuple(x)] += 1 / len(best) / len(chips)
                    x[i] = (x[i] + sign) % n
            at[i] = b[i]
    return max(load.values())


@walks([((4,), True), ((5,), True), ((4, 8), True), ((2, 3, 4), True), ((4,), False), ((5, 3), False)])
def test_widths_on_a_torus_are_those_of_counted_links(shape, wraps):
    """A device sends 1, of which the busiest link carries that much: F where twice this takes as long as the products."""
    wraps = wraps and max(shape) > 2
    W, C, D, t, k = 9e10, 4.59e14, 64, 100, 2
    sends = links_of(shape, wraps) * 2 * t * k * D / W  # seconds of one AllToAll
    F = experts.expert_width_on_rings(C / (2 * W), max(shape), wraps)
    assert 6 * t * k * D * F / C == pytest.approx(2 * sends)


@walks([(True, 1.0, 8), (True, 2.0, 8), (False, 1.0, 16)])
def test_the_threshold_is_that_of_the_traced_program(gated, factor, batch):
    """Bytes that a device of the expert-parallel decoder sends, FLOPs that a wider expert costs it: whatever batch and capacity."""
    n, C, W = 4, 9.89e14, 5e10
    mesh, axes = meshes.mesh((n,), ("E",)), Axes(experts="E", capacity=factor)

    def traced(F):
        c = Config(D=8, L=2, N=4, K=2, H=4, F=12, V=13, moe=MoE(E=8, k=2, F=F), gated=gated)
        bf16 = lambda a: jax.ShapeDtypeStruct(a.shape, jnp.bfloat16)  # noqa: E731
        params = jax.tree.map(bf16, jax.eval_shape(partial(decoder.init, c), jax.random.key(0)))
        program, given = loss(c, mesh, axes), (params, jax.ShapeDtypeStruct((batch, 17), jnp.int32))
        sent = sum(x.times * x.bytes for x in trace.sent(program, *given) if x.kind == "AllToAll")
        return sent * (1 - 1 / n), trace.count(program, *given).matmul_flops / n

    (sent, one), (same, two) = traced(10), traced(11)
    assert sent == same
    width = sent / W / ((two - one) / C)
    assert width == pytest.approx(experts.expert_width(C / W, n, matrices=2 + gated))
    tokens = factor * batch * 16 / n
    assert sent == experts.expert_bytes(tokens, 8, 2, n) * 2  # in two layers
    assert two - one == 2 * (2 + gated) * tokens * 2 * 8 * 2


def test_a_predicted_step_waits_for_its_experts_where_the_formula_says():
    """`training.step` on a cube of v5p: seconds of both AllToAlls over those of the experts' products, forward."""
    c, cube = model("deepseek-v3"), Slice(chip("v5p"), (8, 8, 8))
    at = training_step.step(c, Layout(ep=8, fsdp=64), 2**21, 4096, cube)
    layers = sum(n for kind, n in c.groups if kind.moe)
    sends = sum(x.seconds for x in at.sent if x.kind == "AllToAll" and x.when == "forward")
    math = layers * 6 * 2**21 / 512 * c.moe.k * c.D * c.moe.F / cube.chip.rate()
    assert math / sends == pytest.approx(c.moe.F / experts.expert_width_on_rings(2550, 8), rel=1e-3)
    assert math < sends
