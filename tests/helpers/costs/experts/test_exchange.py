"""The exchange: published and drawn numbers, cuts, and copies counted one by one."""

import json
from itertools import combinations
from math import comb

import numpy as np
import pytest

from helpers.costs.experts.exchange import (
    copy_bytes,
    exchange_seconds,
    groups_met,
    largest_gather,
    least_width,
    limited_choice,
    others_reached,
)
from helpers.costs.racks.cluster import Cluster, hosts, slices
from helpers.costs.racks.tiered_collectives import domains_reached
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from tests.helpers.costs.tables import refused, walks
from tests.scratch import ROOT

ROWS = json.loads((ROOT / "book/data/expert_layers.json").read_text(encoding="utf-8"))["rows"]
V3 = 3.954  # hosts that DeepSeek-V3's rule meets, of eight with independent scores
RACK = Cluster(Slice(chip("GB200"), (64,)), 1)
DOMAIN = {  # least F: (machine, dtype, dispatch, reached)
    "H100 host, fp8 there, bf16 arithmetic": ((hosts("H100", 1), "bf16", 1, None), 962),
    "64 of a GB200 rack, fp8": ((RACK, "fp8", 1, None), 2734),
    "8 hosts, fp8, V3's limit": ((hosts("H100", 8), "fp8", 1, V3), 8559),
    "v5p 4x4x8, fp8 there": ((slices("v5p", (4, 4, 8)), "bf16", 1, None), 2550),
}


@walks(DOMAIN.values())
def test_least_width(asked, expected):
    machine, dtype, dispatch, reached = asked
    assert least_width(machine, 8, dtype, dispatch, 2, reached) == pytest.approx(expected, rel=1e-3)


@walks([(8, 4), (2, 1), (64, 8)])
def test_exchange_of_drawn_routing_takes_as_long_as_the_least_width_multiplies(n, k):
    """Bytes that leave a device, counted copy by copy, against the arithmetic of an expert of that width."""
    rng, t, D, E = np.random.default_rng(0), 20_000, 64, 128
    F = least_width(Cluster(Slice(chip("GB200"), (n,)), 1), k, "fp8", 1, 2)
    experts = rng.random((t, E)).argpartition(k, axis=1)[:, :k]
    leave = int((experts // (E // n) != 0).sum())
    exchanged = leave * D * (1 + 2) / chip("GB200").link_bandwidth
    assert exchanged == pytest.approx(6 * t * k * D * F / chip("GB200").rate("fp8"), rel=0.02)


@walks([3, 4, 5, 8, 16])
def test_ring_by_brute_force(n):
    """Each of n chips sends a block to each other, the shorter way round, half each way where both are as long."""
    load = np.zeros((n, 2))
    for a in range(n):
        for d in range(1, n):
            for way, far in ((0, d), (1, n - d)):
                share = 1.0 if far < n - far else 0.5 if 2 * far == n else 0.0
                for hop in range(far):
                    load[(a + hop) % n if way == 0 else (a - hop - 1) % n, way] += share
    assert load.max() / n == pytest.approx((n * n - n % 2) / (8 * n))
    if (
        n % 2 == 0
    ):  # the course's formula on a ring of v5p, both of whose directions carry: C·blocks/(W·6·n) with 2 + 2 bytes
        F = least_width(Cluster(Slice(chip("v5p"), (n, 1, 1), (True, False, False)), 1), 8)
        assert pytest.approx(4 * load.max() / n * 4.59e14 / (6 * 9e10)) == F


def test_bytes_of_a_copy_are_those_that_deepep_prints():
    """Low latency sends a copy for each of 8 experts of 128 tokens: microseconds times GB/s in all rows."""
    rows = [r for r in ROWS if r["source"] == "deepep_legacy" and r["us"]]
    assert len(rows) >= 8
    for r in rows:
        dtype = r.get("dispatch") or r["combine"]
        printed = r["us"] * r["said"]["link_gb_s"] * 1e3
        assert printed == pytest.approx(128 * 8 * copy_bytes(7168, dtype), rel=0.025), r
    assert copy_bytes(7168, "mxfp8") == copy_bytes(7168) == 7168 + 4 * 7168 / 128
    assert copy_bytes(7168, "nvfp4") == 7168 / 2 + 7168 / 16


def test_bytes_and_seconds_by_tier():
    """DeepSeek-V3, 4,096 tokens of each of 64 H800: 105 MB there over the card, 203 back."""
    there, back = (4096 * V3 * 7 / 8 * copy_bytes(7168, dtype) for dtype in ("fp8", "bf16"))
    assert [round(x / 1e6) for x in (there, back)] == [105, 203]
    x = exchange_seconds(4096, 7168, 8, 8, 8, 1.6e11, 5e10, copy_bytes(1), 2, V3)
    assert x.cards == pytest.approx((there + back) / 5e10) and x.seconds == x.cards
    assert x.links == pytest.approx(4096 * 7 * (copy_bytes(7168) + copy_bytes(7168, "bf16")) / 1.6e11)


def test_others_reached_by_listing():
    for E, k, n in ((8, 2, 4), (6, 3, 3), (8, 1, 8)):
        listed = [len({e // (E // n) for e in chosen} - {0}) for chosen in combinations(range(E), k)]
        assert others_reached(k, n, E) == pytest.approx(sum(listed) / comb(E, k))


def test_gather_instead():
    """Qwen3-235B on a host of B200: n - 1 < 7.37, so all eight; one copy for each device never sends more than a gather."""
    alpha = 2.25e15 / 9e11
    assert largest_gather(8, 1536, alpha) - 1 == pytest.approx(7.37, abs=0.005)
    n = largest_gather(8, 1536, alpha)
    assert 4 * 100 * 64 * (n - 1) / 9e11 == pytest.approx(6 * 100 * 8 * 64 * 1536 / 2.25e15)
    for n in (2, 4, 8, 64):
        assert 4 * 100 * 64 * others_reached(8, n, 128) <= 4 * 100 * 64 * (n - 1)


def limited(scores, k, groups, limit):
    """DeepSeek-V3's `group_limited_topk` in NumPy, as its modeling code has it."""
    parts = scores.reshape(groups, -1)
    worth = np.sort(parts, axis=1)[:, -2:].sum(1)
    masked = np.where(np.isin(np.arange(groups), np.argsort(-worth)[:limit])[:, None], parts, -np.inf).ravel()
    return tuple(sorted(np.argsort(-masked)[:k].tolist()))


def test_node_limit_as_published():
    rng = np.random.default_rng(2)
    for E, k, groups, limit in ((256, 8, 8, 4), (16, 4, 4, 2), (8, 2, 2, 1), (12, 3, 3, 3)):
        for _ in range(20):
            scores = rng.normal(size=E)
            assert limited_choice(scores.tolist(), k, groups, limit) == limited(scores, k, groups, limit)


def test_node_limit_meets_nearly_all_of_its_groups():
    """Four kinds of independent scores, drawn here: 3.95 to 3.97; four groups drawn at random would be met 3.63 times."""
    rng, size = np.random.default_rng(3), 32
    for draw in (rng.random, rng.standard_normal, rng.standard_exponential, lambda n: rng.standard_normal(n) ** 3):
        drawn = np.mean([len({e // size for e in limited(draw(256), 8, 8, 4)}) for _ in range(500)])
        assert drawn == pytest.approx(groups_met(256, 8, 8, 4), abs=0.03)
    assert groups_met(256, 8, 8, 8) == pytest.approx(domains_reached(8, 8, 256), abs=0.09)
    assert round(domains_reached(8, 8, 256, 4), 2) == 3.63 and round(domains_reached(16, 16, 896), 1) == 10.4


def test_refusals():
    refused(
        (lambda: copy_bytes(64, "int3"), "copy_bytes: dtype is one of 'bf16', 'fp8', .*, not 'int3'"),
        (lambda: limited_choice([0.1] * 6, 2, 4, 2), "4 groups divide 6 experts evenly"),
        (lambda: limited_choice([0.1] * 6, 3, 3, 1), "1 of them have k=3 experts or more"),
    )
