"""What an engine's own log says, against the simulation of events: in steps, a prompt of T tokens takes ceil(T / chunk).

Times of tokens in every design, over loads that are drawn: tests/twins/test_schedules.py.
"""

from math import ceil

import pytest

from helpers.costs.inference import engine_simulation
from helpers.costs.inference.engine_simulation import budgeted
from helpers.costs.inference.scheduler import POLICIES
from helpers.kernels.inference.continuous_batching import Orchestrator, Request
from helpers.kernels.inference.engine import Engine
from tests.helpers.kernels.inference.test_engine import ENGINE, PARAMS, C, load
from tests.helpers.kernels.inference.token_pages import Tokens, start
from tests.tiers import repeats, some


def reading(T):
    return ceil(T / ENGINE.chunk)


def simulated(engine, requests, **more):
    """The simulation's log of these requests, all of whose times are ends of steps."""
    given = [(r.arrives, len(r.prompt), r.n) for r in requests]
    return engine(given, ENGINE.slots, more.pop("prefill", reading), lambda B, S: 1, **more)


@pytest.mark.parametrize("design", ["interleaved", "disaggregated"])
@pytest.mark.sample(quick=1)
def test_slots_and_pages_of_every_step(design):
    """A slot is in use from where a request joins to its last token; its pages from where they are promised, with the prompt
    in one pool, with the slot in two."""
    requests, (pages, each) = load(18, arrivals=20), (6, 20)  # two pages a slot
    engine = Engine(C, slots=3, size=40, chunk=4, page=each, pages=pages)
    log = Orchestrator(engine, PARAMS, design).serve(requests)
    served = simulated(getattr(engine_simulation, design), requests).served
    for t, step in enumerate(log.steps):
        there = [s.joined <= t < s.tokens[-1] and r.n > 1 for r, s in zip(requests, served)]
        promised = there if design == "disaggregated" else [s.start <= t < s.tokens[-1] for s in served]
        assert len(step.generated) == sum(there) or step.read and design == "interleaved"
        assert step.pages == sum(ceil((len(r.prompt) + r.n - 1) / each) for r, p in zip(requests, promised) if p)


def test_the_network_carries_one_cache_after_the_other():
    """Three prompts are read in a step each, and each cache is on its way for three: the second waits until the first is there.

    A step is the network's least: a cache of half a step's bytes takes a whole one.
    """
    requests = [Request(f"r{i}", (i, i, i), 3) for i in range(3)]
    size = ENGINE.bytes(ENGINE.prefill(PARAMS, requests[0].prompt))
    for network, steps in ((size / 3, 3), (2 * size, 1)):
        log = Orchestrator(ENGINE, PARAMS, "disaggregated", network=network).serve(requests)
        wanted = simulated(engine_simulation.disaggregated, requests, transfer=lambda T, steps=steps: steps)
        assert log.timeline.served == wanted.served
        moves = [(x.start, x.end) for x in wanted.spans if x.lane == "network"]
        assert [(x.start, x.end) for x in log.timeline.spans if x.lane == "network"] == moves
        assert moves == [(max(1 + i, 1 + steps * i), 1 + steps * (i + 1)) for i in range(3)]


def told(server, requests, budget):
    """The paged server's log, after it is held against the simulation with a pass a second, and what its steps say of it."""
    log, engine = server.serve(requests), server.engine
    given = [(r.arrives, len(r.prompt), r.n, log.entries[r.name].hit) for r in requests]
    pool = (budget, engine.pages, engine.page, server.schedulers[0].policy.when_full, engine.chunk)
    timeline = log.timeline
    assert timeline == budgeted(given, engine.slots, lambda B, S, pieces: 1, *pool)
    times = [tuple(t + 1 for t in log.entries[r.name].times) for r in requests]
    assert times == [s.tokens for s in timeline.served]
    for t, step in enumerate(log.steps):
        there = {requests[x.requests[0]].name for x in timeline.stays if x.start <= t < x.end}
        assert there == set(step.running)
        took_part = {requests[i].name for x in timeline.spans if x.start == t for i in x.requests}
        assert {name for name, _ in step.generated} | set(step.read) == took_part <= there
    assert timeline.preempted == sum(entry.preempted for entry in log.entries.values())
    return log


@pytest.mark.parametrize("policy", POLICIES)
def test_a_budget_of_tokens_without_a_model(policy):
    gone = 0
    for seed in some(range(25), 9):
        slots, chunk, page, budget = 2 + seed % 5, 1 + seed % 6, 1 + seed % 4, 2 + seed % 5 + seed % 3
        engine = Tokens(slots, 40, chunk, page, -(-40 // page) + seed % 6)
        log = told(start(engine, policy, budget=budget), load(14, seed, 3 * (seed % 9)), budget)
        gone += sum(len(step.preempted) for step in log.steps)
    assert (gone > repeats(9, 20)) == (policy != "reserve")


def test_a_budget_of_tokens_with_a_tree():
    """What the tree knew when a request started is what its prefill leaves out; there are pages enough to keep all."""
    hits = 0
    for seed in some(range(12), 6):
        engine = Tokens(3, 40, 4, 2, 400)
        server = start(engine, "recompute", tree=300, budget=5 + seed % 4)
        log = told(server, load(14, seed, 20), 5 + seed % 4)
        hits += sum(entry.hit for entry in log.entries.values())
    assert hits > repeats(25, 50)
