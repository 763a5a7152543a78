"""Thresholds against a search of the least batch or width at which arithmetic takes longest, and against cuts."""

import pytest

from helpers.costs.racks import training_over_tiers as limits
from helpers.costs.racks.cluster import hosts, racks, slices
from helpers.costs.racks.cut import bottleneck
from helpers.costs.racks.tiered_collectives import domains_reached
from helpers.costs.rooflines.chips import chip
from helpers.costs.training.closed_forms import expert_width
from helpers.costs.training.dp_fsdp_tp import data_batch
from tests.helpers.costs.tables import walks

H100 = (9.89e14, 8, 128, 4.5e11, 5e10)
RACK = (2.5e15, 72, 16, 9e11, 5e10)


def least(hides, low=1.0, high=1e7):
    """The least x from which `hides(x)` holds, by halving."""
    while high / low > 1 + 1e-9:
        mid = (low * high) ** 0.5
        low, high = (low, mid) if hides(mid) else (mid, high)
    return high


def sent(pairs):
    """Most bytes that leave or reach one chip's NVLinks, and its card, of (from, to, bytes) with (domain, index) for chips."""
    out, into = {}, {}
    for a, b, n in pairs:
        tier = a[0] == b[0]
        out[tier, a] = out.get((tier, a), 0) + n
        into[tier, b] = into.get((tier, b), 0) + n
    return [max((n for x in (out, into) for (t, _), n in x.items() if t is tier), default=0) for tier in (True, False)]


@walks([1, 2, 4, 8], [5e10, 1e12])
def test_fsdp_with_tp_by_every_message(Y, W_dcn):
    """4 domains of 8: chips of one place in their TP group gather its Y-th of the weights, across first and then inside.

    Over the same links TP gathers In and scatters Out of its group's b·Y tokens; a very wide F leaves nearly nothing of that.
    """
    C, g, m, W, D = 9.89e14, 8, 4, 4.5e11, 1024

    def hides(b, F):
        shard = 4 * D * F / Y / (g // Y * m)
        pairs = []
        for d in range(m):
            for i in range(g):
                pairs += [((d, i), (e, i), shard) for e in range(m) if e != d]
                pairs += [((d, i), (d, j), shard * m) for j in range(i % Y, g, Y) if j != i]
                pairs += [((d, i), (d, j), 2 * 2 * b * D) for j in range(i - i % Y, i - i % Y + Y) if j != i]
        inside, across = sent(pairs)
        return 4 * b * D * F / C >= max(inside / W, across / W_dcn)

    for F in (28672, 16384):
        want = least(lambda b: hides(b, F))  # noqa: B023
        assert limits.data_tokens(C, g, m, W, W_dcn, Y, F) == pytest.approx(want, rel=1e-6)
    without, wide, narrow = (limits.data_tokens(C, g, m, W, W_dcn, Y, F) for F in (float("inf"), 1e12, 16384))
    assert without == limits.data_tokens(C, g, m, W, W_dcn, Y) == pytest.approx(wide) and without <= narrow


@walks([H100, RACK], [(1, 2), (1, 8), (2, 8), (8, 8), (2, 72)])
def test_tp_by_every_message(machine, chips):
    """An AllGather of In and a ReduceScatter of Out, each a 2·B·D array over Y chips."""
    (C, g, _, W, W_dcn), (groups, inside), B, D = machine, chips, 4096, 1024
    g, Y = (g, inside) if groups == 1 else (inside, groups * inside)
    shard, pairs = 2 * B * D / Y, []
    for d in range(groups):
        for i in range(inside):
            pairs += [((d, i), (e, i), shard) for e in range(groups) if e != d]
            pairs += [((d, i), (d, j), shard * groups) for j in range(inside) if j != i]
    nvlink, card = sent(pairs)
    seconds = 2 * max(nvlink / W, card / W_dcn)
    want = least(lambda F: 4 * B * D * F / Y / C >= seconds)
    assert limits.tensor_width(C, Y, g, W, W_dcn) == pytest.approx(want, rel=1e-6)


def test_in_one_domain_and_on_a_torus_these_are_the_formulas_of_chapter_4():
    assert limits.expert_width_over_domains(9.89e14, 8, 1, 8, 4.5e11, 5e10) == pytest.approx(
        expert_width(9.89e14 / 4.5e11, 8)
    )
    for name in ("v5p", "v7"):
        t = limits.thresholds(slices(name, (16, 16, 16)), F=28672)
        assert t.fsdp == pytest.approx(data_batch(chip(name).alpha_ici(), 3))
        assert t.hsdp == (t.fsdp, 0.0)
    two = limits.thresholds(slices("v5p", (8, 8, 8), 2), F=28672)
    assert two.hsdp[1] == pytest.approx(chip("v5p").alpha_dcn() / 2 / 512)


def test_experts_lie_on_chips_that_there_are():
    """Whole domains: what is said of so many chips is the formula of these."""
    many, two, four = hosts("H100", 128), hosts("H100", 2), racks("GB200", 4)
    numbers = (64, 8, 8), (100, 8, 12), (64, 8, 2), (4, 4, 1), (100, 72, 1), (150, 72, 2)
    for c, (asked, inside, over) in zip((many, many, two, two, four, four), numbers):
        t, chip_ = limits.thresholds(c, F=28672, ep_chips=asked), c.chip
        assert t.ep_chips == inside * over <= c.chips
        reached = domains_reached(8, over, 256) if over > 1 else None
        rates = chip_.link_bandwidth, chip_.dcn_bandwidth
        assert t.ep == limits.expert_width_over_domains(chip_.rate(), inside, over, 8, *rates, reached)
    assert (
        limits.thresholds(hosts("H100", 128), F=28672, limit=4).ep < limits.thresholds(hosts("H100", 128), F=28672).ep
    )
    assert limits.thresholds(slices("v5p", (2, 4, 8)), F=28672).ep_chips == 8
    with pytest.raises(ValueError, match="ep_chips is a whole number of 1 or more, not 2.5"):
        limits.thresholds(hosts("H100", 2), F=28672, ep_chips=2.5)


@walks([("v5p", 4), ("v7", 2)])
def test_tp_on_a_torus_by_cuts_of_lines(name, widest):
    """TP takes neighbours along one axis, a line; FSDP has the two other axes."""
    c, F = chip(name), 28672
    C, W = c.rate(), c.link_bandwidth
    least_f = {Y: Y * C * bottleneck(slices(name, (Y, 1, 1)), "AllGather").seconds for Y in (2, 4, 8)}
    assert max(Y for Y in least_f if least_f[Y] <= F) == widest
    t = limits.thresholds(slices(name, (16, 16, 16)), F=F)
    assert t.tp == widest
    assert t.with_tp == pytest.approx(C / (2 * 2 * W) / widest)
    # A mask, a ring both ways, and eight query heads for each of keys and values.
    assert t.cp == pytest.approx(2 * C / (2 * W) / 8)
    assert limits.thresholds(slices(name, (16, 16, 16)), F=1).tp == 1
    t = limits.thresholds(slices(name, (4, 4, 6)), F=10**9)
    assert t.tp == 32 and t.ep_chips == 64  # 64 does not divide 96
    assert t.with_tp < float("inf")  # no axis is left alone, and TP sends little
