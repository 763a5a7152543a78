"""Exercises of chapters 5 and 6: the solved functions against brute force."""

from itertools import product

import numpy as np
import pytest

from helpers.costs.inference.prefill_and_decode_step import Replica
from helpers.costs.inference.serving_operations import met as expected_experts
from helpers.costs.inference.speculative_decoding import best_gamma
from helpers.costs.rooflines.chips import chip
from helpers.costs.transformers.parameters_and_flops import kv_cache, parameters
from helpers.costs.transformers.public_models import model
from tests.solutions import course

TOPIC = "ch05_inference"


@pytest.mark.parametrize("a, c", [(0.3, 0.05), (0.5, 0.02), (0.8, 0.1), (0.95, 0.05), (0.04, 0.05)])
def test_best_guess_is_that_of_the_formulas(solved, a, c):
    assert solved["guessing"](a, c, 3, 1, 1e9)["best"] == best_gamma(a, c)


def test_the_cheapest_choice_is_the_least_of_all(solved):
    """5.21: no choice of chips, batch and replicas, tried one by one, takes fewer chips."""
    for case in ((3000, 0.02, 5e8, 16e9, 3.94e14, 8.1e11, 4.5e10), (700, 0.01, 2e9, 32e9, 1.84e15, 1.6e12, 9e10)):
        rate, latency, *chip = case
        chips, B, replicas = solved["cheapest"](*case)
        seconds = solved["step_seconds"](chips, B, *chip)
        assert seconds <= latency and replicas * B / seconds >= rate
        times = {(n, b): solved["step_seconds"](2**n, b, *chip) for n, b in product(range(9), range(1, 2000))}
        fewer = [
            (n, b, r)
            for (n, b), t in times.items()
            if t <= latency
            for r in range(1, (chips * replicas - 1) // 2**n + 1)
            if r * b / t >= rate
        ]
        assert fewer == []


@pytest.mark.parametrize("B, S, T, done", [(16, 4096, 256, 0), (1, 50, 33, 700), (40, 3, 1, 9), (7, 800, 0, 0)])
def test_5_27_counts_what_the_costs_count(solved, B, S, T, done):
    """FLOPs of `Replica.mixed_works` without its unembedding, where memory takes no time; its weights and caches where it takes all."""
    c, bf16 = model("llama-3-8b"), 2
    works = Replica(c, chip("v5e"), 8).mixed_works(B, S, T, done)
    unembedding = 2 * c.V * c.D * (B + (T > 0))
    layers = parameters(c).total - parameters(c).norms - 2 * c.V * c.D
    given = layers, bf16, kv_cache(c, 1, 1, bf16), 4 * c.L * c.N * c.H
    flops = solved["mixed_pass"](B, S, T, done, T + done + 1, 1.0, *given, 1.0, 1e30)["seconds"]
    np.testing.assert_allclose(flops, sum(w.flops for w in works.values()) - unembedding, rtol=1e-9)
    read = solved["mixed_pass"](B, S, T, done, T + done + 1, 1.0, *given, 1e30, 1.0)["seconds"]
    np.testing.assert_allclose(read, bf16 * layers + given[2] * (B * S + (done if T else 0)), rtol=1e-9)


@pytest.mark.parametrize("weights, L, hop", [(1.6e10, 32, 1e-6), (1.4e11, 80, 3e-7), (4e9, 24, 4e-6)])
def test_5_28_best_number_of_chips_is_near_the_root(solved, weights, L, hop):
    """Without caches the derivative of weights/(n·W) + 4·L·n·hop is 0 at the root of weights/(4·L·W·hop)."""
    got = solved["one_user"](8, weights, 0, 8, L, 10, 4e-6, 1e-5, hop, 3e12, 1000, 0.9)
    assert abs(got["best"] - (weights / 3e12 / (4 * L * hop)) ** 0.5) < 1


def test_5_29_meets_as_many_experts_as_random_tokens_do(solved):
    rng = np.random.default_rng(29)
    for B, E, k in ((1, 16, 3), (12, 64, 6), (100, 256, 8)):
        seen = [len({int(e) for _ in range(B) for e in rng.permutation(E)[:k]}) for _ in range(100)]
        met = solved["two_layouts"](8, B, 1000, E, k, 1e9, 1e8, 5e4, 99)["met"]
        assert abs(np.mean(seen) - met) < 4 * max(np.std(seen) / 10, 1e-9)
        np.testing.assert_allclose(met, expected_experts(E, k, B))


def test_5_30_goodput_is_what_full_replicas_answer(solved):
    """Slot by slot: requests that end in an hour, on all replicas of the plan."""
    rows = [
        (2, 40, 0.012, 0.0002, 0.25, 0.3),
        (4, 120, 0.009, 0.00012, 0.14, 0.3),
        (8, 300, 0.0075, 0.00009, 0.09, 0.3),
    ]
    got = solved["deploy"](27, rows, 500, 60.0, 1.0)
    first, gap = solved["priced"](rows[got["row"]], got["B"], 500)
    assert first <= 1 and 1 / gap >= 60 and got["replicas"] * rows[got["row"]][0] <= 27
    done = 0
    for slot in range(got["replicas"] * got["B"]):
        clock = slot * 0.01
        while (clock := clock + first + 499 * gap) <= 3600:
            done += 1
    np.testing.assert_allclose(done / 3600, got["goodput"], rtol=0.01)


@pytest.mark.slow("solves the chapter")
def test_the_fastest_is_the_least_of_all():
    """6.21: no other choice of the model is faster; blocks outside by queries and whole scores both win, for some chip and length."""
    solved, kinds = course.solved("ch06_attention"), set()
    for case in (
        (4096, 128, 230_000, 9.89e14, 3.35e12, 3.9e12),
        (40, 64, 40_000, 1e13, 5e12, 1e15),
        (600, 64, 160_000, 9e14, 2e12, 5e11),
    ):
        best = solved["fastest"](*case)
        choices = product(("queries", "keys", "whole"), *[(16, 32, 64, 128, 256, 512)] * 2)
        visits = lambda R, K, T=case[0]: sum(j < min(i + R, T) for i in range(0, T, R) for j in range(0, T, K))  # noqa: E731
        price = lambda choice, case=case: solved["priced"](choice, visits(*choice[1:]), *case)  # noqa: B023, E731
        assert price(best) == min(map(price, choices))
        kinds.add(best[0])
    assert kinds == {"queries", "keys", "whole"}
