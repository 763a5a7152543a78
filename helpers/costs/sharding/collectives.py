"""What a collective sends over links, and how long it takes (chapter 2).

Each formula gives a `roofline.Move`: the bytes over the busiest link in ONE direction, and the hops one after the other.
`seconds` prices it: a hop cannot take less than `hop`, a link carries W bytes/s one way (v5e 4.5e10).
Texts that write W_ici mean both directions, 2W.

V      bytes of the array on one device where it is whole along these axes: after an AllGather, before a
       ReduceScatter or AllReduce; for an AllToAll all shards of the axes together.
       Axes that stay sharded have already divided it: AllGather_X(bf16[B_X, D_Y]) has V = 2·B·D / |Y|.
axes   the rings and lines gathered over: an `Axis`, or a tuple of them, as from `Mesh.wires`
ways   2 if links are used in both directions at once, 1 for a ring that turns one way

Source: Austin et al. 2025, Section 3; derivations in the book's chapter 2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import prod
from typing import Literal

from helpers.arguments import Count, formula, record, whole
from helpers.costs.rooflines.roofline import Move
from helpers.costs.rooflines.torus import HOP
from helpers.numeric import floor, maximum, nonzero, plain, where

from .sharded_array import Axis, Mesh, bytes_each

Ways = Literal[1, 2]
KINDS = ("AllGather", "ReduceScatter", "AllReduce", "AllToAll", "Permute")


@formula
def all_gather(V, axes, ways: Ways = 2) -> Move:
    """Every device ends with every shard.

    One way round a ring of n, a shard of V/n crosses each link n-1 times.
    Both ways, `Axis.steps` times: n//2 on a ring, n-1 on a line (the end hears from everybody over one link).
    So an axis delivers n·W/steps bytes/s, 2W on a ring of even n; several axes add up, and so do their hops.
    Nor can the worst-placed chip receive what it lacks faster than its links carry it: over several axes of which one
    is a line, an odd ring or two chips, that may decide. (No one schedule reaches both limits, bytes and hops; their
    maximum is what texts and we call the time.
    On an even ring the farthest shard could come half from each side, which saves V/(2n) a link; it is not counted on.)

    >>> e = 2 * 2048 * 8192                                    # bf16[E_Y, F] on Y = 4 of a v5e
    >>> f"{seconds(all_gather(e, Axis(4, wraps=False)), 4.5e10):.4g} {seconds(all_gather(e, Axis(4)), 4.5e10):.4g}"
    '0.0005592 0.0003728'
    >>> x = Axis(4); v = 2 * 1024 * 4096                       # v4p 4x4x4
    >>> f"{seconds(all_gather(v / 4, x), 4.5e10):.3g} {seconds(all_gather(v, (x, x)), 4.5e10):.3g}"
    '2.33e-05 4.66e-05'
    >>> seconds(all_gather(2 * 128, x), 4.5e10)                # 256 bytes: two hops, nothing else
    2e-06
    """
    axes = _axes(axes)
    steps = [_steps(a, ways) for a in axes]
    # n/steps shards of the axis arrive while a link carries one; an axis of one chip adds nothing.
    rate = sum(where(a.n > 1, a.n / (nonzero(s) * a.stride), 0) for a, s in zip(axes, steps))
    # Links over which the worst-placed chip receives: the end of a line has one.
    ports = sum(where(a.n > 1, where((a.n > 2) & (ways == 2) & a.wraps, 2, 1), 0) / a.stride for a in axes)
    missing = 1 - 1 / prod(a.n for a in axes)
    most = maximum(where(rate > 0, 1 / nonzero(rate), 0.0), missing / nonzero(ports))
    return Move("ici", V * most, _hops(axes, steps))


@formula
def reduce_scatter(V, axes, ways: Ways = 2) -> Move:
    """Every device ends with the sum of one shard: an AllGather run backwards, with the same bytes and hops."""
    return all_gather(V, axes, ways)


@formula
def all_reduce(V, axes, ways: Ways = 2) -> Move:
    """Every device ends with the whole sum.

    Round a ring a ReduceScatter, then an AllGather: twice the bytes and hops of one.
    Along a line of n chips V bytes cross each link in each direction, in n-1 hops: from both ends partial sums run to the
    middle, each chip adding its own, and the whole sum runs back. Cut into chunks, which follow each other one hop
    apart, this keeps all links busy from end to end (`chained`); the chips on one side of a link have to learn V bytes from
    those on the other side, so no program does with less. A ReduceScatter and an AllGather would take 2(n-1)/n times as
    long: each keeps only the links at one end busy.

    Over several axes rates and hops add up. But there is no sum without 2·(N-1) sends of V between N chips, N-1 to
    bring the partial sums together and N-1 to spread the result (Patarasuk and Yuan 2009), and they share the links that there are:
    on a grid of lines that decides. Spanning trees, one for each part of the array, reach it (Nash-Williams 1961).

    >>> f"{seconds(all_reduce(2 * 1024 * 4096 / 16, Axis(4)), 4.5e10):.3g}"        # AllReduce_Z([B_X, D_Y] {U_Z})
    '1.17e-05'
    >>> all_reduce(1.0, Axis(8, wraps=False)), all_reduce(1.0, Axis(8)).bytes
    (Move(link='ici', bytes=1.0, hops=7), 1.0)
    >>> grid = Axis(4, wraps=False), Axis(4, wraps=False)
    >>> all_reduce(1.0, grid).bytes, 2 * 15 / (2 * 24)          # 24 links, two wires each
    (0.625, 0.625)
    """
    axes = _axes(axes)
    rate, hops = 0.0, 0
    for a in axes:
        steps = _steps(a, ways)
        # Two chips have one link, which is a line, unless it turns one way.
        turns = (a.n > 2) & a.wraps if ways == 2 else a.n > 1
        rate = rate + where(a.n > 1, where(turns, a.n / nonzero(2 * steps), 1.0) / a.stride, 0.0)
        hops = hops + where(turns, 2 * steps, a.n - 1) * a.stride
    chips, wires = prod(a.n for a in axes), sum(_wires(a, ways) / a.stride for a in axes)
    sends = 2 * (chips - 1) / chips
    return Move("ici", V * maximum(where(rate > 0, 1 / nonzero(rate), 0.0), sends / nonzero(wires)), hops)


@formula
def all_to_all(V, axes, ways: Ways = 2) -> Move:
    """Every device sends another block of its shard to each other one: a subscript moves to another dimension.

    Over one axis of n devices a block is V/n². A link carries, one way: n(n-1)/2 blocks of a ring that turns one way;
    n²/8 of a ring of even n that turns both ways (the block for the opposite device is cut in half), (n²-1)/8 of odd n;
    ⌊n/2⌋·⌈n/2⌉ in the middle of a line. Over several axes blocks go axis by axis, all axes at once: the longest decides.

    >>> v, ring = 1.0, Axis(8)
    >>> all_to_all(v, ring, ways=1).bytes == 7 / 16, all_to_all(v, ring).bytes == all_gather(v, ring).bytes / 4
    (True, True)
    >>> all_to_all(v, (Axis(4), Axis(8))).bytes == v * 8 / (8 * 32)                # V·max/(8N) one way
    True
    """
    axes = _axes(axes)
    devices = prod(a.n for a in axes)
    loads = [V / devices * _blocks(a, ways) / a.n * a.stride for a in axes]
    return Move("ici", maximum(*loads) if len(loads) > 1 else loads[0], _hops(axes, [_steps(a, ways) for a in axes]))


@formula
def domains_reached(k, m, E: float | None = None, limit: float | None = None):
    """Domains that have an expert of a token, of m that share E experts evenly, at random.

    E      left out: experts so many that the same one may be drawn twice; else k is a whole number, and one of Python's
    limit  the token's k experts lie in at most so many domains, chosen first and at random (DeepSeek-V3 takes the best four:
           `experts.exchange.groups_met`)

    Of a domain a token chooses none with probability (1 - 1/m)^k, or without drawing twice C(E - E/m, k) / C(E, k).

    >>> round(domains_reached(8, 8), 2), round(domains_reached(8, 8, E=256), 2), round(domains_reached(8, 8, E=256, limit=4), 2)
    (5.25, 5.29, 3.63)
    """
    if limit is not None and limit < m:
        return domains_reached(k, limit, None if E is None else E * limit / m)
    if E is None:
        return m * (1 - (1 - 1 / m) ** k)
    whole(0, k=k)
    if plain(E) and k > E:
        raise ValueError(f"a token's {k} experts are different ones, and {m} domains have {E:g}")
    none = 1.0
    for i in range(int(k)):
        none = none * maximum(E - E / m - i, 0.0) / (E - i)
    return m * (1 - none)


@formula
def scramble(V, axes) -> Move:
    """A permutation of devices along these axes, at worst: every device sends V bytes to some other one.

    Reordering a subscript, I_XY to I_YX, is one. On a line of n all those on one side of the middle may have to cross it,
    ⌊n/2⌋ arrays. On a ring the worst is the farthest shift: n/4 arrays, (n²-1)/(4n) for odd n.
    No routing does better; one that goes axis by axis may load a link up to twice as much.

    >>> scramble(1.0, Axis(5)).bytes, scramble(1.0, Axis(5, wraps=False)).bytes
    (1.2, 2.0)
    """
    axes = _axes(axes)
    loads = [V * where((a.n > 2) & a.wraps, (a.n * a.n - a.n % 2) / (4 * a.n), floor(a.n / 2) * 1.0) for a in axes]
    return Move("ici", maximum(*loads) if len(loads) > 1 else loads[0], sum(a.steps for a in axes))


@formula
def seconds(move: Move, W, hop=HOP):
    """Seconds of a move over links of W bytes/s one way: bandwidth or latency, whichever takes longer.

    >>> seconds(Move("ici", 4.5e4, hops=8), 4.5e10)             # 45 kB over 8 hops of 1 us: latency
    8e-06
    """
    return maximum(hop * move.hops, move.bytes / W)


@formula
def bandwidth(V, axes, W, hop=HOP, directions: Ways = 2):
    """Bytes/s that an AllGather of V bytes reaches: V over its time. It grows with V up to the links' rate.

    >>> f"{bandwidth(1e9, Axis(16), 4.5e10):.3g} {bandwidth(1e4, Axis(16), 4.5e10):.3g}"
    '9e+10 1.25e+09'
    """
    _wired(axes)
    return V / seconds(all_gather(V, axes, directions), W, hop)


@formula
def crossover(axes, W, hop=HOP, directions: Ways = 2):
    """V below which an AllGather is bound by latency. Over one axis each shard is then a hop's worth of bytes, W·hop.

    >>> round(crossover(Axis(8), 4.5e10)), round(crossover(Axis(8), 4.5e10) / 8)
    (360000, 45000)
    """
    _wired(axes)
    whole = all_gather(1.0, axes, directions)
    return hop * whole.hops * W / whole.bytes


@formula
def overlapped(math, send, devices: Count, directions: Ways = 2):
    """Seconds of an AllGather over a ring of devices whose blocks are multiplied as they pass: a collective matmul.

    math  seconds to multiply one block, of n
    send  seconds of one block over a link

    Beside the first hop a chip multiplies its own block, beside each later one what has just come (two blocks if both ways
    are used), and after the last hop what came last. The reversed ring, a product that is scattered, takes the same.

    >>> overlapped(1.0, 1.0, 4), overlapped(1.0, 1.0, 4, directions=1), overlapped(0.0, 3.0, 8), overlapped(1.0, 0.0, 8)
    (4.0, 4.0, 12.0, 8.0)
    """
    if directions == 1:
        return (devices - 1) * maximum(math, send) + math
    last = where(devices % 2 == 0, 1, 2) * math
    return where(devices > 1, maximum(math, send) + (floor(devices / 2) - 1) * maximum(2 * math, send) + last, math)


@formula
def chained(V, n: Count, chunks: Count, W, hop=HOP):
    """Seconds of an AllReduce along a line of n chips in which V bytes travel as `chunks` chunks, one hop apart.

    The first chunk takes n-1 hops, to the middle and back to the ends, and each later one arrives one step after it.
    No program is faster with these chunks: what one end adds needs n-1 steps to the other, and the rest comes behind it.
    Many chunks approach V/W, the price that `all_reduce` has, which leaves out the n-2 hops until the links are all busy.
    A chunk of less than W·hop bytes makes no step shorter, so the best number is about V/(W·hop).

    >>> [round(chained(1.0, 8, m, 1.0, 0.0), 3) for m in (1, 8, 64, 1000)]
    [7.0, 1.75, 1.094, 1.006]
    """
    return where(n > 1, (n - 2 + chunks) * maximum(hop, V / chunks / W), 0.0)


@formula
def over_dcn(
    kind: Literal["AllGather", "ReduceScatter", "AllReduce"], V, axes, pods, directions: Ways = 2
) -> tuple[Move, ...]:
    """A collective over the slices' own axes and over `pods` of them, joined by the data-centre network.

    ReduceScatter inside, then across pods, then AllGather inside: so over the network each of a slice's n chips
    works on V/n bytes only. An AllGather is the last two of these, a ReduceScatter the first two.
    Every chip of a slice talks to its counterparts in the other pods, round a ring over its own share of the network.
    Between pods bytes are those that one chip sends; a hop of the network is not a hop of ICI, so none is counted.

    kind        "AllGather", "ReduceScatter" or "AllReduce"
    directions  1 where the chips inside stand behind a switch: W is then that of all links of a chip, in one direction

    >>> [(m.link, round(m.bytes / 1e6, 3)) for m in over_dcn("AllReduce", 1e9, Axis(16), 4)]
    [('ici', 500.0), ('dcn', 93.75), ('ici', 500.0)]
    """
    n = prod(a.n for a in _axes(axes))
    half, across = all_gather(V, axes, directions), V / n * (pods - 1) / pods
    if kind == "AllReduce":
        return (half, Move("dcn", 2 * across), half)
    return (Move("dcn", across), half) if kind == "AllGather" else (half, Move("dcn", across))


@record
class Collective:
    """One collective of a program, as one device sees it.

    kind   one of `KINDS`
    axes   mesh axes it runs over, in order
    shape  the device's operand; for an AllToAll, AllGather or Permute its shard
    out    the device's result
    dtype  type of the numbers sent
    times  how often it runs
    within devices of a group, where it runs in groups of fewer than its axes have together; None: all of them

    Plans and traced programs both make these, so that "the program sends what the plan says" is equality.
    """

    kind: Literal[*KINDS]
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    out: tuple[int, ...]
    dtype: str = "bf16"
    times: int = 1
    note: str = field(default="", compare=False)
    within: int | None = None

    @property
    def bytes(self) -> float:
        """V of one run: see the module. For an AllToAll that takes the mesh: `V(mesh)`."""
        return bytes_each(self.dtype) * prod(self.out if self.kind == "AllGather" else self.shape)

    def V(self, mesh: Mesh | Mapping[str, int]) -> float:
        """Bytes of the array on one device where it is whole along the axes; for an AllToAll all shards together."""
        return self.bytes * (self.members(mesh) if self.kind == "AllToAll" else 1)

    def members(self, mesh: Mesh | Mapping[str, int]) -> int:
        """Devices that exchange with one another."""
        return mesh.size(self.axes) if self.within is None else self.within

    def wire(self, mesh: Mesh | Mapping[str, int]) -> float:
        """Bytes that one device sends in all runs, by the ring algorithms that turn one way.

        Of an AllToAll its own blocks are counted, not those that it passes on; `move` has the load of a link.

        >>> Collective("AllReduce", ("X",), (8, 16), (8, 16), "f32").wire(Mesh({"X": 4}))
        768.0
        """
        n = self.members(mesh)
        share = {"AllReduce": 2 * (n - 1) / n, "Permute": 1.0}.get(self.kind, (n - 1) / n)
        return self.times * self.bytes * share

    def move(self, mesh: Mesh, directions: Ways = 2) -> Move:
        """What it sends over the busiest link of this mesh, all runs."""
        if self.within is not None:
            raise ValueError(f"{self}: which links a group shares is not known, so time it along whole axes of a mesh")
        axes = mesh.wires(self.axes)
        if any(a.link == "dcn" for a in axes):
            raise ValueError(f"{self}: an axis lies over the network, which `collective_prices` has")
        if self.kind == "Permute":
            once = scramble(self.bytes, axes)
        else:
            formula = {"AllReduce": all_reduce, "AllToAll": all_to_all}.get(self.kind, all_gather)
            once = formula(self.V(mesh), axes, directions)
        return Move("ici", once.bytes * self.times, once.hops * self.times)

    def __str__(self) -> str:
        runs = f"{self.times:,} x " if self.times != 1 else ""
        where_ = "".join(self.axes) + (f" in groups of {self.within}" if self.within else "")
        return f"{runs}{self.kind}_{where_} {self.dtype}{list(self.shape)} -> {list(self.out)}"


def _axes(axes) -> Sequence[Axis]:
    several = (axes,) if isinstance(axes, Axis) else axes if isinstance(axes, tuple | list) else ()
    if not several or not all(isinstance(a, Axis) for a in several):
        raise ValueError(
            f"a collective runs over at least one axis, an Axis or several of them such as Axis(4), not {axes!r}"
        )
    return several


def _wired(axes) -> None:
    """ValueError for one chip alone: its AllGather sends nothing, so it has no bandwidth."""
    if all(plain(a.n) and a.n == 1 for a in _axes(axes)):
        raise ValueError("an AllGather over one chip sends nothing and takes no time: give an axis of 2 or more chips")


def _steps(axis: Axis, directions: int):
    """Hops one after the other."""
    if directions == 1 and axis.wraps is False:
        raise ValueError("along a line nothing comes round: an axis without wraparound needs both ways")
    return axis.n - 1 if directions == 1 else axis.steps


def _hops(axes: Sequence[Axis], steps: Sequence):
    """Hops of all axes: from one member of an axis to the next there are as many as its stride."""
    return sum(n * a.stride for a, n in zip(axes, steps))


def _wires(axis: Axis, directions: int):
    """Wires that lead out of a chip along an axis, on average: the ends of a line have one, the others two."""
    if directions == 1:
        return where(axis.n > 1, 1, 0)
    return where((axis.n > 2) & axis.wraps, 2, 2 * (axis.n - 1) / axis.n)


def _blocks(axis: Axis, directions: int):
    """Blocks that the busiest link of an AllToAll carries in one direction."""
    n = axis.n
    if directions == 1:
        _steps(axis, directions)
        return n * (n - 1) / 2
    half = floor(n / 2)
    ring = where(n == 2, 1, (n * n - n % 2) / 8)  # two chips have one link: nothing to cut in half
    return where(axis.wraps, ring, half * (n - half))
