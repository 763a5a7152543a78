"""The explorer's page: plans of a sharded product ranked, and the steps of the picked one as frames."""

from collections.abc import Mapping
from functools import cached_property
from html import escape

from helpers.costs.rooflines.chips import CHIPS, chip
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.sharding.matmul_plans import Plan, order, plans
from helpers.costs.sharding.resharding import named
from helpers.costs.sharding.sharded_array import Axis, bytes_each
from helpers.live.controls import PLAY, Choice, Size, head_html, powers
from helpers.live.figure import pushed
from helpers.live.tables import Result, table_html
from helpers.live.words import reading

from .plans import DIMS, KINDS, LONGEST, NUMBERS, Meshes, function, plan_lines, states, wired
from .walks import CELL, LEFT, TOP, caption, films, out_of_a_device, picture, walks

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
NOTHING = "Nothing is sent along one axis in any step of this plan: there are no frames."
HINT = "Choose how <em>A</em> and <em>B</em> lie and how <em>C</em> is to lie; pick a plan from the list, and go through its frames."
RULES = (
    "All arrays are bf16. The lower bound is the longest of arithmetic, HBM traffic and the sum of the sends; the sum "
    "adds them all. An axis is a ring or a line of chips: on v3, v5e and v6e it is a ring if it spans the pod (32 chips on v3, "
    "else 16); on v4p, v5p and v7 all axes are rings if each is a multiple of 4, else all are lines. "
    "An axis of 2, 4 or 8 slices lies over the network between them: there a chip sends over its share of the network, in one "
    "direction. ICI and network may be busy at once, so the lower bound takes the longer of both."
)


class Explorer:
    """A live figure: plans priced, the best of them listed, the picked one's steps shown frame by frame."""

    name = "explorer"
    title = "A[I, J] · B[J, K] in bf16 on a mesh of two axes: plans, steps, frames"
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
    runners = ("grids.js", "settings.js", "play.js", "explorer.js", "figure_controls.js")

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
        return {c.name: c.value for c in self.controls} | {"plan": 0, "step": 0} | dict(changes or {})

    def ranked(self, changes: Mapping | None = None) -> tuple[list[Plan], dict[str, Axis], Chip]:
        """All plans, the cheapest first, and what they run on."""
        at = self.chosen(changes)
        mesh, c = self.meshes.mesh(at["x"], at["y"]), chip(at["chip"])
        found = plans(at["a"], at["b"], at["c"], {d: at[d] for d in "IJK"}, mesh)
        return sorted(found, key=lambda p: order(p.time(c))), {a: self.meshes.options[at[a.lower()]] for a in "XY"}, c

    def picked(self, changes: Mapping | None = None) -> tuple[Plan, int]:
        """The plan that is shown, and its place in the list."""
        every, at = self.ranked(changes)[0], int(self.chosen(changes)["plan"])
        at = min(at, len(every) - 1, RANKED - 1)
        return every[at], at

    def found(self, changes: Mapping | None = None) -> dict:
        """Numbers of the plan that is shown."""
        (every, _, c), (plan, _) = self.ranked(changes), self.picked(changes)
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
        every, _, c = self.ranked(changes)
        times = [p.time(c) for p in every[:RANKED]]
        return [(brief(p), f"{reading(t.lower, 's')} to {reading(t.upper, 's')}") for p, t in zip(every, times)]

    def rows(self, changes: Mapping | None = None) -> list[tuple[str, str, str]]:
        """The lines of the picked plan: what, bytes out of a device, time."""
        (plan, _), (_, axes, c) = self.picked(changes), self.ranked(changes)
        sent = [reading(out_of_a_device(h, axes, whole), "B") for _, h, whole in hops(plan)]
        at = sum(len(h) for h in plan.hops[:2])
        sent[at:at] = ["", ""]
        timed = [(what, "free" if t is None else reading(t, "s")) for what, t in plan_lines(plan, c)]
        return [(what, out, time) for (what, time), out in zip(timed, sent, strict=True)]

    def frames(self, changes: Mapping | None = None) -> list[tuple[str, str]]:
        """Every frame of the picked plan: its words and its drawing."""
        (plan, _), (_, axes, _) = self.picked(changes), self.ranked(changes)
        shown = [(name, w) for name, h, whole in hops(plan) for w in walks(h, axes, whole)]
        return [(f"{name}: {caption(w, k)}", picture(w, m)) for name, w in shown for k, m in enumerate(w.moments)]

    def script(self) -> str:
        """The data and the traced function as one call of JavaScript."""
        tables = {
            "kinds": KINDS,
            "dims": DIMS,
            "longest": LONGEST,
            "unwired": UNWIRED,
            "ranked": RANKED,
            "nothing": NOTHING,
        }
        data = {
            "id": f"live-{self.name}", "own": "livePlans", "args": NUMBERS, "marks": [], "say": SENTENCE + "{unwired}",
            "controls": [c.data for c in self.controls],
            "results": [r.data for r in RESULTS],
            "plans": self.meshes.tables() | tables | {"films": films(self.meshes.options.values())},
        }  # fmt: skip
        return pushed(data, function())

    def html(self) -> str:
        """Controls and list, which need the script to move; the picked plan's lines, a frame, the table."""
        key, shown = f"live-{self.name}", self.frames()
        controls = "".join(c.html(key) for c in self.controls) + self._menu(key) + _slider(key, shown)
        lines = "".join(
            f'<tr><th scope="row">{escape(what)}</th><td>{out}</td><td>{time}</td></tr>'
            for what, out, time in self.rows()
        )
        words, drawn = shown[0] if shown else (NOTHING, "")
        widest = LEFT + CELL * max(a.n for a in self.meshes.options.values()) + 2
        return (
            head_html(key, self.title, HINT, controls, self.sentence(), "live walks")
            + f'<p data-words>{escape(words)}</p><svg class="walks-frame" viewBox="0 0 {widest} {TOP + CELL * drawn.count("end") + 2}" '
            f'role="img" aria-label="{escape(words)}">{drawn}</svg>'
            '<div class="pst-scrollable-table-container"><table class="table live-plans"><caption>The steps of the plan</caption>'
            '<thead><tr><th scope="col">step</th><th scope="col">out of a device</th><th scope="col">time</th></tr></thead>'
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
            f'<div class="walks-wide"><label for="{key}-plan">Plan, the cheapest first</label>'
            f'<select id="{key}-plan" name="plan" autocomplete="off">{options}</select></div>'
        )


def hops(plan: Plan):
    """Every step of a plan that changes a sharding: the array's name, the step, and the bytes of the whole array."""
    for a, steps in zip(plan.operands, plan.hops):
        for h in steps:
            yield a.name, h, bytes_each(plan.case.dtype) * plan.sizes[a.dims[0]] * plan.sizes[a.dims[1]]


def _slider(key: str, shown) -> str:
    words, last = escape(shown[0][0]) if shown else NOTHING, max(0, len(shown) - 1)
    return (
        f'<div class="walks-wide"><label for="{key}-step">Frame</label>'
        f'<input type="range" id="{key}-step" name="step" min="0" max="{last}" value="0" step="1" '
        f'aria-valuetext="{words}"><span>1 of {len(shown)}</span></div>{PLAY}'
    )


def brief(p: Plan) -> str:
    """A plan's steps without its shardings."""
    made = [str(s).split(" ")[:2] for s in p.steps if s.kind != "Matmul"]
    before = sum(len(h) for h in p.hops[:2])
    words = [f"{what} {array[0]}" for what, array in made]
    return ", ".join([*words[:before], "product", *words[before:]])


FIGURE = Explorer()
