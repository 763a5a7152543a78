"""Servers that run a model through a schedule, a pass a step, and what they write down (chapter 5).

    serving = Orchestrator(engine, params, "interleaved")
    for request in requests:
        serving.submit(request)
    log = serving.run()
    log.entries["a"].tokens, log.entries["a"].first_token_after, len(log.steps)

Who is read, who gets a slot and who waits is decided by the scheduler of `costs.inference.scheduler`, the same that simulations
add up in seconds; here a pass of it is a pass of a model, or of two engines side by side, and all times are in steps. Designs:

    static         reads a batch of prompts together, generates until the last of them is done, takes the next batch
    interleaved    one engine: reads a prompt as soon as a slot is free, and meanwhile nobody gets a token
    chunked        one engine: every pass reads a piece of a prompt besides generating, also of one that has no slot yet
    disaggregated  two engines, one to read and one to generate; keys and values go over a network between them. Prompts are
                   read as they come, and what was read waits for a slot, however much of it there is

Requests are served in the order in which they came. One waits until there is a slot, and pages for all the tokens that it
may come to; none is given up on the way. `paged_batching` takes pages as tokens come instead, and shares those of prefixes.

Source: Austin et al. 2025, Section 7; Yu et al., "Orca" (2022) for continuous batching; Kwon et al., "vLLM" (2023) for pages;
Zhong et al., "DistServe" (2024) for two pools.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from helpers.costs.inference.scheduler import DESIGNS, Job, PageCount, Part, Pass, Policy, Scheduler, Sequence
from helpers.costs.inference.serving_log import Log as Timeline, Record, Request as Lengths, Span

from .engine import Engine, Prefix
from .paged_kv_cache import Blocks
from .prefix_cache import Node


@dataclass(frozen=True)
class Request:
    """`n` tokens are wanted after the prompt, or fewer if `stop` is one of them; it comes at the start of step `arrives`."""

    name: str
    prompt: tuple[int, ...]
    n: int
    arrives: int = 0
    stop: int | None = None


@dataclass(eq=False)
class Sample(Sequence):
    """One answer: its tokens after those of the prompt, all in `text`, and the step at whose end each of them was there."""

    name: tuple[str, int] = ("", 0)
    text: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)


@dataclass(eq=False)
class Entry(Job):
    """A request and what became of it.

    many       whether `tokens` is a list for each answer
    started    the step in which the first piece of its prompt was read
    hit        tokens of the prompt that the prefix tree knew when it started; the others were read
    path       nodes of the prefix tree that it stands on
    prefix     its keys and values outside of the pool, while it is read ahead or elsewhere
    inserted   the first step in which it had its slot, and its prompt was read
    preempted  how often it gave its pages up
    """

    request: Request | None = None
    many: bool = False
    started: int | None = None
    hit: int = 0
    path: list[Node] = field(default_factory=list)
    prefix: Prefix | None = None
    inserted: int | None = None
    preempted: int = 0
    host: object = None

    @property
    def samples(self) -> list[Sample]:
        return self.sequences

    @property
    def answers(self) -> list[list[int]]:
        return [sample.text[self.prompt :] for sample in self.samples]

    @property
    def tokens(self) -> list:
        """The answer; of a `PagedServer` a list of answers."""
        return self.answers if self.many else self.answers[0]

    @property
    def times(self) -> list[int]:
        """The step at whose end each token of its first answer was there."""
        return self.samples[0].times

    @property
    def first_token_after(self) -> int:
        """Steps from its arrival until its first token: the queue, and the reading."""
        return self.times[0] + 1 - self.request.arrives


class Step(NamedTuple):
    """One step: who ran, whose prompts were read and how many tokens of them, which answers generated; while it ran the pages
    that requests used, and who waited; and who was preempted before it."""

    running: tuple[str, ...]
    read: tuple[str, ...]
    tokens_read: int
    generated: tuple[tuple[str, int], ...]
    pages: int
    waiting: int
    preempted: tuple[str, ...]


@dataclass
class Log:
    """What was served: entries by their requests' names, steps, and how many pages were copied before a write."""

    page_bytes: int = 0
    entries: dict[str, Entry] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    copies: int = 0
    record: Record = field(default_factory=Record)

    @property
    def timeline(self) -> Timeline:
        """The log of a simulation that took a step for each pass, of first answers; with what a tree knew as known."""
        load = [Lengths(e.request.arrives, e.prompt, e.output, e.hit) for e in self.entries.values()]
        return self.record.log(load, with_stays=True)

    @property
    def tokens_read(self) -> int:
        return sum(step.tokens_read for step in self.steps)

    @property
    def slots_used(self) -> float:
        """Slots that got a token in a step, on average over all steps."""
        return sum(len(step.generated) for step in self.steps) / max(1, len(self.steps))

    @property
    def at_once(self) -> int:
        """Most requests that ran in one step."""
        return max((len(step.running) for step in self.steps), default=0)

    @property
    def recomputed(self) -> int:
        """Tokens whose keys and values were computed again."""
        return self.record.recomputed

    @property
    def swapped_out(self) -> int:
        """Bytes that went to the host."""
        return self.record.swapped * self.page_bytes

    @property
    def swapped_in(self) -> int:
        """Bytes that came back: fewer where a tree still had a page."""
        return self.record.returned * self.page_bytes


class Server:
    """What servers have in common: requests come, and steps go on until every one of them has its tokens.

    schedulers   the engine's, or of two engines that of the one that reads and that of the one that generates
    many         whether a request may ask for several answers
    """

    many = False

    def __init__(self, engine, params, *schedulers: Scheduler, page_bytes: int = 0):
        self.engine, self.params, self.schedulers = engine, params, schedulers
        self.now, self.log = 0, Log(page_bytes)

    def serve(self, requests: Iterable[Request]) -> Log:
        for request in requests:
            self.submit(request)
        return self.run()

    def run(self) -> Log:
        """Steps until every request has its tokens."""
        while any(scheduler.waiting or scheduler.running for scheduler in self.schedulers):
            self.step()
        return self.log

    def submit(self, request: Request, samples: int = 1) -> None:
        """Takes a request for so many answers, or says why it can never be served; those taken before go on."""
        name, pages, prompt = request.name, self.schedulers[-1].pages, list(request.prompt)
        if name in self.log.entries:
            raise ValueError(f"there is a request {name!r} already: give each a name of its own")
        most = self.engine.slots if self.many else 1  # answers
        if request.n < 1 or not 1 <= samples <= most:
            raise ValueError(
                f"{name!r} asks for {samples} answers of {request.n} tokens: ask for 1 to {most}, not empty"
            )
        self.engine.room(len(prompt), request.n)
        answers = [Sample(len(prompt), name=(name, i), text=[*prompt]) for i in range(samples)]
        arrival, number = max(request.arrives, self.now), len(self.log.entries)
        entry = Entry(arrival, number, len(prompt), request.n, sequences=answers, request=request, many=self.many)
        if (most := pages.at_most(entry)) > pages.pages:
            wants = f"request {name!r} needs {most} pages of {self.engine.page} tokens and there are {pages.pages}"
            raise ValueError(f"{wants}: make it shorter, or give the engine more")
        self.log.entries[name] = entry
        self.schedulers[0].add(entry)

    def _begun(self, work: Pass) -> None:
        """Notes who starts and who gives way before a pass."""
        self.log.record.begun(work, self.now)
        for entry in work.started:
            entry.started = self.now if entry.started is None else entry.started
        for entry in work.preempted:
            entry.preempted += 1

    def _step(self, *passes: Pass, pages: int) -> None:
        """Notes a step with these passes, one for each engine, and the pages that requests have."""
        pieces = [part for work in passes for part in work.pieces if part.tokens]
        running = [job for scheduler in self.schedulers for job in scheduler.running]
        self.log.steps.append(
            Step(
                running=tuple(entry.request.name for entry in running),
                read=tuple(part.job.request.name for part in pieces),
                tokens_read=sum(part.tokens for part in pieces),
                generated=tuple(part.sequence.name for part in passes[-1].generating),
                pages=pages,
                waiting=sum(job.arrival <= self.now for job in self.schedulers[0].waiting),
                preempted=tuple(entry.request.name for entry in passes[-1].preempted),
            )
        )

    def _token(self, entry: Entry, sample: Sample, token: int) -> bool:
        """A sample has one token more: whether it was its last."""
        sample.text.append(token)
        sample.times.append(self.now)
        last = len(sample.times) == entry.output or token == entry.request.stop
        if sample is entry.samples[0]:
            self.log.record.token(entry, self.now + 1, last)
        return last


class Orchestrator(Server):
    """Serves requests on `engine`, or on one like it for each pool if the design is disaggregated.

    network   bytes that go from one pool to the other in a step; None: a prefix arrives at once. It carries one prefix
              after the other, and each takes whole steps, one or more: it is not shared within a step
    """

    def __init__(self, engine: Engine, params, design: str = "interleaved", network: float | None = None):
        if design not in DESIGNS:
            raise ValueError(f"the designs are {', '.join(DESIGNS)}; got {design!r}")
        self.network, policy = network, Policy.of(design, engine.slots, engine.chunk)
        schedulers = [Scheduler(policy, pages=PageCount(engine.pages, engine.page))]
        if design == "disaggregated":
            reader = Policy(1, engine.chunk, readers=1, ahead=True)
            schedulers.insert(0, Scheduler(reader, pages=PageCount(engine.pages, engine.page)))
        super().__init__(engine, params, *schedulers)
        self.blocks, self.state = Blocks(engine.pages, engine.page), engine.empty()
        self.network_is_free = 0  # from which step on

    def step(self) -> None:
        """One pass of each engine. What it frees or brings is there from the next one on."""
        passes = [scheduler.next_pass(self.now) for scheduler in self.schedulers]
        generator = self.schedulers[-1]
        for work in passes:
            self._begun(work)

        # Prompts that were read, and have a slot, are inserted there.
        for entry in generator.running:
            if entry.slot is not None and entry.prefix is not None and not entry.fresh:
                table = self.blocks.allocate(entry.request.name, entry.prompt + entry.output - 1)
                self.state = self.engine.insert(entry.prefix, self.state, entry.slot, table)
                entry.inserted, entry.prefix = self.now, None

        # A piece of each prompt; a token for each slot.
        tokens = ()
        if pieces := passes[0].pieces:
            texts = [part.job.request.prompt[part.done : part.done + part.tokens] for part in pieces]
            prefixes = [part.job.prefix or self.engine.nothing() for part in pieces]
            read = self.engine.read_together(self.params, prefixes, texts)
            for part, prefix in zip(pieces, read):
                part.job.prefix = prefix
        if passes[-1].generating:
            self.state, tokens = self.engine.generate(self.params, self.state)

        self._step(*passes, pages=sum(generator.pages.at_most(e) for e in generator.running if e.slot is not None))
        for scheduler, work in zip(self.schedulers, passes):
            self._finish(scheduler, work, tokens)
        self.now += 1

    def _finish(self, scheduler: Scheduler, work: Pass, tokens) -> None:
        sends = len(self.schedulers) == 2 and scheduler is self.schedulers[0]
        if work.parts:
            lane = "server" if len(self.schedulers) == 1 else "prefill 0" if sends else "generate 0"
            self.log.record.passed(work, self.now, self.now + 1, self.engine.slots, lane)
        done = set()

        def token(part: Part, sample: Sample) -> bool:
            entry = part.job
            last = self._token(entry, sample, int(tokens[entry.slot]) if part.generates else entry.prefix.token)
            done.update([entry.number] if last else [])
            return last or sends

        scheduler.finish(work, token)
        for part in work.parts:
            entry = part.job
            if entry.number in done:
                entry.prefix = None
                if entry.inserted is not None:
                    self.state = self.engine.free(self.state, entry.slot)
                    self.blocks.free(entry.request.name)
            elif sends and not entry.fresh:
                self._send(entry)

    def _send(self, entry: Entry) -> None:
        """A prefix goes to the other engine when those before it have arrived."""
        begin = max(self.now + 1, self.network_is_free)
        self.network_is_free = begin + (ceil(self.engine.bytes(entry.prefix) / self.network) if self.network else 0)
        if self.network_is_free > begin:
            span = Span("network", begin, self.network_is_free, "transfer", (entry.number,))
            self.log.record.spans.append(span)
        entry.arrival, entry.samples[0].ended = self.network_is_free, False
        self.schedulers[1].add(entry)
