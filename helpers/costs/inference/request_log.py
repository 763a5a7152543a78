"""Requests to an engine and what they met: loads, times of every token, spans of a timeline (chapter 5).

Times are seconds from the start of a simulation by `engine_simulation`.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from random import Random
from typing import NamedTuple

from helpers.arguments import entries


class Request(NamedTuple):
    """When it arrives, in seconds; tokens of its prompt and of its answer; and how many of the prompt's are in a prefix cache."""

    arrival: float
    prompt: int
    output: int
    known: int = 0


class Span(NamedTuple):
    """A bar of a timeline: what a lane (a server, the network or a slot) does, and for which requests."""

    lane: str
    start: float
    end: float
    kind: str  # "prefill", "generate", "transfer" or "mixed", a step with a chunk of a prompt in it
    requests: tuple[int, ...]


@dataclass(frozen=True)
class Served:
    """What one request met, in seconds from the start of the simulation.

    start   of its prefill
    tokens  when each of its tokens came
    slot    where it generated: server and slot
    joined  when it could have begun to: it had its first token and its slot
    worked  seconds of the decode steps that it took part in
    """

    request: Request
    start: float
    tokens: tuple[float, ...]
    slot: tuple[int, int]
    joined: float
    worked: float

    @property
    def queue(self) -> float:
        """Seconds until its prefill began."""
        return self.start - self.request.arrival

    @property
    def ttft(self) -> float:
        """Time to first token."""
        return self.tokens[0] - self.request.arrival

    @property
    def latency(self) -> float:
        """Seconds from arrival to the last token."""
        return self.tokens[-1] - self.request.arrival

    @property
    def stall(self) -> float:
        """Seconds in its slot in which nothing was generated: others' prompts were read."""
        return self.tokens[-1] - self.joined - self.worked

    @property
    def gaps(self) -> tuple[float, ...]:
        """Seconds from token to token."""
        return tuple(b - a for a, b in zip(self.tokens, self.tokens[1:]))

    @property
    def per_token(self) -> float:
        """Mean seconds from token to token; 0 for an answer of one."""
        return sum(self.gaps) / len(self.gaps) if self.gaps else 0.0


@dataclass(frozen=True)
class Log:
    """A served load.

    served  for each request, in the order in which they were given
    spans   in the order of their start
    steps   (sequences at work, slots of the server) of every decode step
    padded  tokens of padding that prefills computed
    stays   for each request and each time that it had a slot: while it was read there, and while it generated; (): once each
    preempted, recomputed, swapped   how often a request gave its pages up, tokens read again, pages that went to the hosts
    """

    served: tuple[Served, ...]
    spans: tuple[Span, ...]
    steps: tuple[tuple[int, int], ...]
    padded: int = 0
    stays: tuple[Span, ...] = ()
    preempted: int = 0
    recomputed: int = 0
    swapped: int = 0

    @cached_property
    def span(self) -> float:
        """Seconds from the first arrival to the last token."""
        return max(s.tokens[-1] for s in self.served) - min(s.request.arrival for s in self.served)

    @property
    def tokens(self) -> int:
        """Tokens made."""
        return sum(len(s.tokens) for s in self.served)

    @property
    def throughput(self) -> float:
        """Tokens made a second."""
        return self.tokens / self.span

    @property
    def slot_use(self) -> float:
        """Share of the slots of all decode steps that made a token; 1 if no step was needed."""
        return sum(n for n, _ in self.steps) / sum(n for _, n in self.steps) if self.steps else 1.0

    @property
    def padding(self) -> float:
        """Share of the tokens that prefills computed that were padding."""
        real = sum(s.request.prompt - s.request.known for s in self.served)
        return self.padded / (real + self.padded)

    @property
    def ttft(self) -> float:
        """Mean time to first token."""
        return sum(s.ttft for s in self.served) / len(self.served)

    @property
    def per_token(self) -> float:
        """Mean seconds from token to token, over all of them."""
        gaps = [g for s in self.served for g in s.gaps]
        return sum(gaps) / len(gaps) if gaps else 0.0

    @property
    def stall(self) -> float:
        """Seconds that requests in slots did not generate, all of them together."""
        return sum(s.stall for s in self.served)

    @property
    def worst_gap(self) -> float:
        """The longest that anybody waited between two tokens: jitter, and after the first token the way into a slot."""
        return max((g for s in self.served for g in s.gaps), default=0.0)

    def slot_spans(self) -> tuple[Span, ...]:
        """One bar for each request in the slot that it generated in, from when it came there to its last token; or its stays."""
        if self.stays:
            return self.stays
        some = enumerate(self.served)
        return tuple(Span(f"slot {s.slot[0]}.{s.slot[1]}", s.joined, s.tokens[-1], "generate", (i,)) for i, s in some)


def static_steps(outputs: Sequence[int], slots: int) -> int:
    """Decode steps of static batching: each batch takes as many as its longest answer (the first token is the prefill's).

    >>> static_steps([100, 2, 2, 2], 2), continuous_steps([100, 2, 2, 2], 2)
    (100, 99)
    """
    whole("slots", slots)
    outputs = [_answer(n) for n in outputs]
    return sum(max(outputs[i : i + slots]) - 1 for i in range(0, len(outputs), slots))


def continuous_steps(outputs: Sequence[int], slots: int) -> int:
    """Decode steps when every slot is refilled at once, in order: no fewer than the longest answer, and than all over the slots."""
    whole("slots", slots)
    busy = [0] * slots
    for n in map(_answer, outputs):
        heapq.heapreplace(busy, busy[0] + n - 1)
    return max(busy)


def _answer(n) -> int:
    whole("an answer", n)
    return int(n)


def mixed_load(
    n: int,
    seed: int = 0,
    rate: float | None = None,
    prompts: tuple[int, int] = (64, 2048),
    outputs: tuple[int, int] = (8, 512),
) -> tuple[Request, ...]:
    """n requests of mixed lengths, the same for the same seed: log-uniform between the ends of each range.

    rate  requests a second, at random (Poisson); None: all are there from the start

    >>> [tuple(r) for r in mixed_load(3)]
    [(0.0, 1194, 187, 0), (0.0, 275, 23, 0), (0.0, 376, 43, 0)]
    """
    whole("requests", n)
    if rate is not None and rate <= 0:
        raise ValueError(f"requests come at a rate above 0 a second, or all at once (None), not {rate}")
    for low, high in (prompts, outputs):
        if not 1 <= low <= high:
            raise ValueError(f"lengths are drawn from (shortest, longest), of 1 token or more, not from {(low, high)}")
    draw, at, out = Random(seed), 0.0, []
    for _ in range(n):
        lengths = [round(low * (high / low) ** draw.random()) for low, high in (prompts, outputs)]
        out.append(Request(at, *lengths))
        at += draw.expovariate(rate) if rate else 0.0
    return tuple(out)


def requests(load: Iterable[tuple]) -> list[Request]:
    """A load as `Request`s, whose tokens are whole numbers, of Python's.

    >>> requests([(0.5, 4, 9)])
    [Request(arrival=0.5, prompt=4, output=9, known=0)]
    """
    made = []
    for i, r in enumerate(map(tuple, load)):
        if not 3 <= len(r) <= 4:
            raise ValueError(f"a request is (arrival, prompt, output); number {i} is {r}")
        r = Request(*r)
        for name in ("prompt", "output"):
            whole(f"{name} of request {i}", getattr(r, name))
        made.append(r._replace(prompt=int(r.prompt), output=int(r.output)))
    return made


def whole(name: str, n) -> None:
    if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
        raise ValueError(f"{name}: a whole number of 1 or more, not {n!r}")


entries(__name__)
