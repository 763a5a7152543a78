"""The steps of a plan as frames: who holds what, and what leaves; `explorer.js` has the frames of every collective from `films`.

What crosses links stands in `costs.sharding.collective_steps`. A collective over two axes is shown as one over each, in the order that
sends least; its price has the links of both axes busy at once.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from numpy import base_repr

from helpers.costs.sharding import collective_steps
from helpers.costs.sharding.resharding import Hop
from helpers.costs.sharding.sharded_array import Axis
from helpers.live.words import reading
from helpers.plot.svg import element, word

MAKE = {
    "AllGather": collective_steps.all_gather, "ReduceScatter": collective_steps.reduce_scatter,
    "AllReduce": collective_steps.all_reduce, "AllToAll": collective_steps.all_to_all,
}  # fmt: skip
CELL, LEFT, TOP = 20, 62, 34  # pixels: a cell, room for the devices' names, room for the blocks'


@dataclass(frozen=True)
class Moment:
    """A frame of a step, as numbers.

    held   row for each device along the axis: how much of each block it holds; of a sum, how many partial sums; of an
           AllToAll, how many blocks for each device
    sent   (device, block) that leave in this frame
    out    blocks that the busiest device sends in it
    link   blocks over the busiest link in one direction
    """

    held: tuple[tuple[float, ...], ...]
    sent: frozenset[tuple[int, int]]
    out: float
    link: float


@dataclass(frozen=True)
class Walk:
    """A collective over one axis: its moments, the last one its end, and the bytes of a block."""

    kind: str
    over: str
    axis: Axis
    block: float
    moments: tuple[Moment, ...]

    @property
    def out(self) -> float:
        """Bytes that leave the busiest device in all."""
        return self.block * sum(m.out for m in self.moments)


def walk(kind: str, over: str, axis: Axis, block: float) -> Walk:
    """The frames of one collective along one axis, links used both ways.

    >>> [(m.out, m.link) for m in walk("AllGather", "X", Axis(4, wraps=False), 1.0).moments]
    [(2, 1), (2, 1), (1, 1), (0, 0)]
    """
    if kind == "AllToAll" and axis.link == "dcn":
        return Walk(kind, over, axis, block, tuple(_direct(axis.n)))
    make = MAKE[kind]
    film = make(axis) if axis.link == "ici" else make(Axis(axis.n), 1)  # of other slices: a ring that turns one way
    return Walk(kind, over, axis, block, tuple(_moment(film, f) for f in film.frames))


def _direct(n: int) -> Iterator[Moment]:
    """An AllToAll over a network: in step t each device sends one block, straight to the t-th device after it.

    >>> [sorted(m.sent) for m in _direct(2)]
    [[(0, 1), (1, 0)], []]
    """
    held = [[1.0] * n for _ in range(n)]
    for t in range(1, n):
        sent = frozenset((d, (d + t) % n) for d in range(n))
        yield Moment(tuple(map(tuple, held)), sent, 1, 1)
        for d, to in sent:
            held[d][to] -= 1
            held[to][to] += 1
    yield Moment(tuple(map(tuple, held)), frozenset(), 0, 0)


def _moment(film: collective_steps.CollectiveFilm, frame: collective_steps.Frame) -> Moment:
    n, held = film.axis.n, []
    for h in frame.held:
        row = [0.0] * n
        for block, parts in h.items():
            if film.kind == "AllToAll":
                row[block[1]] += len(parts) / 2
            else:
                row[block] += len(parts)
        held.append(tuple(row))
    sent = frozenset((s.src, s.block[1] if film.kind == "AllToAll" else s.block) for s in frame.sends)
    out, link = Counter(), Counter()
    for s in frame.sends:
        out[s.src] += s.share
        link[s.src, s.way] += s.share
    return Moment(tuple(held), sent, max(out.values(), default=0), max(link.values(), default=0))


def films(axes: Iterable[Axis]) -> dict[str, list[list[dict]]]:
    """The moments of each collective along each of these axes, cell by cell: halves of a block as digits to base 36, 1 for what leaves.

    >>> films([Axis(2, wraps=False)])["AllGather"][0][0]
    {'halves': '2002', 'sent': '1001', 'out': 1, 'link': 1}
    """
    return {kind: [[_cells(m) for m in walk(kind, "", axis, 1.0).moments] for axis in axes] for kind in MAKE}


def _cells(m: Moment) -> dict:
    halves = "".join(base_repr(int(2 * amount), 36) for row in m.held for amount in row)
    sent = "".join(str(int((d, b) in m.sent)) for d, row in enumerate(m.held) for b in range(len(row)))
    return {"halves": halves, "sent": sent, "out": m.out, "link": m.link}


def walks(h: Hop, axes: Mapping[str, Axis], whole: float) -> list[Walk]:
    """A step as collectives along one axis each: none where nothing is sent, or where whole blocks change places.

    Sums are scattered inside slices first, and gathers begin between slices, so that the network carries least.

    whole  bytes of the array without any sharding
    """
    held = whole / prod(axes[a].n for a in {a for cut in h.before[0] for a in cut})
    over_axes, out = sorted(h.axes, key=lambda a: axes[a].link == "dcn"), []

    def go(kind, over):
        nonlocal held
        n = axes[over].n
        out.append(walk(kind, over, axes[over], held if kind == "AllGather" else held / n))
        held *= {"AllGather": n, "ReduceScatter": 1 / n}.get(kind, 1)

    if h.kind == "AllReduce":
        *outer, last = over_axes
        ring = axes[last].link == "dcn" or (axes[last].wraps and axes[last].n > 2)
        for a in outer:
            go("ReduceScatter", a)
        for kind in ("ReduceScatter", "AllGather") if ring else ("AllReduce",):
            go(kind, last)
        for a in reversed(outer):
            go("AllGather", a)
    elif h.kind in ("ReduceScatter", "AllToAll"):
        for a in over_axes:
            go(h.kind, a)
    elif h.kind == "AllGather":
        for a in reversed(over_axes):
            go("AllGather", a)
    return out


def picture(w: Walk, m: Moment) -> str:
    """One frame: a row for each device along the axis, a column for each block; dark = much, thick edge = leaves now."""
    n, most = w.axis.n, 1 if w.kind == "AllGather" else w.axis.n
    out = [word(LEFT + n * CELL / 2, 12, "block for device" if w.kind == "AllToAll" else "block", "middle")]
    for k in range(n):
        out.append(word(LEFT + (k + 0.5) * CELL, TOP - 6, k, "middle"))
        out.append(word(LEFT - 6, TOP + (k + 0.7) * CELL, f"{w.over} = {k}", "end"))
    for d, row in enumerate(m.held):
        for b, amount in enumerate(row):
            x, y, bold = LEFT + b * CELL, TOP + d * CELL, (d, b) in m.sent
            look = {"fill_opacity": f"{0.65 * amount / most:.2f}", "stroke_width": "2.5" if bold else "0.4"}
            out.append(element("rect", x=x + 1, y=y + 1, width=CELL - 2, height=CELL - 2, **look))
            if amount and w.kind != "AllGather":
                out.append(word(x + CELL / 2, y + 14, f"{amount:g}".replace("0.5", "½").replace(".5", "½"), "middle"))
    return "".join(out)


def caption(w: Walk, k: int) -> str:
    """A frame in words.

    >>> caption(walk("AllGather", "X", Axis(4), 2e6), 0)
    'AllGather over X, step 1 of 2: a device sends at most 4.00 MB, a link carries at most 2.00 MB one way.'
    """
    m, last = w.moments[k], len(w.moments) - 1
    head, sent = f"{w.kind} over {w.over}, ", reading(m.out * w.block, "B")
    if k == last:
        return f"{head}end: {reading(w.out, 'B')} have left the busiest device."
    head += f"step {k + 1} of {last}: a device sends "
    if w.axis.link == "dcn":
        return f"{head}{sent} over the network."
    return f"{head}at most {sent}, a link carries at most {reading(m.link * w.block, 'B')} one way."


def out_of_a_device(h: Hop, axes: Mapping[str, Axis], whole: float) -> float:
    """Bytes that leave the busiest device in a step; in a Permute what it holds."""
    if h.kind == "Permute":
        return whole / prod(axes[a].n for a in {a for cut in h.before[0] for a in cut})
    return sum(w.out for w in walks(h, axes, whole))
