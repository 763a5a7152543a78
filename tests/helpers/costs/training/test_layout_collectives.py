"""What a mesh axis sends over the links that it lies on, against the collectives of chapter 2, and where axes lie."""

from collections import Counter
from itertools import combinations, product
from math import prod

import numpy as np
import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.sharding.collective_prices import PUBLISHED, collective_seconds
from helpers.costs.sharding.collectives import all_gather, all_reduce, all_to_all
from helpers.costs.sharding.sharded_array import Axis
from helpers.costs.training import layout as placement
from helpers.costs.training.layout import Layout, groups
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


def test_groups_of_whole_axes_are_those_of_the_collectives():
    along = groups(Layout(fsdp=16, tp=4), CUBE)
    assert along("fsdp").gather == pytest.approx(all_gather(1.0, (Axis(4), Axis(4))).bytes)
    assert along("tp").gather == pytest.approx(all_gather(1.0, Axis(4)).bytes)
    assert along("tp").hops == 2 and along("fsdp").hops == 4 and along("dp").gather == 0
    assert groups(Layout(ep=16, dp=4), CUBE)("ep").swap == pytest.approx(all_to_all(1.0, (Axis(4), Axis(4))).bytes)
    line = groups(Layout(tp=4, dp=4), Slice(chip("v5e"), (4, 4)))("tp")
    assert line.gather == pytest.approx(all_gather(1.0, Axis(4, False)).bytes)


@walks([
    ("v5p", (4, 4, 4), dict(fsdp=16, tp=4)), ("v5p", (8, 2, 1), dict(tp=8, dp=2)), ("v5p", (8, 2, 1), dict(dp=16)),
    ("v5e", (4, 4), dict(tp=4, dp=4)), ("v5e", (4, 8), dict(dp=32)), ("v5e", (16, 4), dict(dp=64)),
    ("v5e", (2, 1), dict(dp=2)),
])  # fmt: skip
def test_sums_over_whole_axes_are_those_of_the_collectives(name, shape, of):
    s = Slice(chip(name), shape)
    along, lines = groups(Layout(**of), s), [Axis(n, bool(wraps)) for n, wraps in zip(s.shape, s.wraps)]
    for axis, n in of.items():
        over = next(some for k in range(1, 4) for some in combinations(lines, k) if prod(a.n for a in some) == n)
        move = all_reduce(1.0, over)
        assert (along(axis).reduce, along(axis).reduce_hops) == (pytest.approx(move.bytes), move.hops)


@walks([(2, 1), (2, 4), (4, 3), (8, 2)])
def test_a_domain_gets_a_token_once(domains, copies):
    """Against every way in which a token's copies can lie over domains: one goes to each other domain that has some."""
    h100 = Slice(chip("H100"), (8,))
    group, ways = groups(Layout(ep=8 * domains, pods=domains), h100)("ep"), product(range(domains), repeat=copies)
    sent = [len(set(way) - {0}) for way in ways]
    V, inside = 8 * domains * 1e9, 7 / 8 * 1e9 / 4.5e11  # of a chip 1e9 bytes, an equal part of them for each copy
    got = collective_seconds("AllToAll", V, group, PUBLISHED.on(h100.chip, hop=0.0), copies)
    assert got == pytest.approx(inside + sum(sent) / len(sent) / copies * 1e9 / 5e10)


def test_an_alltoall_over_two_axes_is_that_of_all_their_chips():
    along = groups(Layout(tp=4, ep=4, dp=4), CUBE)
    assert along("tp", "ep").swap == pytest.approx(all_to_all(1.0, (Axis(4), Axis(4))).bytes)
    s = Slice(chip("H100"), (8,))
    both, one = groups(Layout(tp=4, ep=4, pods=2), s)("tp", "ep"), groups(Layout(ep=16, pods=2), s)("ep")
    assert both == one and both.domains == 2


@walks([(8, 2), (16, 2), (16, 4), (16, 8)])
def test_a_part_of_a_ring_shares_its_links(size, stride):
    along = groups(Layout(tp=stride, fsdp=size // stride), Slice(V5P, (size, 1, 1), (True, False, False)))
    if size // stride > 2:
        assert along("fsdp").gather == pytest.approx(strided(size, stride))
    assert along("tp").gather == pytest.approx(all_gather(1.0, Axis(stride, False)).bytes)


EXPERTS = Config(1024, 8, 16, 4, 64, 4096, 1000, moe=MoE(E=16, k=2, F=512, shared=1, first_dense=2))


def test_gpus_gather_over_the_network_and_then_inside():
    h100 = Slice(chip("H100"), (8,))
    rates = PUBLISHED.on(h100.chip, hop=0.0)
    gather = lambda laid, *axes: collective_seconds("AllGather", 1.0, groups(laid, h100)(*axes), rates)  # noqa: E731
    assert gather(Layout(tp=8, fsdp=4, pods=4), "tp") == pytest.approx(7 / 8 / 4.5e11)
    assert gather(Layout(tp=8, fsdp=4, pods=4), "fsdp") == pytest.approx(3 / 4 / 5e10)
    assert gather(Layout(fsdp=32, pods=4), "fsdp") == pytest.approx(7 / 8 / 4.5e11 + 3 / 4 / 8 / 5e10)
    cut = step(EXPERTS, Layout(cp=4, ep=4, pods=2), 2**18, 1024, h100, hop=0)
    sent = next(x for x in cut.sent if x.axes == ("cp", "ep", "dp"))  # two axes over the same 16 GPUs as one
    one = gather(Layout(dp=16, pods=2), "dp")
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
