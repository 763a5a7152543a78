"""A hierarchical AllReduce message by message: what a film shows, and what bytes by tier are counted from (chapter 7).

m domains of g chips; the array has g·m pieces, piece p of which ends up with chip p % g, and is summed across by domain p // g.
Four stages: ReduceScatter inside, ReduceScatter across, AllGather across, AllGather inside, each a ring that turns one way.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from helpers.arguments import Count, entries


@dataclass(frozen=True)
class Message:
    """Pieces of the array from one chip (domain, index) to another one, which adds them to its own, or keeps them."""

    source: tuple[int, int]
    target: tuple[int, int]
    pieces: tuple[int, ...]
    adds: bool


@dataclass(frozen=True)
class Step:
    """Messages that are sent at the same time.

    stage  "ReduceScatter inside", "ReduceScatter across", "AllGather across" or "AllGather inside"
    link   "ici" or "dcn"
    """

    stage: str
    link: str
    messages: tuple[Message, ...]


def hierarchical_steps(g: Count, m: Count) -> tuple[Step, ...]:
    """All steps of an AllReduce over m domains of g chips.

    >>> steps = hierarchical_steps(4, 2)
    >>> [(s.stage, len(s.messages), len(s.messages[0].pieces)) for s in steps][::3]
    [('ReduceScatter inside', 8, 2), ('ReduceScatter across', 8, 1), ('AllGather inside', 8, 2)]
    >>> steps[3].messages[0]
    Message(source=(0, 0), target=(1, 0), pieces=(4,), adds=True)
    """
    mine = [tuple(p for p in range(g * m) if p % g == i) for i in range(g)]
    inside = [([(d, i) for i in range(g)], mine) for d in range(m)]
    across = [([(d, i) for d in range(m)], [(d * g + i,) for d in range(m)]) for i in range(g)]
    return (
        *_together("ReduceScatter inside", "ici", inside, True),
        *_together("ReduceScatter across", "dcn", across, True),
        *_together("AllGather across", "dcn", across, False),
        *_together("AllGather inside", "ici", inside, False),
    )


def _together(stage: str, link: str, rings, adds: bool) -> Iterator[Step]:
    """Rings that turn at the same time: member k ends up with `shares[k]` summed, or begins with it."""
    n = len(rings[0][0])
    for step in range(n - 1):
        messages = []
        for chips, shares in rings:
            for k in range(n):
                pieces = shares[(k - step - adds) % n]
                messages.append(Message(chips[k], chips[(k + 1) % n], pieces, adds))
        yield Step(stage, link, tuple(messages))


entries(__name__)
