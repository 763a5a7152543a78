"""Engines: what every schedule and budget must keep, the designs against each other, small loads by hand, and their trace."""

import json
from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from helpers.costs.inference import sharded_decode_step as sharded
from helpers.costs.inference.engine_simulation import (
    batched,
    budgeted,
    chunked,
    disaggregated,
    interleaved,
    one_piece,
    paged_schedule,
    prefill_alone,
    timings,
)
from helpers.costs.inference.prefill_and_decode_step import Replica
from helpers.costs.inference.request_loads import Request, mixed_load
from helpers.costs.inference.scheduler import POLICIES
from helpers.costs.inference.serving_log import chrome_trace
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.sharding.collectives import all_gather, all_reduce, seconds
from helpers.costs.sharding.sharded_array import Axis
from helpers.costs.transformers.public_models import model
from tests.helpers.costs.tables import refused, walks

TIMES = (lambda T: T / 4, lambda B, S: 1 + S / 64)  # of a prompt; of a step, exact in binary
MIXED = lambda B, S, T, done: (TIMES[1](B, S) if B else 0) + T / 4  # noqa: E731
V5E = chip("v5e")
SHIP = lambda T: T / 8  # noqa: E731
ENGINES = {
    "batched": lambda load, slots: batched(load, slots, *TIMES),
    "interleaved": lambda load, slots: interleaved(load, slots, *TIMES),
    "chunked": lambda load, slots: chunked(load, slots, TIMES[1], MIXED, chunk=3),
    "disaggregated": lambda load, slots: disaggregated(load, slots, *TIMES, SHIP),
}

requests = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20), st.integers(1, 12)), min_size=1, max_size=12)


@pytest.mark.parametrize("name", ENGINES)
@settings(max_examples=25, deadline=None)
@given(load=requests, slots=st.integers(1, 4))
def test_what_every_engine_keeps(name, load, slots):
    """Nobody is lost or served before arriving, no lane or slot is used twice at once, no more than the slots are at work."""
    log = ENGINES[name](load, slots)
    assert [s.request for s in log.served] == [Request(*r) for r in load]
    for s in log.served:
        assert len(s.tokens) == s.request.output and s.start >= s.request.arrival
        assert all(a < b for a, b in pairwise(s.tokens)) and s.tokens[0] >= s.start + TIMES[0](s.request.prompt)
        assert s.tokens[0] >= s.start >= s.request.arrival and s.latency >= s.ttft
        assert s.ttft + sum(s.gaps) == pytest.approx(s.latency)
    for lane in {span.lane for span in log.spans}:
        own = [x for x in log.spans if x.lane == lane]
        assert all(a.end <= b.start for a, b in pairwise(own))
    moving = [s for s in log.served if s.request.output > 1]
    for where in {s.slot for s in moving}:
        inside = sorted((s.joined, s.tokens[-1]) for s in moving if s.slot == where)
        assert name == "batched" or all(a[1] <= b[0] for a, b in pairwise(inside))
    assert all(0 < n <= most == slots for n, most in log.steps) and 0 < log.slot_use <= 1
    assert sum(n for n, _ in log.steps) == sum(r[2] - 1 for r in load) == log.tokens - len(load)
    assert log == ENGINES[name](load, slots)  # the same again


def test_steps_are_asked_for_with_their_sequences_and_keys():
    """A step sees the prompt, what was said, and the token that is fed in."""
    asked = []
    batched([(0, 8, 3), (0, 4, 2)], 2, lambda T: T, lambda B, S: asked.append((B, S)) or 1)
    assert asked == [(2, (8 + 1 + 4 + 1) / 2), (1, 8 + 2)]


def test_interleaved_stalls_for_others_prompts():
    """A request stands still for exactly the prefills that fall between two of its tokens."""
    load = [(0, 8, 16), (2, 8, 3), (9, 16, 2), (9, 4, 5)]
    log = interleaved(load, 3, *TIMES)
    for s in log.served:
        for before, after in pairwise(s.tokens):
            inside = [x for x in log.spans if before <= x.start and x.end <= after]
            assert [x.kind for x in inside].count("generate") == 1
            assert after - before == sum(x.end - x.start for x in inside)
    assert log.worst_gap >= TIMES[0](16)
    alone = interleaved(load[:1], 3, *TIMES)
    assert alone.worst_gap < TIMES[0](16) and alone.slot_use == 1 / 3


def test_a_mixed_step_reads_the_weights_once():
    """LLaMA-3-8B on 8 v5e, 16 sequences of 4096 keys and a piece of 256 tokens: a decode step reads 15.0 GB of weights in
    2.3 ms, and the piece's FLOPs fit beside that; two passes would read them twice. By the parts of a roofline, not by `works`."""
    r = Replica(model("llama-3-8b"), V5E, 8)
    layers, head, H = 32 * (4096 * 4096 * 2 + 4096 * 1024 * 2 + 3 * 4096 * 14336), 4096 * 128256, 2 * 8 * 128 * 32
    work = r.mixed_works(16, 4096, 256, 0)
    assert sum(w.flops for w in work.values()) == pytest.approx(
        2 * 272 * layers + 2 * 17 * head + 2 * 2 * 32 * 32 * 128 * (16 * 4096 + 256 * 257 / 2), rel=1e-6
    )
    read = sum(w.bytes for w in work.values())
    least = 2 * (layers + head) + 2 * H * (16 * 4096 + 256)
    assert least < read < 1.1 * least  # the rest are activations
    assert 1e3 * r.mixed(16, 4096, 256, 0).seconds == pytest.approx(3.95, abs=0.01)
    assert 1e3 * (r.decode(16, 4096).seconds + r.mixed(0, 0, 256, 0).seconds) == pytest.approx(6.21, abs=0.01)
    assert r.mixed_works(16, 4096, 0, 0) == r.works(16, 1, 4096) and r.mixed(0, 0, 512, 0) == r.prefill(512)
    for B, T in ((0, 0), (-1, 5)):
        with pytest.raises(ValueError, match="a sequence or a token of a prompt or both, got B=|B is 0 or more"):
            r.mixed_works(B, 1, T, 0)
    # 3 tokens go to 24 of 256 experts, not twice to 16
    moe = Replica(model("deepseek-v3"), chip("H200"), 16, weights="fp8")
    one = lambda n: moe.weights_read(n)["experts"]  # noqa: E731
    assert one(3) == one(1) + one(2) and one(1000) == one(64) == 58 * 256 * 3 * 7168 * 2048


def test_a_mixed_step_on_a_slice():
    """With no prompt it is the decode step, whose cache may lie over sequences; with no sequence the prefill. A piece is
    attended to by the Y chips that have its cache: with Z = 4, a quarter of all."""
    s = Slice(V5E, (4, 4))
    r = Replica(model("llama-3-8b"), V5E, 16)
    for Y, Z in ((16, 1), (4, 4)):
        assert sharded.mixed(r, s, Y, Z, 16, 4096, 0, 0) == sharded.decode(r, s, Y, Z, 16, 4096)
    line = Axis(4, False)  # a mixed step sums along lines; a prefill gathers and scatters
    ici = sharded.mixed(r, s, 16, 1, 0, 0, 2048, 0).time.parts["ici"]
    assert ici == pytest.approx(64 * seconds(all_reduce(2 * 2048 * 4096, (line, line)), V5E.link_bandwidth))
    ici = sharded.prefill(r, s, 16, 1, 2048).time.parts["ici"]
    assert ici == pytest.approx(128 * seconds(all_gather(2 * 2048 * 4096, (line, line)), V5E.link_bandwidth))
    even, some = (sharded.mixed_works(r, s, Y, 16 // Y, 0, 0, 512, 512)["attention"] for Y in (8, 2))
    assert some.flops == 4 * even.flops and some.bytes == pytest.approx(4 * even.bytes)
    assert some.flops == 2 * 2 * 32 * 32 * 128 * (512 * 512 + 512 * 513 / 2) / 2


def test_links_are_in_the_timings():
    """A step and a mixed step of an engine on 2x4 v5e, lines both: two AllReduces a layer of all tokens' rows; a prefill
    gathers and scatters them."""
    r, s = Replica(model("llama-3-8b"), V5E, 8), Slice(V5E, (2, 4))
    prefill, step, mixed = timings(r, s)
    for rows, with_links, without, times, kind in (
        (2048, prefill(2048), r.prefill(2048), 128, all_gather),
        (16, step(16, 4096), r.decode(16, 4096), 64, all_reduce),
        (272, mixed(16, 4096, 256, 1024), r.mixed(16, 4096, 256, 1024), 64, all_reduce),
    ):
        moved = times * seconds(kind(2 * rows * 4096, (Axis(2, False), Axis(4, False))), V5E.link_bandwidth)
        assert with_links - without.seconds == pytest.approx(moved)
    assert r.prefill(2048).seconds < prefill_alone(r, s)(2048) < prefill(2048)  # such a server may cut the tokens, too


def test_a_known_prefix_is_not_computed_again():
    for name in ("interleaved", "chunked", "disaggregated"):
        plain, cached = (ENGINES[name]([(0, 20, 3, known)], 2) for known in (0, 16))
        assert (plain.ttft, cached.ttft) == (TIMES[0](20), TIMES[0](20) - TIMES[0](16))
    refused((lambda: ENGINES["interleaved"]([(0, 20, 3, 20)], 2), "known is 0 to 19; number 0"))


def test_what_is_no_load():
    run = lambda *load, slots=2, **kw: interleaved(load, slots, *TIMES, **kw)  # noqa: E731
    refused(
        (lambda: run(), "a load has one request or more"),
        (lambda: run((0, 0, 3)), "prompt of request 0: a whole number of 1 or more, not 0"),
        (lambda: run((0, 3, 3), (-1, 3, 3)), "arrives at 0 or later; number 1 is"),
        (lambda: run((0, 3, 3), slots=0), "slots is a whole number of 1 or more, not 0"),
        (lambda: chunked([(0, 3, 3)], 2, TIMES[1], MIXED, 0), "chunk is a whole number of 1 or more, not 0"),
        (lambda: mixed_load(3, rate=0.0), "a rate above 0 a second"),
        (lambda: mixed_load(0), "n is a whole number of 1 or more, not 0"),
    )


@walks([[(0, 4, 2.5)], [(0, 4, 0)], [(0, -4, 2)], [(0, 4)], [(0, True, 2)]])
def test_a_load_that_would_never_end_is_refused(load):
    refused(
        (lambda: interleaved(load, 2, lambda T: T, lambda B, S: 1), "whole number of 1 or more|a request is"),
        (lambda: paged_schedule(load, 2, 9, 4, 4, "swap"), "whole number of 1 or more|a request is"),
    )


PAGES = {"pages": 24, "page": 4, "policy": "swap", "swap": lambda n: n / 8}
DESIGNS = ENGINES | {
    "budgeted": lambda load, slots: budgeted(load, slots, lambda B, S, pieces: 1 + len(pieces), 16, **PAGES)
}
LOAD = (*mixed_load(20, seed=2, rate=0.5, prompts=(4, 40), outputs=(1, 40)), (3.0, 8, 1), (4.0, 24, 60))


@pytest.mark.parametrize("name", DESIGNS)
def test_the_trace_is_the_log(name, tmp_path):
    log, file = DESIGNS[name](LOAD, 11), tmp_path / "trace.json"
    file.write_text(json.dumps(chrome_trace(log)), encoding="utf-8")
    read = json.loads(file.read_text(encoding="utf-8"))
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in read["traceEvents"] if e["name"] == "thread_name"}
    bars = [e for e in read["traceEvents"] if e["ph"] == "X"]
    for pid, spans in ((1, log.spans), (2, log.slot_spans())):
        told = [
            (threads[pid, e["tid"]], e["ts"] / 1e6, (e["ts"] + e["dur"]) / 1e6, e["name"], tuple(e["args"]["requests"]))
            for e in bars
            if e["pid"] == pid
        ]
        wanted = [tuple(s) for s in spans if s.end > s.start]
        assert len(told) == len(wanted) > 20
        for a, b in zip(sorted(told), sorted(wanted)):
            assert (a[0], *a[3:]) == (b[0], *b[3:]) and a[1:3] == pytest.approx(b[1:3])
    # Bars of a row must not overlap: the viewers would draw one inside the other, or leave it out.
    rows = defaultdict(list)
    for e in bars:
        rows[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
    assert all(a[1] <= b[0] + 1e-3 for row in rows.values() for a, b in pairwise(sorted(row)))
    slots = [name for (pid, _), name in sorted(threads.items()) if pid == 2 and name.startswith("slot 0.")]
    assert slots == sorted(slots, key=lambda s: int(s[7:])) and len(slots) > 1
    assert {e["args"]["name"] for e in read["traceEvents"] if e["name"] == "process_name"} == {"servers", "slots"}
    assert set(read) == {"traceEvents", "displayTimeUnit"} and {e["ph"] for e in read["traceEvents"]} == {"M", "X"}


UNIT = lambda B, S, pieces: 1  # noqa: E731
BY_TOKENS = lambda B, S, pieces: (1 if B else 0) + sum(T for T, _ in pieces) / 4  # noqa: E731

loads = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20), st.integers(1, 12)), min_size=1, max_size=10)


@settings(max_examples=60, deadline=None)
@given(loads, st.integers(1, 4), st.integers(0, 9), st.integers(0, 6), st.sampled_from(POLICIES))
def test_what_every_run_keeps(load, slots, more, spare, policy):
    """Tokens of a pass are within the budget, those of a prompt are read once and in order unless it was preempted, pages never
    run over, and no slot has two requests at once."""
    asked, pages = [], max(-(-(T + n - 1) // 4) for _, T, n in load) + spare
    passes = lambda B, S, pieces: asked.append((B, S, pieces)) or 1 + S / 64 + sum(T for T, _ in pieces) / 4  # noqa: E731
    log = budgeted(load, slots, passes, slots + more, pages, 4, policy)
    assert [s.request for s in log.served] == [Request(*r) for r in load]
    assert all(B + sum(T for T, _ in pieces) <= slots + more and B + len(pieces) <= slots for B, _, pieces in asked)
    for s in log.served:
        assert len(s.tokens) == s.request.output and s.ttft > 0 and s.start >= s.request.arrival
        assert all(a < b for a, b in pairwise(s.tokens))
    read = sum(T for _, _, pieces in asked for T, _ in pieces)
    generated = sum(n for n, _ in log.steps)  # the first token, and one after each new reading, come with a piece
    assert read + generated == sum(T + n - 1 for _, T, n in load) + log.recomputed
    assert all(a.end <= b.start for a, b in pairwise(x for x in log.spans if x.lane == "server"))
    for lane in {x.lane for x in log.stays}:
        assert all(a.end <= b.start for a, b in pairwise(x for x in log.stays if x.lane == lane))
    for t in sorted({x.start for x in log.stays}):
        there = [x.requests[0] for x in log.stays if x.start <= t < x.end]
        made = {i: sum(when <= t for when in log.served[i].tokens) for i in there}
        assert sum(-(-(load[i][1] + made[i]) // 4) for i in there) <= pages
    assert log.preempted == 0 or policy != "reserve"
    assert (log.recomputed == 0 or policy == "recompute") and (log.swapped == 0 or policy == "swap")


def test_pages_do_run_out():
    """So that the test above sees what it looks for; and growing serves sooner than reserving, on the stated load."""
    load = mixed_load(12, prompts=(8, 24), outputs=(4, 40))
    logs = {policy: budgeted(load, 8, UNIT, 64, 24, 4, policy, chunk=16) for policy in POLICIES}
    assert logs["recompute"].recomputed > 0 < logs["swap"].swapped and logs["recompute"].preempted > 1
    assert logs["recompute"].span < logs["reserve"].span > logs["swap"].span


def test_swapping_takes_its_time_before_the_pass():
    """Two pages out at 1 take 4 seconds, and as many back after the first is done."""
    log = budgeted([(0, 8, 9), (0, 8, 5)], 2, UNIT, 16, pages=5, page=4, policy="swap", swap=lambda n: 2 * n)
    assert [(x.start, x.end, x.requests) for x in log.spans if x.lane == "hosts"] == [(1, 5, (0,)), (13, 17, (1,))]
    assert [s.tokens for s in log.served] == [(1, *range(6, 14)), (1, *range(18, 22))] and log.swapped == 2


def test_a_prompt_alone_takes_its_tokens_over_the_budget():
    for T, known, budget, wanted in ((20, 0, 6, 4), (24, 0, 6, 4), (25, 7, 6, 3), (5, 4, 1, 1)):
        assert budgeted([(3, T, 2, known)], 1, UNIT, budget).served[0].tokens == (3 + wanted, 4 + wanted)
    long = budgeted([(0, 20, 2)], 1, BY_TOKENS, 7)
    assert long.ttft == 5 and budgeted([(0, 20, 2)], 1, BY_TOKENS, 20, chunk=3).ttft == 5
    few = interleaved([(0, 20, 2), (0, 4, 9)], 2, lambda T: T / 4, lambda B, S: 1)
    assert budgeted([(0, 20, 2), (0, 4, 9)], 2, BY_TOKENS, 24).worst_gap < few.worst_gap == 2


def test_pieces_as_one():
    """FLOPs of a pass with several pieces are those of its pieces, by a model's own works, but for what is unembedded."""
    r = Replica(model("llama-3-8b"), chip("v5e"), 8)
    pieces = ((100, 300), (50, 0), (106, 1000))
    (T, done) = one_piece(lambda B, S: 1, lambda B, S, T, done: (T, done))(0, 0, pieces)
    joined = r.works(1, T, done + T, 1)["attention"].flops
    assert T == 256 and joined == pytest.approx(sum(r.works(1, n, at + n, 1)["attention"].flops for n, at in pieces))
    short = one_piece(lambda B, S: 1, lambda B, S, T, done: done)(0, 0, ((8, 0), (8, 0)))
    assert short == 0  # one prompt of 16 tokens has more pairs than two of 8


def test_what_no_engine_can_do():
    run = lambda **kw: budgeted([(0, 8, 9)], 4, UNIT, **{"budget": 8} | kw)  # noqa: E731
    for kw, said in (
        (dict(budget=3), "4 slots take a budget of 4 tokens or more, not 3"),
        (dict(pages=3, page=4), "a request comes to 4 pages and there are 3: give the pool more"),
        (dict(policy="keep"), "the policies are reserve, recompute and swap; got 'keep'"),
        (dict(page=0), "page is a whole number of 1 or more, not 0"),
        (dict(budget=4.5), "budget is a whole number of 1 or more"),
    ):
        with pytest.raises(ValueError, match=said):
            run(**kw)
