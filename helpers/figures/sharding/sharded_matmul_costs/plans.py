"""The planner on a page: menus for mesh and shardings, and the plans of `costs.sharding.matmul_plans` priced in the browser.

What a plan does depends on the mesh and the shardings, of which a page offers a finite number: `tables` writes down the
planner's own steps for all of them. What it costs is a function of numbers: `price`, made of `costs.sharding.collectives`,
traced to JavaScript by `helpers.live.jaxpr_to_javascript`. `sharded_matmul_costs.js` joins the two, and tests hold it against the planner.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from itertools import product

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.rooflines.roofline import Move
from helpers.costs.rooflines.torus import HOP
from helpers.costs.sharding.collective_prices import in_two_tiers
from helpers.costs.sharding.collectives import seconds
from helpers.costs.sharding.matmul_plans import Plan, finished, local_products, order, plans
from helpers.costs.sharding.resharding import Hop, State, named, routes, shardings
from helpers.costs.sharding.sharded_array import Axis, Mesh, bytes_each
from helpers.live.controls import Choice, Size, control_data, control_html, head_html, powers
from helpers.live.jaxpr_to_javascript import javascript
from helpers.live.tables import Result, table_html
from helpers.live.words import reading
from helpers.numeric import maximum, where

KINDS = ("AllGather", "ReduceScatter", "AllReduce", "AllToAll", "Permute", "Slice")
NONE = len(KINDS)  # the kind of a row without a step
LONGEST = 5  # steps of one operand at most; `tables` checks it
WIDE = 256  # what every size on the page is a multiple of, so that any two axes divide it
DIMS = (("A", "I", "J"), ("B", "J", "K"), ("C", "I", "K"))
NUMBERS = ("I", "J", "K", "X", "Y", "wx", "wy", "dx", "dy", "C", "W", "L", "N", "hbm")
ROWS = ("kind", "u", "v", "hx", "hy", "tx", "ty")
BOUNDS = ("math", "hbm", "ici", "dcn")
WORDS = ("arithmetic", "HBM", "links", "network")


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
                f"a way has more than {LONGEST} steps: raise LONGEST in helpers.figures.sharding.sharded_matmul_costs.plans"
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


@dataclass(frozen=True)
class PlanExplorer:
    """A live figure whose result is the cheapest plan and the next one that takes another time."""

    name: str
    title: str
    meshes: Meshes
    sizes: Mapping[str, int]
    x: str
    y: str
    operands: tuple[str, str, str]  # first choices, as the notation without the name: "[I_X, J]"
    chips: tuple[str, ...]
    runners = ("grids.js", "settings.js", "sharded_matmul_costs.js", "figure_controls.js")

    @property
    def controls(self) -> tuple[Size | Choice, ...]:
        """Sliders for sizes, menus for the mesh, the shardings and the chip."""
        labels = {"I": "I, rows of A", "J": "J, contracted", "K": "K, columns of B"}
        sizes = [Size(d, labels[d], self.sizes[d], 2**8, 2**17, steps=powers(8, 17)) for d in "IJK"]
        of = lambda a, n, x: {a: n, a.upper(): x.n, f"w{a}": int(x.wraps), f"d{a}": int(x.link == "dcn")}  # noqa: E731
        axes = [
            Choice(
                a,
                f"Mesh axis {a.upper()}",
                first,
                {o: of(a, n, x) for n, (o, x) in enumerate(self.meshes.options.items())},
            )
            for a, first in (("x", self.x), ("y", self.y))
        ]
        whole = [s for s in states(self.meshes.mesh(self.x, self.y)) if not s[1]]
        arrays = [
            Choice(name.lower(), what, f"{name}{first}", {
                str(named(name, tuple(dims), s)): {name.lower(): n} for n, s in enumerate(whole)
            })
            for (name, *dims), first, what in zip(DIMS, self.operands, ("A is", "B is", "C is to be"))
        ]  # fmt: skip
        named_chips = {n: chip(n) for n in self.chips}
        rates = {
            n: {
                "C": c.rate(), "W": c.hbm_bandwidth, "L": c.link_bandwidth, "N": c.dcn_bandwidth, "hbm": c.hbm_bytes,
                "wired": [sum(wired(c, x, y) << k for k, y in enumerate(self.meshes.options.values()))
                          for x in self.meshes.options.values()],
            }
            for n, c in named_chips.items()
        }  # fmt: skip
        return (*sizes, *axes, *arrays, Choice("chip", "Chip", self.chips[0], rates))

    @property
    def results(self) -> tuple[Result, ...]:
        """Rows of the table of the cheapest plan."""
        return (
            Result("lower", "lower bound: all overlaps", "s"),
            Result("upper", "sum: nothing overlaps", "s"),
            Result("bound", "bound by", words=WORDS),
            Result("peak", "most that a device holds at once", "B"),
            Result("fits", "fits the chip's HBM", words=("no", "yes")),
        )

    def found(self, chosen: Mapping[str, float | str] | None = None) -> tuple[dict, list[tuple[Plan, Chip]]]:
        """Results, and the two plans, by the planner itself; `chosen` are sizes and names of options."""
        at = {c.name: c.value for c in self.controls} | dict(chosen or {})
        sizes = {d: at[d] for d in "IJK"}
        mesh, c = self.meshes.mesh(at["x"], at["y"]), chip(at["chip"])
        every = sorted(plans(at["a"], at["b"], at["c"], sizes, mesh), key=lambda p: order(p.time(c)))
        best, t = every[0], every[0].time(c)
        two = [best, *[p for p in every if order(p.time(c)) != order(t)][:1]]
        values = {
            "lower": t.lower, "upper": t.upper, "bound": BOUNDS.index(t.bound), "peak": best.peak,
            "fits": int(best.peak <= c.hbm_bytes), "count": len(every),
        }  # fmt: skip
        return values, [(p, c) for p in two]

    def said(self, chosen: Mapping[str, float | str] | None = None) -> dict[str, str]:
        """What the table says."""
        values = self.found(chosen)[0]
        return {r.name: r.text(values[r.name]) for r in self.results} | {"count": str(values["count"])}

    def sentence(self, chosen: Mapping[str, float | str] | None = None) -> str:
        """What is said after each change."""
        at = {c.name: c.value for c in self.controls} | dict(chosen or {})
        known = wired(chip(at["chip"]), *(self.meshes.options[at[a]] for a in "xy"))
        return SENTENCE.format(**(at | self.said(chosen))) + ("" if known else UNWIRED.format(**at))

    def lines(self, chosen: Mapping[str, float | str] | None = None) -> list[list[tuple[str, str]]]:
        """The rows of both plans: (what, time)."""
        plans_ = [plan_lines(*p) for p in self.found(chosen)[1]]
        return [[(what, "free" if t is None else reading(t, "s")) for what, t in rows] for rows in plans_]

    def script(self) -> str:
        """The data and the traced function as one call of JavaScript."""
        rows = [[0.0] * 4, [0.0] * 6] + [[0.0] * 3 * LONGEST] * len(ROWS)
        function = javascript(price, *[1.0] * len(NUMBERS), *rows)
        data = {
            "id": f"live-{self.name}", "args": NUMBERS, "marks": [], "say": SENTENCE + "{unwired}",
            "controls": [control_data(c) for c in self.controls],
            "results": [{"name": r.name, "unit": r.unit, "words": r.words} for r in self.results],
            "plans": self.meshes.tables() | {"kinds": KINDS, "dims": DIMS, "longest": LONGEST, "unwired": UNWIRED},
        }  # fmt: skip
        written = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
        return f"(window.liveFigures=window.liveFigures||[]).push([{written},\n{function}]);"

    def html(self) -> str:
        """Controls, which stay hidden until the script has started; the sentence, the two plans, the table."""
        key, said = f"live-{self.name}", self.said()
        both = self.found()[1]
        longest = max(t or 0 for p in both for _, t in plan_lines(*p))
        bodies = "".join(
            f'<tbody data-plan="{n}"><tr><th colspan="2" scope="rowgroup">{HEADS[n]}</th></tr>{_plan_rows(p, longest)}</tbody>'
            for n, p in enumerate(both)
        )
        return (
            head_html(key, self.title, HINT, "".join(control_html(key, c) for c in self.controls), self.sentence())
            + f'<div class="pst-scrollable-table-container"><table class="table live-plans"><caption>{escape(self.title)}</caption>'
            f'<thead><tr><th scope="col">step</th><th scope="col">time</th></tr></thead>{bodies}</table></div>'
            + table_html("The cheapest plan in numbers", self.results, self.found()[0], said)
            + f"<figcaption>{escape(WIRING)}</figcaption></figure>"
        )


HEADS = ("The cheapest plan", "The runner-up: the next best that takes another time")
SENTENCE = "{chip}, X = {x}, Y = {y}: of {count} plans the cheapest is bound by {bound}, between {lower} and {upper}."

UNWIRED = " No {chip} slice is wired so: its axes are rings or lines by the rule below."
HINT = (
    "Choose how <em>A</em> and <em>B</em> lie and how <em>C</em> is to lie: "
    "every plan that may be the best at some size is priced, and the best two are shown."
)
WIRING = (
    "All arrays are bf16. The lower bound is the longest of arithmetic, HBM traffic and the sum of the sends; the sum "
    "adds them all. An axis is a ring or a line of chips: on v3, v5e and v6e it is a ring if it spans the pod (32 chips on v3, "
    "else 16); on v4p, v5p and v7 all axes are rings if each is a multiple of 4, else all are lines."
)


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
    parts, out = plan.time(c).parts, []
    times = [step_time(h, a, plan, c) for a, hops in zip(plan.operands, plan.hops) for h in hops]
    at = sum(len(h) for h in plan.hops[:2])
    times.insert(at, parts["math"])
    for step, t in zip(plan.steps, times):
        out.append((str(step).replace("->", "→"), t))
    out.insert(at + 1, ("HBM traffic of the product", parts["hbm"]))
    return out


def step_time(h: Hop, a, plan: Plan, c: Chip) -> float | None:
    if h.move is None:
        return None
    n_bytes = bytes_each(plan.case.dtype) * plan.sizes[a.dims[0]] * plan.sizes[a.dims[1]]
    inside = seconds(Move("ici", n_bytes * h.move.bytes, h.move.hops), c.link_bandwidth)
    return inside + n_bytes * h.across / c.dcn_bandwidth


def _plan_rows(p: tuple[Plan, Chip], longest: float) -> str:
    out = []
    for what, t in plan_lines(*p):
        bar = f'<span class="live-bar" style="width:{100 * (t or 0) / longest:.1f}%"></span>'
        time = "free" if t is None else reading(t, "s")
        out.append(f'<tr><th scope="row">{escape(what)}</th><td>{escape(time)}{bar}</td></tr>')
    return "".join(out)
