"""Loads of requests: arrivals that are even, random or in bursts, lengths beside them, and sessions that share prefixes (chapter 5).

Arrivals are seconds, the first at 0, and the same for the same seed.

Source: arrivals whose gaps have a gamma distribution are what vLLM's `bench serve` sends, and its burstiness is ours; Zheng et
al., "SGLang" (2023), section 3 for what a prefix cache finds again.
"""

import heapq
from collections.abc import Iterable, Sequence
from numbers import Integral
from random import Random
from typing import NamedTuple

from helpers.arguments import Count, formula


class Request(NamedTuple):
    """When it arrives, in seconds; tokens of its prompt and of its answer; and how many of the prompt's are in a prefix cache."""

    arrival: float
    prompt: int
    output: int
    known: int = 0


@formula
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
        for name, n in (("prompt", r.prompt), ("output", r.output)):
            if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
                raise ValueError(f"{name} of request {i}: a whole number of 1 or more, not {n!r}")
        if r.arrival < 0:
            raise ValueError(f"a request arrives at 0 or later; number {i} is {r}")
        if not 0 <= r.known < r.prompt:
            raise ValueError(f"a prefill computes one token or more: known is 0 to {r.prompt - 1}; number {i} is {r}")
        made.append(r._replace(prompt=int(r.prompt), output=int(r.output)))
    if not made:
        raise ValueError("a load has one request or more: (arrival, prompt, output) each")
    return made


@formula
def even(n: Count, rate) -> tuple[float, ...]:
    """n arrivals, `rate` a second, at equal distances.

    >>> even(4, rate=2)
    (0.0, 0.5, 1.0, 1.5)
    """
    return tuple(i / _rate(rate) for i in range(n))


@formula
def poisson(n: Count, rate, seed: int = 0) -> tuple[float, ...]:
    """n arrivals at random, `rate` a second on the average: as of many users who don't know of each other."""
    return bursts(n, rate, 1.0, seed)


@formula
def bursts(n: Count, rate, burstiness, seed: int = 0) -> tuple[float, ...]:
    """n arrivals, `rate` a second on the average, that come in bursts.

    burstiness  shape of the gamma distribution of the gaps, whose variance is the squared mean over it: 1 is `poisson`, below
                1 many come close together and long pauses follow, far above 1 they are nearly `even`

    >>> [round(at, 1) for at in bursts(8, rate=1, burstiness=0.1)]
    [0.0, 2.6, 2.6, 2.7, 3.9, 3.9, 9.4, 9.4]
    """
    if burstiness <= 0:
        raise ValueError(f"burstiness is above 0, not {burstiness}")
    draw, gap, out = Random(seed), 1 / (_rate(rate) * burstiness), [0.0]
    for _ in range(n - 1):
        out.append(out[-1] + draw.gammavariate(burstiness, gap))
    return tuple(out)


@formula
def load(arrivals: Iterable[float], lengths: Iterable[tuple]) -> tuple[Request, ...]:
    """One request for each arrival and each (prompt, output) tokens.

    >>> load(even(2, rate=4), [(100, 20), (300, 10)])
    (Request(arrival=0.0, prompt=100, output=20, known=0), Request(arrival=0.25, prompt=300, output=10, known=0))
    """
    arrivals, lengths = tuple(arrivals), tuple(lengths)
    if len(arrivals) != len(lengths):
        raise ValueError(f"each request has an arrival and lengths, and these are {len(arrivals)} and {len(lengths)}")
    return tuple(Request(arrival, *tokens) for arrival, tokens in zip(arrivals, lengths))


@formula
def static_steps(outputs: Sequence[Count], slots: Count) -> int:
    """Decode steps of static batching: each batch takes as many as its longest answer (the first token is the prefill's).

    >>> static_steps([100, 2, 2, 2], 2), continuous_steps([100, 2, 2, 2], 2)
    (100, 99)
    """
    return sum(max(outputs[i : i + slots]) - 1 for i in range(0, len(outputs), slots))


@formula
def continuous_steps(outputs: Sequence[Count], slots: Count) -> int:
    """Decode steps when every slot is refilled at once, in order: no fewer than the longest answer, and than all over the slots."""
    busy = [0] * slots
    for n in outputs:
        heapq.heapreplace(busy, busy[0] + n - 1)
    return max(busy)


@formula
def mixed_load(
    n: Count,
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
    draw, arrival, out = Random(seed), 0.0, []
    for _ in range(n):
        out.append(Request(arrival, *_drawn(draw, prompts, outputs)))
        arrival += 0.0 if rate is None else draw.expovariate(_rate(rate))
    return tuple(out)


def _drawn(draw: Random, *ranges: tuple[int, int]) -> Iterable[int]:
    """Tokens, log-uniform between the ends of each range."""
    for low, high in ranges:
        if not 1 <= low <= high:
            raise ValueError(f"lengths are drawn from (shortest, longest), of 1 token or more, not from {(low, high)}")
        yield round(low * (high / low) ** draw.random())


class Turn(NamedTuple):
    """A message of a session: when it is sent, tokens of the message, and of the answer to it."""

    arrival: float
    session: int
    message: int
    output: int


@formula
def turns(
    sessions: Count,
    turns_each: Count,
    rate,
    pause,
    messages: tuple[int, int] = (16, 256),
    outputs: tuple[int, int] = (16, 256),
    seed: int = 0,
) -> tuple[Turn, ...]:
    """Sessions of `turns_each` turns that begin at random, `rate` of them a second, in the order in which messages are sent.

    pause              mean seconds from one message of a session to its next, exponential
    messages, outputs  tokens, log-uniform between the ends
    """
    draw, out = Random(seed), []
    for session, arrival in enumerate(poisson(sessions, rate, seed + 1)):
        for _ in range(turns_each):
            out.append(Turn(arrival, session, *_drawn(draw, messages, outputs)))
            arrival += draw.expovariate(1 / pause)
    return tuple(sorted(out))


@formula
def in_session(message: Count, answer: Count, turns: Count, hits: float = 0.0) -> tuple[float, float]:
    """Tokens of a prompt in the mean over the turns of a session, in which each prompt holds all before it, and the share in caches.

    hits  share of a message itself that is in caches

    >>> in_session(1000, 500, turns=3), in_session(1000, 500, turns=1, hits=0.25)
    ((2500.0, 0.6), (1000.0, 0.25))
    """
    prompt = message * (turns + 1) / 2 + answer * (turns - 1) / 2
    return prompt, 1 - message * (1 - hits) / prompt


@formula
def shared_prefixes(messages: Iterable[Turn], system: int, page: Count = 1) -> tuple[Request, ...]:
    """The requests of these turns: each has the `system` prompt, all of its session so far, and the new message.

    known is what a prefix cache has of it that never forgets and keeps whole pages: the system prompt from the second request
    on, and from a session's second turn its last prompt and answer, without the answer's last token, which was never read. The
    cache is taken to have it at once: a message that comes before the last answer is there would find less.

    >>> [tuple(r) for r in shared_prefixes([Turn(0, 0, 10, 5), Turn(1, 1, 20, 5), Turn(2, 0, 8, 5)], system=100, page=16)]
    [(0, 110, 5, 0), (1, 120, 5, 96), (2, 123, 5, 112)]
    """
    lengths, out = {}, []
    for turn in sorted(messages):
        before = lengths.get(turn.session)
        prompt = (system if before is None else before) + turn.message
        seen = before - 1 if before is not None else system if lengths else 0
        out.append(Request(turn.arrival, prompt, turn.output, seen // page * page))
        lengths[turn.session] = prompt + turn.output
    return tuple(out)


def _rate(rate):
    if rate <= 0:
        raise ValueError(f"requests come at a rate above 0 a second, not {rate}")
    return rate
