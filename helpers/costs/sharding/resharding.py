"""From one sharding of an array to another: the routes that may be the best (chapter 2).

A step adds or removes axes at the minor end of a subscript, because only there do neighbours in the mesh hold
neighbouring blocks: I_XY loses Y by one AllGather, but X only after a Permute to I_YX.

Which route is the best depends on the size of the array, on the chip and on memory: small arrays want few hops, large ones
few bytes over the busiest link. `routes` finds all that may be, by a search over all shardings of the array on the mesh:
a route is given up only where another one takes no longer at any size and has no more steps, and where memory is short,
holds no more. It stays no better whatever comes before and after both, so the best of all sequences of steps is never lost.
"""

from collections.abc import Iterator, Mapping
from functools import cache, cached_property, lru_cache
from itertools import combinations, permutations
from math import gcd, prod

from helpers.arguments import formula, record
from helpers.costs.rooflines.roofline import Move

from .collective_prices import in_two_tiers, parted
from .collectives import Collective
from .sharded_array import Mesh, Sharding

FREE = ("Slice", "Matmul")

State = tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]  # axes of each dimension, unreduced axes in mesh order


@record
class Step:
    """One step of a plan on one array.

    kind    Slice        each device keeps its part of what it has: free. The axes join the minor end of `dim`
            AllGather    the axes leave the minor end of `dim`
            AllToAll     the axes leave the minor end of `dim` and join the minor end of `to`
            Permute      blocks change places along `axes`; local shapes stay
            Matmul       local product of the two operands; `before` is `after`, the result
            ReduceScatter, AllReduce   the axes leave {U}, and with a ReduceScatter join the minor end of `dim`
    before, after   the array's shardings
    """

    kind: str
    operand: str
    axes: tuple[str, ...]
    dim: str
    to: str
    before: Sharding
    after: Sharding

    def collective(self, sizes: Mapping[str, int], mesh: Mesh, dtype: str) -> Collective:
        """What it sends; not for a Slice or a Matmul."""
        return Collective(self.kind, self.axes, self.before.local(sizes, mesh), self.after.local(sizes, mesh), dtype)

    def __str__(self) -> str:
        if self.kind == "Matmul":
            return f"multiply locally -> {self.after}"
        over = "".join(self.axes) + {"ReduceScatter": f",{self.dim}", "AllToAll": f",{self.to}"}.get(self.kind, "")
        return f"{self.kind}_{over} {self.before} -> {self.after}"


@record
class Hop:
    """A step between two states, without names: what the search works with. `to` and `dim` number the dimensions."""

    kind: str
    axes: tuple[str, ...]
    dim: int
    to: int
    before: State
    after: State
    # Of an array of one byte: what goes over ICI, bytes over a chip's network, and what a device holds before and after.
    move: Move | None
    across: float
    held: float
    left: float


@record
class Route:
    """Hops one after the other, and what they cost for an array that has one byte in all.

    moves    (hops, bytes) of each step that sends, in order of size
    across   bytes over a chip's network, all steps
    beside   most bytes that a device holds in any step, its operand and its result; `aside` leaves out the operand of
             the first step, where that is kept anyway
    """

    hops: tuple[Hop, ...] = ()
    moves: tuple[tuple[float, float], ...] = ()
    beside: float = 0.0
    aside: float = 0.0
    across: float = 0.0

    @cached_property
    def latency(self) -> float:
        """Hops of the interconnect in all."""
        return sum(h for h, _ in self.moves)

    @cached_property
    def bytes(self) -> float:
        """Bytes over the busiest link, all steps."""
        return sum(b for _, b in self.moves)

    def seconds(self, n_bytes: float, W: float, hop: float) -> float:
        """Seconds for an array of so many bytes over links of W bytes/s one way, each step by its bytes or its hops."""
        return sum(max(hop * h, n_bytes * b / W) for h, b in self.moves)

    def then(self, hop: Hop) -> "Route":
        """This route with one step more."""
        moves = self.moves if hop.move is None else tuple(sorted((*self.moves, (hop.move.hops, hop.move.bytes))))
        both = hop.held + hop.left
        aside = max(self.aside, both) if self.hops else hop.left
        return Route((*self.hops, hop), moves, max(self.beside, both), aside, self.across + hop.across)

    def covers(self, other: "Route", by_memory: bool) -> bool:
        """Whether it takes no longer than the other at any size, has no more steps, and, if `by_memory` counts, holds no more.

        Both times are linear between the sizes at which a step's bytes take as long as its hops: only there and at both
        ends they are compared.
        """
        least = 1 + 1e-9
        if len(self.hops) > len(other.hops):
            return False
        if by_memory and (self.beside > other.beside * least or self.aside > other.aside * least):
            return False
        if self.latency > other.latency or self.bytes > other.bytes * least or self.across > other.across * least:
            return False
        corners = {h / b for h, b in self.moves + other.moves if b}
        return self.moves == other.moves or all(
            self.seconds(x, 1.0, 1.0) <= other.seconds(x, 1.0, 1.0) * least for x in corners
        )


@formula
def state(a: Sharding, mesh: Mesh) -> State:
    """The sharding without its names."""
    return a.axes, tuple(sorted(a.unreduced, key=mesh.names.index))


@cache
def named(name: str, dims: tuple[str, ...], s: State) -> Sharding:
    """The sharding with its names."""
    return Sharding(name, dims, *s)


@formula
def steps(source: Sharding, target: Sharding, sizes: Mapping[str, int], mesh: Mesh) -> tuple[Step, ...]:
    """The steps that turn one sharding of an array into another and put fewest bytes on links, for large arrays.

    ValueError if there are none: nothing makes a partial sum out of a whole array.

    >>> from .sharded_array import parse
    >>> mesh = Mesh({"X": 4, "Y": 2})
    >>> for s in steps(parse("A[I_XY, J]"), parse("A[I_X, J]"), {"I": 64, "J": 64}, mesh): print(s)
    AllGather_Y A[I_XY, J] -> A[I_X, J]
    >>> for s in steps(parse("A[I_X, J]"), parse("A[I, J_Y]"), {"I": 64, "J": 64}, mesh): print(s)
    Slice_Y A[I_X, J] -> A[I_X, J_Y]
    AllGather_X A[I_X, J_Y] -> A[I, J_Y]
    """
    if (source.name, source.dims) != (target.name, target.dims):
        raise ValueError(f"{source} and {target} are two arrays: give two shardings of one")
    source.check(mesh, sizes)
    target.check(mesh, sizes)
    found = routes(state(source, mesh), state(target, mesh), mesh, grain(source.dims, sizes, mesh))
    if not found:
        raise ValueError(
            f"nothing turns {source} into {target}: an array that is whole has no partial sums left to spread"
        )
    least = min(found, key=lambda r: (float(f"{r.bytes:.9g}"), r.latency, len(r.hops)))
    return tuple(spell(h, source.name, source.dims) for h in least.hops)


@formula
def spell(hop: Hop, name: str, dims: tuple[str, ...]) -> Step:
    """The step with its names."""
    before, after = (named(name, dims, state) for state in (hop.before, hop.after))
    return Step(hop.kind, name, hop.axes, dims[hop.dim], dims[hop.to], before, after)


@formula
def grain(dims: tuple[str, ...], sizes: Mapping[str, int], mesh: Mesh) -> tuple[int, ...]:
    """All of the sizes that decides what divides them: their common divisors with the number of devices."""
    return tuple(gcd(sizes[d], mesh.devices) for d in dims)


@formula
def routes(
    source: State, target: State, mesh: Mesh, dim_units: tuple[int, ...], by_memory: bool = False
) -> tuple[Route, ...]:
    """The routes from state to state that may take least time at some size on some chip; with `by_memory` in some memory too.

    >>> cut, whole = ((("X",), ()), ()), (((), ()), ())
    >>> small_or_large = routes(cut, whole, Mesh({"X": 4, "Y": 4}), (16, 16))
    >>> [[(h.kind, h.axes) for h in r.hops] for r in small_or_large]
    [[('AllGather', ('X',))], [('Slice', ('Y',)), ('AllGather', ('X', 'Y'))]]
    """
    return _routes(source, mesh, dim_units, by_memory).get(target, ())


@formula
def edge(kind: str, source: State, target: State, mesh: Mesh, dim_units: tuple[int, ...]) -> Hop | None:
    """The step of this kind from state to state, if there is one."""
    return next((h for h in _edges(source, mesh, dim_units) if (h.kind, h.after) == (kind, target)), None)


@lru_cache(maxsize=4096)
def _routes(source: State, mesh: Mesh, dim_units: tuple[int, ...], by_memory: bool) -> dict[State, tuple[Route, ...]]:
    """The routes from one state to all that can be reached, those of fewest steps first."""
    start = Route()
    best, fresh = {source: [start]}, [(source, start)]
    while fresh:
        longer = []
        for here, route in fresh:
            if all(route is not r for r in best[here]):
                continue  # another one has taken its place
            for h in _edges(here, mesh, dim_units):
                new, there = route.then(h), best.setdefault(h.after, [])
                if not any(r.covers(new, by_memory) for r in there):
                    there[:] = [r for r in there if not new.covers(r, by_memory)] + [new]
                    longer.append((h.after, new))
        fresh = longer
    return {there: tuple(found) for there, found in best.items()}


@lru_cache(maxsize=65536)
def _edges(state: State, mesh: Mesh, dim_units: tuple[int, ...]) -> tuple[Hop, ...]:
    """Every step from a state to one whose shards divide its dimensions evenly."""
    share = lambda s: 1 / prod(mesh.size(cut) for cut in s[0])  # noqa: E731
    out, held = [], share(state)
    for kind, axes, dim, to, after in (*_changes(state, mesh), *_exchanges(state, mesh)):
        if any(g % mesh.size(cut) for g, cut in zip(dim_units, after[0])):
            continue
        move, across, left = None, 0.0, share(after)
        if kind != "Slice":
            whole = {"AllGather": left, "AllToAll": held * mesh.size(axes)}.get(kind, held)
            move, network = in_two_tiers(kind, whole, *parted(mesh.wires(axes)))
            across = network.bytes
        out.append(Hop(kind, axes, dim, to, state, after, move, across, held, left))
    return tuple(out)


Change = tuple[str, tuple[str, ...], int, int, State]  # kind, axes, dim, to and the state after a step, as in `Hop`


def _changes(state: State, mesh: Mesh) -> Iterator[Change]:
    """Axes join or leave the minor end of a subscript, or move to another; partial sums are added up."""
    axes, unreduced = state
    free = [a for a in mesh.names if a not in unreduced and not any(a in cut for cut in axes)]
    put = lambda axes, d, cut: (*axes[:d], cut, *axes[d + 1 :])  # noqa: E731
    for d in range(len(axes)):
        for cut in (c for n in range(1, len(free) + 1) for c in permutations(free, n)):
            yield "Slice", cut, d, d, (put(axes, d, axes[d] + cut), unreduced)
        for k in range(len(axes[d])):
            left, gone = axes[d][:k], axes[d][k:]
            without = put(axes, d, left)
            yield "AllGather", gone, d, d, (without, unreduced)
            for e in range(len(axes)):
                if e != d:
                    yield "AllToAll", gone, d, e, (put(without, e, axes[e] + gone), unreduced)
    for n in range(1, len(unreduced) + 1):
        for some in combinations(unreduced, n):
            rest = tuple(a for a in unreduced if a not in some)
            yield "AllReduce", some, 0, 0, (axes, rest)
            for d in range(len(axes)):
                for order in permutations(some):
                    yield "ReduceScatter", order, d, d, (put(axes, d, axes[d] + order), rest)


def _exchanges(state: State, mesh: Mesh) -> Iterator[Change]:
    """Permutes: the same local shape with other axes, or the same axes in another order."""
    axes, unreduced = state
    sizes = [mesh.size(cut) for cut in axes]

    def place(axes, a: str):
        """The dimension that an axis cuts, and how many blocks further one step along the axis leads."""
        return next(((d, mesh.size(cut[cut.index(a) + 1 :])) for d, cut in enumerate(axes) if a in cut), None)

    usable = tuple(a for a in mesh.names if a not in unreduced)
    for other in _cuts(usable, len(axes), mesh) if prod(sizes) > 1 else ():
        if other != axes and [mesh.size(cut) for cut in other] == sizes:
            moved = tuple(a for a in mesh.names if mesh[a] > 1 and place(axes, a) != place(other, a))
            kind = "Permute" if moved else "Slice"  # axes of one device: nothing is sent
            yield kind, moved, 0, 0, (other, unreduced)


@cache
def _cuts(free_axes: tuple[str, ...], dims: int, mesh: Mesh) -> tuple[tuple[tuple[str, ...], ...], ...]:
    """Every way to cut `dims` dimensions with some of the axes, in every order."""
    if dims == 0:
        return ((),)
    return tuple(
        (first, *rest)
        for n in range(len(free_axes) + 1)
        for first in permutations(free_axes, n)
        for rest in _cuts(tuple(a for a in free_axes if a not in first), dims - 1, mesh)
    )


@formula
def shardings(name: str, dims: tuple[str, ...], mesh: Mesh) -> list[Sharding]:
    """Every sharding of an array on a mesh, without partial sums.

    >>> [str(s) for s in shardings("A", ("I", "J"), Mesh({"X": 4}))]
    ['A[I, J]', 'A[I, J_X]', 'A[I_X, J]']
    >>> len(shardings("A", ("I", "J"), Mesh({"X": 4, "Y": 2})))
    11
    """
    return [named(name, tuple(dims), (axes, ())) for axes in _cuts(mesh.names, len(dims), mesh)]
