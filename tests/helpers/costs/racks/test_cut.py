"""Cuts of clusters against every set of chips, against SciPy's flow, and against what programs over the wiring need."""

import random
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from helpers.costs.racks.cluster import Cluster, hosts, racks, slices, wiring
from helpers.costs.racks.cut import bottleneck, every_cut, max_flow, needs
from helpers.costs.racks.tiered_collectives import alpha_beta, hierarchical, swap_tiers
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.sharding.collective_prices import PUBLISHED, collective_seconds
from helpers.costs.training.layout import Layout, groups
from tests.helpers.costs.tables import refused, walks

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


@pytest.mark.slow("wires a thousand chips")
def test_wiring_is_the_reference_architecture():
    superpod = hosts("H100", 128)  # 1024 GPUs: 32 leaf and 16 spine switches of 64 ports with 50e9 bytes/s
    w = wiring(superpod, switches=4, spines=16)
    kinds = [n.kind for n in w.nodes]
    assert [kinds.count(k) for k in ("chip", "switch", "leaf", "spine")] == [1024, 512, 32, 16]
    for n in w.nodes:
        mine = [x for x in w.links if n.name in (x.a, x.b)]
        ports = sum(x.W for x in mine) / 5e10
        if n.kind in ("leaf", "spine"):
            assert ports == pytest.approx(64)
        elif n.kind == "chip":
            assert ports == pytest.approx(9 + 1)
    half = [n.name for n in w.nodes if n.kind == "chip" and n.place[0] < 64]
    assert max_flow(w.links, half, set(w.chips) - set(half)) == pytest.approx(64 * 400e9)  # full bisection
    assert racks("GB200", 2).rails == 4 and racks("GB200", 2).egress() == pytest.approx(3.6e12)


def test_one_description_of_tiers():
    """What layouts price is what the cluster is made of."""
    for name, m in (("H100", 4), ("B200", 2), ("GB200", 3)):
        c = Cluster(Slice(chip(name), (chip(name).pod[0],)), m)
        g = c.domain.chips
        group, rates = groups(Layout(dp=g * m, pods=m), c.domain)("dp"), PUBLISHED.on(c.chip, hop=0.0)
        price = {kind: collective_seconds(kind, 1.0, group, rates) for kind in ("AllGather", "AllReduce", "AllToAll")}
        inside, across = c.tiers
        for kind in ("AllGather", "AllReduce"):
            assert alpha_beta(hierarchical(kind, 1.0, g, m), inside.W, across.W).upper == pytest.approx(price[kind])
        swap = alpha_beta(swap_tiers(1.0, g, m, aligned=False), inside.W, across.W)
        # there blocks go axis by axis: (g - 1)/g of all over NVLink
        assert swap.upper == pytest.approx(price["AllToAll"], rel=0.15)
        assert alpha_beta(swap_tiers(1.0, g, m), inside.W, across.W).upper == pytest.approx(price["AllToAll"])


def spreading(w, root):
    """Every tree of links by which `root` reaches all chips, switches only where they are of use: its links as (from, to)."""
    near = {n.name: [] for n in w.nodes}
    for x in w.links:
        near[x.a].append(x.b)
        near[x.b].append(x.a)
    others = [n.name for n in w.nodes if n.name != root]
    found = set()
    for parents in product(*([*near[x], *([] if x in w.chips else [None])] for x in others)):
        tree = {x: p for x, p in zip(others, parents) if p is not None}
        used, ok = set(), True
        for at in (x for x in w.chips if x != root):
            seen = set()
            while ok and at != root:
                ok = at not in seen and at in tree
                seen.add(at)
                if ok:
                    used.add((tree[at], at))
                    at = tree[at]
        if ok:
            found.add(frozenset(used))
    return found


@walks([hosts("H100", 2, chips=2), hosts("B200", 2, chips=2), slices("v5e", (2, 2)), slices("v5e", (1, 4))])
def test_trees_that_share_the_links_reach_the_cut(c):
    """The best AllGather there is, by linear programming: of each chip's shard so much down each tree that all end together."""
    w = wiring(c)
    trees = [(i, t) for i, root in enumerate(w.chips) for t in spreading(w, root)]
    wires = {(a, b): x.W / 1e9 for x in w.links for a, b in ((x.a, x.b), (x.b, x.a))}
    n = len(w.chips)
    # Unknown: rate of each tree, and of all chips the same rate x, which is to be large.
    capacity = [[*(e in t for _, t in trees), 0] for e in wires]
    same = [[*(i == j for j, _ in trees), -1] for i in range(n)]
    goal = [0] * len(trees) + [-1]
    best = linprog(goal, np.array(capacity, float), list(wires.values()), np.array(same, float), [0] * n)
    assert best.success
    assert 1 / n / (best.x[-1] * 1e9) == pytest.approx(bottleneck(c, "AllGather").seconds, rel=1e-6)


def test_errors_say_what_would_be_right():
    refused(
        (lambda: hosts("H100", 3, group=2), "3 domains do not make whole groups of 2"),
        (lambda: hosts("H100", 2, oversubscription=0.5), "1 .none. or more, not 0.5"),
        (lambda: Cluster(Slice(chip("v5p"), (2, 2, 2)), 4, group=2), "one network here"),
        (lambda: bottleneck(hosts("H100", 2), "Permute"), "not of 'Permute'"),
        (lambda: bottleneck(hosts("H100", 1, chips=1), "AllGather"), "2 or more"),
        (lambda: every_cut(hosts("H100", 2), "AllGather"), "up to 12"),
        (lambda: max_flow((), ["a"], ["a"]), "'a' is on both sides"),
        (lambda: needs("Scatter", 1, 2), "not of 'Scatter'"),
        (lambda: needs("AllGather", 17, 16), "of 16 chips has at most as many, not 17"),
        (lambda: max_flow((), "chip 0.0", ["b"]), r"several names: write \['chip 0.0'\]"),
        (lambda: max_flow((), 3, ["b"]), "max_flow: sources is a tuple or list, and each of it a text, not 3"),
        (lambda: hosts("H100", 2).egress(3), "fewer than 3"),
    )
