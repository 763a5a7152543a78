"""The explorer's page: plans of a sharded product ranked, and the steps of the picked one."""

from collections.abc import Mapping
from functools import cached_property
from html import escape

from helpers.costs.rooflines.chips import CHIPS, chip
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.sharding.matmul_plans import Plan, order, plans
from helpers.costs.sharding.resharding import named
from helpers.costs.sharding.sharded_array import Axis
from helpers.live.controls import Choice, Size, head_html, powers
from helpers.live.figure import pushed
from helpers.live.tables import Result, table_html
from helpers.live.words import reading

from .plans import DIMS, KINDS, LONGEST, NUMBERS, Meshes, function, plan_lines, states, wired

RANKED = 6  # plans in the list
BOUNDS = {"math": "arithmetic", "hbm": "HBM", "ici": "links", "dcn": "network"}
LABELS = {"I": "I, rows of A", "J": "J, contracted", "K": "K, columns of B"}
RESULTS = (
    Result("lower", "lower bound: all overlaps", "s"),
    Result("upper", "sum: nothing overlaps", "s"),
    Result("bound", "bound by", words=tuple(BOUNDS.values())),
    Result("peak", "most that a device holds at once", "B"),
    Result("fits", "fits the chip's HBM", words=("no", "yes")),
)
SENTENCE = "{chip}, X = {x}, Y = {y}: plan {rank} of {count} is bound by {bound}, between {lower} and {upper}."
UNWIRED = " No {chip} slice is wired so: its axes are rings or lines by the rule below."
HINT = (
    "Choose how <em>A</em> and <em>B</em> lie and how <em>C</em> is to lie; pick a plan from the list to see its steps."
)
RULES = (
    "All arrays are bf16. The lower bound is the longest of arithmetic, HBM traffic and the sum of the sends; the sum "
    "adds them all. An axis is a ring or a line of chips: on v3, v5e and v6e it is a ring if it spans the pod (32 chips on v3, "
    "else 16); on v4p, v5p and v7 all axes are rings if each is a multiple of 4, else all are lines. "
    "An axis of 2, 4 or 8 slices lies over the network between them: there a chip sends over its share of the network, in one "
    "direction. ICI and network may be busy at once, so the lower bound takes the longer of both."
)


class Explorer:
    """A live figure: plans priced, the best of them listed, and the steps of the picked one."""

    name = "explorer"
    title = "A[I, J] · B[J, K] in bf16 on a mesh of two axes: plans and their steps"
    meshes = Meshes(
        {
            "2 chips": Axis(2, wraps=False),
            "4 in a line": Axis(4, wraps=False),
            "4 in a ring": Axis(4),
            "8 in a line": Axis(8, wraps=False),
            "8 in a ring": Axis(8),
            "16 in a ring": Axis(16),
            "2 slices": Axis(2, wraps=False, link="dcn"),
            "4 slices": Axis(4, wraps=False, link="dcn"),
            "8 slices": Axis(8, wraps=False, link="dcn"),
        }
    )
    sizes = {"I": 8192, "J": 8192, "K": 32768}
    x = "4 in a ring"
    y = "8 in a ring"
    operands = ("[I_X, J_Y]", "[J, K_Y]", "[I_X, K_Y]")
    chips = ("v5p", *(name for name, c in CHIPS.items() if c.axes and name != "v5p"))
    runners = ("grids.js", "settings.js", "explorer.js", "figure_controls.js")

    @cached_property
    def controls(self) -> tuple[Size | Choice, ...]:
        """Sliders for sizes, menus for the mesh, the shardings and the chip."""
        sizes = [Size(d, LABELS[d], self.sizes[d], 2**8, 2**17, steps=powers(8, 17)) for d in "IJK"]
        options = self.meshes.options.items()
        of = lambda a, n, x: {a: n, a.upper(): x.n, f"w{a}": int(x.wraps), f"d{a}": int(x.link == "dcn")}  # noqa: E731
        axes = [
            Choice(a, f"Mesh axis {a.upper()}", first, {o: of(a, n, x) for n, (o, x) in enumerate(options)})
            for a, first in (("x", self.x), ("y", self.y))
        ]
        whole = [s for s in states(self.meshes.mesh(self.x, self.y)) if not s[1]]
        arrays = [
            Choice(name.lower(), what, f"{name}{first}", {
                str(named(name, tuple(dims), s)): {name.lower(): n} for n, s in enumerate(whole)
            })
            for (name, *dims), first, what in zip(DIMS, self.operands, ("A is", "B is", "C is to be"))
        ]  # fmt: skip
        return (
            *sizes,
            *axes,
            *arrays,
            Choice("chip", "Chip", self.chips[0], {n: self._rates(chip(n)) for n in self.chips}),
        )

    def _rates(self, c: Chip) -> dict:
        """What a chip gives, and for each X bits of the Y with which some slice has them."""
        ways = self.meshes.options.values()
        bits = [sum(wired(c, x, y) << k for k, y in enumerate(ways)) for x in ways]
        rates = {"C": c.rate(), "W": c.hbm_bandwidth, "L": c.link_bandwidth, "N": c.dcn_bandwidth, "hbm": c.hbm_bytes}
        return rates | {"wired": bits}

    def chosen(self, changes: Mapping | None = None) -> dict:
        """What all controls say; `changes` are sizes and names of options."""
        return {c.name: c.value for c in self.controls} | {"plan": 0} | dict(changes or {})

    def ranked(self, changes: Mapping | None = None) -> tuple[list[Plan], Chip]:
        """All plans, the cheapest first, and what they run on."""
        at = self.chosen(changes)
        mesh, c = self.meshes.mesh(at["x"], at["y"]), chip(at["chip"])
        found = plans(at["a"], at["b"], at["c"], {d: at[d] for d in "IJK"}, mesh)
        return sorted(found, key=lambda p: order(p.time(c))), c

    def picked(self, changes: Mapping | None = None) -> tuple[Plan, int]:
        """The plan that is shown, and its place in the list."""
        every, at = self.ranked(changes)[0], int(self.chosen(changes)["plan"])
        at = min(at, len(every) - 1, RANKED - 1)
        return every[at], at

    def found(self, changes: Mapping | None = None) -> dict:
        """Numbers of the plan that is shown."""
        (every, c), (plan, _) = self.ranked(changes), self.picked(changes)
        t = plan.time(c)
        fits, bound = int(plan.peak <= c.hbm_bytes), [*BOUNDS].index(t.bound)
        return {
            "lower": t.lower,
            "upper": t.upper,
            "bound": bound,
            "peak": plan.peak,
            "fits": fits,
            "count": len(every),
        }

    def said(self, changes: Mapping | None = None) -> dict[str, str]:
        """What the table says, and the sentence quotes."""
        values = self.found(changes)
        texts = {r.name: r.text(values[r.name]) for r in RESULTS}
        return texts | {"count": str(values["count"]), "rank": str(self.picked(changes)[1] + 1)}

    def sentence(self, changes: Mapping | None = None) -> str:
        """What is said after each change."""
        at = self.chosen(changes)
        known = wired(chip(at["chip"]), *(self.meshes.options[at[a]] for a in "xy"))
        return SENTENCE.format(**at | self.said(changes)) + ("" if known else UNWIRED.format(**at))

    def listed(self, changes: Mapping | None = None) -> list[tuple[str, str]]:
        """The ranked plans: their steps in brief, and their bounds."""
        every, c = self.ranked(changes)
        times = [p.time(c) for p in every[:RANKED]]
        return [(brief(p), f"{reading(t.lower, 's')} to {reading(t.upper, 's')}") for p, t in zip(every, times)]

    def rows(self, changes: Mapping | None = None) -> list[tuple[str, str]]:
        """The lines of the picked plan: what, and its time."""
        (plan, _), (_, c) = self.picked(changes), self.ranked(changes)
        return [(what, "free" if t is None else reading(t, "s")) for what, t in plan_lines(plan, c)]

    def script(self) -> str:
        """The data and the traced function as one call of JavaScript."""
        tables = {
            "kinds": KINDS,
            "dims": DIMS,
            "longest": LONGEST,
            "unwired": UNWIRED,
            "ranked": RANKED,
        }
        data = {
            "id": f"live-{self.name}", "own": "livePlans", "args": NUMBERS, "marks": [], "say": SENTENCE + "{unwired}",
            "controls": [c.data for c in self.controls],
            "results": [r.data for r in RESULTS],
            "plans": self.meshes.tables() | tables,
        }  # fmt: skip
        return pushed(data, function())

    def html(self) -> str:
        """Controls and list, which need the script to move; the picked plan's lines, the table."""
        key = f"live-{self.name}"
        controls = "".join(c.html(key) for c in self.controls) + self._menu(key)
        lines = "".join(f'<tr><th scope="row">{escape(what)}</th><td>{time}</td></tr>' for what, time in self.rows())
        return (
            head_html(key, self.title, HINT, controls, self.sentence())
            + '<div class="pst-scrollable-table-container"><table class="table live-plans"><caption>The steps of the plan</caption>'
            '<thead><tr><th scope="col">step</th><th scope="col">time</th></tr></thead>'
            f"<tbody data-lines>{lines}</tbody></table></div>"
            + table_html("The plan in numbers", RESULTS, self.found(), self.said())
            + f"<figcaption>{escape(RULES)}</figcaption></figure>"
        )

    def _menu(self, key: str) -> str:
        options = "".join(
            f'<option value="{k}">{escape(f"{k + 1}. {what}: {time}")}</option>'
            for k, (what, time) in enumerate(self.listed())
        )
        return (
            f'<div class="live-wide"><label for="{key}-plan">Plan, the cheapest first</label>'
            f'<select id="{key}-plan" name="plan" autocomplete="off">{options}</select></div>'
        )


def brief(p: Plan) -> str:
    """A plan's steps without its shardings."""
    made = [str(s).split(" ")[:2] for s in p.steps if s.kind != "Matmul"]
    before = sum(len(h) for h in p.hops[:2])
    words = [f"{what} {array[0]}" for what, array in made]
    return ", ".join([*words[:before], "product", *words[before:]])


FIGURE = Explorer()
