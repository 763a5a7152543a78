"""What chapter 5 says of simulated engines in words, held against the runs that its cells make."""

import json

import pytest

from helpers.costs.inference import engine_simulation, request_loads as loads
from helpers.costs.inference.engine_simulation import budgeted, one_piece
from helpers.costs.inference.latency_and_throughput import saturating_batch
from helpers.costs.inference.prefill_and_decode_step import Replica
from helpers.costs.inference.request_loads import mixed_load
from helpers.costs.inference.serving_log import goodput, keeps, percentiles
from helpers.costs.inference.speculative_decoding import best_length, passes, together, tokens_of_a_pass
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.transformers.public_models import model
from tests.book.conftest import ROOT

V5E = chip("v5e")
R8 = Replica(model("llama-3-8b"), V5E, 8)
TIMES = engine_simulation.timings(R8, Slice(V5E, (2, 4)))
PASS = one_piece(TIMES.step, TIMES.mixed)
TRACE = json.loads((ROOT / "book/data/azure_conversations.json").read_text(encoding="utf-8"))["requests"][:80]


@pytest.mark.slow("simulates hundreds of passes")
def test_a_budget_decides_the_longest_gap_and_hardly_the_tokens_a_second():
    many = mixed_load(80, seed=0, rate=30, prompts=(256, 8192), outputs=(16, 192))
    logs = [budgeted(many, 80, PASS, budget) for budget in (512, 2048, 8192)]
    rates, gaps = [log.throughput for log in logs], [percentiles(log, 99).gap for log in logs]
    assert max(rates) < 1.06 * min(rates) and gaps[1] > 3.5 * gaps[0] and gaps[2] > 3.5 * gaps[1]
    assert logs[1].worst_gap < 1 / 20 < gaps[2] and percentiles(logs[2], 50).gap < 1 / 20  # the question, and its trap


def test_below_the_critical_batch_a_pass_takes_as_long_as_its_weights():
    """Without links, whose bytes grow with the tokens."""
    few, critical, many = (R8.mixed(0, 0, T, 0).seconds for T in (32, round(saturating_batch(V5E)), 2048))
    assert critical < 1.2 * few and many > 6 * critical


@pytest.mark.parametrize("policy", ["recompute", "swap"])
@pytest.mark.slow("simulates hundreds of passes")
def test_growing_starts_sooner_and_few_pay(policy):
    load = mixed_load(40, seed=0, rate=30, prompts=(128, 1024), outputs=(64, 1024))
    run = lambda policy: budgeted(load, 40, PASS, 1024, 800, 16, policy, swap=lambda n: 16 * n * R8.kv(1) / R8.pcie)  # noqa: E731
    kept, grown = run("reserve"), run(policy)
    assert grown.ttft < 0.6 * kept.ttft and grown.throughput > 1.03 * kept.throughput
    assert grown.worst_gap > 10 * kept.worst_gap and 0 < grown.preempted < 20
    waited = sum(max(s.gaps) > 0.1 for s in grown.served)
    assert 0 < waited < 10


@pytest.mark.slow("simulates hundreds of passes")
def test_bursts_break_a_promise_that_even_arrivals_keep():
    """And not by their gaps."""
    lengths = [row[1:] for row in TRACE]
    even = budgeted(loads.load(loads.even(80, 28), lengths), 64, PASS, 1024)
    bursts = budgeted(loads.load(loads.bursts(80, 28, 0.1, seed=1), lengths), 64, PASS, 1024)
    assert goodput(even, 0.15, 0.03) == pytest.approx(80 / even.span)
    assert goodput(bursts, 0.15, 0.03) < 0.85 * 80 / bursts.span and bursts.span < 1.05 * even.span
    assert all(keeps(s, 1e9, 0.03) for s in bursts.served)


def test_sessions_know_most_of_their_prompts():
    talks = loads.shared_prefixes(loads.turns(15, 4, rate=10, pause=2.0, outputs=(16, 128)), system=1024, page=16)
    assert sum(r.known for r in talks) > 0.85 * sum(r.prompt for r in talks)


def test_waiting_for_the_slowest_costs_a_little_and_advancing_in_step_nearly_all():
    falling = (0.85, 0.75, 0.6, 0.45)
    own, slowest, same = tokens_of_a_pass(falling), 128 / passes(falling, 128, 64), together(falling, 64)
    assert 0.8 * own < slowest < 0.95 * own and same < 1.01
    assert best_length(falling, 0.1) < best_length((0.85,) * 16, 0.1)
