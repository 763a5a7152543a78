"""Collectives along one axis, step by step: which device holds which block, and what crosses which link (chapter 2).

A simulation in plain Python, without JAX: each `Frame` is drawn by `helpers.plot.sharding.collective_steps`, in a notebook and on a page.
Blocks move one link in a step. A ReduceScatter is an AllGather run backwards, with sums in place of copies.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from helpers.arguments import Count, formula, record

from .sharded_array import Axis

Block = int | tuple[int, int]
Held = tuple[Mapping[Block, frozenset[int]], ...]


@record(signed="way")
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


@record
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


@record
class CollectiveFilm:
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


@formula
def all_gather(axis: Axis, ways: int = 2) -> CollectiveFilm:
    """Device d starts with block d; all end with all blocks.

    >>> film = all_gather(Axis(4))
    >>> film.hops, [sorted(h) for h in film.frames[-1].held]
    (2, [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]])
    """
    start = tuple({d: frozenset({d})} for d in range(axis.n))
    moments = _moments(start, _gather_steps(axis, ways), keeps_copy=True)
    return _film("AllGather", axis, ways, moments, f"Every device holds all {axis.n} blocks.")


@formula
def reduce_scatter(axis: Axis, ways: int = 2) -> CollectiveFilm:
    """Device d starts with its partial sum of every block; it ends with block d, summed over all devices.

    >>> [dict(h) for h in reduce_scatter(Axis(2)).frames[-1].held]
    [{0: frozenset({0, 1})}, {1: frozenset({0, 1})}]
    """
    moments = _moments(_partial_sums(axis.n), _scatter_steps(axis, ways))
    return _film("ReduceScatter", axis, ways, moments, f"Device d holds block d, the sum of all {axis.n} partial sums.")


@formula
def all_reduce(axis: Axis, ways: int = 2) -> CollectiveFilm:
    """All end with the sum of every block: round a ring by a ReduceScatter, then an AllGather of the sums.

    Along a line by partial sums that run to the middle and sums that run back, the blocks one step apart.

    >>> film = all_reduce(Axis(4, wraps=False))
    >>> film.hops, film.busiest, set(film.links().values())
    (6, 4, {4})
    """
    turns = _turns(axis, ways)
    steps = _scatter_steps(axis, ways) + _gather_steps(axis, ways) if turns else _chain_steps(axis, ways)
    moments = _moments(_partial_sums(axis.n), steps)
    return _film("AllReduce", axis, ways, moments, "Every device holds the sum of every block.")


@formula
def all_to_all(axis: Axis, ways: int = 2) -> CollectiveFilm:
    """Device s starts with block (s, d) for every d; device d ends with block (s, d) from every s.

    Each block takes the shorter way; the one for the opposite device of an even ring goes half each way.

    >>> film = all_to_all(Axis(4), ways=1)
    >>> film.hops, film.busiest, sorted(film.frames[-1].held[2])
    (3, 6, [(0, 2), (1, 2), (2, 2), (3, 2)])
    """
    _gather_steps(axis, ways)  # the same rules for axes and ways
    held, moments = tuple({(s, d): frozenset({1, -1}) for d in range(axis.n)} for s in range(axis.n)), []
    while sends := tuple(s for device, blocks in enumerate(held) for s in _onward(device, blocks, axis, ways)):
        moments.append((held, sends))
        held = _passed(held, sends)
    return _film("AllToAll", axis, ways, [*moments, (held, ())], "Device d holds the blocks for d from every device.")


@formula
def gather_matmul(axis: Axis, ways: int = 2) -> CollectiveFilm:
    """AllGather and matmul overlapped: A[I_X, J] · B[J, K_X], a block of A multiplied while it is sent on.

    All end with every block of their columns of the product; nobody ever holds all of A.
    """
    n, steps = axis.n, _gather_steps(axis, ways)
    held = tuple({d: frozenset({d})} for d in range(n))
    done, moments = [frozenset()] * n, []
    for sends in [*steps, []]:
        sends = tuple(replace(s, parts=frozenset({s.block})) for s in sends)
        works = tuple(frozenset(h) - done[d] for d, h in enumerate(held))
        moments.append((held, sends, works, tuple(done)))
        done = [done[d] | works[d] for d in range(n)]
        later = {(s.src, s.block) for step in steps[len(moments) :] for s in step}
        held = tuple({b: p for b, p in h.items() if (d, b) in later} for d, h in enumerate(held))
        held = _passed(held, sends, keeps_copy=True)
    moments.append((held, (), (frozenset(),) * n, tuple(done)))
    return _film("AllGather-matmul", axis, ways, moments, "Every device has all blocks of its columns of the product.")


@formula
def matmul_scatter(axis: Axis, ways: int = 2) -> CollectiveFilm:
    """Matmul and ReduceScatter overlapped: A[I, J_X] · B[J_X, K], a block's partial sum made just before it is needed.

    Device d ends with block d of the product; nobody ever holds all of a partial sum.
    """
    n, steps = axis.n, _scatter_steps(axis, ways)
    needed = [[{s.block for s in step if s.src == d} for d in range(n)] for step in steps] + [[{d} for d in range(n)]]
    held, moments = tuple({} for _ in range(n)), []
    for t, sends in enumerate([[], *steps]):
        sends = tuple(replace(s, parts=held[s.src][s.block]) for s in sends)
        moments.append((held, sends, tuple(map(frozenset, needed[t])), (frozenset(),) * n))
        held = _passed(held, sends)
        for d, h in enumerate(held):
            h.update({b: h.get(b, frozenset()) | {d} for b in needed[t][d]})
    moments.append((held, ()))
    return _film("Matmul-ReduceScatter", axis, ways, moments, "Device d holds block d of the product.")


def _tally(frames) -> Counter:
    tally = Counter()
    for s in (s for f in frames for s in f.sends):
        tally[s.src, s.dst, s.way] += s.share
    return tally


def _partial_sums(n: int) -> Held:
    return tuple({b: frozenset({d}) for b in range(n)} for d in range(n))


def _gather_steps(axis: Axis, directions: int) -> list[list[Send]]:
    """The sends of an AllGather. On an even ring the block of the opposite device comes one way only."""
    n, ring = axis.n, axis.wraps and axis.n > 2
    if n < 2:
        raise ValueError(f"a collective needs an axis of 2 or more devices, got {n}")
    if directions not in (1, 2) or (directions == 1 and not axis.wraps):
        raise ValueError(f"links are used both ways, or one way round a ring: ways = {directions} does not fit {axis}")
    up, down = (n - 1, 0) if directions == 1 else (n // 2, (n - 1) // 2) if ring else (n - 1, n - 1)
    # Along a line nothing goes beyond the ends, and no block comes from there.
    goes = lambda d, way, t: ring or directions == 1 or (0 <= d + way < n and 0 <= d - way * t < n)  # noqa: E731
    both = [(d, way, last) for d in range(n) for way, last in ((1, up), (-1, down))]
    return [
        [Send(d, (d + way) % n, way, (d - way * t) % n) for d, way, last in both if t < last and goes(d, way, t)]
        for t in range(max(up, down))
    ]


def _scatter_steps(axis: Axis, directions: int) -> list[list[Send]]:
    """An AllGather's sends, last first, turned round, and seen in a mirror so that one way is again the same way."""
    end = axis.n - 1
    return [
        [Send(end - s.dst, end - s.src, s.way, end - s.block) for s in step]
        for step in reversed(_gather_steps(axis, directions))
    ]


def _turns(axis: Axis, directions: int) -> bool:
    """Whether an AllReduce goes round; two devices have one link, which is a line."""
    return axis.wraps and (axis.n > 2 or directions == 1)


def _chain_steps(axis: Axis, directions: int) -> list[list[Send]]:
    """The sends of an AllReduce along a line: in step t device d sends block t - d to the right, t - (n-1-d) to the left."""
    _gather_steps(axis, directions)  # the same rules for axes and ways
    n, steps = axis.n, []
    for t in range(2 * n - 2):
        ways_on = [(d, way, block) for d in range(n) for way, block in ((1, t - d), (-1, t - (n - 1 - d)))]
        steps.append([Send(d, d + way, way, b) for d, way, b in ways_on if 0 <= d + way < n and 0 <= b < n])
    return steps


def _moments(held_blocks: Held, steps, keeps_copy: bool = False) -> Iterator[tuple[Held, tuple[Send, ...]]]:
    """Moments of a film in which devices send all that they have of a block, step by step."""
    for step in steps:
        sends = tuple(replace(s, parts=held_blocks[s.src][s.block]) for s in step)
        yield held_blocks, sends
        held_blocks = _passed(held_blocks, sends, keeps_copy)
    yield held_blocks, ()


def _passed(held_blocks: Held, sends, keeps_copy: bool = False) -> Held:
    """What devices hold after a step. Unless a device `keeps_copy` what it sends, it gives away a partial sum, or another's block.

    A sum that is complete stays, and so does a partial sum whose other half arrives meanwhile.
    """
    held_blocks, every = tuple(dict(h) for h in held_blocks), frozenset(range(len(held_blocks)))
    arriving = {(s.dst, s.block) for s in sends}
    for s in sends:
        if not keeps_copy and s.parts != every and (s.src, s.block) not in arriving:
            held_blocks[s.src][s.block] = held_blocks[s.src][s.block] - s.parts
            if not held_blocks[s.src][s.block]:
                del held_blocks[s.src][s.block]
    for s in sends:
        own = held_blocks[s.dst].get(s.block, frozenset())
        if own & s.parts:
            raise AssertionError(f"block {s.block} would count partial sums {sorted(own & s.parts)} twice on {s.dst}")
        held_blocks[s.dst][s.block] = own | s.parts
    return held_blocks


def _onward(device: int, held_blocks: Mapping[Block, frozenset[int]], axis: Axis, directions: int) -> Iterator[Send]:
    """What a device of an AllToAll sends on: everything that is not for itself."""
    n, ring = axis.n, axis.wraps and axis.n > 2
    for (s, d), parts in held_blocks.items():
        if d == device:
            continue
        # How much farther it is down than up; round a ring that turns one way it goes up.
        farther = 1 if directions == 1 else n - 2 * ((d - s) % n) if ring else d - s
        way = (farther > 0) - (farther < 0)
        for w in (way,) if way else sorted(parts, reverse=True):  # 0: half each way
            yield Send(device, (device + w) % n, w, (s, d), parts if way else frozenset({w}), 1 if way else 0.5)


def _film(kind: str, axis: Axis, directions: int, moments, end_words: str) -> CollectiveFilm:
    """Labels and words for each moment: (held, sends) or (held, sends, works, done)."""
    moments, frames, nothing = list(moments), [], (frozenset(),) * axis.n
    for k, moment in enumerate(moments):
        held, sends, works, done = (*moment, nothing, nothing)[:4]
        last = k == len(moments) - 1
        label = "end" if last else f"step {k + 1} of {len(moments) - 1}"
        busy = [f"device {d}: block {', '.join(map(str, sorted(blocks)))}" for d, blocks in enumerate(works) if blocks]
        text = [f"Multiplied: {'; '.join(busy)}."] if busy else []
        links: dict[tuple, list[str]] = {}
        for s in sends:
            half = "half of " if s.share < 1 else ""
            name = f"{s.block[0]} for {s.block[1]}" if isinstance(s.block, tuple) else str(s.block)
            links.setdefault((s.src, s.dst), []).append(half + name)
        if links:
            text.append("Sent: " + "; ".join(f"{a} to {b}: block {', '.join(w)}" for (a, b), w in links.items()) + ".")
        text = f"{label.capitalize()}: {end_words if last else ' '.join(text)}"
        frames.append(Frame(label, held, sends, works, done, text))
    return CollectiveFilm(kind, axis, directions, tuple(frames))


# A hierarchical AllReduce message by message, as a film shows it.


@record
class Message:
    """Pieces of the array from one chip (domain, index) to another one, which adds them to its own, or keeps them."""

    source: tuple[int, int]
    target: tuple[int, int]
    pieces: tuple[int, ...]
    adds: bool


@record
class Step:
    """Messages that are sent at the same time.

    stage  "ReduceScatter inside", "ReduceScatter across", "AllGather across" or "AllGather inside"
    link   "ici" or "dcn"
    """

    stage: str
    link: str
    messages: tuple[Message, ...]


@formula
def hierarchical_steps(g: Count, m: Count) -> tuple[Step, ...]:
    """All steps of an AllReduce over m domains of g chips: four stages, each of them rings that turn one way.

    The array has g·m pieces, piece p of which ends up with chip p % g, and is summed across by domain p // g.

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


def _together(stage: str, link: str, rings, is_reduction: bool) -> Iterator[Step]:
    """Rings that turn at the same time: member k ends up with `shares[k]` summed, or begins with it."""
    n = len(rings[0][0])
    for step in range(n - 1):
        messages = []
        for chips, shares in rings:
            for k in range(n):
                pieces = shares[(k - step - is_reduction) % n]
                messages.append(Message(chips[k], chips[(k + 1) % n], pieces, is_reduction))
        yield Step(stage, link, tuple(messages))
