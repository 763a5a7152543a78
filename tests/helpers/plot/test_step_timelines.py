"""A step over time: nothing runs twice at once, nothing before what it needs, and links stick out where the formula says."""

import pytest

from helpers import plot
from helpers.costs.rooflines.chips import chip
from helpers.costs.training.closed_forms import accumulation_bytes
from helpers.costs.training.dp_fsdp_tp import cost, data_ratio

V5P = chip("v5p")
L, N, D, F, M = 6, 64, 8192, 32768, 3


def run(strategy, tokens):
    return plot.spans(strategy, L, tokens * N, D, F, N, V5P, M)


@pytest.mark.parametrize("strategy", ["DP", "FSDP"])
@pytest.mark.parametrize("tokens", [200, 850, 3400])
def test_one_thing_at_a_time_and_nothing_too_early(strategy, tokens):
    some = run(strategy, tokens)
    for row in (0, 1):
        own = sorted((s for s in some if s.row == row), key=lambda s: s.start)
        assert all(a.end <= b.start + 1e-12 for a, b in zip(own, own[1:]))
    for s in some:
        if s.kind in ("ReduceScatter", "AllReduce"):
            assert s.start >= next(b for b in some if b.kind == "backward" and b.layer == s.layer).end - 1e-12
        if s.row == 0 and strategy == "FSDP":
            assert any(g.kind == "AllGather" and g.layer == s.layer and g.end <= s.start + 1e-12 for g in some)


@pytest.mark.parametrize("strategy", ["DP", "FSDP"])
def test_seconds_are_those_of_the_cost_function(strategy):
    some = run(strategy, 850)
    there, back = (p.time(V5P.rate(), V5P.link_bandwidth, {"X": M}).parts for p in cost(strategy, 850 * N, D, F, X=N))
    assert sum(s.seconds for s in some if s.row == 0) == pytest.approx(L * (there["math"] + back["math"]))
    assert sum(s.seconds for s in some if s.row == 1) == pytest.approx(L * (there["X"] + back["X"]))


@pytest.mark.parametrize("strategy", ["DP", "FSDP"])
def test_links_stick_out_below_the_threshold(strategy):
    """Above it a step takes its arithmetic and one layer's sends at its ends; far below it as long as the links."""
    for tokens in (425, 1700):
        some = run(strategy, tokens)
        end = max(s.end for s in some)
        math, links = (sum(s.seconds for s in some if s.row == row) for row in (0, 1))
        hidden = data_ratio(tokens * N, N, V5P.alpha_ici(), M) > 1
        ends = sum(s.seconds for s in some if s.row == 1 and s.layer == 0)
        assert (end <= math + ends + 1e-12) == hidden and (hidden or end >= links - 1e-12)


@pytest.mark.parametrize("way", ["DP", "DP, summed once", "FSDP", "FSDP, scattered once"])
def test_microbatches_send_the_bytes_of_their_way(way):
    once = way.endswith("once")
    some = plot.spans(way.split(",")[0], L, 850 * N, D, F, N, V5P, M, micro=4, once=once)
    links, math = (sum(s.seconds for s in some if s.row == row) for row in (1, 0))
    assert links == pytest.approx(L * accumulation_bytes(way, 4, D, F) / (2 * V5P.link_bandwidth * M))
    assert math == pytest.approx(L * 12 * 850 * D * F / V5P.rate())
    last = sorted(s.start for s in some if s.kind == "backward")[-L:]
    sums = [s.start for s in some if s.kind in ("AllReduce", "ReduceScatter")]
    assert len(sums) == (L if once else 4 * L) and (min(sums) > last[0]) == once
