"""An engine whose pages hold tokens in place of keys and values, and whose model is a hash of what it reads there; and what has
to be true of a paged server after every step, counted again.

A page that is given out twice, copied too late or written while it is shared changes what somebody says.
"""

import zlib
from collections import Counter

import numpy as np

from helpers.kernels.inference.continuous_batching import Request
from helpers.kernels.inference.paged_batching import PagedServer
from helpers.kernels.inference.prefix_cache import PrefixTree

V = 11


def hashed(text):
    """The logits after a text, as different as they can be if one token is another or stands elsewhere."""
    return np.random.default_rng(zlib.crc32(bytes(text))).standard_normal(V)


class Tokens:
    """`Engine` without a model. `server`, once it is set, says whose pages are whose while they are written."""

    page_bytes = 1

    def __init__(self, slots, size, chunk, page, pages):
        self.slots, self.size, self.chunk, self.page, self.pages = slots, size, chunk, page, pages
        self.server, self.computed, self.out, self.back = None, 0, 0, 0

    def empty_pool(self):
        return np.full((self.pages, self.page), 255)

    def room(self, prompt, n):
        assert prompt >= 1 and prompt + n - 1 <= self.size

    def extend(self, params, pool, rows):
        assert 1 <= len(rows) <= self.slots
        pool, said = pool.copy(), []
        users = standing(self.server)
        for row in rows:
            assert 1 <= len(row.tokens) <= self.chunk
            for t, token in enumerate(row.tokens, row.at):
                page = row.table[t // self.page]
                assert users[page] == 1, "a shared page is written"
                pool[page, t % self.page] = token
        for row in rows:
            end = row.at + len(row.tokens)
            said.append(hashed(pool[row.table].reshape(-1)[:end].tolist()))
            self.computed += len(row.tokens)
        return said, pool

    def copy(self, pool, pairs):
        pool = pool.copy()
        for a, b in pairs:
            pool[b] = pool[a]
        return pool

    def take(self, pool, pages):
        self.out += len(pages)
        return pool[pages]

    def put(self, pool, held, pairs):
        pool = pool.copy()
        self.back += len(pairs)
        for i, page in pairs:
            pool[page] = held[i]
        return pool


def standing(server) -> Counter:
    """How often each page is used: in the tables of sequences, and in the tree."""
    blocks, tree = server.pages.blocks, server.pages.tree
    tables = (page for name in blocks._tables for page in blocks.table(name))
    return Counter(tables) + Counter(node.value for node in tree.nodes())


def plain(request, samples, choose, logits=hashed):
    """The answers, from the whole text in every step."""
    answers = []
    for i in range(samples):
        text = list(request.prompt)
        while len(text) - len(request.prompt) < request.n:
            text.append(choose(logits(text), request.name, i, len(text)))
            if text[-1] == request.stop:
                break
        answers.append(text[len(request.prompt) :])
    return answers


def draw_load(draw, n, size, samples):
    """Requests that begin alike and differ then, (request, how many answers) each."""
    shared, load = draw.integers(0, V, size).tolist(), []
    for i in range(n):
        T = int(draw.integers(1, size))
        prompt = shared[: draw.integers(0, T + 1)]
        prompt += draw.integers(0, V, T - len(prompt)).tolist()
        if load and draw.random() < 0.2:  # somebody asks again
            prompt = load[-1][0].prompt
            T = len(prompt)
        stop = int(draw.integers(0, V)) if draw.random() < 0.3 else None
        wanted = int(draw.integers(1, size - T + 2))
        request = Request(f"r{i}", tuple(prompt), wanted, int(draw.integers(0, 2 * n)), stop)
        load.append((request, int(draw.integers(1, samples + 1))))
    return load


def fits(server, load):
    """Whether every request is taken."""
    try:
        for request, samples in load:
            server.submit(request, samples)
    except ValueError as error:
        assert "pages" in str(error)
        return False
    return True


def check_pages(b, kept=()):
    """Whether all holds that `Blocks` says of its pages, of which some are kept without a sequence."""
    stands = Counter(page for table in b._tables.values() for page in table) + Counter(kept)
    assert b._count == [stands[p] for p in range(b.pages)], (
        "a page stands in as many tables as its count says, or is kept"
    )
    assert sorted(b._free) == [p for p in range(b.pages) if not stands[p]]
    for name, table in b._tables.items():
        assert len(set(table)) == len(table) == -(-b.length(name) // b.size)


def right(server):
    """Whose pages are whose, counted again; what stands in them; who runs."""
    b, users, (scheduler,) = server.pages.blocks, standing(server), server.schedulers
    check_pages(b, [node.value for node in server.pages.tree.nodes()])
    assert [b._count[p] for p in range(b.pages)] == [users[p] for p in range(b.pages)]
    assert b.available == b.pages - len(users)  # no page leaked
    for node in server.pages.tree.nodes():
        assert tuple(server.pages.pool[node.value]) == node.tokens
        assert node.held or users[node.value] == 1  # so letting it go frees its page
    running = {sample.name: sample for entry in scheduler.running for sample in entry.active}
    assert set(b._tables) <= set(running)
    for name in b._tables:
        sample = running[name]
        assert (
            server.pages.pool[b.table(name)].reshape(-1)[: sample.computed].tolist() == sample.text[: sample.computed]
        )
        assert b.length(name) - len(sample.text) <= 0 and len(b.table(name)) * b.size - b.length(name) < b.size
    behind = [e.order for e in scheduler.waiting if e.request.arrives <= server.now]
    assert [e.order for e in scheduler.running] == sorted(e.order for e in scheduler.running)
    assert not behind or not scheduler.running or scheduler.running[-1].order < min(behind)
    assert all(sample.length == len(sample.text) for sample in running.values())


def step(server):
    """One step, after which all is right and the oldest request is further than before."""
    there = sorted(
        (e for e in server.log.entries.values() if e.active and e.request.arrives <= server.now), key=lambda e: e.order
    )
    server.step()
    right(server)
    now = server.log.steps[-1]
    if there:
        oldest = there[0].request.name
        assert oldest in now.running and oldest not in now.preempted
    return now


def run(server, limit=5000):
    for _ in range(limit):
        if not server.schedulers[0].waiting and not server.schedulers[0].running:
            return server.log
        step(server)
    raise AssertionError("some request never ends")


def start(engine, policy, tree=False, **more):
    engine.server = PagedServer(engine, None, policy, PrefixTree(tree, engine.page) if tree else None, **more)
    return engine.server
