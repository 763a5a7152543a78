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


@dataclass(eq=False)
class _Job:
    """Of `text` tokens so far (the prompt's, and those generated) `read` have keys and values, and `most` had them once."""

    arrival: int
    prompt: int
    output: int
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
class _Pool:
    size: int
    free: int
    policy: str
    waiting: list[_Job]
    running: list[_Job] = field(default_factory=list)
    swapped: int = 0

    def pages(self, tokens: int) -> int:
        return -(-tokens // self.size)

    def grow(self, job: _Job, tokens: int) -> None:
        """Pages of so many tokens in all; whoever came last gives up its own until they are there, the job itself at last."""
        while job in self.running and self.pages(tokens) - job.held > self.free:
            victim = self.running.pop()
            self.waiting.insert(0, victim)
            self.free, victim.held, pages = self.free + victim.held, 0, victim.held
            if self.policy == "swap":
                victim.out, self.swapped = pages, self.swapped + pages
            else:
                victim.read = 0
        if job in self.running:
            more = max(0, self.pages(tokens) - job.held)
            job.held, self.free = job.held + more, self.free - more

    def admit(self, now: int, slots: int, pages: int) -> None:
        while self.waiting and self.waiting[0].arrival <= now and len(self.running) < slots:
            job = self.waiting[0]
            worst = sum(self.pages(j.prompt + j.output - 1) for j in (*self.running, job))
            if self.pages(job.text) > self.free or (self.policy == "reserve" and worst > pages):
                return
            self.running.append(self.waiting.pop(0))
            self.grow(job, job.text)


def paged_schedule(load: Iterable[tuple], slots: int, pages: int, page: int, chunk: int, policy: str) -> Schedule:
    """The steps of a server with `pages` of `page` tokens, up to `slots` sequences in a pass and `chunk` tokens of each.

    load    (arrival, prompt, output) each: the step in which it comes, tokens; served in this order of arrival
    policy  "reserve": starts with a promise of all pages that it may need; "recompute", "swap": takes pages as tokens come,
            and when they run out the one that came last gives up its own

    >>> load = [(0, 4, 9), (0, 4, 3), (0, 4, 3), (0, 4, 9), (0, 4, 3)]          # 1 page of 4 tokens each at first, 2 or 3 at last
    >>> some = [paged_schedule(load, 4, 6, 4, 4, policy) for policy in ("reserve", "recompute", "swap")]
    >>> [(s.steps, s.at_once, s.recomputed, s.swapped) for s in some]
    [(15, 2, 0, 0), (12, 4, 9, 0), (11, 4, 0, 3)]
    """
    for name, n in dict(slots=slots, pages=pages, page=page, chunk=chunk).items():
        whole(name, n)
    if policy not in ("reserve", "recompute", "swap"):
        raise ValueError(f"the policies are reserve, recompute and swap; got {policy!r}")
    jobs = [_Job(*request[:3], number=i, text=request[1]) for i, request in enumerate(requests(load))]
    pool = _Pool(page, pages, policy, sorted(jobs, key=lambda j: (j.arrival, j.number)))
    if (most := max(pool.pages(j.prompt + j.output - 1) for j in jobs)) > pages:
        raise ValueError(f"a request comes to {most} pages and there are {pages}: give the pool more")
    running, recomputed, ends = [], 0, {}
    while pool.waiting or pool.running:
        for job in list(pool.running):
            pool.grow(job, max(job.held * page, min(job.text, job.read + chunk)))
        pool.admit(len(running), slots, pages)
        running.append(len(pool.running))
        for job in list(pool.running):
            n = min(chunk, job.text - job.read)
            recomputed += max(0, min(job.read + n, job.most) - job.read)
            job.read += n
            job.most = max(job.most, job.read)
            job.text += job.read == job.text
            if job.text == job.prompt + job.output:
                pool.running.remove(job)
                pool.free += job.held
                ends[job.number] = len(running)
    return Schedule(tuple(running), recomputed, pool.swapped, tuple(ends[i] for i in range(len(jobs))))


entries(__name__)
