"""When pages run out: what it takes to compute a sequence again, or to swap its pages out and in; and who runs when (chapter 5).

A preempted sequence of S tokens is computed again in one prefill of its prompt and of what was generated, or its pages go to
the hosts over PCIe and come back. Units as in `latency_and_throughput`: C FLOPs/s and pcie bytes/s of all chips, kv bytes of
cache for one token. Neither is taken to hide behind other sequences' work.

Source: Kwon et al., "Efficient memory management for large language model serving with PagedAttention" (2023), section 4.5 for
the two ways, 7.3 for pages of few tokens, whose many small copies leave PCIe's bandwidth unused.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from helpers.arguments import Count, entries
from helpers.numeric import ceil, nonzero, where

from .request_log import requests, whole


def recompute_time(S, params, C, pair=0.0):
    """Seconds to compute S tokens again: (2·params·S + pair·S²/2) / C, bound by FLOPs.

    params  weights of the layers; the embedding is read without multiplying, and no logits are needed
    pair    FLOPs of attention for one query and key, all layers: 4·L·N·H; S tokens have S²/2 pairs

    The size of the pages is not in it.

    >>> round(1e3 * recompute_time(1024, 12.7e9, 3.12e14, pair=4 * 40 * 5120), 1)     # LLaMA-2 13B on an A100, ms
    84.7
    """
    return (2 * params * S + pair * S**2 / 2) / C


def swap_time(S, kv, pcie, page=1, copies=1, setup=0.0):
    """Seconds to bring S tokens to the hosts and back, in pages of `page` tokens, whole ones.

    copies  for one page, one way: 1 if all layers of a page lie together, 2·L if each layer has keys and values of its own
    setup   seconds of a copy besides its bytes

    2 · ceil(S / page) · (page·kv/pcie + copies·setup).

    >>> [round(1e3 * swap_time(1024, 819200, 3.2e10, page, 80, 1e-5)) for page in (1, 16, 128)]    # ms
    [1691, 155, 65]
    """
    return 2 * ceil(S / page) * (page * kv / pcie + copies * setup)


def smallest_page(S: Count, kv, params, C, pcie, pair=0.0, copies=1, setup=0.0):
    """Tokens of a page from which swapping S tokens is no slower than computing them again, if S fills its pages; inf: none.

    2·(S·kv/pcie + S/page·copies·setup) = `recompute_time`, solved for the page.

    >>> round(smallest_page(1024, 819200, 12.7e9, 3.12e14, 3.2e10, 4 * 40 * 5120, 80, 1e-5), 1)
    50.7
    """
    left = recompute_time(S, params, C, pair) / 2 - S * kv / pcie
    return where(left > 0, copies * setup * S / nonzero(left), float("inf"))


# Who runs when: pages as mere numbers, for requests that share none.

POLICIES = ("reserve", "recompute", "swap")


@dataclass(eq=False)
class Job:
    """Of `text` tokens so far (the prompt's, and those generated) `read` have keys and values, and `most` had them once."""

    arrival: float
    prompt: int
    output: int
    known: int
    number: int
    text: int = 0
    read: int = 0
    most: int = 0
    held: int = 0
    out: int = 0


class Schedule(NamedTuple):
    """running: requests in each step; recomputed: tokens; swapped: pages out, and as many back; ends: step after each one's last."""

    running: tuple[int, ...]
    recomputed: int
    swapped: int
    ends: tuple[int, ...]

    @property
    def steps(self) -> int:
        return len(self.running)

    @property
    def at_once(self) -> int:
        return max(self.running)


@dataclass
class Pool:
    """Pages, and who has them: the order of both lists is that of arrival, and all that runs came before all that waits."""

    size: int
    pages: int
    slots: int
    chunk: int
    budget: float
    policy: str
    waiting: list[Job]
    running: list[Job] = field(default_factory=list)
    free: int = 0
    out: int = 0
    back: int = 0
    preempted: list[Job] = field(default_factory=list)

    def __post_init__(self):
        self.waiting = sorted(self.waiting, key=lambda j: (j.arrival, j.number))
        self.free = self.pages
        if self.policy not in POLICIES:
            raise ValueError(f"the policies are {', '.join(POLICIES[:-1])} and {POLICIES[-1]}; got {self.policy!r}")
        if (most := max(map(self.needs, self.waiting))) > self.pages:
            raise ValueError(f"a request comes to {most} pages and there are {self.pages}: give the pool more")
        if self.budget < self.slots:
            raise ValueError(
                f"every sequence gets its token in every pass, so {self.slots} slots take a budget of {self.slots} tokens"
                f" or more, not {self.budget}"
            )

    def after(self, tokens: int) -> int:
        """Pages of so many tokens."""
        return -(-tokens // self.size)

    def needs(self, job: Job) -> int:
        """Pages at the most: the last token is said, and never read."""
        return self.after(job.prompt + job.output - 1)

    def turn(self, now: float) -> list[tuple[Job, int]]:
        """Who is in the pass that begins now, the oldest first, and how many tokens of each are read."""
        self.out = self.back = 0
        self.preempted = []
        for job in list(self.running):
            self._grow(job, max(job.held * self.size, min(job.text, job.read + self.chunk)))
        self._admit(now)
        left, parts = self.budget, []
        for job in self.running:
            if n := min(self.chunk, job.text - job.read, left):
                parts.append((job, n))
                left -= n
        return parts

    def read(self, parts: list[tuple[Job, int]]) -> int:
        """After that pass: the tokens are read, who has read all has one more. How many were not read for the first time."""
        again = 0
        for job, n in parts:
            again += max(0, min(job.read + n, job.most) - job.read)
            job.read += n
            job.most = max(job.most, job.read)
            job.text += job.read == job.text
            if job.text == job.prompt + job.output:
                self.running.remove(job)
                self.free += job.held
        return again

    def _grow(self, job: Job, tokens: int) -> None:
        """Pages of so many tokens in all; whoever came last gives up its own until they are there, the job itself at last."""
        while job in self.running and self.after(tokens) - job.held > self.free:
            self._preempt()
        if job in self.running:
            more = max(0, self.after(tokens) - job.held)
            job.held, self.free = job.held + more, self.free - more

    def _preempt(self) -> None:
        victim = self.running.pop()
        self.waiting.insert(0, victim)
        self.preempted.append(victim)
        self.free, victim.held, pages = self.free + victim.held, 0, victim.held
        if self.policy == "swap":
            victim.out, self.out = pages, self.out + pages
        else:
            victim.read = 0

    def _admit(self, now: float) -> None:
        left = self.budget - sum(min(self.chunk, j.text - j.read) for j in self.running)
        while self.waiting and self.waiting[0].arrival <= now and len(self.running) < self.slots and left > 0:
            job = self.waiting[0]
            worst = sum(self.needs(j) for j in (*self.running, job))
            if self.after(job.text) > self.free or (self.policy == "reserve" and worst > self.pages):
                return
            self.running.append(self.waiting.pop(0))
            self.back, job.out = self.back + job.out, 0
            job.read = max(job.read, job.known)
            job.most = max(job.most, job.read)
            left -= min(self.chunk, job.text - job.read)
            self._grow(job, job.text)


def paged_schedule(
    load: Iterable[tuple],
    slots: int,
    pages: int,
    page: int,
    chunk: int,
    policy: str,
    budget: int | None = None,
) -> Schedule:
    """The steps of a server with `pages` of `page` tokens, up to `slots` sequences in a pass and `chunk` tokens of each.

    load    (arrival, prompt, output) each: the step in which it comes, tokens; served in this order of arrival
    policy  "reserve": starts with a promise of all pages that it may need; "recompute", "swap": takes pages as tokens come,
            and when they run out the one that came last gives up its own
    budget  most tokens of a pass, of all sequences together; None: chunk of each. The oldest come first

    >>> load = [(0, 4, 9), (0, 4, 3), (0, 4, 3), (0, 4, 9), (0, 4, 3)]          # 1 page of 4 tokens each at first, 2 or 3 at last
    >>> some = [paged_schedule(load, 4, 6, 4, 4, policy) for policy in ("reserve", "recompute", "swap")]
    >>> [(s.steps, s.at_once, s.recomputed, s.swapped) for s in some]
    [(15, 2, 0, 0), (12, 4, 9, 0), (11, 4, 0, 3)]
    """
    given = dict(slots=slots, pages=pages, page=page, chunk=chunk, budget=slots * chunk if budget is None else budget)
    for name, n in given.items():
        whole(name, n)
    load = requests(load)
    jobs = [Job(*request, number=i, text=request.prompt) for i, request in enumerate(load)]
    pool = Pool(page, pages, slots, chunk, given["budget"], policy, jobs)
    running, recomputed, swapped, ends = [], 0, 0, {}
    while pool.waiting or pool.running:
        parts = pool.turn(len(running))
        running.append(len(pool.running))
        swapped += pool.out
        recomputed += pool.read(parts)
        ends |= {job.number: len(running) for job, _ in parts}
    return Schedule(tuple(running), recomputed, swapped, tuple(ends[i] for i in range(len(jobs))))


entries(__name__)
