"""Collectives against messages that are sent one by one and counted on every link; and their one price, by its tables."""

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from helpers.costs.racks.measured_collectives import REACHED
from helpers.costs.rooflines.chips import chip
from helpers.costs.sharding import collective_steps, collectives
from helpers.costs.sharding.collective_prices import (
    IN_ENGINE,
    IN_ENGINE_TOKENS,
    IN_STEP,
    IN_STEP_TENSOR,
    PUBLISHED,
    adjacent,
    collective_seconds,
    in_domains,
    tier_moves,
)
from helpers.costs.sharding.collectives import Collective, all_gather
from helpers.costs.sharding.sharded_array import Axis, Mesh
from tests.helpers.costs.tables import refused, walks

RINGS = [Axis(n) for n in (2, 3, 4, 5, 6, 7, 8)]
LINES = [Axis(n, False) for n in (2, 3, 4, 5, 8)]


def flood(axis: Axis, ways: int):
    """(hops, shards over the busiest directed link) of an AllGather in which chips pass on what is new to their neighbour."""
    n = axis.n
    have = [{i} for i in range(n)]
    directions = (1,) if ways == 1 else (1, -1)
    fresh = {(i, d): {i} for i in range(n) for d in directions}
    links, hops = Counter(), 0
    limit = {1: n - 1, -1: 0} if ways == 1 else {1: n // 2, -1: n // 2} if axis.wraps else {1: n - 1, -1: n - 1}
    while any(len(h) < n for h in have):
        hops += 1
        arriving = {}
        for (i, d), shards in fresh.items():
            j = (i + d) % n if axis.wraps else i + d
            if 0 <= j < n and hops <= limit[d]:
                links[i, d] += len(shards)
                arriving[j, d] = shards
        for (j, _), shards in arriving.items():
            have[j] |= shards
        fresh = arriving
    return hops, max(links.values())


@walks([(w, a) for w in (1, 2) for a in RINGS] + [(2, a) for a in LINES])
def test_all_gather_counts_hops_and_bytes(ways, axis):
    hops, shards = flood(axis, ways)
    move = collectives.all_gather(1.0, axis, ways)
    assert move.hops == hops
    assert move.bytes == pytest.approx(shards / axis.n)
    assert collectives.reduce_scatter(1.0, axis, ways) == move
    total = collectives.all_reduce(1.0, axis, ways)
    if axis.wraps and (axis.n > 2 or ways == 1):
        assert (total.bytes, total.hops) == (pytest.approx(2 * move.bytes), 2 * move.hops)
    else:  # partial sums to the middle and the sum back: see test_best_schedules.py
        assert (total.bytes, total.hops) == (1.0, axis.n - 1)


def routed(axes, ways=2):
    """Blocks over the busiest directed link of an AllToAll: from every chip to every other, axis by axis.

    Blocks for the opposite chip of a ring go half either way.
    """
    links = Counter()
    shape = [a.n for a in axes]
    for src in product(*map(range, shape)):
        for dst in product(*map(range, shape)):
            at = list(src)
            for d, axis in enumerate(axes):
                n, far = axis.n, (dst[d] - at[d]) % axis.n
                if not axis.wraps:
                    routes = [(1 if dst[d] > at[d] else -1, abs(dst[d] - at[d]), 1.0)]
                elif ways == 1 or n == 2:
                    routes = [(1, far, 1.0)]
                elif 2 * far == n:
                    routes = [(1, far, 0.5), (-1, far, 0.5)]
                else:
                    routes = [(1, far, 1.0)] if 2 * far < n else [(-1, n - far, 1.0)]
                for way, hops, share in routes:
                    for h in range(hops):
                        here = (at[d] + way * h) % n
                        links[(*at[:d], here, *at[d + 1 :]), d, way] += share
                at[d] = dst[d]
    return max(links.values())


@walks([(w, a) for w in (1, 2) for a in RINGS] + [(2, a) for a in LINES])
def test_all_to_all_counts_blocks(ways, axis):
    move = collectives.all_to_all(1.0, axis, ways)
    assert move.bytes == pytest.approx(routed((axis,), ways) / axis.n**2)


@walks([
    (Axis(4), Axis(4)), (Axis(4), Axis(8)), (Axis(3), Axis(5)), (Axis(4, False), Axis(2, False)),
    (Axis(4), Axis(2), Axis(3)),
])  # fmt: skip
def test_all_to_all_on_a_torus(axes):
    n = np.prod([a.n for a in axes])
    assert collectives.all_to_all(1.0, axes).bytes == pytest.approx(routed(axes) / n**2)
    if all(a.wraps and a.n % 2 == 0 and a.n > 2 for a in axes):
        assert collectives.all_to_all(1.0, axes).bytes == max(a.n for a in axes) / (8 * n)  # V·max/(4·N·2W)


def test_collectives_as_programs_send_them():
    mesh = Mesh({"X": 4, "Y": 2})
    gather = Collective("AllGather", ("X",), (8, 16), (32, 16), "bf16", times=3)
    assert gather.V(mesh) == 2 * 32 * 16 and gather.wire(mesh) == 3 * 2 * 32 * 16 * 3 / 4
    scatter = Collective("ReduceScatter", ("X",), (32, 16), (8, 16), "f32")
    assert scatter.wire(mesh) == 4 * 32 * 16 * 3 / 4
    swap = Collective("AllToAll", ("X", "Y"), (8, 16), (64, 2), "int8")
    assert swap.V(mesh) == 8 * 8 * 16 and swap.wire(mesh) == 8 * 16 * 7 / 8
    assert gather.move(mesh).bytes == pytest.approx(3 * collectives.all_gather(1024, Axis(4)).bytes)
    assert str(gather) == "3 x AllGather_X bf16[8, 16] -> [32, 16]"


def test_errors_say_what_would_be_right():
    refused(
        (lambda: collectives.all_gather(1.0, ()), "at least one axis"),
        (lambda: collectives.all_gather(1.0, Axis(4), ways=3), "all_gather: ways is one of 1, 2, not 3"),
        (lambda: collectives.all_gather(1.0, Axis(4, False), ways=1), "without wraparound needs both ways"),
        (lambda: collectives.all_to_all(1.0, Axis(4, False), ways=1), "without wraparound needs both ways"),
        (lambda: collectives.over_dcn("Permute", 1.0, Axis(4), 2), "not 'Permute'"),
        (lambda: Collective("Gather", ("X",), (1,), (1,)), "not 'Gather'"),
    )


@walks([2, 3, 4, 5, 8], [1, 2])
def test_overlapped_products_against_the_frames(n, ways):
    """Frame by frame: as long as its sends or its products take, whichever is longer."""
    film = collective_steps.gather_matmul(Axis(n), ways=ways).frames
    for c, s in ((1.0, 0.1), (1.0, 1.5), (1.0, 7.0)):
        by_frame = sum(max(c * len(f.works[0]), s * bool(f.sends)) for f in film)
        assert collectives.overlapped(c, s, n, ways) == pytest.approx(by_frame)


@walks([4, 8, 16])
def test_a_ring_of_neighbours_costs_what_chapter_2_says(n):
    """Both ways round an even ring; chapter 2 does not cut the farthest shard in two, which is 1/n."""
    v5e = chip("v5e")
    assert adjacent(v5e, n).gather == pytest.approx(all_gather(1.0, Axis(n)).bytes * (n - 1) / n)
    assert adjacent(v5e, 2).gather == all_gather(1.0, Axis(2)).bytes  # a pair has one link


@walks([
    ("A100", 8, 7 / 8 / 3e11), ("A100", 32, 31 / 32 / 8 / 2.5e10), ("v5e", 16, 15 / 16 / 9e10), ("v5e", 256, 255 / 256 / 1.8e11),
])  # fmt: skip
def test_large_arrays_go_at_the_rate_of_the_slower_tier(name, n, seconds):
    """All eight cards of a host carry one ring; two axes of a torus have four links."""
    rates = replace(IN_STEP, link=1.0, network=1.0, hop=0.0, network_hop=0.0).on(chip(name), hop=0.0)
    assert collective_seconds("AllGather", 1e15, adjacent(chip(name), n), rates) == pytest.approx(1e15 * seconds)
    assert collective_seconds("AllGather", 1e15, adjacent(chip(name), 1), rates) == 0


def test_gpus_without_a_switch_use_only_the_links_to_each_other():
    pair, all_of_them = (adjacent(chip("MI300X"), n) for n in (2, 8))
    assert pair.gather == pytest.approx(1 / 2 * 7) and all_of_them.gather == pytest.approx(7 / 8)
    ring = tier_moves("AllGather", 1.0, pair, IN_STEP.on(chip("MI300X")).algorithm)
    assert ring[0].bytes == pytest.approx(pair.gather) and adjacent(chip("H100"), 2).links == 1


@walks([2**10, 2**19, 2**20, 2**28])
def test_pieces_are_as_many_as_suit_best_and_few_bytes_travel_with_flags(V):
    """NCCL's LL has a flag of four bytes beside each four: twice the bytes, and no pieces."""
    group, rates = adjacent(chip("H100"), 8), replace(PUBLISHED.on(chip("H100")), hop=0.0, network_hop=0.0, piece=1e-6)
    hops, moves = group.hops, 7 / 8 * V / 4.5e11
    pieces = min(hops * 1e-6 * p + moves / p for p in (1.01**n for n in range(-1500, 1500)))
    seconds = moves + pieces if V >= 2**20 else min(moves + pieces, 2 * moves)
    assert collective_seconds("AllGather", V, group, rates) == pytest.approx(seconds, rel=1e-4)


def test_small_arrays_are_latency_and_launches():
    h100 = chip("H100")
    tiny = lambda n, table: collective_seconds("AllReduce", 1e-3, adjacent(h100, n), table.on(h100))  # noqa: E731
    assert tiny(8, PUBLISHED) == pytest.approx(2 * h100.hop) and tiny(16, PUBLISHED) == pytest.approx(6 * h100.hop)
    assert tiny(64, IN_STEP) == pytest.approx(2 * 63 * IN_STEP.hop)
    assert tiny(64, IN_STEP_TENSOR) == pytest.approx(2 * 4 * IN_STEP.hop)
    in_engine = [tiny(n, IN_ENGINE) - IN_ENGINE.launch for n in (8, 16, 64)]
    assert in_engine == pytest.approx([0.0, 2 * IN_ENGINE.network_hop, 2 * IN_ENGINE.network_hop])
    assert IN_ENGINE.network_hop < REACHED.latency_dcn  # that of nccl-tests, the mean over slower networks, too
    assert IN_ENGINE.network == REACHED.network
    tokens = IN_ENGINE_TOKENS.launch + IN_ENGINE_TOKENS.network_hop
    assert tokens == pytest.approx(REACHED.deepep, rel=0.01)


def test_errors_of_prices_say_what_would_be_right():
    refused(
        (
            lambda: tier_moves("Broadcast", 1.0, in_domains(8)),
            "there are AllGather, ReduceScatter, AllReduce, not 'Broadcast'",
        ),
        (lambda: collective_seconds("AllGather", -1.0, in_domains(8), PUBLISHED.on(chip("H100"))), "V is"),
    )
