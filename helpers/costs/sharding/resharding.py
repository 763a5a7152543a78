"""From one sharding of an array to another: the steps that send least (chapter 2).

A step adds or removes axes at the minor end of a subscript, because only there do neighbours in the mesh hold
neighbouring blocks: I_XY loses Y by one AllGather, but X only after a Permute to I_YX.

Paths are found by Dijkstra's algorithm over all shardings of the array on the mesh. The weight of a step is the bytes
over its busiest link, so they are the best for large arrays; a step or a hop more decides between equals.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from heapq import heappop, heappush
from itertools import combinations, permutations
from math import gcd, prod

from helpers.costs.rooflines.roofline import Move
from helpers.numeric import entries

from .collectives import Collective
from .sharded_array import Mesh, Sharding

FREE = ("Slice", "Matmul")

State = tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]  # axes of each dimension, unreduced axes in mesh order


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Hop:
    """A step between two states, without names: what the search works with. `to` and `dim` number the dimensions."""

    kind: str
    axes: tuple[str, ...]
    dim: int
    to: int
    before: State
    after: State
    move: Move | None  # for an array of one byte


def state(a: Sharding, mesh: Mesh) -> State:
    """The sharding without its names."""
    return a.axes, tuple(sorted(a.unreduced, key=mesh.names.index))


@cache
def named(name: str, dims: tuple[str, ...], s: State) -> Sharding:
    """The sharding with its names."""
    return Sharding(name, dims, *s)


def steps(before: Sharding, after: Sharding, sizes: Mapping[str, int], mesh: Mesh) -> tuple[Step, ...]:
    """The steps that turn one sharding of an array into another.

    ValueError if there are none: nothing makes a partial sum out of a whole array.

    >>> from .sharded_array import parse
    >>> mesh = Mesh({"X": 4, "Y": 2})
    >>> for s in steps(parse("A[I_XY, J]"), parse("A[I_X, J]"), {"I": 64, "J": 64}, mesh): print(s)
    AllGather_Y A[I_XY, J] -> A[I_X, J]
    >>> for s in steps(parse("A[I_X, J]"), parse("A[I, J_Y]"), {"I": 64, "J": 64}, mesh): print(s)
    Slice_Y A[I_X, J] -> A[I_X, J_Y]
    AllGather_X A[I_X, J_Y] -> A[I, J_Y]
    """
    before.check(mesh, sizes)
    after.check(mesh, sizes)
    found = path(state(before, mesh), state(after, mesh), mesh, grain(before.dims, sizes, mesh))
    if found is None:
        raise ValueError(f"nothing turns {before} into {after}: an array that is whole has no summands left to spread")
    return tuple(spell(h, before.name, before.dims) for h in found)


def spell(h: Hop, name: str, dims: tuple[str, ...]) -> Step:
    """The step with its names."""
    return Step(h.kind, name, h.axes, dims[h.dim], dims[h.to], named(name, dims, h.before), named(name, dims, h.after))


def grain(dims: tuple[str, ...], sizes: Mapping[str, int], mesh: Mesh) -> tuple[int, ...]:
    """All of the sizes that decides what divides them: their common divisors with the number of devices."""
    return tuple(gcd(sizes[d], mesh.devices) for d in dims)


def path(before: State, after: State, mesh: Mesh, grains: tuple[int, ...]) -> tuple[Hop, ...] | None:
    """The hops from state to state, or None."""
    return _paths(before, mesh, grains).get(after)


@lru_cache(maxsize=4096)
def _paths(source: State, mesh: Mesh, grains: tuple[int, ...]) -> dict[State, tuple[Hop, ...]]:
    """Cheapest paths from one state to all that can be reached."""
    best, done, queue, ticket = {source: (0.0, ())}, {}, [(0.0, 0, source)], 0
    while queue:
        cost, _, here = heappop(queue)
        if here in done:
            continue
        done[here] = _merged(best[here][1])
        for hop in _hops(here, mesh, grains):
            total = cost + _weight(hop)
            if total < best.get(hop.after, (float("inf"),))[0]:
                best[hop.after], ticket = (total, (*best[here][1], hop)), ticket + 1
                heappush(queue, (total, ticket, hop.after))
    return done


def _weight(hop: Hop) -> float:
    return 1e-9 if hop.move is None else hop.move.bytes + 1e-6 * (1 + hop.move.hops)


def _merged(hops: tuple[Hop, ...]) -> tuple[Hop, ...]:
    """Slices of the same dimension in a row as one."""
    out: list[Hop] = []
    for h in hops:
        if out and h.kind == out[-1].kind == "Slice" and h.dim == out[-1].dim:
            first = out.pop()
            h = Hop("Slice", first.axes + h.axes, h.dim, h.to, first.before, h.after, None)
        out.append(h)
    return tuple(out)


def _hops(here: State, mesh: Mesh, grains: tuple[int, ...]) -> Iterator[Hop]:
    """Every step that can be taken from a state."""
    axes, unreduced = here
    free = [a for a in mesh.names if a not in unreduced and not any(a in cut for cut in axes)]
    for d in range(len(axes)):
        for a in free:
            yield from _hop("Slice", (a,), d, d, here, (_with(axes, d, axes[d] + (a,)), unreduced), mesh, grains)
        for k in range(len(axes[d])):
            left, gone = axes[d][:k], axes[d][k:]
            without = _with(axes, d, left)
            yield from _hop("AllGather", gone, d, d, here, (without, unreduced), mesh, grains)
            for e in range(len(axes)):
                if e != d:
                    moved = (_with(without, e, axes[e] + gone), unreduced)
                    yield from _hop("AllToAll", gone, d, e, here, moved, mesh, grains)
    for n in range(1, len(unreduced) + 1):
        for some in combinations(unreduced, n):
            rest = tuple(a for a in unreduced if a not in some)
            yield from _hop("AllReduce", some, 0, 0, here, (axes, rest), mesh, grains)
            for d in range(len(axes)):
                for order in permutations(some):
                    yield from _hop(
                        "ReduceScatter", order, d, d, here, (_with(axes, d, axes[d] + order), rest), mesh, grains
                    )
    yield from _exchanges(here, mesh, grains)


def _exchanges(here: State, mesh: Mesh, grains: tuple[int, ...]) -> Iterator[Hop]:
    """Permutes: the same local shape with other axes, or the same axes in another order."""
    axes, unreduced = here
    sizes = [mesh.size(cut) for cut in axes]
    if prod(sizes) == 1:
        return
    usable = tuple(a for a in mesh.names if a not in unreduced)
    for other in _cuts(usable, len(axes), mesh):
        if other != axes and [mesh.size(cut) for cut in other] == sizes:
            moved = tuple(a for a in mesh.names if mesh[a] > 1 and _place(axes, a, mesh) != _place(other, a, mesh))
            kind = "Permute" if moved else "Slice"  # only axes of one device change their places: nothing is sent
            yield from _hop(kind, moved, 0, 0, here, (other, unreduced), mesh, grains)


@cache
def _cuts(usable: tuple[str, ...], dims: int, mesh: Mesh) -> tuple[tuple[tuple[str, ...], ...], ...]:
    """Every way to cut `dims` dimensions with some of the axes, in every order."""
    if dims == 0:
        return ((),)
    return tuple(
        (first, *rest)
        for n in range(len(usable) + 1)
        for first in permutations(usable, n)
        for rest in _cuts(tuple(a for a in usable if a not in first), dims - 1, mesh)
    )


def shardings(name: str, dims: tuple[str, ...], mesh: Mesh) -> list[Sharding]:
    """Every sharding of an array on a mesh, without partial sums.

    >>> [str(s) for s in shardings("A", ("I", "J"), Mesh({"X": 4}))]
    ['A[I, J]', 'A[I, J_X]', 'A[I_X, J]']
    >>> len(shardings("A", ("I", "J"), Mesh({"X": 4, "Y": 2})))
    11
    """
    return [named(name, tuple(dims), (axes, ())) for axes in _cuts(mesh.names, len(dims), mesh)]


def _hop(kind, axes, dim, to, before: State, after: State, mesh: Mesh, grains) -> Iterator[Hop]:
    """The step, if every dimension still divides."""
    if any(g % mesh.size(cut) for g, cut in zip(grains, after[0])):
        return
    held, then = (1 / prod(mesh.size(cut) for cut in s[0]) for s in (before, after))
    if kind == "Slice":
        move = None
    else:  # a collective of an array that has one byte in all
        whole = {"AllGather": then}.get(kind, held)
        move = _priced(kind, axes, whole, mesh)
    yield Hop(kind, axes, dim, to, before, after, move)


def _priced(kind: str, axes: tuple[str, ...], whole: float, mesh: Mesh) -> Move:
    from . import collectives

    wires = mesh.wires(axes)
    if kind == "Permute":
        return collectives.scramble(whole, wires)
    if kind == "AllToAll":
        return collectives.all_to_all(whole * mesh.size(axes), wires)
    return (collectives.all_reduce if kind == "AllReduce" else collectives.all_gather)(whole, wires)


def _with(axes, d: int, cut: tuple[str, ...]):
    return (*axes[:d], cut, *axes[d + 1 :])


def _place(axes, a: str, mesh: Mesh):
    """The dimension that an axis cuts, and how many blocks further one step along the axis leads."""
    return next(((d, mesh.size(cut[cut.index(a) + 1 :])) for d, cut in enumerate(axes) if a in cut), None)


entries(__name__)
