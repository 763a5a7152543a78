"""One price of a collective: what its tables are by definition, what they differ in, and what a group sends."""

from dataclasses import replace

import pytest

from helpers.costs.racks.measured_collectives import REACHED
from helpers.costs.rooflines.chips import chip
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
from helpers.costs.sharding.collectives import all_gather
from helpers.costs.sharding.sharded_array import Axis
from tests.helpers.costs.tables import refused, walks


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


def test_errors_say_what_would_be_right():
    refused(
        (
            lambda: tier_moves("Broadcast", 1.0, in_domains(8)),
            "there are AllGather, ReduceScatter, AllReduce, not 'Broadcast'",
        ),
        (lambda: collective_seconds("AllGather", -1.0, in_domains(8), PUBLISHED.on(chip("H100"))), "V is"),
    )
