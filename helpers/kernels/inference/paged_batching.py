"""Requests that take a page when they need one, share pages, and give them up when there are none left (chapter 5).

    serving = PagedServer(engine, params, "recompute", tree=PrefixTree(capacity=64, block=engine.page))
    serving.submit(Request("a", prompt, n=20))
    serving.submit(Request("b", prompt, n=20), samples=4)          # four answers to one prompt, on its pages
    log = serving.run()
    log.entries["b"].answers, log.recomputed, log.swapped_out

A step is one pass of the model, over all that runs: a piece of up to `chunk` tokens of a sequence that is behind, the last
token of one that is not, and no more than `budget` tokens in all. Who runs, who waits and who gives its pages up is decided by
`costs.inference.scheduler`; `SharedPages` says whose pages are whose. All samples of a request start, stop and go on together.

Source: Kwon et al., "vLLM" (2023), sections 4.3 (copy-on-write), 4.4 (parallel sampling, shared prefixes) and 4.5 (preemption).
"""

from collections.abc import Callable
from typing import NamedTuple

from helpers.costs.inference.scheduler import Part, Policy, Scheduler

from .continuous_batching import Entry, Log, Sample, Server
from .engine import Engine, Row, greedy
from .paged_kv_cache import Blocks
from .prefix_cache import PrefixTree


class Swapped(NamedTuple):
    """What a preempted request has on the host: {sample: (its table, length)}, the pages of these tables, what stood in them."""

    tables: dict
    pages: list[int]
    held: object


class PagedServer(Server):
    """Serves requests on an `Engine`.

    policy   what happens when pages run out, one of `scheduler.POLICIES`
    tree     prefixes whose pages are kept after their request, until somebody needs them; its blocks are pages
    choose   the next token, as `engine.greedy` and `sampler`
    budget   most tokens of a pass, all sequences together; None: the engine's chunk of each
    """

    many = True

    def __init__(
        self, engine: Engine, params, policy: str, tree: PrefixTree | None = None, choose: Callable = greedy,
        budget: int | None = None,
    ):  # fmt: skip
        if tree is not None and tree.block != engine.page:
            raise ValueError(f"a tree that keeps pages has blocks of {engine.page} tokens, not of {tree.block}")
        budget = engine.slots * engine.chunk if budget is None else budget
        rules = Policy(engine.slots, engine.chunk, budget, when_full=policy)
        self.pages = SharedPages(engine, PrefixTree(0, engine.page) if tree is None else tree)
        super().__init__(engine, params, Scheduler(rules, pages=self.pages), page_bytes=engine.page_bytes)
        self.pages.log, self.choose = self.log, choose

    def step(self) -> None:
        """Pages for all that runs, then for who waits; one pass; the tokens that it brings."""
        (scheduler,), pages = self.schedulers, self.pages
        work = scheduler.next_pass(self.now)
        self._begun(work)
        self._step(work, pages=self.engine.pages - pages.blocks.available - pages.only_in_tree())
        logits = {}
        if work.parts:
            rows = [
                Row(sample.text[done : done + tokens], done, pages.blocks.table(sample.name))
                for _, sample, tokens, done, _ in work.parts
            ]
            read, pages.pool = self.engine.extend(self.params, pages.pool, rows)
            logits = {part.sequence.name: after for part, after in zip(work.parts, read)}
            self.log.record.passed(work, self.now, self.now + 1, self.engine.slots)

        def token(part: Part, sample: Sample) -> bool:
            token = self.choose(logits[part.sequence.name], *sample.name, len(sample.text))
            return self._token(part.job, sample, token)

        scheduler.finish(work, token)
        self.now += 1


class SharedPages:
    """Whose pages are whose, for the scheduler: sequences that begin alike share them, and a tree keeps those of prompts."""

    def __init__(self, engine: Engine, tree: PrefixTree):
        self.engine, self.tree, self.log = engine, tree, Log()
        self.pages, self.blocks, self.pool = engine.pages, Blocks(engine.pages, engine.page), engine.empty_pool()

    def only_in_tree(self) -> int:
        """Pages that no request needs: those of nodes that nobody holds."""
        return sum(not node.held for node in self.tree.nodes())

    def at_most(self, entry: Entry) -> int:
        """Pages that a request may come to; the last token is said, and never read."""
        longest = entry.prompt + entry.output - 1
        return self._together(entry, [longest] * len(entry.samples) if entry.output > 1 else [])

    def _together(self, entry: Entry, lengths: list[int]) -> int:
        """Pages of samples of these lengths, which share those that their prompt fills."""
        size, shared = self.engine.page, entry.prompt // self.engine.page
        return shared + sum(-(-n // size) - shared for n in lengths or [entry.prompt])

    def known(self, entry: Entry) -> int:
        return self.tree.matched(entry.path)

    def admit(self, entry: Entry) -> int | None:
        """Pages for all tokens that a request has: how many come back from the host; None if there are too few."""
        leader = entry.active[0]
        # A prompt's last token is read in any case: the next one comes after it.
        path = self.tree.match(entry.request.prompt[:-1])
        self.tree.hold(path)
        needed = self._together(entry, [] if entry.fresh else [sample.length for sample in entry.active])
        if not self._make_room(needed - len(path)):
            return self.tree.release(path)
        if entry.started is None:
            entry.hit = self.tree.matched(path)
        entry.path = path
        if entry.host is not None:
            return self._swap_in(entry, leader)
        self.blocks.allocate(leader.name, leader.length, [node.value for node in path])
        leader.placed = True
        return 0

    def grow(self, entry: Entry, sample: Sample, tokens: int) -> bool:
        """Places for so many tokens of a sample, if there are pages; one that it shares is copied before it is written."""
        more = max(0, tokens - self.blocks.length(sample.name))
        if not self._make_room(self.blocks.needs(sample.name, more)):
            return False
        pairs = self.blocks.append(sample.name, more)
        self.pool = self.engine.copy(self.pool, pairs)
        self.log.copies += len(pairs)
        return True

    def _make_room(self, pages: int) -> bool:
        """Whether so many pages are free, after the tree has given up what it must and can."""
        if pages > self.blocks.available + self.only_in_tree():
            return False
        while pages > self.blocks.available:
            self.blocks.drop(self.tree.evict().value)
        return True

    def take_away(self, entry: Entry, swap: bool) -> int:
        """The pages of a request that is preempted are free: how many of them go to the host."""
        placed, out = [sample for sample in entry.active if sample.placed], 0
        if swap:
            tables = {s.name: (self.blocks.table(s.name), self.blocks.length(s.name)) for s in placed}
            pages = sorted({page for table, _ in tables.values() for page in table})
            entry.host, out = Swapped(tables, pages, self.engine.take(self.pool, pages)), len(pages)
        for sample in placed:
            self.blocks.free(sample.name)
            sample.placed = False
        self.tree.release(entry.path)
        entry.path = []
        return out

    def _swap_in(self, entry: Entry, leader: Sample) -> int:
        """Its pages come back to any that are free, but for those at the prompt's beginning that the tree still has."""
        tables, pages, held = entry.host
        first = tables[leader.name][0][: len(entry.path)]
        now = self.blocks.resume(tables, {page: node.value for page, node in zip(first, entry.path)})
        pairs = [(i, now[page]) for i, page in enumerate(pages) if page not in first]
        self.pool, entry.host = self.engine.put(self.pool, held, pairs), None
        for sample in entry.active:
            if sample.name in tables:  # it stopped where one of them had no place for its next token
                sample.placed = True
                self.grow(entry, sample, min(sample.length, sample.computed + self.engine.chunk))
        return len(pairs)

    def release(self, entry: Entry, sample: Sample) -> None:
        """A sample is done; with the last one its request lets the tree go."""
        self.blocks.free(sample.name)
        sample.placed = False
        if not entry.active:
            self.tree.release(entry.path)
            entry.path = []

    def prompt_is_read(self, entry: Entry, leader: Sample) -> None:
        """The tree gets the prompt's full pages, or the request those that the tree has; the other samples share them all."""
        prompt, table = entry.request.prompt, self.blocks.table(leader.name)
        known = len(self.tree.match(prompt))
        path, gone = self.tree.insert(prompt, table[: len(prompt) // self.engine.page])
        for i, node in enumerate(path):
            if i >= known:
                self.blocks.keep(node.value)
            elif node.value != table[i]:
                # Another request read the same at the same time: one of the two pages is enough.
                self.blocks.replace(leader.name, i, node.value)
        for node in gone:
            self.blocks.drop(node.value)
        self.tree.hold(path)
        self.tree.release(entry.path)
        entry.path = path
        for sample in entry.active:
            if sample is not leader and not sample.placed:
                self.blocks.fork(leader.name, sample.name, len(prompt))
                sample.placed, sample.computed = True, len(prompt)
                sample.most = max(sample.most, sample.computed)
