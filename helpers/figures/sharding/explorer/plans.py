"""The plans of `costs.sharding.matmul_plans`, priced in the browser.

What a plan does depends on the mesh and the shardings, of which a page offers a finite number: `tables` writes down the
planner's own steps for all of them. What it costs is a function of numbers: `price`, made of `costs.sharding.collectives`,
traced to JavaScript by `helpers.live.jaxpr_to_javascript`. `explorer.js` joins the two, and tests hold it against the planner.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.rooflines.roofline import Move
from helpers.costs.rooflines.torus import HOP
from helpers.costs.sharding.collective_prices import in_two_tiers
from helpers.costs.sharding.collectives import seconds
from helpers.costs.sharding.matmul_plans import Plan, finished, local_products
from helpers.costs.sharding.resharding import Hop, State, named, routes, shardings
from helpers.costs.sharding.sharded_array import Axis, Mesh, bytes_each
from helpers.live.jaxpr_to_javascript import javascript
from helpers.numeric import maximum, where

KINDS = ("AllGather", "ReduceScatter", "AllReduce", "AllToAll", "Permute", "Slice")
NONE = len(KINDS)  # the kind of a row without a step
LONGEST = 5  # steps of one operand at most; `tables` checks it
WIDE = 256  # what every size on the page is a multiple of, so that any two axes divide it
DIMS = (("A", "I", "J"), ("B", "J", "K"), ("C", "I", "K"))
NUMBERS = ("I", "J", "K", "X", "Y", "wx", "wy", "dx", "dy", "C", "W", "L", "N", "hbm")
ROWS = ("kind", "u", "v", "hx", "hy", "tx", "ty")


def price(I, J, K, X, Y, wx, wy, dx, dy, C, W, L, N, hbm, given, cut, kind, u, v, hx, hy, tx, ty) -> dict:
    """Seconds and bytes of one plan of A[I, J] · B[J, K] -> C[I, K] in bf16 on a mesh of X by Y chips.

    wx, wy  1 if the axis is a ring, 0 if a line; dx, dy 1 if it lies over the network between slices
    C, W    FLOPs/s, and bytes/s of HBM; L is bytes/s of one link one way, N of a chip's network; hbm bytes of HBM
    given   1 or 0: whether A as given is cut over X, over Y, and B over X, over Y
    cut     the same of A, B and C at the local product

    Rows of fifteen, five steps for each of A, B and C, each with
    kind    its number in KINDS, NONE where there is no step
    u, v    whether it runs over X, over Y
    hx, hy  whether its operand is cut over X, over Y; tx, ty whether its result is
    """
    width = bytes_each("bf16")
    whole = [width * I * J, width * J * K, width * I * K]
    share = lambda x, y: 1 / (where(x > 0, X, 1) * where(y > 0, Y, 1))  # noqa: E731
    n_bytes = _spread(kind, whole)
    over_x, over_y = where(u > 0, X, 1), where(v > 0, Y, 1)
    inside = Axis(where(dx > 0, 1, over_x), wx > 0), Axis(where(dy > 0, 1, over_y), wy > 0)
    slices = where(dx > 0, over_x, 1) * where(dy > 0, over_y, 1)
    held, then = share(hx, hy), share(tx, ty)
    part = where(kind == 0, then, held)
    sent, hops, across = 0 * part, 0 * part, 0 * part
    for numbers, name in (((0, 1), "AllGather"), ((2,), "AllReduce"), ((3,), "AllToAll"), ((4,), "Permute")):
        chosen = kind == numbers[0]
        for other in numbers[1:]:
            chosen = chosen | (kind == other)
        ici, dcn = in_two_tiers(name, part * over_x * over_y if name == "AllToAll" else part, inside, slices)
        sent, hops, across = (
            where(chosen, m, x) for m, x in ((ici.bytes, sent), (ici.hops, hops), (dcn.bytes, across))
        )
    ici, dcn = seconds(Move("ici", n_bytes * sent, hops), L, HOP), n_bytes * across / N

    at = [whole[n] * share(cut[2 * n], cut[2 * n + 1]) for n in range(3)]
    math = 2 * I * J * K * share(cut[0] + cut[2], cut[1] + cut[3]) / C
    memory = (at[0] + at[1] + at[2]) / W
    links, network = ici.sum(), dcn.sum()
    lower = maximum(math, memory, links, network)
    peak = _peak(whole, at, share, given, kind, n_bytes * held, n_bytes * then)
    return {
        "math": math,
        "memory": memory,
        "links": links,
        "network": network,
        "lower": lower,
        "upper": math + memory + links + network,
        "bound": where(math >= lower, 0, where(memory >= lower, 1, where(links >= lower, 2, 3))),
        "peak": peak,
        "fits": where(peak <= hbm, 1, 0),
        "steps": ici + dcn,
    }


def function() -> str:
    """`price` as JavaScript."""
    rows = [[0.0] * 4, [0.0] * 6] + [[0.0] * 3 * LONGEST] * len(ROWS)
    return javascript(price, *[1.0] * len(NUMBERS), *rows)


def _spread(row, three):
    """One number for each row: that of A as often as A may have steps, of B, of C."""
    zero = 0.0 * row
    first = [zero[n * LONGEST : (n + 1) * LONGEST] + value for n, value in enumerate(three)]
    return _joined(row, first)


def _joined(row, parts):
    return row.__array_namespace__().concatenate(parts)


def _peak(whole, sizes, share, given, kind, held, then):
    """`Plan.peak`: A and B as given stay; beside them copies in use, the step's operand, and its result."""
    kept = whole[0] * share(given[0], given[1]) + whole[1] * share(given[2], given[3])
    changed = [where(kind[n * LONGEST] < NONE, sizes[n], 0.0) for n in range(2)]
    product = changed[0] + changed[1] + sizes[2]
    aside = _spread(kind, [0.0, changed[0], 0.0])
    copy = _joined(kind, [_not_first(held[:LONGEST]), _not_first(held[LONGEST : 2 * LONGEST]), held[2 * LONGEST :]])
    steps = where(kind < NONE, aside + copy + then, 0.0)
    return kept + maximum(product, steps.max())


def _not_first(row):
    return _joined(row, [0.0 * row[:1], row[1:]])


def states(mesh: Mesh) -> list[State]:
    """Every sharding of a matrix over X and Y: 11 without partial sums, then 7 with."""
    whole = [s.axes for s in shardings("A", ("I", "J"), mesh)]
    partial = []
    for un in (("X",), ("Y",), ("X", "Y")):
        partial += [(axes, un) for axes in whole if not set(un) & {a for cut in axes for a in cut}]
    return [(axes, ()) for axes in whole] + partial


def text(s: State) -> str:
    """A state in the notation, with 0 and 1 for the dimensions.

    >>> text(((("X", "Y"), ()), ())), text((((), ("Y",)), ("X",)))
    ('[0_XY, 1]', '[0, 1_Y] {U_X}')
    """
    return str(named("", ("0", "1"), s))


@dataclass(frozen=True)
class Meshes:
    """The axes that the menus offer, and the planner's steps on every mesh of two of them."""

    options: dict[str, Axis]

    def mesh(self, x: str, y: str) -> Mesh:
        """The mesh that two options make."""
        return Mesh({"X": self.options[x], "Y": self.options[y]})

    def tables(self) -> dict:
        """Steps, ways made of steps, and for each mesh the ways from state to state, as differences from the first mesh.

        A cell of a table lists ways: the planner's routes, of which sizes decide, and those with an AllReduce in two halves.
        """
        first = self.mesh(*[next(iter(self.options))] * 2)
        all_states = states(first)
        numbers = {s: n for n, s in enumerate(all_states)}
        targets = [s for s in all_states if not s[1]]
        hops: dict[tuple, int] = {}
        ways: dict[tuple, int] = {}
        base: list | None = None
        patches = []
        for x in self.options:
            for y in self.options:
                cells = []
                for source in all_states:
                    for target in targets:
                        cell = []
                        for way in _ways(source, target, self.mesh(x, y)):
                            steps = tuple(hops.setdefault(_row(h, numbers), len(hops)) for h in way)
                            cell.append(ways.setdefault(steps, len(ways)))
                        cells.append(cell)
                base = cells if base is None else base
                patches.append({k: c for k, c in enumerate(cells) if c != base[k]})
        if max(map(len, ways)) > LONGEST:
            raise ValueError(
                f"a way has more than {LONGEST} steps: raise LONGEST in helpers.figures.sharding.explorer.plans"
            )
        locals_ = [
            [*(numbers[s] for s in three), *(n for s in three for n in _cut(s))]
            for three in local_products("IJK", [d[1:] for d in DIMS], first)
        ]
        return {
            "states": [text(s) for s in all_states],
            "cuts": [_cut(s) for s in all_states],
            "hops": list(hops),
            "routes": list(ways),
            "base": base,
            "patches": patches,
            "locals": locals_,
        }


def _ways(source: State, target: State, mesh: Mesh):
    grains = (WIDE, WIDE)
    return tuple(r.hops for r in finished(routes(source, target, mesh, grains), mesh, grains))


def _cut(s: State) -> list[int]:
    """Whether a state is cut over X, over Y; a partial sum is not cut by its axes."""
    return [int(any(a in axes for axes in s[0])) for a in "XY"]


def _row(h: Hop, numbers: Mapping[State, int]) -> tuple:
    """A step as numbers and what is written of it: kind, axes, cuts, and its name."""
    over = [int(a in h.axes) for a in "XY"]
    dim = {"ReduceScatter": h.dim, "AllToAll": h.to}.get(h.kind, -1)
    before, after = numbers[h.before], numbers[h.after]
    return (KINDS.index(h.kind), *over, *_cut(h.before), *_cut(h.after), "".join(h.axes), dim, before, after)


def wired(c: Chip, x: Axis, y: Axis) -> bool:
    """Whether some slice has these two axes, or the one of them that does not lie between slices: its other axes are 1 or 4.

    >>> wired(chip("v5e"), Axis(4), Axis(16)), wired(chip("v5e"), Axis(4, wraps=False), Axis(16))
    (False, True)
    >>> wired(chip("v5p"), Axis(4), Axis(8)), wired(chip("v5p"), Axis(4), Axis(2, wraps=False))
    (True, False)
    >>> wired(chip("v5p"), Axis(4), Axis(8, False, "dcn")), wired(chip("v5e"), Axis(8), Axis(8, False, "dcn"))
    (True, False)
    """
    sides = [(a.n,) if a.link == "ici" else (1, 4) for a in (x, y)]
    for shape in product(*sides, *[(1, 4)] * (c.axes - 2)):
        fits = all(n <= m for n, m in zip(sorted(shape), sorted(c.pod)))
        rings = Slice(c, shape).wraps[:2] if fits else ()
        if fits and all(a.link == "dcn" or ring == a.wraps for ring, a in zip(rings, (x, y))):
            return True
    return False


def plan_lines(plan: Plan, c: Chip) -> list[tuple[str, float | None]]:
    """The steps of a plan with their seconds; None for what is free."""
    parts = plan.time(c).parts
    times = [step_time(h, a, plan, c) for a, hops in zip(plan.operands, plan.hops) for h in hops]
    at = sum(len(h) for h in plan.hops[:2])
    times.insert(at, parts["math"])
    out = [(str(step).replace("->", "→"), t) for step, t in zip(plan.steps, times)]
    out.insert(at + 1, ("HBM traffic of the product", parts["hbm"]))
    return out


def step_time(h: Hop, a, plan: Plan, c: Chip) -> float | None:
    if h.move is None:
        return None
    n_bytes = bytes_each(plan.case.dtype) * plan.sizes[a.dims[0]] * plan.sizes[a.dims[1]]
    inside = seconds(Move("ici", n_bytes * h.move.bytes, h.move.hops), c.link_bandwidth)
    return inside + n_bytes * h.across / c.dcn_bandwidth
