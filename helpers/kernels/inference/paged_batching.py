"""Requests that take a page when they need one, share pages, and give them up when there are none left (chapter 5).

    serving = PagedServer(engine, params, "recompute", tree=PrefixTree(capacity=64, block=engine.page))
    serving.submit(Request("a", prompt, n=20))
    serving.submit(Request("b", prompt, n=20), samples=4)          # four answers to one prompt, on its pages
    log = serving.run()
    log.entries["b"].tokens, log.recomputed, log.swapped_out

A step is one pass of the model, over all that runs: a piece of up to `chunk` tokens of a sequence that is behind, the last
token of one that is not, and no more than `budget` tokens in all. Requests run in the order in which they came, and no request
starts in a pass that has no token left for it. What happens when pages run out is the policy:

    reserve     never: a request starts when there are pages for all the tokens that it may come to
    recompute   the request that came last gives its pages up, and later computes its tokens again, prompt and answer
    swap        its pages go to the host, and come back later

The oldest request is never preempted, and when nobody else is left it has all pages: so each one is the oldest at some time,
and ends. All samples of a request start, stop and go on together.

Source: Kwon et al., "vLLM" (2023), sections 4.3 (copy-on-write), 4.4 (parallel sampling, shared prefixes) and 4.5 (preemption).
"""

from bisect import insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from .continuous_batching import Request
from .page_allocator import Blocks
from .paged_engine import Row, greedy
from .prefix_cache import Node, PrefixTree

POLICIES = ("reserve", "recompute", "swap")


@dataclass(eq=False)
class Sample:
    """One answer. Of the tokens of `text`, the first `read` have keys and values in its pages, and `most` had some once."""

    name: tuple[str, int]
    text: list[int]
    read: int = 0
    most: int = 0
    times: list[int] = field(default_factory=list)


class Swapped(NamedTuple):
    """What a preempted request has on the host: {sample: (its table, length)}, the pages of these tables, what stood in them."""

    tables: dict
    pages: list[int]
    held: object


@dataclass(eq=False)
class Entry:
    """A request and what became of it. `hit`: tokens of its prompt that the tree knew when it started; `preempted`: how often."""

    request: Request
    order: tuple[int, int]
    samples: list[Sample]
    started: int | None = None
    hit: int = 0
    preempted: int = 0
    path: list[Node] = field(default_factory=list)
    host: Swapped | None = None

    @property
    def tokens(self) -> list[list[int]]:
        """The answers."""
        return [sample.text[len(self.request.prompt) :] for sample in self.samples]

    @property
    def active(self) -> list[Sample]:
        """Samples that want more tokens."""
        return [sample for sample in self.samples if not self.ended(sample)]

    @property
    def fresh(self) -> bool:
        """Whether it has no token yet."""
        return not self.samples[0].times

    def ended(self, sample: Sample) -> bool:
        said = sample.text[len(self.request.prompt) :]
        return len(said) == self.request.n or (bool(said) and said[-1] == self.request.stop)


class Step(NamedTuple):
    """One step: who ran, whose tokens came, how many tokens were computed and how many of them not for the first time; pages
    in use by requests while it ran; who waited; who was preempted, and the pages that went to the host and came back."""

    running: tuple[str, ...]
    generated: tuple[tuple[str, int], ...]
    tokens: int
    again: int
    pages: int
    waiting: int
    preempted: tuple[str, ...]
    out: int
    back: int


@dataclass
class Log:
    page_bytes: int
    entries: dict[str, Entry] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    copies: int = 0

    @property
    def at_once(self) -> int:
        """Most requests that ran in one step."""
        return max((len(step.running) for step in self.steps), default=0)

    @property
    def recomputed(self) -> int:
        """Tokens whose keys and values were computed again."""
        return sum(step.again for step in self.steps)

    @property
    def swapped_out(self) -> int:
        """Bytes that went to the host."""
        return sum(step.out for step in self.steps) * self.page_bytes

    @property
    def swapped_in(self) -> int:
        """Bytes that came back: fewer where the tree still had a page."""
        return sum(step.back for step in self.steps) * self.page_bytes


class PagedServer:
    """Serves requests on a `PagedEngine`.

    policy   what happens when pages run out, one of POLICIES
    tree     prefixes whose pages are kept after their request, until somebody needs them; its blocks are pages
    choose   the next token, as `paged_engine.greedy` and `sampler`
    budget   most tokens of a pass, all sequences together; None: the engine's chunk of each
    """

    def __init__(
        self,
        engine,
        params,
        policy: str,
        tree: PrefixTree | None = None,
        choose: Callable = greedy,
        budget: int | None = None,
    ):
        if policy not in POLICIES:
            raise ValueError(f"the policies are {', '.join(POLICIES)}; got {policy!r}")
        if tree is not None and tree.block != engine.page:
            raise ValueError(
                f"a tree that keeps pages has blocks of {engine.page} tokens, as they, not of {tree.block}"
            )
        self.budget = engine.slots * engine.chunk if budget is None else budget
        if self.budget < engine.slots:
            raise ValueError(
                f"every sequence gets its token in every pass, so {engine.slots} slots take a budget of {engine.slots} tokens"
                f" or more, not {budget}"
            )
        self.engine, self.params, self.policy, self.choose = engine, params, policy, choose
        self.tree = PrefixTree(0, engine.page) if tree is None else tree
        self.blocks, self.pool = Blocks(engine.pages, engine.page), engine.empty()
        self.now, self.log = 0, Log(engine.page_bytes)
        self.waiting: list[
            Entry
        ] = []  # both in the order of arrival, and all that runs came before all that has to wait
        self.running: list[Entry] = []
        self._preempted: list[str] = []
        self._out = self._back = 0

    # From outside.

    def submit(self, request: Request, samples: int = 1) -> None:
        """Takes a request for so many answers, or says why it can never be served."""
        name, engine = request.name, self.engine
        if name in self.log.entries:
            raise ValueError(f"there is a request {name!r} already: give each a name of its own")
        if request.n < 1 or not 1 <= samples <= engine.slots:
            raise ValueError(
                f"a request asks for 1 to {engine.slots} answers of 1 or more tokens, {name!r} for {samples} of {request.n}"
            )
        engine.room(len(request.prompt), request.n)
        order = (max(request.arrives, self.now), len(self.log.entries))
        entry = Entry(request, order, [Sample((name, i), list(request.prompt)) for i in range(samples)])
        if (needed := self._most(entry)) > engine.pages:
            raise ValueError(
                f"request {name!r} needs {needed} pages of {engine.page} tokens and there are {engine.pages}:"
                " make it shorter, or give the engine more"
            )
        self.log.entries[name] = entry
        insort(self.waiting, entry, key=lambda e: e.order)

    def serve(self, requests: Iterable[Request]) -> Log:
        for request in requests:
            self.submit(request)
        return self.run()

    def run(self) -> Log:
        """Steps until every request has its tokens."""
        while self.waiting or self.running:
            self.step()
        return self.log

    def step(self) -> None:
        """Pages for all that runs, then for who waits; one pass; the tokens that it brings."""
        self._preempted, self._out, self._back = [], 0, 0
        self._grow()
        self._admit()
        parts, rows, left = [], [], self.budget
        for entry, sample in self._parts():
            if left:
                parts.append((entry, sample))
                rows.append(self._row(sample, left))
                left -= len(rows[-1].tokens)
        again = sum(max(0, min(r.at + len(r.tokens), s.most) - r.at) for (_, s), r in zip(parts, rows))
        used = self.engine.pages - self.blocks.available - self._spare()
        names = tuple(entry.request.name for entry in self.running)
        waiting = sum(entry.request.arrives <= self.now for entry in self.waiting)
        generated = self._pass(parts, rows) if rows else ()
        self.log.steps.append(
            Step(names, generated, sum(len(row.tokens) for row in rows), again, used, waiting,
                 tuple(self._preempted), self._out, self._back)
        )  # fmt: skip
        self.now += 1

    # The pass.

    def _parts(self) -> list[tuple[Entry, Sample]]:
        """Who has something to read: not the samples that wait for another one to read their prompt."""
        return [(entry, s) for entry in self.running for s in entry.active if s.name in self.blocks]

    def _row(self, sample: Sample, most: int) -> Row:
        piece = sample.text[sample.read : sample.read + min(self.engine.chunk, most)]
        return Row(piece, sample.read, self.blocks.table(sample.name))

    def _pass(self, parts, rows) -> tuple[tuple[str, int], ...]:
        logits, self.pool = self.engine.extend(self.params, self.pool, rows)
        generated = []
        for (entry, sample), row, after in zip(parts, rows, logits):
            sample.read += len(row.tokens)
            sample.most = max(sample.most, sample.read)
            if sample.read == len(sample.text):
                # All answers begin with what comes after the one prompt.
                generated += [self._token(entry, s, after) for s in (entry.samples if entry.fresh else [sample])]
            if row.at < len(entry.request.prompt) <= sample.read:
                self._prompt_is_read(entry, sample)
            for s in entry.samples:
                if entry.ended(s) and s.name in self.blocks:
                    self.blocks.free(s.name)
            if not entry.active:
                self.running.remove(entry)
                self.tree.release(entry.path)
        return tuple(generated)

    def _token(self, entry: Entry, sample: Sample, logits) -> tuple[str, int]:
        name, number = sample.name
        sample.text.append(self.choose(logits, name, number, len(sample.text)))
        sample.times.append(self.now)
        return sample.name

    def _prompt_is_read(self, entry: Entry, leader: Sample) -> None:
        """The tree gets the prompt's full pages, or the request those that the tree has; the other samples share them all."""
        prompt, table = entry.request.prompt, self.blocks.table(leader.name)
        known = len(self.tree.match(prompt))
        path, gone = self.tree.insert(prompt, table[: len(prompt) // self.engine.page])
        for i, node in enumerate(path):
            if i >= known:
                self.blocks.keep(node.value)
            elif (
                node.value != table[i]
            ):  # another request read the same at the same time: one of the two pages is enough
                self.blocks.replace(leader.name, i, node.value)
        for node in gone:
            self.blocks.drop(node.value)
        self.tree.hold(path)
        self.tree.release(entry.path)
        entry.path = path
        for sample in entry.active:
            if sample is not leader and sample.name not in self.blocks:
                self.blocks.fork(leader.name, sample.name, len(prompt))
                sample.read = len(prompt)
                sample.most = max(sample.most, sample.read)

    # Pages.

    def _grow(self) -> None:
        """Places for what each sequence reads next, the oldest request first; who came last makes room."""
        for entry in list(self.running):
            for sample in entry.active:
                while entry in self.running and not self._has_places(sample):
                    self._preempt(self.running[-1])

    def _has_places(self, sample: Sample) -> bool:
        if sample.name not in self.blocks:
            return True  # it begins with the prompt that another one reads
        end = min(len(sample.text), sample.read + self.engine.chunk)
        more = max(0, end - self.blocks.length(sample.name))
        if not self._room(self.blocks.needs(sample.name, more)):
            return False
        pairs = self.blocks.append(sample.name, more)
        self.pool = self.engine.copy(self.pool, pairs)
        self.log.copies += len(pairs)
        return True

    def _room(self, pages: int) -> bool:
        """Whether so many pages are free, after the tree has given up what it must and can."""
        if pages > self.blocks.available + self._spare():
            return False
        while pages > self.blocks.available:
            self.blocks.drop(self.tree.evict().value)
        return True

    def _spare(self) -> int:
        """Pages that only the tree has: those of nodes that no running request holds."""
        return sum(not node.held for node in self.tree.nodes())

    def _most(self, entry: Entry) -> int:
        """Pages that a request may come to; the last token is said, and never read."""
        longest = len(entry.request.prompt) + entry.request.n - 1
        return self._together(entry, [longest] * len(entry.samples) if entry.request.n > 1 else [])

    def _needed(self, entry: Entry) -> int:
        """Pages of the tokens that it has."""
        return self._together(entry, [] if entry.fresh else [len(sample.text) for sample in entry.active])

    def _together(self, entry: Entry, lengths: list[int]) -> int:
        """Pages of samples of these lengths, which share those that their prompt fills."""
        size, prompt = self.engine.page, len(entry.request.prompt)
        own = [-(-n // size) - prompt // size for n in lengths] or [-(-prompt // size) - prompt // size]
        return prompt // size + sum(own)

    # Who runs.

    def _admit(self) -> None:
        """Who waits, in order, as long as there are rows and pages. Nobody overtakes."""
        while self.waiting and self.waiting[0].request.arrives <= self.now:
            entry = self.waiting[0]
            rows = sum(len(other.active) for other in self.running) + len(entry.active)
            promised = sum(map(self._most, self.running)) + self._most(entry)
            read = sum(min(self.engine.chunk, len(s.text) - s.read) for _, s in self._parts())
            if (
                read >= self.budget
                or rows > self.engine.slots
                or (self.policy == "reserve" and promised > self.engine.pages)
            ):
                return
            leader = entry.active[0]
            # A prompt's last token is read in any case: the next one comes after it.
            path = self.tree.match(entry.request.prompt[:-1])
            self.tree.hold(path)
            if not self._room(self._needed(entry) - len(path)):
                return self.tree.release(path)
            self.running.append(self.waiting.pop(0))
            self._start(entry, leader, path)

    def _start(self, entry: Entry, leader: Sample, path: list[Node]) -> None:
        matched = self.tree.matched(path)
        if entry.started is None:
            entry.started, entry.hit = self.now, matched
        entry.path = path
        if entry.host:
            self._swap_in(entry, leader, path)
        else:
            self.blocks.allocate(leader.name, len(leader.text), [node.value for node in path])
        leader.read = max(leader.read, matched)
        leader.most = max(leader.most, leader.read)

    def _preempt(self, entry: Entry) -> None:
        self.running.remove(entry)
        insort(self.waiting, entry, key=lambda e: e.order)
        entry.preempted += 1
        self._preempted.append(entry.request.name)
        here = [sample for sample in entry.active if sample.name in self.blocks]
        if self.policy == "swap":
            self._swap_out(entry, here)
        for sample in here:
            self.blocks.free(sample.name)
            sample.read = sample.read if self.policy == "swap" else 0
        self.tree.release(entry.path)
        entry.path = []

    def _swap_out(self, entry: Entry, here: list[Sample]) -> None:
        tables = {s.name: (self.blocks.table(s.name), self.blocks.length(s.name)) for s in here}
        pages = sorted({page for table, _ in tables.values() for page in table})
        entry.host = Swapped(tables, pages, self.engine.take(self.pool, pages))
        self._out += len(pages)

    def _swap_in(self, entry: Entry, leader: Sample, path: list[Node]) -> None:
        """Its pages come back to any that are free, but for those at the prompt's beginning that the tree still has."""
        tables, pages, held = entry.host
        first = tables[leader.name][0][: len(path)]
        now = self.blocks.resume(tables, {page: node.value for page, node in zip(first, path)})
        pairs = [(i, now[page]) for i, page in enumerate(pages) if page not in first]
        self.pool, entry.host = self.engine.put(self.pool, held, pairs), None
        self._back += len(pairs)
        for sample in entry.active:  # it stopped where one of them had no place for its next token
            self._has_places(sample)
