"""What an engine's own log says, against the simulation of events: in steps, a prompt of T tokens takes ceil(T / chunk)."""

from math import ceil

import pytest

from helpers.costs import serving
from helpers.kernels.inference.orchestrator import Orchestrator
from tests.helpers.test_inference_engine import ENGINE, LOAD, PARAMS, load


def reading(T):
    return ceil(T / ENGINE.chunk)


def simulated(engine, requests, **more):
    """The simulation's log of these requests, all of whose times are ends of steps."""
    given = [(r.arrives, len(r.prompt), r.n) for r in requests]
    return engine(given, ENGINE.slots, more.pop("prefill", reading), lambda B, S: 1, **more)


def ends(log, requests):
    """When each token was there: a token of step 3 is there at 4."""
    return [tuple(t + 1 for t in log.entries[r.name].times) for r in requests]


def test_interleaved():
    log, wanted = Orchestrator(ENGINE, PARAMS, "interleaved").serve(LOAD), simulated(serving.interleaved, LOAD)
    assert ends(log, LOAD) == [s.tokens for s in wanted.served]
    entries = [log.entries[r.name] for r in LOAD]
    assert [e.waited for e in entries] == [s.queue for s in wanted.served]
    assert [e.first_token_after for e in entries] == [s.ttft for s in wanted.served]
    assert [e.steps_per_token for e in entries] == [s.per_token for s in wanted.served]
    assert [e.slot for e in entries] == [s.slot[1] for s in wanted.served]
    generating = [len(step.generated) for step in log.steps if step.generated]
    assert generating == [n for n, _ in wanted.steps]
    assert max(e.longest_stall for e in entries) == wanted.worst_gap


def test_static():
    """The engine reads a whole batch in one pass, so a prompt takes its part of a step; batches are full here."""
    requests = load(18)
    log = Orchestrator(ENGINE, PARAMS, "static").serve(requests)
    wanted = simulated(serving.batched, requests, prefill=lambda T: reading(T) / ENGINE.slots)
    for got, ours in zip(ends(log, requests), wanted.served, strict=True):
        assert got == pytest.approx(ours.tokens)
    assert sum(len(step.generated) for step in log.steps) == sum(n for n, _ in wanted.steps)


def test_disaggregated():
    """Without a network to wait for, tokens after the first come when the simulation says; the first one may come later: no
    more prompts are read ahead than there are slots."""
    log, wanted = Orchestrator(ENGINE, PARAMS, "disaggregated").serve(LOAD), simulated(serving.disaggregated, LOAD)
    for got, ours in zip(ends(log, LOAD), wanted.served, strict=True):
        assert got[1:] == ours.tokens[1:] and got[0] >= ours.tokens[0]
    assert [n for n, _ in wanted.steps] == [len(step.generated) for step in log.steps if step.generated]
