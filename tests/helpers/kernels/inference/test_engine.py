"""The engine keeps its slots apart, and whatever the orchestrator does, each request says what it would say alone."""

from collections import Counter

import jax
import numpy as np
import pytest

from helpers.kernels.inference.continuous_batching import DESIGNS, Orchestrator, Request
from helpers.kernels.inference.engine import Engine
from helpers.kernels.inference.prefix_cache import PrefixTree
from helpers.kernels.transformers.decoder import forward
from tests.helpers.kernels.transformers.families import random_params, toy

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


def test_a_prefix_from_blocks_is_the_prefix():
    prompt = [3, 1, 4, 1, 5, 9, 2]
    whole = ENGINE.prefill(PARAMS, prompt)
    known = ENGINE.join(ENGINE.cut(whole, block=2)[:2])
    assert known.length == 4
    again = ENGINE.prefill(PARAMS, prompt, known)
    assert (again.length, again.token) == (whole.length, whole.token)
    for a, b in zip(jax.tree.leaves(ENGINE.cut(again, 7)), jax.tree.leaves(ENGINE.cut(whole, 7))):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert ENGINE.bytes(whole) == 4 * 2 * C.L * C.K * C.H * 7


def test_several_prompts_are_read_in_one_pass():
    prompts = [[3, 1, 4], [1, 5]]
    together = ENGINE.read_together(PARAMS, [ENGINE.nothing()] * 2, prompts)
    assert [(p.length, p.token) for p in together] == [(len(t), alone(t, 1)[0]) for t in prompts]


def test_what_the_engine_refuses():
    one = ENGINE.prefill(PARAMS, [1])
    state = ENGINE.insert(one, ENGINE.empty(), 1, [1])
    for message, call in {
        "empty prompt": lambda: ENGINE.prefill(PARAMS, []),
        "41 tokens does not fit 40 places": lambda: ENGINE.prefill(PARAMS, [1] * 41),
        "slot 1 is in use: insert into a free one, .0, 2.": lambda: ENGINE.insert(one, state, 1, [1]),
        "no slot 3: they are 0 to 2": lambda: ENGINE.insert(one, state, 3, [2]),
        "without a next token": lambda: ENGINE.insert(ENGINE.nothing(), state, 0, [0]),
        "slot 0 is not in use": lambda: ENGINE.free(state, 0),
        "slots .1. are full": lambda: ENGINE.generate(PARAMS, state._replace(at=np.array([0, 40, 0]))),
        "up to 4 tokens of a text, got .5.": lambda: ENGINE.read_together(PARAMS, [one], [[1] * 5]),
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


def orchestrator(design, tree=False, engine=ENGINE, **more):
    return Orchestrator(engine, PARAMS, design, tree=PrefixTree(30, block=2) if tree else None, **more)


@pytest.mark.parametrize(
    "engine, tree", [pytest.param(ENGINE, False, id="slots"), pytest.param(PAGED, True, id="pages, tree")]
)
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.sample(quick=4, slow=2)
def test_each_request_says_what_it_says_alone(design, tree, engine, said):
    serving = orchestrator(design, tree, engine, network=300.0)
    log = serving.serve(LOAD)
    assert {name: entry.tokens for name, entry in log.entries.items()} == said
    for name, entry in log.entries.items():
        request = entry.request
        assert entry.started >= request.arrives and entry.times == sorted(entry.times)
        read = -(-(len(request.prompt) - entry.hit) // engine.chunk)
        assert entry.first_token_after >= entry.started - request.arrives + read, name
    assert log.tokens_read == sum(len(r.prompt) - log.entries[r.name].hit for r in LOAD)
    assert any(entry.hit for entry in log.entries.values()) == tree
    for s in log.timeline.served:  # in its slot it gets a token in each step
        inside = [s.joined, *(t for t in s.tokens if t > s.joined)]
        assert np.all(np.diff(inside) == 1) or design == "interleaved"
    # Of a request's tokens the first comes from reading, the others from generating.
    got = Counter(name for step in log.steps for name, _ in step.generated)
    assert got == {r.name: r.n - 1 for r in LOAD if r.n > 1}
    assert serving.blocks.available == engine.pages and not any(serving.state.used)
    assert max(len(step.generated) for step in log.steps) == engine.slots or engine is PAGED
    assert not tree or not any(node.held for node in serving.tree.nodes())


def test_a_bad_request_is_told_why_and_the_others_are_served():
    serving = orchestrator("chunked", engine=Engine(C, slots=3, size=40, chunk=4, page=8, pages=2))
    serving.submit(Request("good", (1, 2), 1))
    for message, request in {
        "empty prompt": Request("bad", (), 2),
        "41 tokens .* does not fit 40 places": Request("bad", (1,) * 41, 2),
        "already": Request("good", (1,), 2),
        "asks for 0 tokens": Request("bad", (1,), 0),
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
