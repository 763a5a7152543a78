"""Collectives along one axis, step by step: which device holds which block, and what crosses which link (chapter 2).

A simulation in plain Python, without JAX: each `Frame` is drawn by `helpers.plot.sharding.collective_steps`, in a notebook and on a page.
Blocks move one link in a step. A ReduceScatter is an AllGather run backwards, with sums in place of copies.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from helpers.arguments import entries

from .sharded_array import Axis

Block = int | tuple[int, int]
Held = tuple[Mapping[Block, frozenset[int]], ...]


@dataclass(frozen=True)
class Send:
    """One block over one link in one step.

    way    +1 to the device with the next number (round a ring: from the last to the first), -1 the other way
    block  its number; in an AllToAll (from device, to device)
    parts  the devices whose partial sums are in it; in an AllToAll which halves it is: {1}, {-1} or both
    share  how much of a block this is: 1, or half of one
    """

    src: int
    dst: int
    way: int
    block: Block
    parts: frozenset[int] = frozenset()
    share: float = 1


@dataclass(frozen=True)
class Frame:
    """What devices hold when a step begins, and what they do in it.

    held   for each device {block: parts}, parts as in `Send`
    sends  blocks that cross links in this step
    works  for each device the blocks it multiplies in this step (collective matmuls only)
    done   for each device the blocks whose product is finished (AllGather-matmul only)
    text   the step in words
    """

    label: str
    held: Held
    sends: tuple[Send, ...]
    works: tuple[frozenset[int], ...]
    done: tuple[frozenset[int], ...]
    text: str


@dataclass(frozen=True)
class Film:
    """A collective along `axis`, as frames; the last one shows the end."""

    kind: str
    axis: Axis
    ways: int
    frames: tuple[Frame, ...]

    @property
    def hops(self) -> int:
        """Steps in which anything is sent."""
        return sum(bool(f.sends) for f in self.frames)

    def links(self) -> Counter:
        """Blocks over each link in each direction, {(from, to, way): blocks}.

        >>> all_gather(Axis(4, wraps=False)).links()[2, 3, 1]
        3
        """
        return _tally(self.frames)

    @property
    def busiest(self) -> float:
        """Blocks over the busiest link in one direction; round a ring an AllReduce's two halves follow each other, so theirs add up.

        >>> all_gather(Axis(4), ways=1).busiest, all_gather(Axis(4)).busiest, all_to_all(Axis(4)).busiest
        (3, 2, 2.0)
        """
        half = self.hops // 2 if self.kind == "AllReduce" and _turns(self.axis, self.ways) else 0
        return sum(max(_tally(part).values(), default=0) for part in (self.frames[:half], self.frames[half:]))

    @property
    def alt(self) -> str:
        """The film in words: what it is, then every step."""
        shape = "ring" if self.axis.wraps else "line"
        both = "both ways" if self.ways == 2 else "one way"
        return f"{self.kind} over a {shape} of {self.axis.n} devices, links used {both}. " + " ".join(
            f.text for f in self.frames
        )


def all_gather(axis: Axis, ways: int = 2) -> Film:
    """Device d starts with block d; all end with all blocks.

    >>> film = all_gather(Axis(4))
    >>> film.hops, [sorted(h) for h in film.frames[-1].held]
    (2, [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]])
    """
    start = tuple({d: frozenset({d})} for d in range(axis.n))
    moments = list(_copying(start, _gather_steps(axis, ways)))
    return _film("AllGather", axis, ways, moments, f"Every device holds all {axis.n} blocks.")


def reduce_scatter(axis: Axis, ways: int = 2) -> Film:
    """Device d starts with its partial sum of every block; it ends with block d, summed over all devices.

    >>> [dict(h) for h in reduce_scatter(Axis(2)).frames[-1].held]
    [{0: frozenset({0, 1})}, {1: frozenset({0, 1})}]
    """
    moments = list(_adding(_summands(axis.n), _scatter_steps(axis, ways)))
    return _film("ReduceScatter", axis, ways, moments, f"Device d holds block d, the sum of all {axis.n} partial sums.")


def all_reduce(axis: Axis, ways: int = 2) -> Film:
    """All end with the sum of every block: round a ring by a ReduceScatter, then an AllGather of the sums.

    Along a line by partial sums that run to the middle and sums that run back, the blocks one step apart.

    >>> film = all_reduce(Axis(4, wraps=False))
    >>> film.hops, film.busiest, set(film.links().values())
    (6, 4, {4})
    """
    if not _turns(axis, ways):
        moments = list(_chained(_summands(axis.n), _chain_steps(axis, ways)))
        return _film("AllReduce", axis, ways, moments, "Every device holds the sum of every block.")
    first = list(_adding(_summands(axis.n), _scatter_steps(axis, ways)))
    then = _copying(first[-1][0], _gather_steps(axis, ways))
    return _film("AllReduce", axis, ways, first[:-1] + list(then), "Every device holds the sum of every block.")


def all_to_all(axis: Axis, ways: int = 2) -> Film:
    """Device s starts with block (s, d) for every d; device d ends with block (s, d) from every s.

    Each block takes the shorter way; the one for the opposite device of an even ring goes half each way.

    >>> film = all_to_all(Axis(4), ways=1)
    >>> film.hops, film.busiest, sorted(film.frames[-1].held[2])
    (3, 6, [(0, 2), (1, 2), (2, 2), (3, 2)])
    """
    n, halves = axis.n, frozenset({1, -1})
    held = tuple({(s, d): halves for d in range(n)} for s in range(n))
    moments = []
    while sends := [s for at in range(n) for s in _onward(at, held[at], axis, ways)]:
        moments.append((held, tuple(sends)))
        held = tuple(dict(h) for h in held)
        for s in sends:
            held[s.src][s.block] = held[s.src][s.block] - s.parts
        for s in sends:
            held[s.dst][s.block] = held[s.dst].get(s.block, frozenset()) | s.parts
        held = tuple({b: parts for b, parts in h.items() if parts} for h in held)
    moments.append((held, ()))
    return _film("AllToAll", axis, ways, moments, "Device d holds the blocks for d from every device.")


def gather_matmul(axis: Axis, ways: int = 2) -> Film:
    """AllGather and matmul overlapped: A[I_X, J] · B[J, K_X], a block of A multiplied while it is sent on.

    All end with every block of their columns of the product; nobody ever holds all of A.
    """
    n, steps = axis.n, _gather_steps(axis, ways)
    held = tuple({d: frozenset({d})} for d in range(n))
    done, moments = [frozenset()] * n, []
    for sends in [*steps, ()]:
        sends = tuple(replace(s, parts=frozenset({s.block})) for s in sends)
        works = tuple(frozenset(h) - done[d] for d, h in enumerate(held))
        moments.append((held, sends, works, tuple(done)))
        done = [done[d] | works[d] for d in range(n)]
        later = {(s.src, s.block) for step in steps[len(moments) :] for s in step}
        held = tuple({b: p for b, p in h.items() if (d, b) in later} for d, h in enumerate(held))
        for s in sends:
            held[s.dst][s.block] = s.parts
    moments.append((tuple({} for _ in range(n)), (), _nothing(n), tuple(done)))
    return _film("AllGather-matmul", axis, ways, moments, "Every device has all blocks of its columns of the product.")


def matmul_scatter(axis: Axis, ways: int = 2) -> Film:
    """Matmul and ReduceScatter overlapped: A[I, J_X] · B[J_X, K], a block's partial sum made just before it is needed.

    Device d ends with block d of the product; nobody ever holds all of a partial sum.
    """
    n, steps = axis.n, _scatter_steps(axis, ways)
    needed = [[{s.block for s in step if s.src == d} for d in range(n)] for step in steps] + [[{d} for d in range(n)]]
    held, moments = tuple({} for _ in range(n)), []
    for t, sends in enumerate([(), *steps]):
        sends = tuple(replace(s, parts=held[s.src][s.block]) for s in sends)
        works = tuple(frozenset(needed[t][d]) for d in range(n))
        moments.append((held, sends, works, _nothing(n)))
        held = _after_sums(held, sends)
        for d in range(n):
            for b in works[d]:
                held[d][b] = held[d].get(b, frozenset()) | {d}
    moments.append((held, (), _nothing(n), _nothing(n)))
    return _film("Matmul-ReduceScatter", axis, ways, moments, "Device d holds block d of the product.")


def _tally(frames) -> Counter:
    tally = Counter()
    for s in (s for f in frames for s in f.sends):
        tally[s.src, s.dst, s.way] += s.share
    return tally


def _summands(n: int) -> Held:
    return tuple({b: frozenset({d}) for b in range(n)} for d in range(n))


def _nothing(n: int) -> tuple[frozenset[int], ...]:
    return (frozenset(),) * n


def _gather_steps(axis: Axis, ways: int) -> list[list[Send]]:
    """The sends of an AllGather. On an even ring the block of the opposite device comes one way only."""
    n, ring = axis.n, axis.wraps and axis.n > 2
    if n < 2:
        raise ValueError(f"a collective needs an axis of 2 or more devices, got {n}")
    if ways not in (1, 2) or (ways == 1 and not axis.wraps):
        raise ValueError(f"links are used both ways, or one way round a ring: ways = {ways} does not fit {axis}")
    up, down = (n - 1, 0) if ways == 1 else (n // 2, (n - 1) // 2) if ring else (n - 1, n - 1)
    steps = []
    for t in range(max(up, down)):
        sends = []
        for d in range(n):
            for way, last in ((1, up), (-1, down)):
                dst, block = d + way, d - way * t
                if t < last and (ring or ways == 1 or (0 <= dst < n and 0 <= block < n)):
                    sends.append(Send(d, dst % n, way, block % n))
        steps.append(sends)
    return steps


def _scatter_steps(axis: Axis, ways: int) -> list[list[Send]]:
    """An AllGather's sends, last first, turned round, and seen in a mirror so that one way is again the same way."""
    end = axis.n - 1
    return [
        [Send(end - s.dst, end - s.src, s.way, end - s.block) for s in step]
        for step in reversed(_gather_steps(axis, ways))
    ]


def _turns(axis: Axis, ways: int) -> bool:
    """Whether an AllReduce goes round; two devices have one link, which is a line."""
    return axis.wraps and (axis.n > 2 or ways == 1)


def _chain_steps(axis: Axis, ways: int) -> list[list[Send]]:
    """The sends of an AllReduce along a line: in step t device d sends block t - d to the right, t - (n-1-d) to the left."""
    _gather_steps(axis, ways)  # the same rules for axes and ways
    n = axis.n
    sends = lambda t: [  # noqa: E731
        Send(d, d + way, way, block)
        for d in range(n)
        for way, block in ((1, t - d), (-1, t - (n - 1 - d)))
        if 0 <= d + way < n and 0 <= block < n
    ]
    return [sends(t) for t in range(2 * n - 2)]


def _chained(held: Held, steps) -> Iterator[tuple[Held, tuple[Send, ...]]]:
    """Moments of a film in which a device gives away a partial sum, unless the other half of it arrives meanwhile."""
    every = frozenset(range(len(held)))
    for step in steps:
        sends = tuple(replace(s, parts=held[s.src][s.block]) for s in step)
        yield held, sends
        held, arriving = tuple(dict(h) for h in held), {(s.dst, s.block) for s in sends}
        for s in sends:
            if s.parts != every and (s.src, s.block) not in arriving:
                held[s.src].pop(s.block, None)
        for s in sends:
            held[s.dst][s.block] = s.parts if s.parts == every else held[s.dst].get(s.block, frozenset()) | s.parts
    yield held, ()


def _copying(held: Held, steps) -> Iterator[tuple[Held, tuple[Send, ...]]]:
    """Moments of a film in which a device keeps what it sends."""
    for step in steps:
        sends = tuple(replace(s, parts=held[s.src][s.block]) for s in step)
        yield held, sends
        held = tuple(dict(h) for h in held)
        for s in sends:
            held[s.dst][s.block] = s.parts
    yield held, ()


def _adding(held: Held, steps) -> Iterator[tuple[Held, tuple[Send, ...]]]:
    """Moments of a film in which a device gives away what it sends, and adds what it receives."""
    for step in steps:
        sends = tuple(replace(s, parts=held[s.src][s.block]) for s in step)
        yield held, sends
        held = _after_sums(held, sends)
    yield held, ()


def _after_sums(held: Held, sends) -> Held:
    held = tuple(dict(h) for h in held)
    for s in sends:
        del held[s.src][s.block]
    for s in sends:
        own = held[s.dst].get(s.block, frozenset())
        if own & s.parts:
            raise AssertionError(f"block {s.block} would count partial sums {sorted(own & s.parts)} twice on {s.dst}")
        held[s.dst][s.block] = own | s.parts
    return held


def _onward(at: int, held: Mapping[Block, frozenset[int]], axis: Axis, ways: int) -> Iterator[Send]:
    """What a device of an AllToAll sends on: everything that is not for itself."""
    _gather_steps(axis, ways)  # the same rules for axes and ways
    n, ring = axis.n, axis.wraps and axis.n > 2
    for (s, d), parts in held.items():
        if d == at:
            continue
        there = (d - s) % n
        if ways == 1:
            way = 1
        elif not ring:
            way = 1 if d > s else -1
        else:
            way = 0 if 2 * there == n else 1 if 2 * there < n else -1
        for w in (way,) if way else sorted(parts, reverse=True):
            mine = parts if way else frozenset({w})
            yield Send(at, (at + w) % n, w, (s, d), mine, 1 if way else 0.5)


def _film(kind: str, axis: Axis, ways: int, moments: list, end: str) -> Film:
    """Labels and words for each moment: (held, sends) or (held, sends, works, done)."""
    n, frames = axis.n, []
    for k, moment in enumerate(moments):
        held, sends, works, done = (*moment, _nothing(n), _nothing(n))[:4]
        last = k == len(moments) - 1
        label = "end" if last else f"step {k + 1} of {len(moments) - 1}"
        said = [end] if last else [w for w in (_works_text(works), _sends_text(sends)) if w]
        frames.append(Frame(label, held, sends, works, done, f"{label.capitalize()}: {' '.join(said)}"))
    return Film(kind, axis, ways, tuple(frames))


def _sends_text(sends) -> str:
    links = {}
    for s in sends:
        half = "half of " if s.share < 1 else ""
        name = f"{s.block[0]} for {s.block[1]}" if isinstance(s.block, tuple) else str(s.block)
        links.setdefault((s.src, s.dst), []).append(half + name)
    return (
        "Sent: " + "; ".join(f"{a} to {b}: block {', '.join(w)}" for (a, b), w in links.items()) + "." if links else ""
    )


def _works_text(works) -> str:
    busy = [f"device {d}: block {', '.join(map(str, sorted(w)))}" for d, w in enumerate(works) if w]
    return "Multiplied: " + "; ".join(busy) + "." if busy else ""


entries(__name__, signed="way")
