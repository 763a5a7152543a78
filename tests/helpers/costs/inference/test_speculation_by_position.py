"""Acceptance by position and the slowest of a batch: by enumeration of every pattern, and by drawing."""

from functools import cache
from itertools import product
from math import ceil, isnan

import numpy as np
import pytest

from helpers.costs.inference.speculation_by_position import (
    accepted,
    best_length,
    passes,
    positions,
    together,
    tokens_of_a_pass,
)
from helpers.costs.inference.speculative_decoding import best_K, expected_tokens, speed_up
from tests.helpers.costs.tables import refused, walks

FALLING = (0.9, 0.7, 0.4)
CASES = ((), (0.5,), FALLING, (0.0, 0.9), (1.0, 1.0), (1.0, 0.5, 0.0))


def patterns(a):
    """(drafts that stay, probability) of every pattern of K coins, whatever comes after the first that fails."""
    for coins in product((True, False), repeat=len(a)):
        yield (
            next((i for i, ok in enumerate(coins) if not ok), len(a)),
            np.prod([p if ok else 1 - p for p, ok in zip(a, coins)]),
        )


@walks(CASES)
def test_a_pass_by_enumeration(a):
    counted = [sum(p for kept, p in patterns(a) if kept == j) for j in range(len(a) + 1)]
    assert accepted(a) == pytest.approx(counted)
    assert tokens_of_a_pass(a) == pytest.approx(sum((j + 1) * p for j, p in enumerate(counted)))
    for B in (1, 2, 3):
        least = sum(
            np.prod([p for _, p in some]) * (min(kept for kept, _ in some) + 1)
            for some in product(patterns(a), repeat=B)
        )
        assert together(a, B) == pytest.approx(least)


def test_one_acceptance_at_all_positions_is_the_formula_of_the_books():
    for a, K in ((0.8, 4), (0.3, 1), (1.0, 3)):
        assert tokens_of_a_pass([a] * K) == pytest.approx(expected_tokens(a, K))
    for a, c, per in ((0.6, 0.1, 0.0), (0.9, 0.02, 0.1), (0.3, 0.3, 0.0)):
        assert best_length([a] * 64, c, per) == best_K(a, c, per)
    assert tokens_of_a_pass([0.8, 0.7]) / (1 + 2 * 0.05) < speed_up(0.8, 2, 0.05)
    a = np.array([0.5, 0.9])
    np.testing.assert_allclose(tokens_of_a_pass([a, a]), [expected_tokens(x, 2) for x in a])


@walks(CASES, [(1, 3), (4, 1), (5, 2), (3, 3)])
def test_the_slowest_of_a_batch_by_following_every_course(a, n, B):
    """Whole batches, pass by pass: what is missing of each sequence, and every combination of what they accept."""
    gives = accepted(a)

    @cache
    def left(missing):
        if not any(missing):
            return 0.0
        going, total = [m for m in missing if m], 0.0
        for some in product(range(len(gives)), repeat=len(going)):
            p = np.prod([gives[j] for j in some])
            if p:
                total += p * left(tuple(sorted(max(0, m - 1 - j) for m, j in zip(going, some))))
        return 1 + total

    assert passes(a, n, B) == pytest.approx(left((n,) * B))


def test_passes_at_the_ends_and_by_drawing():
    for K in (0, 1, 4):
        assert passes([1.0] * K, 17, B=5) == ceil(17 / (K + 1)) and passes([0.0] * K, 17, B=5) == 17
    draw, n, B, runs = np.random.default_rng(0), 64, 16, 2000
    ok = draw.random((runs, B, n, 3)) < np.array(FALLING)
    tokens = (1 + ok.cumprod(-1).sum(-1)).cumsum(-1)
    slowest = (1 + (tokens < n).sum(-1)).max(-1)
    assert passes(FALLING, n, B) == pytest.approx(slowest.mean(), rel=0.005)
    assert passes(FALLING, n, 1) == pytest.approx((1 + (tokens < n).sum(-1)).mean(), rel=0.005)
    assert n / tokens_of_a_pass(FALLING) < passes(FALLING, n, 1) < passes(FALLING, n, B) < n


def test_positions_as_counted():
    draw = np.random.default_rng(1)
    ok = draw.random((20_000, 3)) < np.array(FALLING)
    tokens = (1 + ok.cumprod(-1).sum(-1)).tolist()
    assert positions(tokens, 3) == pytest.approx(FALLING, abs=0.02)
    assert tokens_of_a_pass(positions(tokens, 3)) == pytest.approx(np.mean(tokens))
    first, second = positions([1, 1], 2)
    assert first == 0 and isnan(second)


def test_what_is_no_acceptance():
    refused(
        (lambda: tokens_of_a_pass([0.5, 1.2]), r"a share between 0 and 1 at every position, not \[0.5, 1.2\]"),
        (lambda: positions([4], 2), r"2 drafts gives 1 to 3 tokens, got \[4\]"),
        (lambda: passes([0.5], 0), "n is a whole number of 1 or more"),
    )
