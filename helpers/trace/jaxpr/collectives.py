"""What a sharded program sends: every collective of its jaxpr, as `costs.sharding.collectives.Collective` (chapter 2).

The jaxpr says what the program asks for, the same on every machine; what a compiler makes of it may differ.
Collectives that a compiler adds by itself are not there: along Auto axes nothing shows them, along Explicit axes the types of
operands and results tell that an operation needs one, and `Sent.doubts` says so.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, prod

import jax
import numpy as np

from helpers import show
from helpers.costs.sharding.collectives import KINDS, Collective

from .equation_costs import COLLECTIVES, MATMULS, VIEWS, flops, is_literal, nbytes, short, size
from .walk import Visit, walk

# Operations after which an array is still the same array, for `merged`.
SAME = frozenset("reshape squeeze transpose broadcast_in_dim copy pvary sharding_constraint name".split())
# Of two AllReduces each sends more than its part of one over both axes: 2(y-1)/y + 2(z-1)/z > 2(yz-1)/yz.
MERGES = frozenset(["AllGather", "ReduceScatter", "AllToAll"])

UNKNOWN_TRIPS = "A while loop does not say how often it runs: what it sends is counted once."
BRANCHES = "Branches of a cond send different things: only the one that sends most is counted."


class Sizes(dict):
    """Axis sizes as `Collective.wire` asks a mesh for them; any names will do."""

    def size(self, names) -> int:
        return prod(self[n] for n in names)


class Sent(show.Table, tuple):
    """Collectives in program order: a tuple of `Collective`, printed as a table.

    sizes   devices along each axis of the mesh
    doubts  one sentence for each thing that makes the list less than exact
    feeds   for each collective the number of the one whose result it sends on, or None
    """

    head = ("kind", "axes", "each device has", "and gets", "runs", "bytes sent", "in")

    def __new__(
        cls, collectives: Iterable[Collective] = (), sizes: Mapping[str, int] | None = None, doubts=(), feeds=()
    ):
        self = super().__new__(cls, collectives)
        self.sizes, self.doubts = Sizes(sizes or {}), tuple(doubts)
        self.feeds = tuple(feeds) or (None,) * len(self)
        return self

    @property
    def kinds(self) -> dict[str, int]:
        """How often each kind runs: {"AllGather": 2, "ReduceScatter": 1}."""
        runs = {k: sum(c.times for c in self if c.kind == k) for k in KINDS}
        return {k: n for k, n in runs.items() if n}

    @property
    def wire(self) -> float:
        """Bytes that one device sends in all, by the ring algorithms."""
        return sum(self.by_axis.values())

    @property
    def by_axis(self) -> dict[str, float]:
        """Bytes that one device sends, by the axes that the collectives run over: {"X": 1536.0, "XY": 64.0}."""
        out = Counter()
        for c in self:
            out["".join(c.axes)] += c.wire(self.sizes)
        return dict(out)

    def along(self, axis: str) -> float:
        """Bytes that one device sends by the collectives over this axis, alone or with others."""
        return sum(c.wire(self.sizes) for c in self if axis in c.axes)

    def rows(self) -> list[tuple[str, ...]]:
        """The table, line by line: kind, axes, operand, result, runs, bytes that a device sends, where it stands."""
        rows = []
        for c in self:
            axes = "".join(c.axes) + (f", groups of {c.within}" if c.within else "")
            arrays = f"{c.dtype}{list(c.shape)}", f"{c.dtype}{list(c.out)}"
            rows.append((c.kind, axes, *arrays, f"{c.times:,}", show.bytes(c.wire(self.sizes)), c.note))
        return rows

    @property
    def below(self) -> list[str]:
        """What is sent in all, by axes, and the doubts."""
        if not self:
            return ["nothing is sent", *self.doubts]
        each = ", ".join(f"{show.bytes(b)} over {a}" for a, b in self.by_axis.items())
        total = f"each device sends {show.bytes(self.wire)}"
        return [f"{total}: {each}" if len(self.by_axis) > 1 else total, *self.doubts]


def sent(f: Callable, *args) -> Sent:
    """Every collective that `f(*args)` sends, in program order; nothing is run.

    args  arrays or `jax.ShapeDtypeStruct`s (or trees of them): only shapes and types matter

    Shapes are those of one device. A loop's body is listed once, with how often it runs.
    psum, pmean, pmax and pmin are AllReduces, one for each array of a tree; psum of a Python number costs nothing.
    An untiled collective is listed as the tiled one that does the same. One that runs in groups of an axis (axis_index_groups) says
    so, and its bytes are those of its largest group. A Permute is listed over the axes along which
    it moves something, in the mesh's order; one that moves nothing is left out. Axes of size 1 are listed.
    Results that nobody uses are not sent. Of a cond's branches, the one that sends most is taken. ValueError for a permutation in
    which a device would receive from two others or send to two.

    >>> from jax.sharding import AbstractMesh, AxisType, PartitionSpec as P
    >>> mesh = AbstractMesh((4, 2), ("X", "Y"), axis_types=(AxisType.Auto,) * 2)
    >>> f = lambda a, b: jax.lax.psum_scatter(a @ b, "X", scatter_dimension=1, tiled=True)
    >>> f = jax.shard_map(f, mesh=mesh, in_specs=(P(None, "X"), P("X", "Y")), out_specs=P(None, ("Y", "X")))
    >>> a, b = (jax.ShapeDtypeStruct(s, "bfloat16") for s in ((128, 512), (512, 1024)))
    >>> for c in sent(f, a, b): print(c)
    ReduceScatter_X bf16[128, 512] -> [128, 128]
    """
    return read(jax.make_jaxpr(f)(*args))


def read(jaxpr, context: Visit | None = None) -> Sent:
    """Every collective of a jaxpr.

    context  where that jaxpr stands; leave it out for a whole program
    """
    record, doubts, left = Record(), {}, 0
    sizes = dict(context.axes) if context else {}
    busiest = lambda branches, visit: max(branches, key=lambda branch: read(branch, visit).wire)  # noqa: E731
    for v in walk(jaxpr, context, busiest):
        if v.name == "shard_map":
            sizes = dict(v.eqn.params["mesh"].shape)
        elif v.name == "cond":
            ways = [tuple(read(b, v)) for b in v.eqn.params["branches"]]
            doubts |= {BRANCHES: 1} if len(set(ways)) > 1 else {}
        if v.opens:
            continue
        left += v.loops * leaves_to_compiler(v.eqn)
        if auto := [a for a, n in sizes.items() if v.axes and n > 1 and a not in v.axes]:
            doubts[f"{' and '.join(auto)} is left to the compiler: shapes are whole along it."] = 1
        if v.name in SAME and size(v.eqn.invars[0]) == size(v.eqn.outvars[0]) and not is_literal(v.eqn.invars[0]):
            record.same(v.eqn.invars[0], v.eqn.outvars[0])
        for c, here, there in _collectives(v, sizes):
            record.add(c, None if is_literal(here) else here, there)
            doubts |= {UNKNOWN_TRIPS: 1} if "while x?" in v.path else {}
    if left:
        leave = "operation leaves" if left == 1 else "operations leave"
        doubts[f"{left:,} {leave} what is sent along Explicit axes to the compiler: trace.made shows it."] = 1
    return Sent(record.collectives, sizes, doubts, record.feeds)


class Record:
    """Collectives in program order, and which of them sends on the result of which."""

    def __init__(self):
        self.collectives, self.feeds, self._made_by = [], [], {}

    def add(self, collective: Collective, operand, result) -> None:
        self.feeds.append(self._made_by.get(operand))
        self._made_by[result] = len(self.collectives)
        self.collectives.append(collective)

    def same(self, operand, result) -> None:
        """The second variable is the first in another shape."""
        self._made_by[result] = self._made_by.get(operand)


def leaves_to_compiler(eqn) -> bool:
    """True if the types of Explicit axes say that an equation moves numbers between devices.

    A sharded operand loses an axis, as in a gather or a sum, or has it along another dimension afterwards, as in an AllToAll.
    To cut what is whole, or to leave partial sums unreduced, sends nothing.
    """
    before, after = ([_sharded(x.aval) for x in xs if hasattr(x.aval, "sharding")] for xs in (eqn.invars, eqn.outvars))
    if eqn.primitive.name in ("reshard", "sharding_constraint"):
        return bool(before and after and before[0] - after[0])
    if eqn.primitive.name == "dot_general":
        summed = {a for dims, x in zip(eqn.params["dimension_numbers"][0], before) for a, d in x if d in dims}
        return any((a, None) not in after[0] for a in summed)
    names = lambda arrays: {a for x in arrays for a, _ in x}  # noqa: E731
    return bool(names(before) - names(after))


def _sharded(aval) -> set[tuple[str, int | None]]:
    """(axis, dimension) for each axis of more than one device along which an array is cut; None for one not yet summed over."""
    mesh, spec = aval.sharding.mesh, aval.sharding.spec
    cut = {(a, None) for a in spec.unreduced}
    for d, axes in enumerate(getattr(spec, "partitions", spec)):
        cut |= {(a, d) for a in ((axes,) if isinstance(axes, str) else axes or ())}
    return {(a, d) for a, d in cut if mesh.shape.get(a, 1) > 1}


@dataclass(frozen=True)
class DeviceProgram:
    """What one device of a sharded program does.

    sent     its collectives
    far      how many places its farthest permute goes, along the rings of the mesh
    made     shape and type of every array that its operations make, in program order; numbers without dimensions are left out
    largest  bytes of the largest of them
    flops    of its products; None if a loop around one does not say how often it runs
    """

    sent: Sent
    far: int
    made: list[tuple[tuple[int, ...], str]]
    largest: float
    flops: float | None


def device_program(jaxpr) -> DeviceProgram:
    """What a jaxpr has one device do, inside `shard_map`."""
    visits = [v for v in walk(jaxpr) if not v.opens]
    results = [x for v in visits if v.axes for x in v.eqn.outvars]
    permutes = [v for v in visits if v.name == "ppermute" and v.axes]
    far = (hops(v.eqn.params["perm"], [v.axes[a] for a in _axes(v.eqn)]) for v in permutes)
    products = [v for v in visits if v.name in MATMULS]
    total = sum(inf if "while x?" in v.path else v.loops * flops(v.eqn) for v in products)
    arrays = [x.aval for x in results if getattr(x.aval, "shape", ()) and hasattr(x.aval, "dtype")]
    return DeviceProgram(
        sent=read(jaxpr),
        far=max(far, default=0),
        made=[(tuple(a.shape), short(a.dtype)) for a in arrays],
        largest=max(map(nbytes, results), default=0),
        flops=None if total == inf else total,
    )


def hops(pairs, shape: Sequence[int]) -> int:
    """How many places a permute's farthest pair goes, along the rings of a mesh of this shape.

    >>> hops([(0, 3), (0, 5)], (4, 2))               # one and one; two and one
    3
    """
    source, target = (np.stack(np.unravel_index(end, shape)) for end in np.reshape(pairs, (-1, 2)).astype(int).T)
    ahead = (target - source) % np.reshape(shape, (-1, 1))
    return int(np.minimum(ahead, np.reshape(shape, (-1, 1)) - ahead).sum(0).max(initial=0))


def _axes(eqn) -> tuple[str, ...]:
    """The mesh axes that a collective names."""
    axes = eqn.params.get("axis_name", eqn.params.get("axes", ()))
    return tuple(a for a in ((axes,) if isinstance(axes, str) else axes or ()) if isinstance(a, str))


def _collectives(v: Visit, sizes: Mapping[str, int]):
    """(collective, operand, result) for each array that one equation sends."""
    p, kind, axes = v.eqn.params, COLLECTIVES.get(v.name), _axes(v.eqn) if v.axes else ()
    if kind is None:
        if axes and v.name not in VIEWS:
            raise ValueError(f"{v.name} is none of {', '.join(KINDS)}: write the program with those")
        return
    if kind == "Permute":
        axes = moving(axes, p["perm"], sizes)
    for here, there in zip(v.eqn.invars, v.eqn.outvars) if axes else ():
        shape, out = here.aval.shape, there.aval.shape
        if not p.get("tiled", True) and kind == "AllGather":
            at = p["all_gather_dimension"]
            shape = (*shape[:at], 1, *shape[at:])
        elif not p.get("tiled", True) and kind == "ReduceScatter":
            at = p["scatter_dimension"]
            out = (*out[:at], 1, *out[at:])
        note, group = " > ".join(v.path), within(p.get("axis_index_groups"), prod(sizes[a] for a in axes))
        yield Collective(kind, axes, shape, out, short(here.aval.dtype), v.loops, note, group), here, there


def within(groups, devices: int) -> int | None:
    """Devices of the largest group; None if there are no groups, or one of all.

    groups  lists of devices, filled up with -1 where they are not of one size

    >>> within([[0, 1], [2, 3]], 4), within([[0, 1, 2], [3, -1, -1]], 4), within([[2, 0, 3, 1]], 4), within(None, 4)
    (2, 3, None, None)
    """
    most = devices if groups is None else max(sum(d >= 0 for d in g) for g in groups)
    return None if most == devices else int(most)


def moving(axes: tuple[str, ...], pairs, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Those axes along which a permutation of devices moves something, in the mesh's order.

    pairs  (source, destination), numbered along `axes` with the last of them fastest
    """
    possible(pairs, prod(sizes[a] for a in axes))
    ends = np.array(pairs, int).reshape(-1, 2).T
    source, target = (np.unravel_index(e, [sizes[a] for a in axes]) for e in ends)
    moved = {a for a, s, t in zip(axes, source, target) if np.any(s != t)}
    return tuple(a for a in sizes if a in moved)


def groups_along(axes: Sequence[str], sizes: Mapping[str, int]) -> list[list[int]]:
    """Numbers of the devices that differ in nothing but their places along these axes, the last of them fastest.

    >>> groups_along(("X",), {"X": 2, "Y": 2}), groups_along(("Y", "X"), {"X": 2, "Y": 2})
    ([[0, 2], [1, 3]], [[0, 2, 1, 3]])
    """
    names, ids = list(sizes), np.arange(prod(sizes.values())).reshape(list(sizes.values()))
    order = [i for i, a in enumerate(names) if a not in axes] + [names.index(a) for a in axes]
    return ids.transpose(order).reshape(-1, prod(sizes[a] for a in axes)).tolist()


def possible(pairs, devices: int) -> None:
    """ValueError if a permutation of so many devices is none: each of them sends to one and receives from one at most.

    >>> possible([(0, 2), (1, 2)], 4)
    Traceback (most recent call last):
    ValueError: devices 0 and 1 cannot both send to 2 in one permutation: each device receives from one at most
    """
    target, source = {}, {}
    for s, t in ((int(s), int(t)) for s, t in pairs):
        why = ""
        if not (0 <= s < devices and 0 <= t < devices):
            why = f"{s} cannot send to {t} in a permutation of {devices} devices: they are 0 to {devices - 1}"
        elif t in source:
            both = f"devices {source[t]} and {s} cannot both send to {t}"
            why = f"{both} in one permutation: each device receives from one at most"
        elif s in target:
            both = f"device {s} cannot send to both {target[s]} and {t}"
            why = f"{both} in one permutation: each device sends to one at most"
        if why:
            raise ValueError(why)
        target[s], source[t] = t, s


def merged(collectives: Iterable[Collective]) -> Sent:
    """The same with logical collectives: gathering an array over X and then over Y is one AllGather over both.

    One collective joins another if it is of the same kind, over other axes, and sends what the other one made.
    (A plain tuple, as of a plan, does not say who made what: there neighbours join whose shapes fit.)
    Permutes stay apart, AllReduces too, for one over both axes sends less, and so do AllToAlls of different dimensions.
    """
    given = tuple(collectives)
    feeds = getattr(collectives, "feeds", (None, *range(len(given) - 1))) if given else ()
    out, at = [], []  # at: where each given collective went
    for c, feed in zip(given, feeds):
        i = None if feed is None else at[feed]
        if i is not None and _joins(out[i], c):
            # The axis gathered last, or scattered first, is the major one.
            axes = c.axes + out[i].axes if c.kind == "AllGather" else out[i].axes + c.axes
            out[i] = replace(out[i], axes=axes, out=c.out)
        else:
            i = len(out)
            out.append(c)
        at.append(i)
    joined = [feeds[at.index(i)] for i in range(len(out))]
    after = [None if feed is None else at[feed] for feed in joined]
    return Sent(out, getattr(collectives, "sizes", None), getattr(collectives, "doubts", ()), after)


def _joins(a: Collective, b: Collective) -> bool:
    change = lambda c: [np.sign(o - s) for s, o in zip(c.shape, c.out)]  # noqa: E731
    return (
        (a.kind, a.dtype, a.times, prod(a.out)) == (b.kind, b.dtype, b.times, prod(b.shape))
        and a.kind in MERGES
        and a.within is None is b.within
        and not set(a.axes) & set(b.axes)
        and (a.kind != "AllToAll" or change(a) == change(b))
    )
