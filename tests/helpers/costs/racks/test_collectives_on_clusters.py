"""Collectives on clusters: no algorithm beats the cut of the wiring, and sizes at which one overtakes another, searched."""

import pytest

from helpers.costs.racks import tiered_collectives as on
from helpers.costs.racks.cluster import hosts, racks, slices
from helpers.costs.racks.cut import bottleneck
from tests.helpers.costs.tables import refused, walks

CLUSTERS = {
    "hosts": hosts("H100", 8), "two hosts": hosts("B200", 2), "groups": hosts("H100", 16, group=4),
    "thin": hosts("H100", 16, group=4, oversubscription=4), "racks": racks("GB200", 2), "a rack": racks("GB200", 1),
    "older": hosts("A100", 4), "v5p": slices("v5p", (4, 4, 4)), "v5p slices": slices("v5p", (4, 4, 4), 2),
    "v5e": slices("v5e", (4, 8)),
}  # fmt: skip


@walks(CLUSTERS, ["AllGather", "ReduceScatter", "AllReduce", "AllToAll"])
def test_nothing_beats_the_cut_but_what_the_switch_adds(name, kind):
    c = CLUSTERS[name]
    cut = bottleneck(c, kind).seconds
    best = {a: on.cluster_time(c, kind, 1.0, a, hop=0.0, hop_dcn=0.0).lower for a in on.algorithms(c, kind)}
    for a, seconds in best.items():
        if kind == "AllReduce" and (a in ("nvls", "tree") or c.chip.axes):
            continue  # the switch adds; two trees between two need one exchange; lines sum faster than they gather twice
        assert seconds >= cut * (1 - 1e-9), a
    slowest_good = 1.15 if c.chip.axes else 1.05
    if kind != "AllReduce" or not c.chip.axes:
        assert min(best.values()) <= cut * (1.35 if kind == "AllToAll" and c.chip.axes else slowest_good)


@walks([1, 2, 3])
def test_an_all_to_all_over_slices_block_by_block(m):
    """Blocks for other slices cross the network in m - 1 messages of a chip, and are spread inside as a slice's own are."""
    c, V = slices("v5e", (4, 4), m), 960.0
    inside, across = on.moves(c, "AllToAll", V, "direct")
    n = c.chips
    away = sum(V / n**2 for other in range(1, m) for _ in range(16))  # a block for each chip of another slice
    assert across.bytes == pytest.approx(away) and across.hops == (m > 1)  # all messages at once
    one = on.moves(slices("v5e", (4, 4)), "AllToAll", 16**2 * V / n**2, "direct")[0]  # a block for each pair of a slice
    assert inside.bytes == pytest.approx(m * one.bytes) and inside.hops == one.hops  # and those of m - 1 other slices


def test_hops_of_both_tiers_follow_each_other():
    """One number: it passes every hop, and no byte waits; a large array waits for the tier that takes longer."""
    c = hosts("H100", 32)
    for a, inside, across in (("ring", 448, 62), ("hierarchical", 14, 62), ("tree", 14, 10)):
        t = on.cluster_time(c, "AllReduce", 0.0, a, 3e-6, 1e-5)
        assert t.lower == t.upper == pytest.approx(inside * 3e-6 + across * 1e-5)
        bare = on.cluster_time(c, "AllReduce", 1e9, a, 0.0, 0.0)
        t = on.cluster_time(c, "AllReduce", 1e9, a, 3e-6, 1e-5)
        assert bare.lower == max(bare.parts.values())
        assert t.lower == pytest.approx(inside * 3e-6 + across * 1e-5 + bare.lower)
        assert max(t.parts.values()) < t.lower < t.upper


def test_errors_say_what_would_be_right():
    two = hosts("H100", 2)
    refused(
        (lambda: on.algorithms(two, "Broadcast"), "not 'Broadcast'"),
        (lambda: on.moves(hosts("A100", 2), "AllReduce", 1.0, "nvls"), "ring, hierarchical, tree, not by 'nvls'"),
        (lambda: on.moves(slices("v5p", (4, 4, 4)), "AllToAll", 1.0, "rails"), "by one of direct"),
        (lambda: on.fastest(two, "AllReduce", 1.0, "fast"), "fastest: hop is a number or None, not 'fast'"),
    )
