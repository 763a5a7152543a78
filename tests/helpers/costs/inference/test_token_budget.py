"""A budget of tokens and pages on demand: what every run keeps, small loads by hand, and against the schedule in steps."""

from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from helpers.costs.inference.engine_simulation import budgeted, interleaved, one_piece
from helpers.costs.inference.prefill_and_decode_step import Replica
from helpers.costs.inference.request_loads import Request, mixed_load
from helpers.costs.inference.scheduler import POLICIES
from helpers.costs.rooflines.chips import chip
from helpers.costs.transformers.public_models import model

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
