"""Experts met and a decode step's layer: enumerated, drawn, and held against published rates of kernels."""

from itertools import combinations, product

import numpy as np
import pytest

from helpers.costs.experts.experts_met import (
    compute_bound_rows,
    crossings,
    expert_seconds,
    met_unevenly,
    padding,
    popularity,
    ragged_intensity,
    row_bytes,
)
from helpers.costs.inference.serving_operations import met
from tests.helpers.costs.tables import refused, walks

H800 = dict(C=1.979e15, W_hbm=3.35e12, W=5e10, n=144)
GB200 = dict(C=5e15, W_hbm=8e12, W=9e11, n=64)


def test_experts_met_by_listing():
    """Four experts, two for each of two tokens: 3 in the mean; with chances of any kind, token by token alone."""
    pairs = list(combinations(range(4), 2))
    listed = np.mean([len({*a, *b}) for a, b in product(pairs, pairs)])
    assert met_unevenly([0.5] * 4, 2) == listed == met(4, 2, 2) == 3
    chances = (0.9, 0.5, 0.4, 0.2)
    listed = sum(
        np.prod([p if chosen else 1 - p for p, chosen in zip(chances * 2, taken)]) * len({i % 4 for i in range(8) if taken[i]})
        for taken in product((False, True), repeat=8)
    )  # fmt: skip
    assert met_unevenly(chances, 2) == pytest.approx(listed)


def test_uneven_choices_meet_fewer():
    """The mean of a concave function: 163 evenly, 158 if half of the experts are twice as popular, 147 by 1/sqrt(rank)."""
    halves, ranks = popularity([2.0] * 128 + [1.0] * 128, 8), popularity([(1 + e) ** -0.5 for e in range(256)], 8)
    assert [round(met_unevenly(p, 32)) for p in ([8 / 256] * 256, halves, ranks)] == [163, 158, 147]
    assert [round(met(256, 8, B), 1) for B in (1, 8, 32, 128)] == [8, 57.4, 163.3, 251.6]
    for tokens in (2, 10, 500):
        assert met_unevenly(ranks, tokens) < met_unevenly(halves, tokens) < met(256, 8, tokens)


@walks([([5.0, 1.0, 1.0, 1.0], 2), ([9.0, 5.0, 0.1, 0.1], 3), ([1.0, 1.0, 0.0], 2)])
def test_chances_add_up_to_k_and_keep_their_proportions(weights, k):
    chances = popularity(weights, k)
    below = [(p, w) for p, w in zip(chances, weights) if p < 1]
    assert sum(chances) == pytest.approx(k) and max(chances) <= 1
    assert all(p * below[0][1] == pytest.approx(below[0][0] * w) for p, w in below)


@walks([(2, H800), (4, GB200), (9, dict(C=4.5e15, W_hbm=8e12, W=9e11, n=8))])
def test_crossings_are_where_two_times_are_equal(experts, machine):
    x = crossings(experts, 2048, 8, **machine)
    at = lambda t, F=2048: expert_seconds(t, experts, 7168, F, 8, **machine)  # noqa: E731
    assert at(x.arithmetic).arithmetic == pytest.approx(at(x.arithmetic).weights)
    assert at(x.exchange).exchange == pytest.approx(at(x.exchange).weights)
    assert at(50, x.F).arithmetic == pytest.approx(at(50, x.F).exchange)
    home = 1 - 1 / machine["n"]  # (E/n)·F·W/(k·W_hbm), but for the copies that stay
    assert x.exchange * home == pytest.approx(experts * 2048 * machine["W"] / (8 * machine["W_hbm"]))


def test_ragged_products_of_few_rows():
    """V3 in fp8 on an H100: 350 rows have 582 of the 591 FLOPs a byte, and 357 are compute-bound."""
    alpha = 1.979e15 / 3.35e12
    rows = compute_bound_rows(7168, 2048, 1.979e15, 3.35e12)
    assert ragged_intensity(rows, 7168, 2048) == pytest.approx(alpha) and round(rows) == 357
    read, written = 350 * 7168 + 3 * 7168 * 2048 + 350 * 2048, 350 * 2048 + 2 * 350 * 7168
    assert ragged_intensity(350, 7168, 2048) == pytest.approx(6 * 350 * 7168 * 2048 / (read + written))
    assert row_bytes(7168, 2048) == 7168 + 4096 + 14336
    # One row: two FLOPs for each byte of the weights.
    assert ragged_intensity(1, 10**6, 10**6) == pytest.approx(2, rel=1e-5)


@walks([(8, 64), (32, 64), (64, 64), (350, 64), (8, 128), (0.5, 16)])
def test_padding_by_drawing(rows, tile):
    n = np.random.default_rng(4).poisson(rows, 200_000)
    assert padding(rows, tile) == pytest.approx(tile * np.ceil(n / tile).mean() / rows, rel=0.01)


def test_shared_experts_hide_some_of_the_exchange():
    """V3 in fp8 over hosts, 3.95 met: 0.045 µs of 1.49; Kimi-K3 in a rack, on a latent of 3,584: 0.053 of 0.188."""
    v3, k3 = 6 * 7168 * 2048 / 1.979e15, 6 * 2 * 7168 * 3072 / 5e15
    hosts = expert_seconds(1, 0, 7168, 2048, 3.95, 1.979e15, 3.35e12, 5e10, 8)
    assert v3 / hosts.exchange == pytest.approx(0.03, abs=0.001)
    routed = expert_seconds(1, 0, 3584, 3072, 16, 5e15, 8e12, 9e11, 72)
    assert k3 / routed.exchange == pytest.approx(0.28, abs=0.002)
    halves = expert_seconds(1, 0, 1792, 3072, 16, 5e15, 8e12, 9e11, 72)
    assert halves.exchange / halves.arithmetic == pytest.approx(routed.exchange / routed.arithmetic)


def test_refusals():
    refused(
        (lambda: popularity([1.0, 0.0, 0.0], 2), "k=2 different experts"),
        (lambda: met_unevenly([0.5, 1.5], 3), "chances are probabilities"),
    )
