"""Collectives on clusters: no algorithm beats the cut of the wiring, and sizes at which one overtakes another, searched."""

import random

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from helpers.costs.racks import tiered_collectives as on
from helpers.costs.racks.cluster import Cluster, hosts, racks, slices, wiring
from helpers.costs.racks.cut import bottleneck, every_cut, max_flow, needs
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
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
        (lambda: on.algorithms(two, "Broadcast"), "algorithms: kind is one of 'AllGather', .*, not 'Broadcast'"),
        (lambda: on.moves(hosts("A100", 2), "AllReduce", 1.0, "nvls"), "ring, hierarchical, tree, not by 'nvls'"),
        (lambda: on.moves(slices("v5p", (4, 4, 4)), "AllToAll", 1.0, "rails"), "by one of direct"),
        (
            lambda: on.cluster_time(two, "AllReduce", 1.0, "ring", "fast"),
            "cluster_time: hop is a number or None, not 'fast'",
        ),
    )


SMALL = {
    "one host": hosts("H100", 1), "two hosts": hosts("H100", 2, chips=4), "three hosts": hosts("B200", 3, chips=3),
    "two groups": hosts("H100", 4, group=2, chips=2), "pieces of racks": Cluster(Slice(chip("GB200"), (4,)), 2),
    "two groups, oversubscribed": hosts("H100", 4, group=2, oversubscription=4, chips=2),
    "v5p, a slice": slices("v5p", (2, 2, 2)), "v5p, two slices": slices("v5p", (2, 2, 1), 2),
    "v5e, a line": slices("v5e", (1, 8)), "v5e, a block": slices("v5e", (2, 4)),
}  # fmt: skip


@walks(SMALL, ["AllGather", "AllReduce", "AllToAll"])
def test_the_listed_sides_are_as_tight_as_any(name, kind):
    assert bottleneck(SMALL[name], kind).seconds == pytest.approx(every_cut(SMALL[name], kind).seconds)


@walks(SMALL)
def test_flows_are_those_of_scipy(name):
    w, rng = wiring(SMALL[name], switches=2, spines=2), random.Random(name)
    at = {n.name: i for i, n in enumerate(w.nodes)}
    for _ in range(5):
        chips = rng.sample(w.chips, rng.randint(2, len(w.chips)))
        few = rng.randint(1, len(chips) - 1)
        whole = np.zeros((len(at) + 2,) * 2, np.int32)
        for x in w.links:
            whole[at[x.a], at[x.b]] += round(x.W / 1e7)
            whole[at[x.b], at[x.a]] += round(x.W / 1e7)
        whole[-2, [at[x] for x in chips[:few]]] = whole[[at[x] for x in chips[few:]], -1] = 10**6
        flow = maximum_flow(csr_array(whole), len(at), len(at) + 1).flow_value
        assert max_flow(w.links, chips[:few], chips[few:]) == pytest.approx(flow * 1e7, rel=1e-6)


def test_errors_of_clusters_and_cuts_say_what_would_be_right():
    refused(
        (lambda: hosts("H100", 3, group=2), "3 domains do not make whole groups of 2"),
        (lambda: hosts("H100", 2, oversubscription=0.5), "1 .none. or more, not 0.5"),
        (lambda: Cluster(Slice(chip("v5p"), (2, 2, 2)), 4, group=2), "one network here"),
        (lambda: bottleneck(hosts("H100", 2), "Permute"), "bottleneck: kind is one of .*, not 'Permute'"),
        (lambda: bottleneck(hosts("H100", 1, chips=1), "AllGather"), "2 or more"),
        (lambda: every_cut(hosts("H100", 2), "AllGather"), "up to 12"),
        (lambda: max_flow((), ["a"], ["a"]), "'a' is on both sides"),
        (lambda: needs("Scatter", 1, 2), "needs: kind is one of .*, 'AllToAll', not 'Scatter'"),
        (lambda: needs("AllGather", 17, 16), "of 16 chips has at most as many, not 17"),
        (lambda: max_flow((), "chip 0.0", ["b"]), r"several names: write \['chip 0.0'\]"),
        (lambda: max_flow((), 3, ["b"]), "max_flow: sources is a tuple or list, and each of it a text, not 3"),
        (lambda: hosts("H100", 2).egress(3), "fewer than 3"),
    )
