"""The product of two sharded matrices: plans, and the cheapest of all (chapter 2).

A[I, J] · B[J, K] -> C[I, K]. On each mesh axis a local product can do one of four things:
    nothing      both operands are whole along it, all its devices compute the same
    cut I        A is cut over it, and so is the result
    cut K        B is cut over it, and so is the result
    cut J        both are, and the result is a partial sum, C {U}
Anything else (one operand cut along J and the other not, or I and K over the same axis) must be resharded first.
So a plan is a choice for each axis, the steps that bring the operands there, the product, and the steps to the wished result.
`plans` lists those that may be the best, at some size, on some chip, in the memory there is; `cheapest` finds the one that is.
With no axis in J and none to move it is "case 1" of the sources; gathering J "case 2"; cut J "case 3"; I and K on one axis "case 4".

Source: Austin et al. 2025, Section 3, "Computation with sharded arrays".
"""

from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache, reduce
from itertools import permutations, product
from math import inf, prod

from helpers.arguments import Count, formula, record
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.rooflines.roofline import Time
from helpers.costs.rooflines.torus import HOP

from .collectives import Collective
from .resharding import FREE, Hop, Route, State, Step, edge, grain, named, routes, spell, state
from .sharded_array import Mesh, Sharding, bytes_each, parse


@record
class Plan:
    """One way to compute C = A · B.

    local   A, B and C at the local product
    routes  of A and of B to it, and of C from it
    """

    case: "Case"
    local: tuple[State, State, State]
    routes: tuple[Route, Route, Route]

    operands = property(lambda self: self.case.operands, doc="A, B and the wished C, as they are given.")
    sizes = property(lambda self: self.case.sizes, doc="Of I, J and K.")
    mesh = property(lambda self: self.case.mesh, doc="The devices.")

    @property
    def hops(self) -> tuple[tuple[Hop, ...], ...]:
        """What is done to A, to B, and to C after the product."""
        return tuple(r.hops for r in self.routes)

    @property
    def product(self) -> tuple[Sharding, Sharding, Sharding]:
        """A, B and C as the local product takes and makes them."""
        return tuple(named(a.name, a.dims, s) for a, s in zip(self.operands, self.local))

    @property
    def steps(self) -> tuple[Step, ...]:
        """What is done, in order."""
        before = [spell(h, a.name, a.dims) for a, hops in zip(self.operands[:2], self.hops) for h in hops]
        made = self.product[2]
        after = [spell(h, made.name, made.dims) for h in self.hops[2]]
        return (*before, Step("Matmul", made.name, (), "", "", made, made), *after)

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """What each device sends, in order."""
        return tuple(s.collective(self.sizes, self.mesh, self.case.dtype) for s in self.steps if s.kind not in FREE)

    @cached_property
    def flops(self) -> int:
        """FLOPs of one device."""
        cut = {a for axes in (*self.local[0][0], *self.local[1][0]) for a in axes}
        return 2 * prod(self.sizes.values()) // self.mesh.size(cut)

    @property
    def bytes(self) -> float:
        """HBM traffic of one device's local product: both operands and the result once."""
        return sum(self.case.held(self.local, k) for k in range(3))

    @property
    def peak(self) -> float:
        """Most bytes that one device holds at once.

        A and B as given stay; a step holds its operand and its result; the operands of the product go when it is done.
        """
        return self.case.least((self.local, tuple((r,) for r in self.routes)))

    def time(self, chip: Chip, hop: float | None = None) -> Time:
        """Seconds of arithmetic, of HBM traffic and of all collectives, one after the other, on this chip.

        "dcn" stands for the network, if an axis of the mesh lies over it: it can carry one piece while ICI carries another.

        >>> sizes, mesh, v5p = dict(I=8192, J=8192, K=8192), Mesh({"X": 4, "Y": 2}), chip("v5p")
        >>> t = cheapest("A[I_X, J]", "B[J, K_Y]", "C[I_X, K_Y]", sizes, mesh, v5p).time(v5p)
        >>> t.parts["ici"], f"{t.math:.3g}"
        (0, '0.000299')
        """
        parts = {
            "math": self.flops / chip.rate(self.case.dtype),
            "hbm": self.bytes / chip.hbm_bandwidth,
            "ici": self.comms(chip.link_bandwidth, chip.hop if hop is None else hop),
        }
        if between_slices(self.mesh):
            parts["dcn"] = sum(n * r.across for n, r in zip(self.case.whole, self.routes)) / chip.dcn_bandwidth
        return Time(parts)

    def comms(self, W: float, hop: float = HOP) -> float:
        """Seconds of all collectives over links of W bytes/s one way."""
        return sum(r.seconds(n, W, hop) for n, r in zip(self.case.whole, self.routes))

    def __str__(self) -> str:
        return "\n".join(str(s) for s in self.steps)


@formula
def plans(
    A, B, C, sizes: Mapping[str, Count], mesh: Mesh, dtype: str = "bf16", limit: float | None = None
) -> list[Plan]:
    """The plans from A and B to C that may be the best: for each local product, with all `resharding.routes` to and from it.

    A, B, C  shardings, or texts in the notation; C may be a partial sum, C[I, K] {U_X}
    sizes    {"I": …, "J": …, "K": …}
    limit    bytes of a device: plans that need more are left out

    Any other sequence of steps takes at least as long as one of these, on any chip and whatever the sizes; with a limit,
    any other that keeps to it. Beside a plan that finishes a sum by an AllReduce stand those with a ReduceScatter and an
    AllGather in its place, one for each dimension that can be cut: they may stop half way.

    >>> print(plans("A[I, J_X]", "B[J_X, K]", "C[I, K_X]", dict(I=8, J=8, K=8), Mesh({"X": 4}))[-1])
    multiply locally -> C[I, K] {U_X}
    ReduceScatter_X,K C[I, K] {U_X} -> C[I, K_X]
    """
    case = Case.of(A, B, C, sizes, mesh, dtype)
    found = [
        Plan(case, local, three)
        for local, (to_a, to_b, to_c) in case.ways(limit is not None)
        for three in product(to_a, to_b, finished(to_c, mesh, case.grained[2]))
    ]
    return [p for p in found if p.peak <= limit] if limit is not None else found


@formula
def cheapest(
    A, B, C, sizes: Mapping[str, Count], mesh: Mesh, chip: Chip, dtype: str = "bf16", limit: float | None = None
) -> Plan:
    """The plan of least time of all sequences of steps, all overlapped; of equals the one that takes least without overlap,
    then the shortest. With a `limit`, of all that hold no more bytes on a device.

    >>> mesh, v5e = Mesh({"X": 4}), chip("v5e")
    >>> print(cheapest("A[I, J_X]", "B[J, K]", "C[I, K]", dict(I=4096, J=64, K=4096), mesh, v5e))
    AllGather_X A[I, J_X] -> A[I, J]
    multiply locally -> C[I, K]
    >>> print(cheapest("A[I, J_X]", "B[J, K]", "C[I, K]", dict(I=64, J=65536, K=64), mesh, v5e))
    Slice_X B[J, K] -> B[J_X, K]
    multiply locally -> C[I, K] {U_X}
    AllReduce_X C[I, K] {U_X} -> C[I, K]

    An array of 64 kB over two hops takes less time than over four, though half of it would cross each link then:

    >>> cheapest("A[I, J_X]", "B[J, K]", "C[I, K]", dict(I=16, J=1024, K=1024), Mesh({"X": 4, "Y": 4}), chip("v5p")).steps[0].axes
    ('X',)
    """
    case = Case.of(A, B, C, sizes, mesh, dtype)
    if between_slices(mesh):  # ways of A, B and C share two kinds of links: none of them can be chosen alone
        found = plans(A, B, C, sizes, mesh, dtype, limit)
    else:
        found = list(case.best(chip, limit))
    if not found:
        least = min(map(case.least, case.ways(by_memory=True)))
        raise ValueError(f"no plan fits in {limit:,.0f} bytes a device: the smallest needs {least:,.0f}")
    return min(found, key=lambda p: order(p.time(chip)))


@formula
def between_slices(mesh: Mesh) -> bool:
    """Whether some axis of a mesh lies over the network."""
    return any(a.link == "dcn" for a in mesh.wires(mesh.names))


@record
class Case:
    """A product that is to be planned."""

    operands: tuple[Sharding, Sharding, Sharding]
    ijk: tuple[str, str, str]
    sizes: Mapping[str, Count]
    mesh: Mesh
    dtype: str

    @classmethod
    def of(cls, A, B, C, sizes: Mapping[str, Count], mesh: Mesh, dtype: str) -> "Case":
        """The case, if it is one; ValueError if not."""
        A, B, C = parse(A), parse(B), parse(C)
        ijk = _roles(A, B, C)
        for a in (A, B, C):
            a.check(mesh, sizes)
        if A.unreduced or B.unreduced:
            partial = A if A.unreduced else B
            raise ValueError(
                f"{partial} is a partial sum: add it up over its devices (AllReduce, ReduceScatter) before it is multiplied"
            )
        bytes_each(dtype)
        return cls((A, B, C), ijk, {d: sizes[d] for d in ijk}, mesh, dtype)

    @cached_property
    def dims(self) -> tuple[tuple[str, ...], ...]:
        return tuple(a.dims for a in self.operands)

    @cached_property
    def grained(self) -> tuple[tuple[int, ...], ...]:
        """All of the sizes of each array that decides what divides them."""
        return tuple(grain(ds, self.sizes, self.mesh) for ds in self.dims)

    @cached_property
    def whole(self) -> tuple[float, ...]:
        """Bytes of each array without any sharding."""
        return tuple(bytes_each(self.dtype) * prod(self.sizes[d] for d in ds) for ds in self.dims)

    def ways(self, by_memory: bool) -> tuple:
        """For each local product that divides: its three states, and the routes to it and from it."""
        starts = tuple(state(a, self.mesh) for a in self.operands)
        return _ways(starts, self.dims, self.ijk, self.mesh, self.grained, by_memory)

    def held(self, local, k: int) -> float:
        """Bytes of one array on a device at the local product."""
        return self.whole[k] / prod(self.mesh.size(cut) for cut in local[k][0])

    @cached_property
    def kept(self) -> float:
        """Bytes of A and of B on a device, as they are given."""
        return sum(a.bytes(self.sizes, self.mesh, self.dtype) for a in self.operands[:2])

    def room(self, local_product, routes_by_operand) -> tuple[float, tuple[list[float], ...]]:
        """Most bytes that a device holds at the product, and on each route of A, of B and of C: see `Plan.peak`."""
        copies = [self.held(local_product, k) if routes_by_operand[k][0].hops else 0.0 for k in (0, 1)]
        return self.kept + sum(copies) + self.held(local_product, 2), (
            [self.kept + self.whole[0] * to.aside for to in routes_by_operand[0]],
            [self.kept + copies[0] + self.whole[1] * to.aside for to in routes_by_operand[1]],
            [self.kept + self.whole[2] * to.beside for to in routes_by_operand[2]],
        )

    def best(self, chip: Chip, limit: float | None) -> Iterator[Plan]:
        """For each local product the plan of least time, if one fits.

        The ways of A, B and C take their times one after the other, and none of them changes what the others hold: so
        each is the fastest of those that fit.
        """
        most = inf if limit is None else limit
        for local, three in self.ways(limit is not None):
            at_product, on_routes = self.room(local, three)
            fitting = [[r for r, held in zip(*both) if held <= most] for both in zip(three, on_routes)]
            if all(fitting) and at_product <= most:
                chosen = (_fastest(*one, chip) for one in zip(fitting, self.whole))
                yield Plan(self, local, tuple(chosen))

    def least(self, product) -> float:
        """Bytes that the plans of one local product need at least."""
        at_product, on_routes = self.room(*product)
        return max(at_product, *map(min, on_routes))


def _fastest(routes: list[Route], n_bytes: float, chip: Chip) -> Route:
    """The route that takes least time, to nine digits, and of equals the one of fewest steps."""
    return min(routes, key=lambda r: (float(f"{r.seconds(n_bytes, chip.link_bandwidth, chip.hop):.9g}"), len(r.hops)))


@formula
def order(time: Time) -> tuple[float, float]:
    """What plans are ranked by, to nine digits so that rounding decides nothing."""
    return float(f"{time.lower:.9g}"), float(f"{time.upper:.9g}")


@formula
def sizes_of(*arrays: tuple) -> dict[str, int]:
    """Sizes of dimensions from (array, shape) pairs; a dimension that two arrays share has one size.

    >>> sizes_of(("A[I_X, J]", (8, 16)), ("B[J, K]", (16, 4)))
    {'I': 8, 'J': 16, 'K': 4}
    >>> sizes_of(("A[I_X, J]", (8, 16)), ("B[J, K]", (12, 4)))
    Traceback (most recent call last):
    ValueError: J is 16 in A[I_X, J] and 12 in B[J, K]: a dimension that two arrays share has one size
    """
    sizes, seen = {}, {}
    for a, shape in arrays:
        a = parse(a)
        if len(a.dims) != len(shape):
            raise ValueError(f"{a} has {len(a.dims)} dimensions, and the shape {tuple(shape)} has {len(shape)}")
        for d, n in zip(a.dims, shape):
            if sizes.setdefault(d, n) != n:
                raise ValueError(
                    f"{d} is {sizes[d]} in {seen[d]} and {n} in {a}: a dimension that two arrays share has one size"
                )
            seen.setdefault(d, a)
    return sizes


def _roles(A: Sharding, B: Sharding, C: Sharding) -> tuple[str, str, str]:
    """The names of I, J and K."""
    for a in (A, B, C):
        if len(a.dims) != 2:
            raise ValueError(f"a matrix has two dimensions, {a} has {len(a.dims)}")
    shared = [d for d in A.dims if d in B.dims]
    if nobody := [d for d in C.dims if d not in A.dims + B.dims]:
        raise ValueError(
            f"{C} names dimension {nobody[0]}, which neither {A} nor {B} has: theirs are {', '.join(dict.fromkeys(A.dims + B.dims))}"
        )
    if len(shared) != 1 or shared[0] in C.dims:
        raise ValueError(
            f"{A} · {B} -> {C}: exactly one dimension is shared by the operands and summed over, not in the result"
        )
    (j,) = shared
    return next(d for d in A.dims if d != j), j, next(d for d in B.dims if d != j)


@formula
def local_products(dims_ijk, dims, mesh: Mesh) -> Iterator[tuple[State, State, State]]:
    """Every sharding of the operands that a local product can take, with that of its result."""
    i, j, k = dims_ijk
    for roles in product(("", i, k, j), repeat=len(mesh.names)):
        groups = [[a for a, r in zip(mesh.names, roles) if r == d] for d in dims_ijk]
        for cut in product(*(permutations(g) for g in groups)):
            at = dict(zip(dims_ijk, cut))
            summed = tuple(a for a in mesh.names if a in at[j])
            yield tuple((tuple(at[d] for d in ds), un) for ds, un in zip(dims, ((), (), summed)))


@lru_cache(maxsize=4096)
def _ways(operand_states, dims, dims_ijk, mesh: Mesh, grained, by_memory: bool) -> tuple:
    """Local products and routes, which do not depend on sizes."""
    out = []
    for local in local_products(dims_ijk, dims, mesh):
        if any(g % mesh.size(cut) for s, gs in zip(local, grained) for g, cut in zip(gs, s[0])):
            continue
        ends = (operand_states[0], local[0]), (operand_states[1], local[1]), (local[2], operand_states[2])
        three = tuple(routes(*end, mesh, grains, by_memory) for end, grains in zip(ends, grained))
        if all(three):
            out.append((local, three))
    return tuple(out)


@formula
def finished(routes: tuple[Route, ...], mesh: Mesh, grains) -> tuple[Route, ...]:
    """Routes, and beside those with an AllReduce the same with a ReduceScatter and an AllGather, once each."""
    both = {x.hops: x for r in routes for x in (r, *_deferred(r, mesh, grains))}
    return tuple(both.values())


def _deferred(route: Route, mesh: Mesh, grains) -> Iterator[Route]:
    """An AllReduce as a ReduceScatter and an AllGather, for each dimension that divides."""
    for at, h in enumerate(route.hops):
        axes, un = h.after
        for d in range(len(grains)) if h.kind == "AllReduce" else ():
            between = ((*axes[:d], axes[d] + h.axes, *axes[d + 1 :]), un)
            scatter = edge("ReduceScatter", h.before, between, mesh, grains)
            gather = edge("AllGather", between, h.after, mesh, grains)
            if scatter and gather:
                yield reduce(Route.then, (*route.hops[:at], scatter, gather, *route.hops[at + 1 :]), Route())
