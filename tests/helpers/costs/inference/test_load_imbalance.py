"""Imbalance of uniform routing: every routing there is, for few tokens; drawn ones, for many."""

from itertools import combinations, product

import numpy as np
import pytest

from helpers.costs.inference.load_imbalance import expected_imbalance, imbalance, largest_normal, routed
from tests.helpers.costs.tables import refused, walks


def every_routing(tokens, E, k, devices):
    """Mean imbalance of all equally likely routings, one by one."""
    choices = [np.bincount([e * devices // E for e in some], minlength=devices) for some in combinations(range(E), k)]
    return np.mean([np.sum(some, 0).max() * devices / (tokens * k) for some in product(choices, repeat=tokens)])


@walks([(6, 4, 1, 2), (4, 4, 2, 2), (3, 6, 2, 3), (5, 3, 1, 3)])
def test_by_every_routing(tokens, E, k, devices):
    """A few tokens are far from normal; the estimate is within a tenth even so, and `routed` draws from these routings."""
    wanted = every_routing(tokens, E, k, devices)
    drawn = np.mean([imbalance(routed(tokens, E, k, devices, seed)) for seed in range(1500)])
    assert drawn == pytest.approx(wanted, rel=0.02)
    assert expected_imbalance(tokens, E, k, devices) == pytest.approx(wanted, rel=0.1)


@walks([(256, 64, 6, 8, 0.02), (1024, 256, 8, 32, 0.02), (2000, 8, 2, 8, 0.02), (512, 128, 1, 64, 0.06)])
def test_by_drawing(tokens, E, k, devices, within):
    """Experts by sorting random keys, which is not how `routed` draws them; eight rows a device are not nearly normal yet."""
    draw, found = np.random.default_rng(0), []
    for _ in range(60):
        experts = draw.random((tokens, E)).argpartition(k - 1, -1)[:, :k] if k < E else np.tile(range(E), (tokens, 1))
        rows = np.bincount(experts.reshape(-1) // (E // devices), minlength=devices)
        found.append(rows.max() / rows.mean())
    assert expected_imbalance(tokens, E, k, devices) == pytest.approx(np.mean(found), rel=within)


def test_the_ends():
    assert expected_imbalance(9, 8, 8, 4) == expected_imbalance(9, 8, 2, 1) == 1
    assert imbalance(routed(9, 8, 8, 4)) == 1 and imbalance([7]) == 1
    assert np.diff([expected_imbalance(B, 64, 4, 16) for B in (16, 64, 256, 4096)]).max() < 0
    assert expected_imbalance(4096, 64, 4, 16) - 1 == pytest.approx((expected_imbalance(1024, 64, 4, 16) - 1) / 2)
    draw = np.random.default_rng(0).standard_normal((100_000, 7)).max(-1)
    assert largest_normal(7) == pytest.approx(draw.mean(), abs=0.01)
    assert largest_normal(3) == pytest.approx(1.5 / np.pi**0.5)


def test_what_has_no_imbalance():
    refused(
        (lambda: imbalance([0, 0]), r"devices that have tokens, not of \[0, 0\]"),
        (lambda: imbalance([]), "devices that have tokens"),
        (lambda: routed(4, 6, 7, 2), "not k=7, E=6, 2 devices"),
        (lambda: expected_imbalance(4, 6, 2, 4), "not k=2, E=6, 4 devices"),
    )
