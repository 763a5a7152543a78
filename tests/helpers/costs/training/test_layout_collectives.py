"""What a mesh axis sends over the links that it lies on, against the collectives of chapter 2, and where axes lie."""

from collections import Counter
from itertools import combinations, product
from math import prod

import numpy as np
import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.sharding.collectives import all_gather, all_reduce, all_to_all
from helpers.costs.sharding.sharded_array import Axis
from helpers.costs.training import layout as placement
from helpers.costs.training.layout import Layout, together, wires
from helpers.costs.training.training_step import step
from helpers.costs.transformers.config import Config, MoE
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.costs.transformers.public_models import model
from tests.helpers.costs.tables import walks

V5P = chip("v5p")
CUBE, BIG = Slice(V5P, (4, 4, 4)), Slice(V5P, (16, 16, 16))


def strided(size, stride):
    """Most shards over a link while every group of `stride`-spaced chips of a ring gathers, all groups at once."""
    n, links = size // stride, Counter()
    for chip_ in range(size):
        for way in (1, -1):
            reach = n // 2 if way == 1 else (n - 1) // 2
            for hop in range(reach * stride):
                links[(chip_ + way * hop) % size, way] += 1
    # the opposite shard could come half either way; the house's formula does not count on it
    return max(links.values()) / n


def test_wires_of_whole_axes_are_those_of_the_collectives():
    w = wires(Layout(fsdp=16, tp=4), CUBE)
    assert w["fsdp"].gather == pytest.approx(all_gather(1.0, (Axis(4), Axis(4))).bytes / 9e10)
    assert w["tp"].gather == pytest.approx(all_gather(1.0, Axis(4)).bytes / 9e10)
    assert w["tp"].hops == 2 and w["fsdp"].hops == 4 and w["dp"].gather == 0
    w = wires(Layout(ep=16, dp=4), CUBE)
    assert w["ep"].across == pytest.approx(all_to_all(1.0, (Axis(4), Axis(4))).bytes / 9e10)
    line = wires(Layout(tp=4, dp=4), Slice(chip("v5e"), (4, 4)))["tp"]
    assert line.gather == pytest.approx(all_gather(1.0, Axis(4, False)).bytes / 4.5e10)


@walks([
    ("v5p", (4, 4, 4), dict(fsdp=16, tp=4)), ("v5p", (8, 2, 1), dict(tp=8, dp=2)), ("v5p", (8, 2, 1), dict(dp=16)),
    ("v5e", (4, 4), dict(tp=4, dp=4)), ("v5e", (4, 8), dict(dp=32)), ("v5e", (16, 4), dict(dp=64)),
    ("v5e", (2, 1), dict(dp=2)),
])  # fmt: skip
def test_sums_over_whole_axes_are_those_of_the_collectives(name, shape, of):
    s = Slice(chip(name), shape)
    w, lines = wires(Layout(**of), s), [Axis(n, bool(wraps)) for n, wraps in zip(s.shape, s.wraps)]
    for axis, n in of.items():
        over = next(some for k in range(1, 4) for some in combinations(lines, k) if prod(a.n for a in some) == n)
        move = all_reduce(1.0, over)
        assert w[axis].sum * s.chip.link_bandwidth == pytest.approx(move.bytes), axis
        assert w[axis].sum_hops == move.hops


@walks([(2, 1), (2, 4), (4, 3), (8, 2)])
def test_a_domain_gets_a_token_once(domains, copies):
    """Against every way in which a token's copies can lie over domains: one goes to each other domain that has some."""
    w = wires(Layout(ep=8 * domains, pods=domains), Slice(chip("H100"), (8,)))["ep"]
    ways = list(product(range(domains), repeat=copies))
    sent = sum(len(set(way) - {0}) for way in ways) / len(ways)
    every = sum(home != 0 for way in ways for home in way) / len(ways)
    assert w.swap(copies) == pytest.approx(w.across - w.far * (1 - sent / every))
    assert w.far == pytest.approx((1 - 1 / domains) / 5e10 / (8 * domains))


def test_an_alltoall_over_two_axes():
    """On a torus it is that of both axes; behind a switch no more than that of one axis as long."""
    w = wires(Layout(tp=4, ep=4, dp=4), CUBE)
    assert together([w["tp"], w["ep"]], True).across == pytest.approx(all_to_all(1.0, (Axis(4), Axis(4))).bytes / 9e10)
    s = Slice(chip("H100"), (8,))
    two, one = wires(Layout(tp=4, ep=4, pods=2), s), wires(Layout(ep=16, pods=2), s)["ep"]
    both = together([two["tp"], two["ep"]], False)
    assert 0.7 * one.across < both.across <= one.across and both.domains == one.domains == 2


@walks([(8, 2), (16, 2), (16, 4), (16, 8)])
def test_a_part_of_a_ring_shares_its_links(size, stride):
    ring = Slice(V5P, (size, 1, 1), (True, False, False))
    w = wires(Layout(tp=stride, fsdp=size // stride), ring)
    if size // stride > 2:
        assert w["fsdp"].gather == pytest.approx(strided(size, stride) / V5P.link_bandwidth)
    assert w["tp"].gather == pytest.approx(all_gather(1.0, Axis(stride, False)).bytes / V5P.link_bandwidth)


EXPERTS = Config(1024, 8, 16, 4, 64, 4096, 1000, moe=MoE(E=16, k=2, F=512, shared=1, first_dense=2))


def test_gpus_gather_over_the_network_and_then_inside():
    h100 = Slice(chip("H100"), (8,))
    w = wires(Layout(tp=8, fsdp=4, pods=4), h100)
    assert w["tp"].gather == pytest.approx(7 / 8 / 4.5e11)
    assert w["fsdp"].gather == pytest.approx(3 / 4 / 5e10)
    both = wires(Layout(fsdp=32, pods=4), h100)["fsdp"]
    assert both.gather == pytest.approx(7 / 8 / 4.5e11 + 3 / 4 / 8 / 5e10)
    cut = step(EXPERTS, Layout(cp=4, ep=4, pods=2), 2**18, 1024, h100, hop=0)
    sent = next(x for x in cut.sent if x.axes == ("cp", "ep", "dp"))  # two axes over the same 16 GPUs as one
    one = wires(Layout(dp=16, pods=2), h100)["dp"].gather
    assert sent.seconds == pytest.approx(2 * sent.times * sent.bytes * one)
    at = step(model("llama-3-8b"), Layout(tp=8, fsdp=4, pods=4), 2**19, 4096, h100)
    assert at.chips == 32
    assert at.memory.weights == pytest.approx(2 * parameters(model("llama-3-8b")).total / 32, rel=1e-3)


def test_axes_lie_in_whole_rows():
    assert placement.lies(Layout(dp=2, fsdp=4, tp=8), CUBE)
    assert not placement.lies(Layout(tp=3, fsdp=32), Slice(chip("v5p"), (4, 4, 6)))
    tp = np.array([1, 2, 3, 4, 8, 64])
    got = placement.lies(Layout(tp=tp, fsdp=64 // tp), CUBE)
    assert list(got) == [placement.lies(Layout(tp=int(t), fsdp=64 // int(t)), CUBE) for t in tp]
