"""Who is read next, who gets a slot, and what it took: a driver of engines, and its log (chapter 5).

    serving = Orchestrator(engine, params, "interleaved", tree=PrefixTree(capacity=64, block=4))
    for request in requests:
        serving.submit(request)
    log = serving.run()
    log.entries["a"].tokens, log.entries["a"].first_token_after, len(log.steps)

A step is one pass of the model, or of two engines side by side; all times are in steps. The designs:

    static         reads a batch of prompts together, generates until the last of them is done, takes the next batch
    interleaved    one engine: reads a prompt as soon as a slot is free, and meanwhile nobody gets a token
    chunked        one engine: every pass reads a piece of a prompt besides generating, also of one that has no slot yet
    disaggregated  two engines, one to read and one to generate; keys and values go over a network between them. Prompts are
                   read as they come, and what was read waits for a slot, however much of it there is

Requests are served in the order in which they came. One waits until there is a slot, and pages for all the tokens that it
may come to; none is given up on the way. `paged_batching` takes pages as tokens come instead.

Source: Austin et al. 2025, Section 7; Yu et al., "Orca" (2022) for continuous batching; Kwon et al., "vLLM" (2023) for pages;
Zhong et al., "DistServe" (2024) for two pools.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from . import kv_cache as rows
from .engine import Engine, Prefix
from .page_allocator import Blocks
from .prefix_cache import Node, PrefixTree

DESIGNS = ("static", "interleaved", "chunked", "disaggregated")


@dataclass(frozen=True)
class Request:
    """`n` tokens are wanted after the prompt, or fewer if `stop` is one of them; it comes at the start of step `arrives`."""

    name: str
    prompt: tuple[int, ...]
    n: int
    arrives: int = 0
    stop: int | None = None


@dataclass
class Entry:
    """What became of a request.

    started   the step in which the first piece of its prompt was read
    times     the step at whose end each of its tokens was there
    hit       tokens of the prompt that the prefix tree knew; the others were read
    moved     bytes of keys and values that went to another engine
    inserted  the first step in which it had its slot
    """

    request: Request
    started: int | None = None
    times: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    hit: int = 0
    slot: int | None = None
    pages: int = 0
    moved: int = 0
    inserted: int | None = None

    @property
    def done(self) -> bool:
        return len(self.tokens) == self.request.n or (bool(self.tokens) and self.tokens[-1] == self.request.stop)

    @property
    def waited(self) -> int:
        """Steps in the queue, before anything of it was read."""
        return self.started - self.request.arrives

    @property
    def first_token_after(self) -> int:
        """Steps from its arrival until its first token: the queue, and the reading."""
        return self.times[0] + 1 - self.request.arrives

    @property
    def steps_per_token(self) -> float:
        """Steps between its tokens on average, the handover among them; 1 is as fast as it goes."""
        return (self.times[-1] - self.times[0]) / max(1, len(self.times) - 1)

    @property
    def handover(self) -> int:
        """Steps from its first token until it has a slot: the way over the network, and the wait for a slot and pages."""
        return 0 if self.inserted is None else self.inserted - self.times[0] - 1

    @property
    def longest_stall(self) -> int:
        """Most steps that a token took while the request had its slot; 1 is as fast as it goes."""
        ends = [] if self.inserted is None else [self.inserted - 1, *self.times[1:]]
        return max((b - a for a, b in zip(ends, ends[1:])), default=0)


class Step(NamedTuple):
    """One step: whose prompts were read, how many tokens of them and how many only filled up their rows, who got a token;
    and while it ran the slots and the pages in use, and the requests in the queue."""

    read: tuple[str, ...]
    tokens: int
    padding: int
    generated: tuple[str, ...]
    slots: int
    pages: int
    waiting: int


class Span(NamedTuple):
    """A bar of the timeline: `kind` is read, generate or move, `end` is after the last step."""

    lane: str
    start: int
    end: int
    kind: str
    request: str


@dataclass
class Log:
    entries: dict[str, Entry] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)

    @property
    def tokens_read(self) -> int:
        return sum(step.tokens for step in self.steps)

    @property
    def padding(self) -> int:
        return sum(step.padding for step in self.steps)

    @property
    def slots_used(self) -> float:
        """Slots that got a token in a step, on average over all steps."""
        return sum(len(step.generated) for step in self.steps) / max(1, len(self.steps))


class Orchestrator:
    """Serves requests on `engine`, or on one like it for each pool if the design is disaggregated.

    tree      a prefix tree; the keys and values of its blocks are kept where prompts are read
    network   bytes that go from one pool to the other in a step; None: a prefix arrives at once. It carries one prefix
              after the other, and each takes whole steps, one or more: it is not shared within a step
    """

    def __init__(
        self,
        engine: Engine,
        params,
        design: str = "interleaved",
        tree: PrefixTree | None = None,
        network: float | None = None,
    ):
        if design not in DESIGNS:
            raise ValueError(f"the designs are {', '.join(DESIGNS)}; got {design!r}")
        self.engine, self.params, self.design, self.tree, self.network = engine, params, design, tree, network
        # Without pages a slot is one page, as large as a text may become.
        self.page, self.pages = engine.page or engine.size, engine.pages or engine.slots
        self.blocks, self.state = Blocks(self.pages, self.page), engine.empty()
        self.now, self.log = 0, Log()
        self.queue: list[Entry] = []
        self.reading: list[tuple[Entry, Prefix, list[Node]]] = []
        self.ready: deque[tuple[Entry, Prefix, int]] = deque()  # read, and from which step on it may be inserted
        self.running: dict[int, Entry] = {}
        self.sent = 0  # the step from which on the network is free

    # From outside.

    def submit(self, request: Request) -> None:
        """Takes a request, or says why it can never be served; those that were taken before are not touched by that."""
        if request.name in self.log.entries:
            raise ValueError(f"there is a request {request.name!r} already: give each a name of its own")
        if request.n < 1:
            raise ValueError(f"request {request.name!r} asks for {request.n} tokens: ask for one or more")
        rows.room(self.engine.c, self.engine.size, len(request.prompt), request.n)
        if (needed := self._pages(request)) > self.pages:
            raise ValueError(
                f"request {request.name!r} needs {needed} pages of {self.page} tokens and there are {self.pages}:"
                " make it shorter, or give the engine more"
            )
        self.log.entries[request.name] = Entry(request)
        self.queue = sorted([*self.queue, self.log.entries[request.name]], key=lambda entry: entry.request.arrives)

    def serve(self, requests: Iterable[Request]) -> Log:
        for request in requests:
            self.submit(request)
        return self.run()

    def run(self) -> Log:
        """Steps until every request has its tokens."""
        while self.queue or self.reading or self.ready or self.running:
            self.step()
        return self.log

    def step(self) -> None:
        """One pass. What it frees or brings is there from the next one on."""
        self._insert()
        self._next()
        alone = self.design in ("static", "interleaved")
        slots, pages, waiting = len(self.running), self.pages - self.blocks.available, len(self._arrived())
        generated = () if self.reading and alone else self._generate()
        read, tokens, padding = self._read() if self.reading else ((), 0, 0)
        self.log.steps.append(Step(read, tokens, padding, generated, slots, pages, waiting))
        self.now += 1

    # Reading.

    def _next(self) -> None:
        """Takes a prompt from the queue, if one may be read now; a static batch takes as many as there are slots."""
        if self.reading or (self.design == "static" and self.running):
            return
        if self.design == "chunked" and self.ready:
            return
        while arrived := self._arrived():
            entry = arrived[0]
            if self.design in ("static", "interleaved") and not self._reserve(entry):
                return
            self.queue.remove(entry)
            self.reading.append((entry, *self._known(entry)))
            entry.started = self.now
            if self.design != "static":
                return

    def _known(self, entry: Entry) -> tuple[Prefix, list[Node]]:
        """What the tree has of a prompt. Its last token is read in any case: the next one comes after it."""
        path = [] if self.tree is None else self.tree.match(entry.request.prompt[:-1])
        if not path:
            return self.engine.nothing(), path
        self.tree.hold(path)
        entry.hit = self.tree.matched(path)
        return self.engine.join([node.value for node in path]), path

    def _read(self) -> tuple[tuple[str, ...], int, int]:
        """A piece of each prompt; one that is read to its end has its first token then, in a static batch with all others."""
        chunk, entries, prefixes, paths = self.engine.chunk, *zip(*self.reading)
        pieces = [e.request.prompt[prefix.length : prefix.length + chunk] for e, prefix in zip(entries, prefixes)]
        prefixes = self.engine.read_together(self.params, prefixes, pieces)
        self.reading = list(zip(entries, prefixes, paths))
        ended = [len(entry.request.prompt) == prefix.length for entry, prefix in zip(entries, prefixes)]
        if all(ended):
            self.reading = []
            for entry, prefix, path in zip(entries, prefixes, paths):
                self._ended(entry, prefix, path)
        tokens = sum(map(len, pieces))
        return tuple(e.request.name for e, piece in zip(entries, pieces) if piece), tokens, len(pieces) * chunk - tokens

    def _ended(self, entry: Entry, prefix: Prefix, path: list[Node]) -> None:
        if self.tree is not None:
            values = [None] * len(path) + self.engine.cut(prefix, self.tree.block, start=len(path))
            self.tree.insert(entry.request.prompt, values)
            self.tree.release(path)
        self._span("reader" if self.design == "disaggregated" else "engine", entry.started, "read", entry)
        self._token(entry, prefix.token)
        if entry.done:
            self._release(entry)
            return
        here = self._moved(entry, prefix) if self.design == "disaggregated" else self.now + 1
        self.ready.append((entry, prefix, here))

    def _moved(self, entry: Entry, prefix: Prefix) -> int:
        """The step from which on a prefix is in the other pool: it goes when those before it have arrived."""
        entry.moved = self.engine.bytes(prefix)
        begin = max(self.now + 1, self.sent)
        self.sent = begin + (ceil(entry.moved / self.network) if self.network else 0)
        self.log.spans.append(Span("network", begin, self.sent, "move", entry.request.name))
        return self.sent

    # Slots and pages.

    def _insert(self) -> None:
        """Prefixes that are here take their slots, in their order."""
        while self.ready and self.ready[0][2] <= self.now:
            entry, prefix, _ = self.ready[0]
            if entry.slot is None and not self._reserve(entry):
                return
            self.ready.popleft()
            table = self.blocks.table(entry.request.name) if self.engine.page else ()
            self.state = self.engine.insert(prefix, self.state, entry.slot, table)
            self.running[entry.slot], entry.inserted = entry, self.now

    def _reserve(self, entry: Entry) -> bool:
        """A slot, and pages for all that the request may come to, or neither."""
        taken = {e.slot for e in self.log.entries.values() if e.slot is not None and not e.done}
        free = [slot for slot in range(self.engine.slots) if slot not in taken]
        pages = self._pages(entry.request)
        if not free or pages > self.blocks.available:
            return False
        self.blocks.allocate(entry.request.name, self._length(entry.request))
        entry.slot, entry.pages = free[0], pages
        return True

    def _release(self, entry: Entry) -> None:
        if entry.slot in self.running:
            self.state = self.engine.free(self.state, entry.slot)
            del self.running[entry.slot]
            self._span(f"slot {entry.slot}", entry.inserted, "generate", entry)
        if entry.pages:
            self.blocks.free(entry.request.name)

    def _generate(self) -> tuple[str, ...]:
        if not self.running:
            return ()
        self.state, tokens = self.engine.generate(self.params, self.state)
        running = list(self.running.items())
        for slot, entry in running:
            self._token(entry, int(tokens[slot]))
            if entry.done:
                self._release(entry)
        return tuple(entry.request.name for _, entry in running)

    # Small things.

    def _arrived(self) -> list[Entry]:
        return [entry for entry in self.queue if entry.request.arrives <= self.now]

    def _length(self, request: Request) -> int:
        return len(request.prompt) + request.n - 1  # the last token is said, and never read

    def _pages(self, request: Request) -> int:
        return ceil(self._length(request) / self.page)

    def _token(self, entry: Entry, token: int) -> None:
        entry.tokens.append(token)
        entry.times.append(self.now)

    def _span(self, lane: str, start: int, kind: str, entry: Entry) -> None:
        self.log.spans.append(Span(lane, start, self.now + 1, kind, entry.request.name))
