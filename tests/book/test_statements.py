"""Sentences of the chapters that stand over a computed table or figure, held against its numbers.

A page may say what a table shows only if this file would fail for another table; what differs from machine to machine, the cell
itself has to look at.
"""

import json
import re

import pytest

from helpers import figures
from helpers.costs.attention import io_complexity, time_and_intensity
from helpers.costs.attention.flops_and_bytes import Attention, flash
from helpers.costs.inference import (
    engine_simulation,
    prefill_and_decode_step as replica,
    request_loads as loads,
    sharded_decode_step as sharded_step,
)
from helpers.costs.inference.engine_simulation import budgeted, one_piece
from helpers.costs.inference.latency_and_throughput import saturating_batch
from helpers.costs.inference.prefill_and_decode_step import Replica
from helpers.costs.inference.request_loads import mixed_load
from helpers.costs.inference.serving_log import goodput, keeps, percentiles
from helpers.costs.inference.speculative_decoding import best_length, passes, together, tokens_of_a_pass
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training import dp_fsdp_tp, training_step
from helpers.costs.training.layout import Layout
from helpers.costs.training.operation_seconds import Software
from helpers.costs.training.step_estimate import step_seconds
from helpers.costs.transformers import shares_and_thresholds, training_memory_bytes
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import flops, kv_cache, parameters
from helpers.costs.transformers.public_models import model
from helpers.costs.transformers.shares_and_thresholds import six_nd_ratio
from tests.book.conftest import ROOT

V5E, H100 = chip("v5e"), chip("H100")


def stored(name):
    return json.loads((ROOT / f"book/results/{name}.json").read_text(encoding="utf-8"))


def test_the_compiler_believes_in_less_bandwidth_than_the_data_sheet_and_is_flat_then_linear():
    v = stored("ch01_compiler")["chips"]["v5e"]
    took = {int(B): s for B, s in v["seconds"].items()}
    assert v["W"] < V5E.hbm_bandwidth
    assert took[128] < 1.15 * took[8] and 1.8 < took[4096] / took[2048] < 2.2


def test_the_named_machine_says_how_it_was_measured_and_bears_out_its_sentence():
    """The page says of it alone: 16 rows take a multiple of the lower bound; the most FLOPs/s made C."""
    s = stored("ch01_machine")
    assert s["command"].startswith("python book/results/ch01_machine.py") and re.match(r"\d+ cores, \S+", s["machine"])
    assert s["date"] and {"jax", "jaxlib"} <= set(s["versions"]) and s["passes"] >= 2
    best = {int(B): r["best"] for B, r in s["matmul"].items()}
    C = max(2 * B * 4096**2 / t for B, t in best.items())
    math, memory = 2 * 16 * 4096**2 / C, 4 * (4096**2 + 2 * 16 * 4096) / s["bandwidth"]["best"]
    assert best[16] / max(math, memory) > max(1.5, 2 * s["matmul"]["16"]["again"]), "far more than passes differ"
    figures = [s[name] for name in ("flops", "bandwidth", "dispatch", "share")]
    figures += [*s["elementwise"].values(), *s["matmul"].values()]
    assert all(f["again"] >= 1 and f["best"] > 0 for f in figures)


def test_6ND_is_near_for_wide_dense_models_up_to_8192_tokens():
    for name in ("llama-3.1-405b", "gemma-3-27b"):
        assert all(abs(six_nd_ratio(model(name), T, "causal") - 1) < 0.05 for T in (1024, 8192))
    v3 = model("deepseek-v3")
    assert v3.D > 5000 and six_nd_ratio(v3, 8192, "causal") > 1.1


def test_how_far_6ND_is_off_at_131072_tokens():
    names = ("qwen-3-0.6b", "deepseek-v3", "llama-3-8b", "llama-3.1-405b", "gemma-3-27b")
    at = {T: [six_nd_ratio(model(n), T, "causal") for n in names] for T in (1024, 2**17)}
    assert all(abs(r - 1) < 0.15 for r in at[1024]) and at[2**17] == sorted(at[2**17], reverse=True)
    small, v3, eight, *large = at[2**17]
    assert small > 10 and 5 < v3 < 5.5 and 0.66 < 1 - 1 / eight < 0.68 and max(large) < 2


def test_caches_of_four_kinds_and_beside_the_weights():
    GPT3, llama, gemma, v3 = (model(n) for n in ("gpt-3", "llama-3-70b", "gemma-3-27b", "deepseek-v3"))
    long = [kv_cache(c, 2**17) / 1e9 for c in (GPT3, llama, gemma, v3)]
    assert long[0] > 600 and round(long[1]) == 43 and 9 < long[3] < long[2] < 11.5
    assert kv_cache(gemma, 1024) > kv_cache(llama, 1024)
    of = {
        n: kv_cache(model(n), 32768) / (2 * parameters(model(n)).total)
        for n in ("llama-2-13b", "llama-3-70b", "gemma-3-27b")
    }
    assert 0.95 < of.pop("llama-2-13b") < 1.05 and max(of.values()) < 0.1


def test_where_the_time_of_a_run_at_an_MFU_of_40_percent_goes():
    c = model("llama-3-70b")
    rule = 6 * parameters(c).active * 8192
    once, twice = (
        0.4 * training_memory_bytes.train_flops(c, 1, 8192, p, "causal") / rule for p in ("everything", "block")
    )
    assert 0.41 < once < 0.43 and round(twice, 2) == 0.53


def shares(name):
    c = model(name)
    p, f = parameters(c), flops(c, 1, 8192, count="causal")
    held = {
        "vocabulary": p.embedding + p.unembedding + p.positions,
        "projections": p.attention,
        "MLP": p.mlp + p.shared,
        "experts": p.experts + p.router,
    }
    done = {
        "vocabulary": f.unembedding,
        "projections": f.projections,
        "dot": f.attention,
        "MLP": f.mlp + f.shared,
        "experts": f.experts + f.router,
    }
    return [{k: n / sum(part.values()) for k, n in part.items()} for part in (held, done)]


def test_where_parameters_and_flops_sit():
    small, *dense = ("qwen-3-0.6b", "llama-3-8b", "llama-3-70b", "gemma-2-27b")
    for name in dense:
        assert all(part["MLP"] > 0.5 for part in shares(name))
    done = shares(small)[1]
    assert done["dot"] == max(done.values())
    held, done = shares("deepseek-v3")
    assert held["experts"] > 0.9 and done["experts"] < 0.5
    vocabulary = {n: shares(n)[0]["vocabulary"] for n in (small, *dense, "mixtral-8x7b", "deepseek-v3")}
    assert max(vocabulary, key=vocabulary.get) == small


def test_curves_of_attention_cross_in_the_order_that_is_said():
    at = [
        shares_and_thresholds.crossover(model(n), "matrices", "causal")
        for n in ("llama-3-8b", "gemma-2-27b", "gemma-3-27b")
    ]
    assert at[0] < 65536 < 2 * 65536 < at[1] < at[2]
    eight, seventy = (
        shares_and_thresholds.attention_ratio(model(n), 8192, "causal") for n in ("llama-3-8b", "llama-3-70b")
    )
    assert seventy < eight


def test_variants_on_an_H100_wait_for_what_is_said():
    a = Attention(16384, N=32, K=8)
    room = H100.fast_bytes // H100.cores
    b = io_complexity.largest_block(room, a.H)
    rates = time_and_intensity.Rates(H100.rate(), H100.hbm_bandwidth, time_and_intensity.exp_rate(132, 1.83e9))
    t = {
        n: time_and_intensity.seconds(p, rates).parts
        for n, p in time_and_intensity.variants(a, room, window=1024).items()
    }
    for name in ("naive", "fused"):
        assert t[name]["hbm"] > t[name]["math"]
    for name in ("flash2", "flash3"):
        assert max(t[name], key=t[name].get) == "hbm"
    for version in (2, 3):
        shared = time_and_intensity.seconds(flash(a, b, version, rows=4 * b), rates).parts
        assert shared["hbm"] < shared["math"] and shared["exps"] > 0.25 * shared["math"]


def test_formula_and_meshes_part_as_chapter_4_says():
    """Some hundreds: the mesh has 256. A thousand or more: FSDP alone. Both happen in the table."""
    cube, seen = Slice(chip("v5p"), (16, 16, 16)), []
    for tokens in (2**18, 2**19, 2**20, 2**21, 2**22, 2**24):
        real = dp_fsdp_tp.X_opt(tokens, 32768, 4096, 2, 1)
        assert real >= 100 and dp_fsdp_tp.best_mesh(tokens, 8192, 32768, cube)["X"] == (256 if real < 1000 else 4096)
        seen.append(real < 1000)
    assert set(seen) == {True, False}


def test_what_serving_on_a_slice_waits_for():
    """Small batches on many chips for links, the others for memory; at one batch more chips are quicker, and each makes less."""
    on = replica.Replica(model("llama-3-70b"), V5E, weights="int8")
    batches, grids = (1, 4, 16, 64, 128, 256, 512), [Slice(V5E, shape) for shape in ((4, 4), (4, 8), (8, 8))]
    points = [p for p in sharded_step.points(on, 8192, batches, grids) if p.fits]
    bound = {(p.chips, p.B): p.bound for p in points}
    for chips in (16, 32, 64):
        mine = [bound[chips, B] for B in batches if (chips, B) in bound]
        waits = ["ici" in b for b in mine]
        assert waits == sorted(waits, reverse=True), (chips, mine)
    for B in batches:
        same = sorted((p for p in points if p.B == B), key=lambda p: p.chips)
        assert all(a.latency > b.latency and a.per_chip > b.per_chip for a, b in zip(same, same[1:], strict=False))


def test_estimates_are_shown_of_sources_that_their_constants_have_not_seen():
    """What the figure's text and the paragraph below it say."""
    scores = stored("estimate")
    many = {source for source, f in scores["cases"]["in sample"].items() if f["rows"] >= 6}
    rows = [r for r in scores["rows"].values() if r["source"] in many]
    off = [r["left out"] / r["measured"] for r in rows]
    assert sum(1 / 1.2 < x < 1.2 for x in off) > 0.6 * len(off)
    half = [r["half of peak"] / r["measured"] for r in rows]
    assert 0.08 < min(half) < 0.12 and 1.7 < max(half) < 1.85
    assert any(r["left out"] != r["estimate"] for r in rows)


def test_the_layout_with_the_better_floor_took_longer():
    gpt3 = Config(12288, 96, 96, 96, 128, 49152, 51200, gated=False, tied=True)
    hosts, a100 = Slice(chip("A100"), (8,)), chip("A100")
    zero3 = Layout(fsdp=1536, pods=192)
    pipelined = Layout(dp=8, tp=8, pp=12, pods=96, microbatches=192, sequence_parallel=False)
    floors = [training_step.step(gpt3, x, 1536 * 2048, 2048, hosts).time.lower for x in (zero3, pipelined)]
    said = [
        step_seconds(gpt3, a100, zero3, 1536, 2048, Software(False, "stored", gathers=12)),
        step_seconds(gpt3, a100, pipelined, 1536, 2048, Software(attention="stored")),
    ]
    assert 2 * floors[0] == pytest.approx(floors[1], rel=0.1) and said[0].mid > 1.4 * said[1].mid
    measured = {
        m["id"]: next(x["value"] for x in m["measured"] if x["metric"] == "step_time")
        for m in json.loads((ROOT / "book/data/published.json").read_text(encoding="utf-8"))["measurements"]
        if m["source"] == "narayanan2021_t2"
    }
    took = [measured[f"narayanan2021_t2_{x}"] for x in ("zero3_gpt3-175b_1536", "ptd_gpt3-175b_768")]
    assert [round(t, 1) for t in took] == [66.7, 39.4]
    assert all(e.low < t < e.high for e, t in zip(said, took))
    assert max(said[0].parts, key=said[0].parts.get) == "weights"


@pytest.mark.slow("simulates thousands of passes")
def test_16_slots_are_too_few_for_prompts_that_are_read_whole():
    """Chapter 5: with a slot for each request chunks bring the first token no sooner, and tokens/s are little more."""
    many = mixed_load(80, seed=0, rate=30, prompts=(256, 8192), outputs=(16, 192))
    t = engine_simulation.timings(replica.Replica(model("llama-3-8b"), V5E, 8), Slice(V5E, (2, 4)))
    few, whole = (engine_simulation.interleaved(many, n, t.prefill, t.step) for n in (16, 80))
    pieces = [engine_simulation.chunked(many, n, t.step, t.mixed, 256) for n in (16, 80)]
    assert pieces[0].ttft < few.ttft and pieces[1].ttft > whole.ttft
    assert pieces[0].throughput / few.throughput > 1.15 > pieces[1].throughput / whole.throughput > 1


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


def test_it_opens_with_a_gather_that_the_arithmetic_hides():
    assert (FIGURE.sizes["I"], FIGURE.operands) == (8192, ("[I_X, J_Y]", "[J, K_Y]", "[I_X, K_Y]"))
    assert ranked(8192)[0] == ["AllGather", "Matmul"] and "bound by arithmetic" in FIGURE.sentence()


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
