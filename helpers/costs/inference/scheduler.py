"""The schedule of an engine, pass by pass: who is read, who generates, who waits, and who gives way (chapter 5).

    scheduler = Scheduler(Policy(slots=4, chunk=256, budget=512), jobs, PageCount(pages=800, size=16))
    while scheduler.waiting or scheduler.running:
        work = scheduler.next_pass(now)
        …                                       # `engine_simulation` adds its seconds, `kernels.inference` runs a model
        scheduler.finish(work, token)

A pass has up to `budget` tokens: the last token of every sequence that generates, and pieces of prompts. The piece that ends a
prompt brings its first token. A request starts when there are a slot and pages for the tokens that it has, and takes more pages
as tokens come. What happens when they run out is the policy's `when_full`:

    reserve     never: a request starts when there are pages for all the tokens that it may come to
    recompute   the request that came last gives its pages up, and later computes its tokens again, prompt and answer
    swap        its pages go to the host, and come back later

The oldest request is never preempted, and when nobody else is left it has all pages: so each one is the oldest at some time,
and ends. Whose pages are whose is not decided here: `PageCount` only counts them, and `kernels.inference` has tables.

Source: Yu et al., "Orca" (2022) for continuous batching; Kwon et al., "PagedAttention" (2023), section 4.5 for preemption;
Agrawal et al., "Sarathi-Serve" (2024), section 4.3 for the budget.
"""

from bisect import insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

POLICIES = ("reserve", "recompute", "swap")
RULES = {  # of each design, what of its policy is not as usual
    "static": {"mixed": False, "refill": False},
    "interleaved": {"readers": 1, "mixed": False},
    "chunked": {"readers": 1, "ahead": True},
    "disaggregated": {},  # of the engine that generates; the one that reads has one slot, and sends what it has read
}
DESIGNS = tuple(RULES)


@dataclass(frozen=True)
class Policy:
    """What an engine does with the requests that are there.

    slots      most sequences that generate at once
    chunk      most tokens of one sequence in a pass
    budget     most tokens of a pass, of all sequences together
    readers    most prompts that are under way at once
    mixed      whether a pass that reads prompts also generates
    refill     whether a slot that is free is taken while others run; else a batch is read together and served to its end
    ahead      whether a prompt is read before there is a slot for it, which it then waits for
    when_full  one of POLICIES
    """

    slots: int
    chunk: float = inf
    budget: float = inf
    readers: float = inf
    mixed: bool = True
    refill: bool = True
    ahead: bool = False
    when_full: str = "reserve"

    @classmethod
    def of(cls, design: str, slots: int, chunk: float = inf) -> "Policy":
        """The policy of one of DESIGNS."""
        return cls(slots, chunk, **RULES[design])

    def __post_init__(self):
        if self.when_full not in POLICIES:
            raise ValueError(f"the policies are {', '.join(POLICIES[:-1])} and {POLICIES[-1]}; got {self.when_full!r}")
        if self.budget < self.slots:
            raise ValueError(
                f"every sequence gets its token in every pass, so {self.slots} slots take a budget of {self.slots} tokens"
                f" or more, not {self.budget}"
            )


@dataclass(eq=False)
class Sequence:
    """One answer after its prompt: of its tokens, the prompt's and those generated, `computed` have keys and values.

    most    tokens that had keys and values at some time
    placed  whether it has pages; an answer that shares its prompt with others has none until one of them has read it
    ended   whether it has its last token
    """

    length: int
    computed: int = 0
    most: int = 0
    placed: bool = False
    ended: bool = False


@dataclass(eq=False)
class Job:
    """A request on its way through an engine: tokens of its prompt and of each answer, in the order of arrival and number.

    known      tokens of its prompt that need not be computed
    sequences  one for each answer
    slot       the least number that was free when it got one; None while it waits, or is read ahead
    pages      how many it has, where pages are only counted, and how many of its pages are on the host
    """

    arrival: float
    number: int
    prompt: int
    output: int
    known: int = 0
    sequences: list[Sequence] = field(default_factory=list)
    slot: int | None = None
    pages: int = 0
    on_host: int = 0

    def __post_init__(self):
        self.sequences = self.sequences or [Sequence(self.prompt)]

    @property
    def order(self) -> tuple[float, int]:
        return self.arrival, self.number

    @property
    def active(self) -> list[Sequence]:
        """Its answers that want more tokens."""
        return [s for s in self.sequences if not s.ended]

    @property
    def fresh(self) -> bool:
        """Whether it has no token yet: its prompt waits, or is read."""
        return self.sequences[0].length == self.prompt


class Part(NamedTuple):
    """The next tokens of a sequence in a pass, of which `done` are computed before."""

    job: Job
    sequence: Sequence
    tokens: int
    done: int
    generates: bool  # its last token, whose successor comes next; else a piece of what it has to read


@dataclass
class Pass:
    """What a pass does: its parts in the order of arrival; and before it who starts, takes a slot or is preempted, and how many
    pages go to the host and come back."""

    parts: list[Part] = field(default_factory=list)
    started: list[Job] = field(default_factory=list)
    seated: list[Job] = field(default_factory=list)
    preempted: list[Job] = field(default_factory=list)
    pages_out: int = 0
    pages_back: int = 0

    @property
    def pieces(self) -> list[Part]:
        return [part for part in self.parts if not part.generates]

    @property
    def generating(self) -> list[Part]:
        return [part for part in self.parts if part.generates]

    @property
    def recomputed(self) -> int:
        """Tokens that were computed before."""
        return sum(max(0, min(p.done + p.tokens, p.sequence.most) - p.done) for p in self.parts)


class PageCount:
    """Pages as mere numbers, for requests with one answer that share none: `pages` of `size` tokens.

    `kernels.inference.paged_batching.SharedPages` answers the same questions with tables.
    """

    def __init__(self, pages: float = inf, size: int = 1):
        self.pages = self.free = pages
        self.size = size

    def count(self, tokens: int) -> int:
        return -(-tokens // self.size)

    def at_most(self, job: Job) -> int:
        """Pages that a request may come to: the last token is said, and never read."""
        return self.count(job.prompt + job.output - 1)

    def known(self, job: Job) -> int:
        """Tokens of a prompt that need not be computed."""
        return job.known

    def admit(self, job: Job) -> int | None:
        """Takes pages for all tokens of a request: how many come back from the host; None if there are too few."""
        if self.count(job.sequences[0].length) > self.free:
            return None
        job.sequences[0].placed = True
        self.grow(job, job.sequences[0], job.sequences[0].length)
        back, job.on_host = job.on_host, 0
        return back

    def grow(self, job: Job, sequence: Sequence, tokens: int) -> bool:
        """Takes what is missing for so many tokens of a sequence, if there is as much."""
        more = max(0, self.count(tokens) - job.pages)
        if more > self.free:
            return False
        job.pages, self.free = job.pages + more, self.free - more
        return True

    def take_away(self, job: Job, to_host: bool) -> int:
        """The pages of a request that is preempted are free: how many of them go to the host."""
        out = job.on_host = job.pages if to_host else 0
        self.release(job, job.sequences[0])
        return out

    def release(self, job: Job, sequence: Sequence) -> None:
        """The pages of a sequence are free."""
        self.free, job.pages = self.free + job.pages, 0
        sequence.placed = False

    def prompt_is_read(self, job: Job, sequence: Sequence) -> None:
        """Called when a sequence has read its prompt, for the first time or again."""


class Scheduler:
    """`waiting` and `running` are in the order of arrival, and all that runs came before all that waits."""

    def __init__(self, policy: Policy, jobs: Iterable[Job] = (), pages: PageCount | None = None):
        self.policy, self.pages = policy, pages or PageCount()
        self.running: list[Job] = []
        self.waiting = sorted(jobs, key=lambda job: job.order)
        if (most := max(map(self.pages.at_most, self.waiting), default=0)) > self.pages.pages:
            raise ValueError(f"a request comes to {most} pages and there are {self.pages.pages}: give the pool more")

    def add(self, job: Job) -> None:
        insort(self.waiting, job, key=lambda j: j.order)

    def next_pass(self, now: float) -> Pass:
        """What the pass that begins now does."""
        policy, work = self.policy, Pass()

        # A prompt that was read ahead takes the first slot that is free.
        for job in self.running:
            if job.slot is None and not job.fresh:
                self._seat(job, work)

        # Each sequence needs places for what it reads next, the oldest first. Whoever came last makes room.
        for job in list(self.running):
            for sequence in job.active:
                end = min(sequence.length, sequence.computed + policy.chunk)
                while sequence.placed and not self.pages.grow(job, sequence, end):
                    self._preempt(self.running[-1], work)

        # Who waits starts, as long as there are tokens left in the pass, a slot and pages. Nobody overtakes.
        batch_is_over = not self.running
        while self.waiting and self.waiting[0].arrival <= now:
            job = self.waiting[0]
            readers = sum(other.fresh or other.slot is None for other in self.running)
            left = policy.budget - sum(tokens for *_, tokens in self._unread())
            if left <= 0 or readers >= policy.readers or not (policy.refill or batch_is_over):
                break
            if not policy.ahead and not self._seat(job, work):
                break
            self.running.append(self.waiting.pop(0))
            work.started.append(job)
            leader = job.active[0]
            leader.computed = max(leader.computed, self.pages.known(job))
            leader.most = max(leader.most, leader.computed)

        # The tokens of the pass, the oldest request first.
        unread, left = self._unread(), policy.budget
        if not policy.mixed and any(job.fresh for job, *_ in unread):
            unread = [(job, sequence, tokens) for job, sequence, tokens in unread if job.fresh]
        for job, sequence, tokens in unread:
            tokens, done = min(tokens, left), sequence.computed
            generates = tokens == 1 and done == sequence.length - 1 and not job.fresh
            if tokens or not policy.refill:  # the prompts of a batch are padded to the longest
                work.parts.append(Part(job, sequence, tokens, done, generates))
                left -= tokens
        return work

    def finish(self, work: Pass, token: Callable[[Part, Sequence], bool]) -> None:
        """After the pass: its tokens are computed, and a sequence that has no more to read gets one.

        token   (part, sequence that gets a token now) -> whether it is its last
        """
        for _, sequence, tokens, done, _ in work.parts:
            sequence.computed = done + tokens
            sequence.most = max(sequence.most, sequence.computed)
        if not self.policy.refill and any(p.job.fresh and p.sequence.computed < p.job.prompt for p in work.parts):
            return  # the first tokens of a batch come together, when the longest prompt is read
        for part in work.parts:
            job, sequence, was_fresh = part.job, part.sequence, part.job.fresh
            if sequence.computed == sequence.length:
                # All answers of a request begin with what comes after the one prompt.
                for answer in job.sequences if was_fresh else [sequence]:
                    answer.length += 1
                    answer.ended = token(part, answer)
            if sequence.computed >= job.prompt and (was_fresh or part.done < job.prompt):
                self.pages.prompt_is_read(job, sequence)
            for answer in job.sequences:
                if answer.ended and answer.placed:
                    self.pages.release(job, answer)
            if not job.active:
                self.running.remove(job)

    def _unread(self) -> list[tuple[Job, Sequence, int]]:
        """(request, sequence, tokens that it could read in a pass) of all that runs; who waits for a slot has nothing to read."""
        chunk = self.policy.chunk
        return [
            (job, sequence, min(chunk, sequence.length - sequence.computed))
            for job in self.running
            for sequence in job.active
            if sequence.placed or job.slot is None and job.fresh
        ]

    def _seat(self, job: Job, work: Pass) -> bool:
        """A slot, and pages for the tokens that a request has, or neither."""
        seated = [other for other in self.running if other.slot is not None]
        if sum(len(other.active) for other in [*seated, job]) > self.policy.slots:
            return False
        if self.policy.when_full == "reserve" and sum(map(self.pages.at_most, [*seated, job])) > self.pages.pages:
            return False
        if (back := self.pages.admit(job)) is None:
            return False
        job.slot = min(set(range(self.policy.slots)) - {other.slot for other in seated})
        work.seated.append(job)
        work.pages_back += back
        return True

    def _preempt(self, job: Job, work: Pass) -> None:
        swap = self.policy.when_full == "swap"
        work.pages_out += self.pages.take_away(job, swap)
        for sequence in job.sequences:
            sequence.computed = sequence.computed if swap else 0
        job.slot = None
        self.running.remove(job)
        self.add(job)
        work.preempted.append(job)
