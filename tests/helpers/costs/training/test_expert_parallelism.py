"""Widths of experts that hide their AllToAlls: against a count of links, the traced program and the predicted step."""

import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training import closed_forms as experts, training_step
from helpers.costs.training.layout import Layout
from helpers.costs.transformers.public_models import model
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


def test_a_predicted_step_waits_for_its_experts_where_the_formula_says():
    """`training.step` on a cube of v5p: seconds of both AllToAlls over those of the experts' products, forward."""
    c, cube = model("deepseek-v3"), Slice(chip("v5p"), (8, 8, 8))
    at = training_step.step(c, Layout(ep=8, fsdp=64), 2**21, 4096, cube)
    layers = sum(n for kind, n in c.groups if kind.moe)
    sends = sum(x.seconds for x in at.sent if x.kind == "AllToAll" and x.when == "forward")
    math = layers * 6 * 2**21 / 512 * c.moe.k * c.D * c.moe.F / cube.chip.rate()
    assert math / sends == pytest.approx(c.moe.F / experts.expert_width_on_rings(2550, 8), rel=1e-3)
    assert math < sends
