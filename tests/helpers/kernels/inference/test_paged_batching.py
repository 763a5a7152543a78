"""A server whose sequences take pages as they need them: equal tokens in any pool, no page lost, and the oldest always ends.

Most loads run on `token_pages.Tokens`, an engine without a model.
"""

from collections import Counter
from itertools import count

import jax
import numpy as np
import pytest

from helpers.costs.inference.engine_simulation import paged_schedule
from helpers.costs.inference.scheduler import POLICIES
from helpers.kernels.inference.continuous_batching import Request
from helpers.kernels.inference.engine import Engine, greedy, sampler
from helpers.kernels.inference.paged_batching import PagedServer
from helpers.kernels.inference.prefix_cache import PrefixTree
from helpers.kernels.transformers.decoder import forward
from tests.helpers.kernels.inference.test_engine import LOAD, PARAMS, C, alone
from tests.helpers.kernels.inference.token_pages import Tokens, check_pages, draw_load, fits, plain, run, start, step
from tests.helpers.kernels.transformers.families import FAMILIES, random_params, toy
from tests.tiers import repeats


def test_random_loads_in_any_pool_that_can_run():
    """Sizes, policies, trees and loads at random, in the smallest pool that takes the load and in larger ones."""
    met = Counter()
    for seed in range(repeats(18, 600)):
        draw = np.random.default_rng(seed)
        page, slots, chunk, size = (int(draw.integers(a, b)) for a, b in ((1, 5), (2, 7), (1, 6), (6, 20)))
        load = draw_load(draw, int(draw.integers(3, 9)), size, min(slots, 3))
        choose = sampler(1.0, seed) if seed % 2 else greedy
        wanted = {request.name: plain(request, samples, choose) for request, samples in load}
        pools = (n for n in count(1) if fits(start(Tokens(slots, size, chunk, page, n), "reserve"), load))
        least = next(pools)
        tree = int(draw.integers(1, 30)) if seed % 3 else False
        for more in (0, int(draw.integers(1, least + 1)), 10 * least):
            for policy in POLICIES:
                engine = Tokens(slots, size, chunk, page, least + more)
                server = start(engine, policy, tree, choose=choose, budget=slots + seed % 7 if seed % 4 else None)
                assert fits(server, load)
                log = run(server)
                assert {name: entry.tokens for name, entry in log.entries.items()} == wanted
                assert server.pages.blocks.available + len(server.pages.tree) == engine.pages
                assert not any(node.held for node in server.pages.tree.nodes())
                # What was computed besides what has to be, and what went over to the host and back.
                needed = sum(len(r.prompt) + sum(len(said) - 1 for said in wanted[r.name]) for r, _ in load)
                if not tree:
                    assert engine.computed == needed + log.recomputed
                assert (log.swapped_out, log.swapped_in) == (engine.out, engine.back)
                assert (log.recomputed == 0 or policy == "recompute") and (engine.out == 0 or policy == "swap")
                preempted = sum(entry.preempted for entry in log.entries.values())
                assert preempted == sum(len(s.preempted) for s in log.steps) and (policy != "reserve" or not preempted)
                met[policy] += preempted
                met["copies"] += log.copies
                met["hits"] += sum(entry.hit for entry in log.entries.values())
                met["kept at home"] += engine.out - engine.back
    assert min(met[kind] for kind in ("recompute", "swap", "copies", "hits", "kept at home")) > 5 > met["reserve"] == 0


@pytest.mark.parametrize("prompt, n, samples", [(5, 1, 3), (5, 9, 1), (8, 9, 3), (6, 7, 3), (3, 2, 2), (1, 12, 4)])
def test_a_request_alone_comes_to_as_many_pages_as_are_asked_of_the_pool(prompt, n, samples):
    request = Request("a", tuple(range(prompt)), n)
    # The tokens of each answer stand as their texts do, and equal beginnings once: full pages of the prompt, whatever is written.
    last = prompt + n - 1
    wanted = {(0, i) for i in range(prompt // 4)} | {
        (s, i) for s in range(samples) for i in range(prompt // 4, -(-last // 4))
    }
    wanted = wanted if n > 1 else range(-(-prompt // 4))
    assert not fits(start(Tokens(4, 20, 3, 4, len(wanted) - 1), "recompute"), [(request, samples)])
    server = start(Tokens(4, 20, 3, 4, 99), "recompute", choose=sampler(seed=1))
    server.submit(request, samples)
    assert max(s.pages for s in run(server).steps) == len(wanted)


def test_equal_beginnings_are_read_and_kept_once():
    """The second request finds two full pages of the first one's, and reads three tokens; two that come at once end with one copy."""
    load = [Request("a", tuple(range(10)), 6), Request("b", (*range(8), 3, 3, 3), 6, arrives=1)]
    server = start(Tokens(2, 20, 16, 4, 99), "recompute", tree=9)
    for request in load:
        server.submit(request)
    step(server)
    now = step(server)
    assert (now.tokens_read, len(now.generated)) == (3, 1) and server.log.entries["b"].hit == 8
    assert now.pages == 3 + 1 and server.pages.blocks.table(("a", 0))[:2] == server.pages.blocks.table(("b", 0))[:2]
    server = start(Tokens(2, 20, 16, 4, 99), "recompute", tree=9)
    for name in "ab":
        server.submit(Request(name, tuple(range(10)), 6))
    assert step(server).pages == 6 and step(server).pages == 2 + 2


def test_a_prompt_that_fills_its_pages_is_known_but_for_the_last():
    """Its last token has to be read, as the next one comes after it: the page that it stands in is read again."""
    server = start(Tokens(2, 20, 16, 4, 99), "recompute", tree=9)
    for arrives in (0, 5):
        server.submit(Request(f"at {arrives}", tuple(range(8)), 2, arrives))
    first, second = run(server).entries.values()
    assert (first.hit, second.hit) == (0, 4) and first.tokens == second.tokens


@pytest.mark.parametrize("policy", POLICIES)
def test_the_schedule_by_numbers_alone(policy):
    """`costs.inference.engine_simulation.paged_schedule` counts pages and knows no table; it tells the same story, step by step."""
    met = Counter()
    for seed in range(repeats(20, 200)):
        draw = np.random.default_rng(seed)
        page, slots, chunk, size = (int(draw.integers(a, b)) for a, b in ((1, 5), (2, 7), (1, 6), (6, 20)))
        load = [request for request, _ in draw_load(draw, 12, size, 1)]
        load = [Request(r.name, r.prompt, r.n, r.arrives) for r in load]
        pages = max(-(-(len(r.prompt) + r.n - 1) // page) for r in load) + int(draw.integers(0, 6))
        budget = slots + int(draw.integers(0, 9)) if seed % 2 else None
        server = start(Tokens(slots, size, chunk, page, pages), policy, budget=budget)
        log = server.serve(load)
        tokens = [s.tokens_read + len(s.generated) for s in log.steps]
        assert budget is None or max(tokens) <= budget
        met["full"] += tokens.count(budget)
        said = paged_schedule(
            [(r.arrives, len(r.prompt), r.n) for r in load], slots, pages, page, chunk, policy, budget
        )
        assert said.running == tuple(len(s.running) for s in log.steps)
        assert (said.recomputed, said.swapped) == (log.recomputed, log.swapped_out) and said.at_once == log.at_once
        met.update(recompute=said.recomputed, swap=said.swapped)
    assert met["full"] > 9 and (policy == "reserve" or met[policy] > 20)


def test_what_the_server_refuses():
    engine = Tokens(3, 20, 4, 4, 4)
    server = start(engine, "swap")
    server.submit(Request("a", (1, 2), 3))
    for message, call in {
        "there is a request 'a' already": lambda: server.submit(Request("a", (1,), 1)),
        "asks for 4 answers of 2 tokens: ask for 1 to 3": lambda: server.submit(Request("b", (1,), 2), samples=4),
        "'b' asks for 1 answers of 0 tokens": lambda: server.submit(Request("b", (1,), 0)),
        "'b' needs 5 pages of 4 tokens and there are 4": lambda: server.submit(Request("b", (1,) * 9, 9)),
        "'b' needs 7 pages": lambda: server.submit(Request("b", (1,) * 4, 7), samples=3),
        "the policies are reserve, recompute and swap; got 'keep'": lambda: PagedServer(engine, None, "keep"),
        "blocks of 4 tokens, not of 2": lambda: PagedServer(engine, None, "swap", PrefixTree(9, 2)),
        "3 slots take a budget of 3 tokens or more, not 2": lambda: PagedServer(engine, None, "swap", budget=2),
        "a temperature is above 0, not 0": lambda: sampler(0),
    }.items():
        with pytest.raises(ValueError, match=message):
            call()
    assert list(run(server).entries) == ["a"]


# ---- with a model

SMALL = dict(slots=4, size=40, chunk=4, page=4, pages=10)  # one request of LOAD may come to ten pages


@pytest.fixture(scope="module")
def said():
    return {request.name: alone(request.prompt, request.n) for request in LOAD}


@pytest.mark.parametrize("tree", [True, False])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.sample(quick=1, kind="policy")
def test_each_request_says_what_it_says_alone(policy, tree, said):
    moved = Counter()

    class Weighed(Engine):
        """Counts the bytes of the arrays that go to the host and back."""

        def take(self, pool, pages):
            held = Engine.take(pool, pages)
            moved["out"] += sum(a.nbytes for a in jax.tree.leaves(held))
            return held

        def put(self, pool, held, pairs):
            moved["back"] += sum(a[:, [i for i, _ in pairs]].nbytes for a in jax.tree.leaves(held))
            return Engine.put(pool, held, pairs)

    server = PagedServer(Weighed(C, **SMALL), PARAMS, policy, PrefixTree(10, block=4) if tree else None)
    log = server.serve(LOAD)
    assert (log.swapped_out, log.swapped_in) == (moved["out"], moved["back"])
    assert {name: entry.tokens for name, entry in log.entries.items()} == {name: [text] for name, text in said.items()}
    assert (log.recomputed > 0) == (policy == "recompute") and (log.swapped_out > 0) == (policy == "swap")
    assert log.page_bytes == 4 * 2 * C.L * C.K * C.H * SMALL["page"]
    assert any(entry.hit for entry in log.entries.values()) == tree
    check_pages(server.pages.blocks, [node.value for node in server.pages.tree.nodes()])


FAMILY = [
    pytest.param(C, id="full", marks=pytest.mark.slow("another family")),
    pytest.param(toy(D=8, N=2, K=1, H=4, F=12, V=29, L=2, window=3, full_every=2), id="mixed"),
]
FAMILY += [pytest.param(FAMILIES[n], id=n, marks=pytest.mark.slow("another family")) for n in ("gpt-2", "deepseek-v3")]


@pytest.mark.parametrize("c", FAMILY)
@pytest.mark.sample(quick=0)
def test_samples_of_a_model_are_drawn_as_without_an_engine(c):
    """Three requests for two answers each, in a pool for one of them: interrupted, shared, copied, and drawn the same."""
    params, choose = random_params(c, scale=0.6), sampler(0.8, seed=5)
    whole = jax.jit(lambda text: forward(params, text, c))

    def logits(text):
        return np.asarray(whole(np.array([text + [0] * (16 - len(text))], np.int32))[0, len(text) - 1])

    load = [Request(f"r{i}", (*range(1, 8), i), 9) for i in range(3)]
    for policy in POLICIES[1:]:
        engine = Engine(c, slots=6, size=16, chunk=4, page=3, pages=11)
        server = PagedServer(engine, params, policy, PrefixTree(11, block=3), choose)
        for request in load:
            server.submit(request, samples=2)
        log = server.run()
        assert {r.name: log.entries[r.name].tokens for r in load} == {r.name: plain(r, 2, choose, logits) for r in load}
        assert sum(entry.preempted for entry in log.entries.values()) and log.copies
