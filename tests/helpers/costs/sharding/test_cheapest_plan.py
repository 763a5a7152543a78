"""`cheapest` against all legal sequences of collectives: a graph of every sharding, written here from the definitions alone."""

import random
from itertools import combinations, permutations, product
from math import prod

import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.sharding.collectives import Collective, seconds
from helpers.costs.sharding.matmul_plans import cheapest, order, plans
from helpers.costs.sharding.resharding import shardings
from helpers.costs.sharding.sharded_array import Axis, Mesh
from tests.helpers.costs.tables import walks
from tests.tiers import repeats

MESHES = {
    "4": Mesh({"X": 4}), "4x4": Mesh({"X": 4, "Y": 4}), "4x2": Mesh({"X": 4, "Y": 2}), "2x3": Mesh({"X": 2, "Y": 3}),
    "line of 8": Mesh({"X": Axis(8, False)}), "lines 4x4": Mesh({"X": Axis(4, False), "Y": Axis(4, False)}),
    "16x8 line": Mesh({"X": 16, "Y": Axis(8, False)}),
}  # fmt: skip
FULL = {"2x2x2": Mesh({"X": 2, "Y": 2, "Z": 2}), "4x2 line x2": Mesh({"X": 4, "Y": Axis(2, False), "Z": 2})}

# A state is (axes of the rows, axes of the columns, axes of {U}), each a text; the order of the first two counts.


def subsets(text):
    return ["".join(c) for n in range(len(text) + 1) for c in combinations(text, n)]


def orders(text):
    return {"".join(p) for p in permutations(text)}


def states(names):
    for un in subsets(names):
        rest = [a for a in names if a not in un]
        for rows in subsets(rest):
            for cols in subsets([a for a in rest if a not in rows]):
                yield from ((r, c, un) for r in orders(rows) for c in orders(cols))


def successors(s, names, size):
    """Every collective that can be run on an array in this state: (kind, axes, state after)."""
    rows, cols, un = s
    used = set(rows + cols + un)
    for d in (0, 1):
        put = lambda text, d=d: (text, cols, un) if d == 0 else (rows, text, un)  # noqa: E731
        for some in subsets([a for a in names if a not in used])[1:]:
            yield from (("Slice", cut, put(s[d] + cut)) for cut in orders(some))
        for k in range(len(s[d])):
            left, gone = s[d][:k], s[d][k:]
            yield "AllGather", gone, put(left)
            yield "AllToAll", gone, (left, cols + gone, un) if d == 0 else (rows + gone, left, un)
    for some in subsets(un)[1:]:
        rest = "".join(a for a in un if a not in some)
        yield "AllReduce", some, (rows, cols, rest)
        for cut in orders(some):
            yield "ReduceScatter", cut, (rows + cut, cols, rest)
            yield "ReduceScatter", cut, (rows, cols + cut, rest)
    for other in states(names):
        if other[2] == un and other != s and size(rows) * size(cols) > 1:
            if (size(other[0]), size(other[1])) == (size(rows), size(cols)):
                place = lambda t, a: [(d, size(t[d][t[d].index(a) + 1 :])) for d in (0, 1) if a in t[d]]  # noqa: E731
                moved = "".join(a for a in names if size(a) > 1 and place(s, a) != place(other, a))
                yield ("Permute", moved, other) if moved else ("Slice", "", other)


class Array:
    """One array of a product: its rows and columns, what it takes on a device, and the seconds of every step on it."""

    def __init__(self, rows, cols, mesh, W, dtype="bf16"):
        self.shape, self.mesh, self.W, self.dtype = (rows, cols), mesh, W, dtype
        self.names, self.known = "".join(mesh.names), {}

    def local(self, s):
        return tuple(n // self.mesh.size(cut) for n, cut in zip(self.shape, s))

    def bytes(self, s):
        return 2 * prod(self.local(s))

    def divides(self, s):
        return all(n % self.mesh.size(cut) == 0 for n, cut in zip(self.shape, s))

    def steps(self, s):
        """[(state after, seconds)], found once for all searches."""
        if s not in self.known:
            self.known[s] = list(self._steps(s))
        return self.known[s]

    def _steps(self, s):
        for kind, axes, then in successors(s, self.names, self.mesh.size):
            if self.divides(then):
                c = Collective(kind, tuple(axes), self.local(s), self.local(then)) if kind != "Slice" else None
                yield then, seconds(c.move(self.mesh), self.W) if c else 0.0

    def least(self, sources, room=float("inf"), kept=None):
        """Least seconds from `sources` to every state. A step needs room for its operand, unless that is kept, and its result."""
        best, fresh = dict.fromkeys(sources, 0.0), set(sources)
        while fresh:
            here = fresh.pop()
            for then, t in self.steps(here):
                need = self.bytes(then) + (self.bytes(here) if here != kept else 0)
                if need <= room and best[here] + t < best.get(then, float("inf")) * (1 - 1e-12):
                    best[then] = best[here] + t
                    fresh.add(then)
        return best


def texts(a):
    return (*("".join(cut) for cut in a.axes), "".join(sorted(a.unreduced)))


def least_time(A, B, C, sizes, mesh, c, limit=float("inf")):
    """(lower, upper) of the best sequence of all, to nine digits, by Bellman and Ford's search."""
    I, J, K = (sizes[d] for d in "IJK")
    arrays = [Array(*shape, mesh, c.link_bandwidth) for shape in ((I, J), (J, K), (I, K))]
    starts, names = [texts(a) for a in (A, B, C)], "".join(mesh.names)
    kept = arrays[0].bytes(starts[0]) + arrays[1].bytes(starts[1])
    searched = {}

    def from_to(k, source, target, room, keep):
        key = (k, source, room, keep)
        if key not in searched:
            searched[key] = arrays[k].least([source], room, source if keep else None)
        return searched[key].get(target)

    best = None
    for i, j, un in states(names):  # the product: axes of I, of J, and of K below
        for k in () if un else (k for some in subsets([a for a in names if a not in i + j]) for k in orders(some)):
            at = (i, j, ""), (j, k, ""), (i, k, "".join(sorted(j)))
            if not all(a.divides(s) for a, s in zip(arrays, at)):
                continue
            copies = [arrays[n].bytes(at[n]) * (at[n] != starts[n]) for n in (0, 1)]
            if kept + sum(copies) + arrays[2].bytes(at[2]) > limit:
                continue
            times = (
                from_to(0, starts[0], at[0], limit - kept, True),
                from_to(1, starts[1], at[1], limit - kept - copies[0], True),
                from_to(2, at[2], starts[2], limit - kept, False),
            )
            if None in times:
                continue
            math = 2 * I * J * K / mesh.size(i + j + k) / c.rate("bf16")
            hbm = sum(a.bytes(s) for a, s in zip(arrays, at)) / c.hbm_bandwidth
            parts = math, hbm, sum(times)
            best = min(filter(None, (best, order_of((max(parts), sum(parts))))))
    return best


def cases(name, n):
    mesh, draw = (MESHES | FULL)[name], random.Random(name)
    for _ in range(n):
        a, b, c = (draw.choice(shardings(x, tuple(d), mesh)) for x, d in (("A", "IJ"), ("B", "JK"), ("C", "IK")))
        sizes = {d: mesh.devices * 2 ** draw.randint(0, 11) for d in "IJK"}
        yield a, b, c, sizes, mesh, chip(draw.choice(["v5e", "v5p", "v6e", "v4p"]))


def same(one, other):
    return one == pytest.approx(other, rel=1e-8)


@walks(MESHES)
def test_nothing_takes_less_time(name):
    for a, b, c, sizes, mesh, v in cases(name, repeats(2, 30)):
        best = order(cheapest(a, b, c, sizes, mesh, v).time(v))
        assert same(best, least_time(a, b, c, sizes, mesh, v)), (str(a), str(b), str(c), sizes, v.name)
        assert best == min(order(p.time(v)) for p in plans(a, b, c, sizes, mesh))  # and it is in the list


def order_of(times):
    return tuple(float(f"{t:.9g}") for t in times)


@walks(["4", "4x2", "lines 4x4"])
def test_nothing_that_fits_takes_less_time(name):
    draw = random.Random(name)
    for a, b, c, sizes, mesh, v in cases(name, repeats(2, 30)):
        every = sorted(p.peak for p in plans(a, b, c, sizes, mesh, limit=float("inf")))
        for limit in {every[0], draw.choice(every), draw.choice(every)}:
            p = cheapest(a, b, c, sizes, mesh, v, limit=limit)
            assert p.peak <= limit
            best = least_time(a, b, c, sizes, mesh, v, limit)
            assert same(order(p.time(v)), best), (str(a), str(b), str(c), sizes, v.name, limit)
        assert least_time(a, b, c, sizes, mesh, v, every[0] - 1) is None
        with pytest.raises(ValueError, match=f"the smallest needs {every[0]:,.0f}"):
            cheapest(a, b, c, sizes, mesh, v, limit=every[0] - 1)


def test_states_are_those_of_the_notation():
    for mesh in (MESHES | FULL).values():
        names = "".join(mesh.names)
        whole = {s for s in states(names) if not s[2]}
        assert whole == {texts(a) for a in shardings("A", ("I", "J"), mesh)}
        assert len(set(states(names))) == {1: 4, 2: 18, 3: 92}[len(names)]


def test_products_of_all_roles_are_tried():
    """4 to the number of axes, times the orders of those that cut one dimension."""
    mesh, found = Mesh({"X": 2, "Y": 2}), set()
    for p in plans("A[I, J]", "B[J, K]", "C[I, K]", dict(I=8, J=8, K=8), mesh):
        found.add(tuple(map(str, p.product)))
    assert len(found) == 4**2 + 3 and product
