"""Loads of requests: arrivals that are even, random or in bursts, lengths beside them, and sessions that share prefixes (chapter 5).

Arrivals are seconds, the first at 0, and the same for the same seed. `request_log.mixed_load` draws lengths and arrivals in one.

Source: arrivals whose gaps have a gamma distribution are what vLLM's `bench serve` sends, and its burstiness is ours; Zheng et
al., "SGLang" (2023), section 3 for what a prefix cache finds again.
"""

from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from helpers.arguments import Count, entries

from .request_log import Request


def even(n: Count, rate) -> tuple[float, ...]:
    """n arrivals, `rate` a second, at equal distances.

    >>> even(4, rate=2)
    (0.0, 0.5, 1.0, 1.5)
    """
    return tuple(i / _rate(rate) for i in range(n))


def poisson(n: Count, rate, seed: int = 0) -> tuple[float, ...]:
    """n arrivals at random, `rate` a second on the average: as of many users who don't know of each other."""
    return bursts(n, rate, 1.0, seed)


def bursts(n: Count, rate, burstiness, seed: int = 0) -> tuple[float, ...]:
    """n arrivals, `rate` a second on the average, that come in bursts.

    burstiness  shape of the gamma distribution of the gaps, whose variance is the squared mean over it: 1 is `poisson`, below
                1 many come close together and long pauses follow, far above 1 they are nearly `even`

    >>> [round(at, 1) for at in bursts(8, rate=1, burstiness=0.1)]
    [0.0, 2.6, 2.6, 2.7, 3.9, 3.9, 9.4, 9.4]
    """
    if burstiness <= 0:
        raise ValueError(f"burstiness is above 0, not {burstiness}")
    draw, at, out = Random(seed), 0.0, []
    for _ in range(n):
        out.append(at)
        at += draw.gammavariate(burstiness, 1 / (_rate(rate) * burstiness))
    return tuple(out)


def load(arrivals: Iterable[float], lengths: Iterable[tuple]) -> tuple[Request, ...]:
    """One request for each arrival and each (prompt, output) tokens.

    >>> load(even(2, rate=4), [(100, 20), (300, 10)])
    (Request(arrival=0.0, prompt=100, output=20, known=0), Request(arrival=0.25, prompt=300, output=10, known=0))
    """
    arrivals, lengths = tuple(arrivals), tuple(lengths)
    if len(arrivals) != len(lengths):
        raise ValueError(f"each request has an arrival and lengths, and these are {len(arrivals)} and {len(lengths)}")
    return tuple(Request(at, prompt, output) for at, (prompt, output) in zip(arrivals, lengths))


class Turn(NamedTuple):
    """A message of a session: when it is sent, tokens of the message, and of the answer to it."""

    arrival: float
    session: int
    message: int
    output: int


def turns(
    sessions: Count,
    each: Count,
    rate,
    pause,
    messages: tuple[int, int] = (16, 256),
    outputs: tuple[int, int] = (16, 256),
    seed: int = 0,
) -> tuple[Turn, ...]:
    """Sessions of `each` turns that begin at random, `rate` of them a second, in the order in which messages are sent.

    pause    mean seconds from one message of a session to its next, exponential
    messages, outputs   tokens, log-uniform between the ends
    """
    for low, high in (messages, outputs):
        if not 1 <= low <= high:
            raise ValueError(f"lengths are drawn from (shortest, longest), of 1 token or more, not from {(low, high)}")
    draw, out = Random(seed), []
    for session, at in enumerate(poisson(sessions, rate, seed + 1)):
        for _ in range(each):
            drawn = (round(low * (high / low) ** draw.random()) for low, high in (messages, outputs))
            out.append(Turn(at, session, *drawn))
            at += draw.expovariate(1 / pause)
    return tuple(sorted(out))


def shared_prefixes(some: Iterable[Turn], system: int, page: Count = 1) -> tuple[Request, ...]:
    """The requests of these turns: each has the `system` prompt, all of its session so far, and the new message.

    known is what a prefix cache has of it that never forgets and keeps whole pages: the system prompt from the second request
    on, and from a session's second turn its last prompt and answer, without the answer's last token, which was never read. The
    cache is taken to have it at once: a message that comes before the last answer is there would find less.

    >>> [tuple(r) for r in shared_prefixes([Turn(0, 0, 10, 5), Turn(1, 1, 20, 5), Turn(2, 0, 8, 5)], system=100, page=16)]
    [(0, 110, 5, 0), (1, 120, 5, 96), (2, 123, 5, 112)]
    """
    lengths, out = {}, []
    for turn in sorted(some):
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


entries(__name__)
