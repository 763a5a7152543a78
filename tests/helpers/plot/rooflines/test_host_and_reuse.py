"""A host is drawn as its chip says, and a number reaches the results that it is used for."""

import pytest

from helpers import plot, show
from helpers.costs.rooflines.chips import chip
from helpers.plot.rooflines import reuse
from tests.helpers.plot.drawn import ALT, texts


@pytest.mark.parametrize("name", ["v5e", "v5p", "v7", "H100", "GB200"])
@pytest.mark.sample(quick=2)
def test_a_host_has_its_chips_its_ways_out_and_their_rates(name):
    c = chip(name)
    drawn = plot.host(c, "a host with its chips")
    said, arrows = " ".join(texts(drawn)), len(drawn.figure.axes[0].patches) - 2 - c.chips_per_host
    for rate in (c.dcn_bandwidth, c.link_bandwidth):
        assert show.rate(rate) in said
    assert (show.rate(c.pcie_bandwidth) if c.pcie_bandwidth else "not\npublished") in said
    # PCIe and a link down for each chip, two at the cards, and of a torus one more between neighbours than there are chips
    assert arrows == 2 * c.chips_per_host + 2 + (c.chips_per_host + 1 if c.axes else 1)
    assert ("72 chips on it" in said) == (name == "GB200")


def test_a_weight_is_used_for_every_row_and_other_numbers_once():
    drawn = plot.reuse("three operations and what one number is used for")
    reached = [sum(p.get_facecolor()[:3] == _rgb(reuse.REACHED) for p in ax.patches) for ax in drawn.figure.axes]
    assert reached == [1, 1, reuse.B]


def _rgb(colour: str):
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


@pytest.mark.parametrize("name", ["H100", "v5e"])
def test_rows_and_times_are_to_scale(name):
    """Bars by hand: bytes over bandwidth and FLOPs over rate, of one length a second in all panels; rows as thick as their share."""
    rows, D, F, c = (1, 64, 2048), 8192, 4096, chip(name)
    picture = plot.rows_and_times(rows, D, F, c, ALT)
    above, below = picture.figure.axes[: len(rows)], picture.figure.axes[len(rows) :]
    for B, product, bars in zip(rows, above, below, strict=True):
        x, weights, out = (p.get_height() for p in product.patches)
        assert weights == 1 and x == out == pytest.approx(max(B / D, 0.02))
        assert [p.get_width() for p in product.patches] == [1, F / D, F / D]
        lengths = [p.get_width() for p in bars.patches]
        by_hand = [2 * (B * D + D * F + B * F) / c.hbm_bandwidth, 2 * B * D * F / c.rate()]
        assert lengths == pytest.approx(by_hand)
        assert {t.get_text() for t in bars.texts} == {"bytes", "FLOPs", *map(show.seconds, by_hand)}
    assert len({tuple(ax.get_xlim()) for ax in below}) == 1
