"""Drawings of shapes and places: what they show is what a chip publishes, and what a sharding says each device holds."""

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from helpers import plot, show
from helpers.costs.rooflines.chips import chip
from helpers.costs.sharding.sharded_array import Mesh, parse
from helpers.plot.sharding.four_cases import CASES
from helpers.plot.sharding.sharded_arrays import holders
from tests.helpers.plot.drawn import ALT, texts


@pytest.mark.parametrize("name", ["v5e", "v5p", "v7", "H100", "B200", "A100"])
@pytest.mark.sample(quick=2)
def test_a_chip_carries_its_own_rates(name):
    c, said = chip(name), "\n".join(texts(plot.chip(chip(name), ALT)))
    for rate in filter(None, (c.fast_bandwidth, c.hbm_bandwidth, c.pcie_bandwidth, c.link_bandwidth)):
        assert show.rate(rate) in said and f"C/W = {c.rate() / rate:,.0f}" in said
    assert show.bytes(c.hbm_bytes) in said and ("not published" in said) == (
        None in (c.fast_bandwidth, c.pcie_bandwidth)
    )


def test_the_four_cases_show_who_holds_what():
    """The owner of each drawn block is the device that the notation says."""
    mesh = Mesh({"X": 2})
    for _, parts, _ in CASES:
        for m in parts:
            if isinstance(m, str) or "[" not in m.name or m.partial:
                continue
            held = holders(parse(m.name), mesh)
            assert len(held) == len(m.owner) == m.parts[0] * m.parts[1]
            assert [-1 if len(groups[0]) == 2 else groups[0][0] for groups in held.values()] == list(m.owner)


def test_products_draw_each_block_and_both_summands():
    picture = plot.four_cases(ALT)
    third = picture.figure.axes[2]
    drawn = [p for p in third.patches if isinstance(p, Rectangle) and to_hex(p.get_facecolor()) != "#ffffff"]
    assert len(drawn) == 2 + 2 + 2
    assert "AllGather one operand first" in "\n".join(texts(picture))


def test_each_pass_computes_its_own_keys():
    """A prefill of 4 has 4·5/2 scores; step i has one query and 4 + i keys, one of them new."""
    ax = plot.prefill_and_decode(4, 2, ALT).figure.axes[0]
    filled = [p for p in ax.patches if p.get_fill()]
    scores = [p for p in filled if p.get_y() >= 0]
    assert len(scores) == 10 + 5 + 6 and sum(p.get_hatch() == "//" for p in scores) == 4 + 5
    assert len(filled) - len(scores) == 4 + 5 + 6
