"""Speculative sampling: the law that comes out, tokens of a pass and the best number of guesses, by enumeration."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from helpers.costs.inference.speculative_decoding import (
    acceptance,
    best_K,
    expected_tokens,
    flops_ratio,
    residual,
    speed_up,
)
from tests.helpers.costs.tables import refused, walks

laws = st.lists(st.integers(0, 20), min_size=4, max_size=4).filter(any).map(lambda n: [x / sum(n) for x in n])


@settings(max_examples=30, deadline=None)
@given(laws, laws)
def test_what_comes_out_has_the_targets_law(p, q):
    """Accepted with min(1, p/q), or drawn from the residual; and acceptance is the sum of min(p, q)."""
    a, rest = acceptance(p, q), residual(p, q)
    accepted = [y * min(1, x / y) if y else 0 for x, y in zip(p, q)]
    assert sum(accepted) == pytest.approx(a) and sum(rest) == pytest.approx(1)
    assert [k + (1 - a) * r for k, r in zip(accepted, rest)] == pytest.approx(p)
    assert float(acceptance(np.array(p), np.array(q))) == pytest.approx(a)
    np.testing.assert_allclose(residual(np.array([p, p]), np.array([q, p])), [rest, p], atol=1e-12)


@walks([0.0, 0.3, 0.9, 1.0], [0, 1, 4])
def test_tokens_of_a_pass_by_enumeration(a, K):
    """Every pattern of accepted and refused tokens, with its probability: those before the first refusal, and one more."""
    total = 0.0
    for pattern in product((True, False), repeat=K):
        kept = pattern.index(False) if False in pattern else K
        total += np.prod([a if ok else 1 - a for ok in pattern]) * (kept + 1)
    assert expected_tokens(a, K) == pytest.approx(total) and 1 <= total <= K + 1


def test_the_best_number_of_guesses():
    for a, c, per in ((0.6, 0.1, 0.0), (0.9, 0.02, 0.1), (0.3, 0.3, 0.0), (0.3, 0.29, 0.0)):
        K = best_K(a, c, per)
        gains = [speed_up(a, k, c, 1 + k * per) for k in range(65)]
        assert gains[K] == pytest.approx(max(gains)) and (K > 0) == (a > c + per)
    assert speed_up(0.7, 3, 0.1) == pytest.approx((1 + 0.7 + 0.49 + 0.343) / 1.3)
    assert flops_ratio(1.0, 4, 0.1) == pytest.approx(5.4 / 5) and flops_ratio(0.5, 4, 0.1) > 2


def test_what_is_no_law():
    refused(
        (lambda: acceptance([0.5, 0.5], [1.0]), "these have 2 and 1"),
        (lambda: acceptance([0.5, 0.6], [0.5, 0.5]), "adds up to 1, got a sum of 1.1"),
        (lambda: expected_tokens(1.2, 3), "a share between 0 and 1, not 1.2"),
        (lambda: best_K(np.array([0.5]), 0.1), "take speed_up for arrays"),
    )
