"""Cuts of clusters against every set of chips, against SciPy's flow, and against what programs over the wiring need."""

import random

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from helpers.costs.racks.cluster import Cluster, hosts, slices, wiring
from helpers.costs.racks.cut import bottleneck, every_cut, max_flow, needs
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
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
