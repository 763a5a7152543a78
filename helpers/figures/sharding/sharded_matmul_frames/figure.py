"""The explorer's own page: plans ranked, and the steps of the picked one as frames: who holds what, and what leaves.

What a plan costs stands in `matmul_plans`, what crosses links in `costs.sharding.collective_steps`.
A collective over two axes is shown as one over each, in the order that sends least; its price has the links of both axes busy at once.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from math import prod

from helpers.costs.rooflines.chips import CHIPS, chip
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.sharding import collective_steps
from helpers.costs.sharding.matmul_plans import Plan, order, plans
from helpers.costs.sharding.resharding import Hop
from helpers.costs.sharding.sharded_array import Axis, bytes_each
from helpers.figures.sharding.sharded_matmul_costs import plans as explorer
from helpers.figures.sharding.sharded_matmul_costs.plans import Meshes, PlanExplorer, plan_lines
from helpers.live.controls import PLAY, control_html, head_html
from helpers.live.tables import table_html
from helpers.live.words import reading

RANKED = 6  # plans in the list
CELL, LEFT, TOP = 20, 62, 34  # pixels: a cell, room for the devices' names, room for the blocks'


@dataclass(frozen=True)
class Moment:
    """A frame of a step, as numbers.

    held   row for each device along the axis: how much of each block it holds; of a sum, how many partial sums; of an
           AllToAll, how many blocks for each device
    sent   (device, block) that leave in this frame
    out    blocks that the busiest device sends in it
    link   blocks over the busiest link in one direction
    """

    held: tuple[tuple[float, ...], ...]
    sent: frozenset[tuple[int, int]]
    out: float
    link: float


@dataclass(frozen=True)
class Walk:
    """A collective over one axis: its moments, the last one its end, and the bytes of a block."""

    kind: str
    over: str
    axis: Axis
    block: float
    moments: tuple[Moment, ...]

    @property
    def out(self) -> float:
        """Bytes that leave the busiest device in all."""
        return self.block * sum(m.out for m in self.moments)


def walk(kind: str, over: str, axis: Axis, block: float) -> Walk:
    """The frames of one collective along one axis, links used both ways.

    >>> [(m.out, m.link) for m in walk("AllGather", "X", Axis(4, wraps=False), 1.0).moments]
    [(2, 1), (2, 1), (1, 1), (0, 0)]
    """
    make = {
        "AllGather": collective_steps.all_gather,
        "ReduceScatter": collective_steps.reduce_scatter,
        "AllReduce": collective_steps.all_reduce,
        "AllToAll": collective_steps.all_to_all,
    }
    if axis.link == "ici":
        film = make[kind](axis)
    elif kind == "AllToAll":
        return Walk(kind, over, axis, block, tuple(_direct(axis.n)))
    else:  # counterparts in other slices: a ring that turns one way
        film = make[kind](Axis(axis.n), 1)
    return Walk(kind, over, axis, block, tuple(_moment(film, f) for f in film.frames))


def _direct(n: int) -> Iterator[Moment]:
    """An AllToAll over a network: in step t each device sends one block, straight to the t-th device after it.

    >>> [sorted(m.sent) for m in _direct(2)]
    [[(0, 1), (1, 0)], []]
    """
    held = [[1.0] * n for _ in range(n)]
    for t in range(1, n):
        sent = frozenset((d, (d + t) % n) for d in range(n))
        yield Moment(tuple(map(tuple, held)), sent, 1, 1)
        for d, to in sent:
            held[d][to] -= 1
            held[to][to] += 1
    yield Moment(tuple(map(tuple, held)), frozenset(), 0, 0)


def _moment(film: collective_steps.Film, frame: collective_steps.Frame) -> Moment:
    n, held = film.axis.n, []
    for h in frame.held:
        row = [0.0] * n
        for block, parts in h.items():
            if film.kind == "AllToAll":
                row[block[1]] += len(parts) / 2
            else:
                row[block] += len(parts)
        held.append(tuple(row))
    sent = frozenset((s.src, s.block[1] if film.kind == "AllToAll" else s.block) for s in frame.sends)
    out, link = Counter(), Counter()
    for s in frame.sends:
        out[s.src] += s.share
        link[s.src, s.way] += s.share
    return Moment(tuple(held), sent, max(out.values(), default=0), max(link.values(), default=0))


def walks(h: Hop, axes: Mapping[str, Axis], whole: float) -> list[Walk]:
    """A step as collectives along one axis each: none where nothing is sent, or where whole blocks change places.

    Sums are scattered inside slices first, and gathers begin between slices, so that the network carries least.

    whole  bytes of the array without any sharding
    """
    held = whole / prod(axes[a].n for a in {a for cut in h.before[0] for a in cut})
    over_axes, out = sorted(h.axes, key=lambda a: axes[a].link == "dcn"), []

    def go(kind, over):
        nonlocal held
        n = axes[over].n
        out.append(walk(kind, over, axes[over], held if kind == "AllGather" else held / n))
        held *= {"AllGather": n, "ReduceScatter": 1 / n}.get(kind, 1)

    if h.kind == "AllReduce":
        *outer, last = over_axes
        ring = axes[last].link == "dcn" or (axes[last].wraps and axes[last].n > 2)
        for a in outer:
            go("ReduceScatter", a)
        for kind in ("ReduceScatter", "AllGather") if ring else ("AllReduce",):
            go(kind, last)
        for a in reversed(outer):
            go("AllGather", a)
    elif h.kind in ("ReduceScatter", "AllToAll"):
        for a in over_axes:
            go(h.kind, a)
    elif h.kind == "AllGather":
        for a in reversed(over_axes):
            go("AllGather", a)
    return out


def picture(w: Walk, m: Moment) -> str:
    """One frame: a row for each device along the axis, a column for each block; dark = much, thick edge = leaves now."""
    n, most = w.axis.n, 1 if w.kind == "AllGather" else w.axis.n
    out = [_word(LEFT + n * CELL / 2, 12, "block for device" if w.kind == "AllToAll" else "block", "middle")]
    for k in range(n):
        out.append(_word(LEFT + (k + 0.5) * CELL, TOP - 6, k, "middle"))
        out.append(_word(LEFT - 6, TOP + (k + 0.7) * CELL, f"{w.over} = {k}", "end"))
    for d, row in enumerate(m.held):
        for b, amount in enumerate(row):
            x, y, bold = LEFT + b * CELL, TOP + d * CELL, (d, b) in m.sent
            out.append(
                f'<rect x="{x + 1}" y="{y + 1}" width="{CELL - 2}" height="{CELL - 2}" fill-opacity="{0.65 * amount / most:.2f}" '
                f'stroke-width="{2.5 if bold else 0.4}"/>'
            )
            if amount and w.kind != "AllGather":
                out.append(_word(x + CELL / 2, y + 14, f"{amount:g}".replace("0.5", "½").replace(".5", "½"), "middle"))
    return "".join(out)


def _word(x: float, y: float, text, anchor: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{text}</text>'


def caption(w: Walk, k: int) -> str:
    """A frame in words.

    >>> caption(walk("AllGather", "X", Axis(4), 2e6), 0)
    'AllGather over X, step 1 of 2: a device sends at most 4.00 MB, a link carries at most 2.00 MB one way.'
    """
    m, last = w.moments[k], len(w.moments) - 1
    if k == last:
        return f"{w.kind} over {w.over}, end: {reading(w.out, 'B')} have left the busiest device."
    if w.axis.link == "dcn":
        return f"{w.kind} over {w.over}, step {k + 1} of {last}: a device sends {reading(m.out * w.block, 'B')} over the network."
    return (
        f"{w.kind} over {w.over}, step {k + 1} of {last}: a device sends at most {reading(m.out * w.block, 'B')}, "
        f"a link carries at most {reading(m.link * w.block, 'B')} one way."
    )


def out_of_a_device(h: Hop, axes: Mapping[str, Axis], whole: float) -> float:
    """Bytes that leave the busiest device in a step; in a Permute what it holds."""
    if h.kind == "Permute":
        return whole / prod(axes[a].n for a in {a for cut in h.before[0] for a in cut})
    return sum(w.out for w in walks(h, axes, whole))


SLICES = (
    "An axis of 2, 4 or 8 slices lies over the network between them: there a chip sends over its share of the network, in one "
    "direction. ICI and network may be busy at once, so the lower bound takes the longer of both."
)
NOTHING = "Nothing is sent along one axis in any step of this plan: there are no frames."
HINT = "Choose how <em>A</em> and <em>B</em> lie and how <em>C</em> is to lie; pick a plan from the list, and go through its frames."


@dataclass(frozen=True)
class PlanWalker(PlanExplorer):
    """A live figure: plans priced, the best of them listed, the picked one's steps shown frame by frame."""

    runners = (
        "grids.js",
        "settings.js",
        "play.js",
        "sharded_matmul_costs.js",
        "sharded_matmul_frames.js",
        "figure_controls.js",
    )
    say = "{chip}, X = {x}, Y = {y}: plan {rank} of {count} is bound by {bound}, between {lower} and {upper}."

    def ranked(self, chosen: Mapping[str, float | str] | None = None) -> tuple[list[Plan], dict[str, Axis], Chip]:
        """All plans, the cheapest first, and what they run on."""
        at = self._at(chosen)
        sizes = {d: at[d] for d in "IJK"}
        mesh, c = self.meshes.mesh(at["x"], at["y"]), chip(at["chip"])
        every = sorted(plans(at["a"], at["b"], at["c"], sizes, mesh), key=lambda p: order(p.time(c)))
        return every, {a: self.meshes.options[at[a.lower()]] for a in "XY"}, c

    def _at(self, chosen):
        return {c.name: c.value for c in self.controls} | {"plan": 0, "step": 0} | dict(chosen or {})

    def picked(self, chosen=None) -> tuple[Plan, int]:
        """The plan that is shown, and its place in the list."""
        every, at = self.ranked(chosen)[0], int(self._at(chosen)["plan"])
        at = min(at, len(every) - 1, RANKED - 1)
        return every[at], at

    def found(self, chosen=None) -> tuple[dict, list[tuple[Plan, Chip]]]:
        every, _, c = self.ranked(chosen)
        plan, _ = self.picked(chosen)
        t = plan.time(c)
        values = {
            "lower": t.lower, "upper": t.upper, "bound": explorer.BOUNDS.index(t.bound), "peak": plan.peak,
            "fits": int(plan.peak <= c.hbm_bytes), "count": len(every),
        }  # fmt: skip
        return values, [(plan, c)]

    def said(self, chosen=None) -> dict[str, str]:
        return super().said(chosen) | {"rank": str(self.picked(chosen)[1] + 1)}

    def listed(self, chosen=None) -> list[tuple[str, str]]:
        """The ranked plans: their steps in brief, and their bounds."""
        every, _, c = self.ranked(chosen)
        return [(brief(p), _range(p.time(c))) for p in every[:RANKED]]

    def rows(self, chosen=None) -> list[tuple[str, str, str]]:
        """The lines of the picked plan: what, bytes out of a device, time."""
        plan, _ = self.picked(chosen)
        _, axes, c = self.ranked(chosen)
        sent = [reading(out_of_a_device(h, axes, w), "B") for h, w in self._hops(plan)]
        at = sum(len(h) for h in plan.hops[:2])
        sent[at:at] = ["", ""]
        timed = [(what, "free" if t is None else reading(t, "s")) for what, t in plan_lines(plan, c)]
        return [(what, out, time) for (what, time), out in zip(timed, sent, strict=True)]

    def _hops(self, plan: Plan):
        for a, hops in zip(plan.operands, plan.hops):
            for h in hops:
                yield h, bytes_each(plan.case.dtype) * plan.sizes[a.dims[0]] * plan.sizes[a.dims[1]]

    def frames(self, chosen=None) -> list[tuple[str, str]]:
        """Every frame of the picked plan: its words and its drawing."""
        plan, axes = self.picked(chosen)[0], self.ranked(chosen)[1]
        names = [a.name for a, hops in zip(plan.operands, plan.hops) for _ in hops]
        out = []
        for name, (h, whole) in zip(names, self._hops(plan)):
            for w in walks(h, axes, whole):
                out += [(f"{name}: {caption(w, k)}", picture(w, m)) for k, m in enumerate(w.moments)]
        return out

    def sentence(self, chosen=None) -> str:
        whole = super().sentence(chosen)
        at = self._at(chosen) | self.said(chosen)
        return whole.replace(explorer.SENTENCE.format(**at), self.say.format(**at))

    def script(self) -> str:
        mine = f'"say":"{self.say}{{unwired}}","walks":{{"ranked":{RANKED},"nothing":"{NOTHING}"}}'
        return super().script().replace(f'"say":"{explorer.SENTENCE}{{unwired}}"', mine)

    def html(self) -> str:
        """Controls and list, which need the script to move; the picked plan's lines, a frame, the table."""
        key, shown = f"live-{self.name}", self.frames()
        controls = "".join(control_html(key, c) for c in self.controls) + self._menu(key) + _slider(key, shown)
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
            + table_html("The plan in numbers", self.results, self.found()[0], self.said())
            + f"<figcaption>{escape(explorer.WIRING)} {escape(SLICES)}</figcaption></figure>"
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


def _range(t) -> str:
    return f"{reading(t.lower, 's')} to {reading(t.upper, 's')}"


FIGURE = PlanWalker(
    name="explorer",
    title="A[I, J] · B[J, K] in bf16 on a mesh of two axes: plans, steps, frames",
    meshes=Meshes(
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
    ),
    sizes={"I": 8192, "J": 8192, "K": 32768},
    x="4 in a ring",
    y="8 in a ring",
    operands=("[I_X, J_Y]", "[J, K_Y]", "[I_X, K_Y]"),
    chips=("v5p", *(name for name, c in CHIPS.items() if c.axes and name != "v5p")),
)
