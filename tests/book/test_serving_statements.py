"""What chapter 5 says of simulated engines, and the explorer's page of its example, held against the runs and plans shown."""

import json
import re

import pytest

from helpers import figures
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


FIGURE = figures.figure("explorer")
SUMS = {"b": "B[J_Y, K]"}  # both operands sharded along what is summed over


def first(I, **chosen):
    return FIGURE.picked({"I": I, **chosen})[0]


def ranked(I, **chosen):
    return [[s.kind for s in p.steps] for p in FIGURE.ranked({"I": I, **chosen})[0]]


def test_it_opens_with_a_gather_over_eight_devices_that_the_arithmetic_hides():
    assert (FIGURE.sizes["I"], FIGURE.operands) == (8192, ("[I_X, J_Y]", "[J, K_Y]", "[I_X, K_Y]"))
    assert ranked(8192)[0] == ["AllGather", "Matmul"] and "bound by arithmetic" in FIGURE.sentence()
    words = [said for said, _ in FIGURE.frames()]
    assert "step 1 of 4" in words[0] and words[-1].endswith("29.4 MB have left the busiest device.")
    held = [[float(x) > 0 for x in re.findall(r'fill-opacity="([\d.]+)"', svg)] for _, svg in FIGURE.frames()]
    assert [sum(cells) for cells in held] == [8, 24, 40, 56, 64]


def test_smaller_rows_meet_the_memory_and_then_another_plan():
    assert ranked(512)[0] == ["AllGather", "Matmul"] and "bound by HBM" in FIGURE.sentence({"I": 512})
    plan = first(256)
    assert [s.kind for s in plan.steps] == ["AllToAll", "AllGather", "Slice", "Matmul", "AllToAll"]
    assert [str(s) for s in plan.product[:2]] == ["A[I, J]", "B[J, K_YX]"]  # all rows, a quarter of B's part


@pytest.mark.parametrize(("I", "place"), [(8192, 3), (512, 1)])
def test_partial_sums_are_worth_reducing_where_the_result_is_small(I, place):
    assert ranked(I, **SUMS).index(["Matmul", "ReduceScatter"]) + 1 == place


def test_between_slices_the_network_decides_and_an_axis_of_rows_sends_nothing_over_it():
    times = lambda **at: [p.time(chip("v5p")) for p in FIGURE.ranked(at)[0]]  # noqa: E731
    far, near = times(y="8 slices"), times()
    assert [s.kind for s in first(8192, y="8 slices").steps] == ["AllGather", "Matmul"]
    assert far[0].bound == "dcn" and far[0].parts["dcn"] > 10 * near[0].parts["ici"]
    small = times(y="8 slices", I=256)
    assert [s.kind for s in first(256, y="8 slices").steps] == ["AllGather", "Matmul"] != ranked(256)[0]
    assert small[0].parts["dcn"] == pytest.approx(small[1].parts["dcn"]) and small[0].upper < small[1].upper
    rows = times(x="4 slices", y="8 in a ring")[0]
    assert rows.parts["dcn"] == 0 and rows.lower == near[0].lower == pytest.approx(near[0].parts["math"])
