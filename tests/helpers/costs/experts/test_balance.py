"""Balance: distributions by listing and drawing, drops by drawing, EPLB's plan as its README prints it, a preference in real steps."""

import json
from collections import Counter
from itertools import combinations, product

import numpy as np
import pytest

from helpers.costs.experts.balance import (
    balance_loss,
    copied,
    dropped_share,
    expert_placement,
    fullest_distribution,
    packed,
    placed_imbalance,
)
from helpers.costs.transformers.parameters_and_flops import flops
from helpers.costs.transformers.public_models import model
from tests.helpers.costs.tables import refused, walks
from tests.scratch import ROOT

ROWS = json.loads((ROOT / "book/data/expert_layers.json").read_text(encoding="utf-8"))["rows"]
LOADS = ([90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86], [20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27])


@walks([(3, 4, 2, 2), (4, 4, 1, 4), (3, 6, 3, 3), (2, 6, 4, 2), (5, 3, 1, 3), (2, 4, 4, 2)])
def test_fullest_device_by_listing(tokens, E, k, devices):
    chosen = list(combinations(range(E), k))
    listed = Counter(
        max(Counter(e // (E // devices) for experts in batch for e in experts).values())
        for batch in product(chosen, repeat=tokens)
    )
    got = fullest_distribution(tokens, E, k, devices)
    assert got == pytest.approx({rows: n / len(chosen) ** tokens for rows, n in listed.items()})
    assert list(got) == sorted(got)


@walks([(64, 64, 2, 1.0), (512, 64, 2, 1.25), (40, 8, 3, 1.1), (6, 2, 1, 0.5), (10, 4, 4, 0.5)])
def test_dropped_by_drawing(tokens, E, k, factor):
    rng, room = np.random.default_rng(0), int(np.ceil(factor * tokens * k / E - 1e-9))
    n = rng.binomial(tokens, k / E, 400_000)
    assert dropped_share(tokens, E, k, factor) == pytest.approx(
        np.maximum(n - room, 0).mean() * E / (tokens * k), abs=0.001
    )


def test_loss_is_least_where_routing_is_even():
    """Lagrange: of all f = P the even one; by finite differences along directions that keep the sum."""
    rank = np.array([1 / (1 + e) for e in range(256)])
    rank /= rank.sum()
    assert (
        round(balance_loss(rank.tolist(), rank.tolist()), 1) == 11.2 and balance_loss([1, 0, 0, 0], [1, 0, 0, 0]) == 4
    )
    even, rng = np.full(8, 1 / 8), np.random.default_rng(5)
    for _ in range(20):
        moved = rng.normal(size=8)
        other = even + 1e-3 * (moved - moved.mean())
        assert balance_loss(other.tolist(), other.tolist()) > balance_loss(even.tolist(), even.tolist()) == 1


def test_placement_is_eplb_s_printed_example():
    """github.com/deepseek-ai/EPLB, README at d52c72d: 16 slots, 4 groups, 2 hosts, 8 GPUs."""
    printed = (5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1), (7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1)
    assert tuple(expert_placement(loads, 16, 4, 2, 8) for loads in LOADS) == printed
    assert [round(placed_imbalance(x, p, 8), 3) for x, p in zip(LOADS, printed)] == [1.208, 1.242]
    assert [round(placed_imbalance(x, expert_placement(x, 16, 1, 1, 8), 8), 3) for x in LOADS] == [1.073, 1.19]


@walks(range(20))
def test_placement_of_drawn_loads_is_whole_and_no_better_than_possible(seed):
    rng = np.random.default_rng(seed)
    loads = rng.permutation(np.arange(1, 25) ** 2).tolist()
    for groups, hosts in ((1, 1), (6, 2), (4, 4)):
        placed = expert_placement(loads, 32, groups, hosts, 8)
        size = 24 // groups
        homes = [{i // (32 // hosts) for i, e in enumerate(placed) if e // size == g} for g in range(groups)]
        assert len(placed) == 32 and all(len(home) == 1 for home in homes) or hosts == 1
        hottest = max(x / placed.count(e) for e, x in enumerate(loads))
        assert placed_imbalance(loads, placed, 8) >= max(1, hottest * 8 / sum(loads)) - 1e-12


def test_each_copy_goes_where_it_takes_most():
    """No other numbers of copies leave less on the fullest copy: all of them tried."""
    for loads in ([90, 30, 40], [7, 5, 3, 2]):
        slots = len(loads) + 3
        numbers = [n for n in product(range(1, 5), repeat=len(loads)) if sum(n) == slots]
        least = min(max(x / c for x, c in zip(loads, n)) for n in numbers)
        got = copied(loads, slots)
        assert max(x / got.count(e) for e, x in enumerate(loads)) == least
    assert packed([3, 3, 2, 2], 2) == ((0, 2), (1, 3))


def test_a_preference_multiplies_the_experts_share_of_a_step():
    """Qwen3-235B on H100 with its own routing, against routing forced even: 1.245, 1.209 and 1.090 at 16k, 32k and 128k tokens,
    while the experts' share of FLOPs falls: their own factor stays between 1.5 and 1.85."""
    rows = [r for r in ROWS if r["source"] == "megatron_moe_model_zoo" and r["what"] == "balance"]
    ratios = {r["tokens"]: r["said"]["tflops_forced_balance"] / r["said"]["tflops_own_routing"] for r in rows}
    assert [round(ratios[T], 3) for T in (16384, 32768, 131072)] == [1.245, 1.209, 1.09]
    shares = {
        T: (x := flops(model("qwen-3-235b-a22b"), 1, T, count="causal").by_role)["experts"] / sum(x.values())
        for T in ratios
    }
    assert 0.1 < shares[131072] < shares[16384] < 0.45
    factors = [1 + (ratios[T] - 1) / shares[T] for T in sorted(ratios)]
    assert all(1.5 < f < 1.85 for f in factors), factors


def test_refusals():
    refused(
        (lambda: fullest_distribution(2, 4, 5, 2), "a token goes to k=5 of E=4 experts"),
        (lambda: dropped_share(8, 4, 5), "k=5 of E=4"),
        (lambda: balance_loss([0.5, 0.5], [1.0]), "each expert has a share and a probability"),
        (lambda: copied([1, 2, 3], 2), "3 experts need as many slots, or more, not 2"),
        (lambda: packed([1, 2, 3], 2), "2 packs of as many each cannot hold 3"),
        (lambda: expert_placement([1, 2, 3, 4], 8, 3, 1, 4), "3 groups divide 4 experts"),
        (lambda: placed_imbalance([1, 2], (0, 0), 2), "each of 2 experts has a slot"),
    )
