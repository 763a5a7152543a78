"""The engine keeps its slots apart, each request says what it would say alone, and its log is that of the simulation."""

from collections import Counter
from math import ceil

import jax
import numpy as np
import pytest

from helpers.costs.inference import engine_simulation
from helpers.costs.inference.engine_simulation import budgeted
from helpers.costs.inference.scheduler import POLICIES
from helpers.kernels.inference.continuous_batching import DESIGNS, Orchestrator, Request
from helpers.kernels.inference.engine import Engine
from helpers.kernels.transformers.decoder import forward
from tests.helpers.kernels.inference.token_pages import Tokens, start
from tests.helpers.kernels.transformers.families import random_params, toy
from tests.tiers import repeats, some

C = toy(L=1, D=8, H=4, F=12)
PARAMS = random_params(C, scale=0.6)
ENGINE = Engine(C, slots=3, size=40, chunk=4, page=40, pages=3)  # one page a slot
PAGED = Engine(C, slots=3, size=40, chunk=4, page=8, pages=5)  # one text of 40 tokens takes them all


@jax.jit
def _all_next(params, tokens):
    return forward(params, tokens, C).argmax(-1)


def alone(prompt, n):
    """The greedy text, with no cache and no engine."""
    tokens = list(prompt)
    for _ in range(n):
        padded = np.array([tokens + [0] * (ENGINE.size - len(tokens))], np.int32)
        tokens.append(int(_all_next(PARAMS, padded)[0, len(tokens) - 1]))
    return tokens[len(prompt) :]


def load(n, seed=0, arrivals=0):
    """Prompts of 1 to 9 tokens, some of which begin alike; a few texts of 28 tokens among short ones."""
    draw = np.random.default_rng(seed)
    shared = draw.integers(0, C.V, 6).tolist()
    requests = []
    for i in range(n):
        prompt = shared[: draw.integers(0, 7)] + draw.integers(0, C.V, draw.integers(1, 4)).tolist()
        wanted = 28 if i % 3 == 1 else int(draw.integers(1, 4))
        requests.append(Request(f"r{i}", tuple(prompt), wanted, arrives=int(draw.integers(0, arrivals + 1))))
    return requests


LOAD = load(18, arrivals=20)


@pytest.fixture(scope="module")
def said():
    return {request.name: alone(request.prompt, request.n) for request in LOAD}


# ---- the contract of the engine


def test_several_prompts_are_read_in_one_pass():
    prompts = [[3, 1, 4], [1, 5]]
    together = ENGINE.read_together(PARAMS, [ENGINE.nothing()] * 2, prompts)
    assert [(p.length, p.token) for p in together] == [(len(t), alone(t, 1)[0]) for t in prompts]
    assert [ENGINE.bytes(p) for p in together] == [4 * 2 * C.L * C.K * C.H * len(t) for t in prompts]


def test_what_the_engine_refuses():
    one = ENGINE.prefill(PARAMS, [1])
    state = ENGINE.insert(one, ENGINE.empty(), 1, [1])
    for message, call in {
        "empty prompt": lambda: ENGINE.prefill(PARAMS, []),
        "41 tokens does not fit 40 places": lambda: ENGINE.prefill(PARAMS, [1] * 41),
        "slot 1 is in use: insert into a free one, .0, 2.": lambda: ENGINE.insert(one, state, 1, [1]),
        "slot 0 is not in use": lambda: ENGINE.free(state, 0),
        "slots .1. are full": lambda: ENGINE.generate(PARAMS, state._replace(at=np.array([0, 40, 0]))),
        "1 tokens need 1 to 5 pages of 8, got 0": lambda: PAGED.insert(one, PAGED.empty(), 0, []),
    }.items():
        with pytest.raises(ValueError, match=message):
            call()


def test_a_text_ends_with_its_pages():
    """One page of eight places, for a text of six tokens: two more are read, though the engine serves texts of forty."""
    state = PAGED.insert(PAGED.prefill(PARAMS, [3, 1, 4, 1, 5, 9]), PAGED.empty(), 1, [2])
    for _ in range(2):
        state, tokens = PAGED.generate(PARAMS, state)
    assert tokens[1] == alone([3, 1, 4, 1, 5, 9], 3)[-1]
    with pytest.raises(ValueError, match="slots .1. are full"):
        PAGED.generate(PARAMS, state)


# ---- the orchestrator


def orchestrator(design, engine=ENGINE, **more):
    return Orchestrator(engine, PARAMS, design, **more)


@pytest.mark.parametrize("engine", [pytest.param(ENGINE, id="slots"), pytest.param(PAGED, id="pages")])
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.sample(quick=4, slow=2)
def test_each_request_says_what_it_says_alone(design, engine, said):
    serving = orchestrator(design, engine, network=300.0)
    log = serving.serve(LOAD)
    assert {name: entry.tokens for name, entry in log.entries.items()} == said
    for name, entry in log.entries.items():
        request = entry.request
        assert entry.started >= request.arrives and entry.times == sorted(entry.times)
        read = -(-len(request.prompt) // engine.chunk)
        assert entry.first_token_after >= entry.started - request.arrives + read, name
    assert log.tokens_read == sum(len(r.prompt) for r in LOAD)
    for s in log.timeline.served:  # in its slot it gets a token in each step
        inside = [s.joined, *(t for t in s.tokens if t > s.joined)]
        assert np.all(np.diff(inside) == 1) or design == "interleaved"
    # Of a request's tokens the first comes from reading, the others from generating.
    got = Counter(name for step in log.steps for name, _ in step.generated)
    assert got == {r.name: r.n - 1 for r in LOAD if r.n > 1}
    assert serving.blocks.available == engine.pages and not any(serving.state.used)
    assert max(len(step.generated) for step in log.steps) == engine.slots or engine is PAGED


def test_a_bad_request_is_told_why_and_the_others_are_served():
    serving = orchestrator("chunked", Engine(C, slots=3, size=40, chunk=4, page=8, pages=2))
    serving.submit(Request("good", (1, 2), 1))
    for message, request in {
        "empty prompt": Request("bad", (), 2),
        "41 tokens .* does not fit 40 places": Request("bad", (1,) * 41, 2),
        "already": Request("good", (1,), 2),
        "asks for 1 answers of 0 tokens": Request("bad", (1,), 0),
        "'bad' needs 3 pages of 8 tokens and there are 2": Request("bad", (1,) * 16, 2),
    }.items():
        with pytest.raises(ValueError, match=message):
            serving.submit(request)
    assert {name: entry.tokens for name, entry in serving.run().entries.items()} == {"good": alone((1, 2), 1)}
    with pytest.raises(ValueError, match="the designs are static, interleaved"):
        orchestrator("continuous")


def test_a_stop_token_ends_a_text():
    said = alone((1, 2, 3), 6)
    stop = said[2]
    entry = orchestrator("interleaved").serve([Request("a", (1, 2, 3), 6, stop=stop)]).entries["a"]
    assert entry.tokens == said[: said.index(stop) + 1]


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
