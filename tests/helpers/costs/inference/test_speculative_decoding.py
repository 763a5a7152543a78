"""Guesses that are checked: the law that comes out, tokens of a pass, by position and by the slowest of a batch, by enumeration;
and the module that predicts one more token, by DeepSeek's own counts."""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from helpers.costs.inference.prefill_and_decode_step import Replica
from helpers.costs.inference.speculative_decoding import (
    acceptance,
    accepted,
    best_gamma,
    draft_cost,
    expected_tokens,
    flops_ratio,
    module,
    own_parameters,
    passes,
    residual,
    speed_up,
    together,
    tokens_of_a_pass,
)
from helpers.costs.rooflines.chips import chip
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.costs.transformers.public_models import model
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
def test_tokens_of_a_pass_by_enumeration(a, gamma):
    """Every pattern of accepted and refused tokens, with its probability: those before the first refusal, and one more."""
    total = 0.0
    for pattern in product((True, False), repeat=gamma):
        kept = pattern.index(False) if False in pattern else gamma
        total += np.prod([a if ok else 1 - a for ok in pattern]) * (kept + 1)
    assert expected_tokens(a, gamma) == pytest.approx(total) and 1 <= total <= gamma + 1


def test_the_best_number_of_guesses():
    for a, c, per in ((0.6, 0.1, 0.0), (0.9, 0.02, 0.1), (0.3, 0.3, 0.0), (0.3, 0.29, 0.0)):
        gamma = best_gamma(a, c, per)
        gains = [speed_up(a, k, c, 1 + k * per) for k in range(65)]
        assert gains[gamma] == pytest.approx(max(gains)) and (gamma > 0) == (a > c + per)
    assert speed_up(0.7, 3, 0.1) == pytest.approx((1 + 0.7 + 0.49 + 0.343) / 1.3)
    assert flops_ratio(1.0, 4, 0.1) == pytest.approx(5.4 / 5) and flops_ratio(0.5, 4, 0.1) > 2


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


@walks(CASES, [(1, 3), (4, 1), (5, 2), (3, 3)])
def test_the_slowest_of_a_batch_by_following_every_course(a, sizes):
    """Whole batches, pass by pass: what is missing of each sequence, and every combination of what they accept."""
    gives, (n, B) = accepted(a), sizes

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


def test_errors_say_what_would_be_right():
    refused(
        (lambda: acceptance([0.5, 0.5], [1.0]), "these have 2 and 1"),
        (lambda: acceptance([0.5, 0.6], [0.5, 0.5]), "adds up to 1, got a sum of 1.1"),
        (lambda: expected_tokens(1.2, 3), "a share between 0 and 1, not 1.2"),
        (lambda: best_gamma(np.array([0.5]), 0.1), "take speed_up for arrays"),
        (lambda: tokens_of_a_pass([0.5, 1.2]), r"a share between 0 and 1 at every position, not \[0.5, 1.2\]"),
        (lambda: passes([0.5], 0), "n is a whole number of 1 or more"),
    )


V3 = model("deepseek-v3")


def test_deepseeks_own_counts():
    """README_WEIGHTS.md of deepseek-ai/DeepSeek-V3: 11.5 billion unique parameters, 2.4 billion active with the model's embedding
    and head, 0.9 billion each. These are the layer's; the projection has 2·7168² more."""
    p = parameters(module(V3))
    assert round((p.total - p.embedding - p.unembedding) / 1e9, 1) == 11.5 and round(p.active / 1e9, 1) == 2.4
    assert round(p.embedding / 1e9, 1) == round(p.unembedding / 1e9, 1) == 0.9
    assert own_parameters(V3) == parameters(V3).total - parameters(replace(V3, L=60)).total + 2 * 7168**2 + 2 * 7168


@walks(["llama-3-8b", "mixtral-8x7b", "gemma-2-27b", "llama-4-maverick"])
def test_a_layer_like_the_last(name):
    """What the last layer adds to the model, whatever kind it is."""
    c = model(name)
    last = parameters(c).total - parameters(replace(c, L=c.L - 1)).total
    assert own_parameters(c) == last + 2 * c.D**2 + 2 * c.D


def test_a_drafts_price_by_hand():
    """LLaMA-3-8B on one H100, a short context: the step reads all weights but the embedding's, the module a layer, the
    projection and the unembedding. Caches and activations are a hundredth."""
    r = Replica(model("llama-3-8b"), chip("H100"))
    layer, head, projection = 4096 * 4096 * 2 + 2 * 4096 * 1024 + 3 * 4096 * 14336, 4096 * 128256, 2 * 4096**2
    assert draft_cost(r, 1, 64) == pytest.approx((layer + head + projection) / (32 * layer + head), rel=0.01)
    assert draft_cost(r, 1, 64) > 0.1 > 5 * draft_cost(Replica(V3, chip("H200"), 16, weights="fp8"), 64, 4096)


def test_the_published_gain():
    """1.8 times the tokens a second at 85 to 90 % acceptance (technical report, 5.4.3): with all experts read in any case, and
    not where the second token's experts are read besides."""
    r = Replica(V3, chip("H200"), 16, weights="fp8", math="fp8")
    gain = {
        B: [speed_up(a, 1, draft_cost(r, B, 4096), r.verify(B, 1, 4096)) for a in (0.85, 0.9)] for B in (16, 64, 256)
    }
    assert gain[64][0] < 1.85 and gain[64][1] > 1.8 and gain[256][0] < 1.8 and gain[16][1] < 1
