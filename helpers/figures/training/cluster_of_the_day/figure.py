"""The cluster of the day on a page: place the axes, run a step, and see where it stands among all layouts that fit.

`costs.training.layout_search` ranks them, and the page has its set and its rank as the figure of layouts has them: `candidates.js`
searches beside the page's thread, and `day.js` says what was found. Python draws the first day, with the layout of START.
"""

from bisect import bisect
from collections.abc import Mapping
from datetime import date
from functools import cache, cached_property
from html import escape

from helpers.costs.rooflines.chips import chip, menu
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.rooflines.machines import machines
from helpers.costs.training.layout import MASTER, Layout
from helpers.costs.training.layout_search import KEPT, NEAR, Ranking, ranking
from helpers.costs.training.partial_layout import completed_layout
from helpers.costs.training.training_step import Step, step
from helpers.costs.transformers.public_models import model
from helpers.figures.training.layout_search.candidates import (
    HELD,
    NAMES_OF_STEP,
    PARTS,
    ROLES,
    TAKES,
    axes,
    divide,
    functions,
    longest,
    numbered,
    ranks,
    row,
    speeds,
    tools,
    whole,
)
from helpers.figures.transformers.decoder_sizes.decoder import structure
from helpers.live.controls import Size, head_html, powers
from helpers.live.drawings import Box, Boxes, Follows, Label
from helpers.live.figure import pushed
from helpers.live.jaxpr_to_javascript import javascript
from helpers.live.tables import Result, Rows
from helpers.live.words import reading
from helpers.numeric import maximum

from .draw import FIRST, MACHINES, ROWS, Cluster, cluster

START = {"tp": 8} | dict.fromkeys(("cp", "ep", "fsdp", "pp", "microbatches"), 1)  # run before the reader comes
LABELS = {"cp": "cp, context", "ep": "ep, experts", "pp": "pp, stages"}
EDGES = tuple(2 ** (n / 4) for n in range(16))  # of bars, by the best; the last bar has all beyond, too
HIGH, FOOT, WIDE = 112, 144, 100 / len(EDGES)  # pixels of the highest bar and of the axis; a bar's share of the width
SAYS = {"layout": "layout", "policy": "kept for the backward pass", "most": "takes longest, kernels apart"}
TABLE = {
    "A step": (
        Result("mid", "estimate", "s"),
        Result("low", "probably no less than", "s"),
        Result("high", "nor more than", "s"),
        Result("math", "floor: its products at published rates", "s"),
        Result("mfu", "MFU: products that the model asks for", "%"),
        Result("hfu", "HFU: products done again too", "%"),
    ),
    "Seconds of the estimate": tuple(Result(f"t{n}", TAKES[name], "s", share="mid") for n, name in enumerate(PARTS)),
    "Memory of the fullest device": (
        Result("memory", "all", "B"),
        *(Result(f"m{n}", HELD[name], "B", share="m_all") for n, name in enumerate(ROLES)),
    ),
}
RESULTS = tuple(r for rows in TABLE.values() for r in rows)

HINT = "Place the axes, then run a step. Chips that you leave go to dp; ZeRO, v and what is kept for the backward pass are chosen to suit."
SENTENCES = {
    "given": "{model} on {n} {chip} ({place}), {tokens} tokens a step in sequences of {T}. A device holds {hbm}.",
    "ran": "{layout}, keeping {policy}, takes {mid}{beside}. Kernels apart, it waits longest for {most}. "
    "A device holds {memory}.",
    "beside": ", {times} of the best, and is faster than {share} % of the {fitting} layouts that fit",
    "waiting": "; all layouts are being tried",
    "full": "{layout} does not fit: keeping {policy}, a device would hold {memory} of {hbm}.",
    "moved": "{placed} is not run yet.",
    "other": "{took} chips do not divide the {n} that there are: take fewer along an axis.",
    "suits": "{axis}={value} does not suit {model}: take {fit}.",
    "batch": "{sequences} sequences do not divide over {shards} shards x {microbatches} microbatches: take fewer.",
    "day": "There is no cluster for “{day}”: write a day such as {first}, or a later one.",
    "alt": "Histogram of the seconds of {fitting} layouts that fit, as multiples of the best one's. Half of them take {median}× or "
    "more; yours: {times}.",
    "noAlt": "All layouts of the day are still being tried.",
    "best": "{layout}, keeping {policy}: {seconds}",
    "line": "R2R {date} · {times} of the best · {tries}",
    "noLine": "none yet: run a step that fits",
    "none": "none",
}
RULES = (
    "A layout shares the chips as tp · cp · ep · fsdp · dp · pp, with the settings that suit it best. The best is the planner's first: "
    "of those within a percent of the least estimate the simplest one. What is faster counts as 1.00×."
)
STILL = "This page needs JavaScript for the cluster of today; here are another day's, and one layout of it."
BARS = range(len(EDGES))
DRAWING = Boxes(FOOT + 40, (
    Box("hatch", Follows("you", WIDE, "%"), "18", f"{WIDE - 0.6:.2f}%", f"{FOOT - 18}"),
    *(Box("work", f"{n * WIDE:.2f}%", Follows(f"h{n}", -HIGH, start=FOOT), f"{WIDE - 0.6:.2f}%", Follows(f"h{n}", HIGH)) for n in BARS),
    Label(Follows("you", WIDE, "%"), "14", "you"),
    Box("axis", "0", f"{FOOT}", "100%", "1"),
    *(Label(f"{n * WIDE:.2f}%", f"{FOOT + 18}", f"{EDGES[n]:.0f}×") for n in BARS[::4]),
    Label("0", f"{FOOT + 36}", "seconds of a step ÷ those of the best; height: layouts"),
))  # fmt: skip


def times(mid, best):
    """Seconds as multiples of the best one's, which a layout that is not as simple may be below by a percent."""
    return maximum(1.0, mid / best)


@cache
def ranked(cluster: Cluster) -> Ranking:
    """All layouts."""
    template = Layout(pods=cluster.machine.pods, stored=MASTER)
    return ranking(model(cluster.model), cluster.tokens, cluster.T, cluster.machine.slice, template)


def placed(cluster: Cluster, given: Mapping[str, int]) -> Step:
    """The step of a layout that a reader places: the search completes it."""
    c, s, template = model(cluster.model), cluster.machine.slice, Layout(pods=cluster.machine.pods, stored=MASTER)
    layout = completed_layout(c, given, cluster.tokens, cluster.T, s, template).layout
    return step(c, layout, cluster.tokens, cluster.T, s, "causal")


class DayFigure:
    """A live figure: the cluster of a day, and a layout that the reader places."""

    name, title, models = "day", "The cluster of the day", tuple(MACHINES)
    chips = {name: label for name, label in menu("planner").items() if name in {there.chip for there in ROWS}}
    runners = ("grids.js", "settings.js", "candidates.js", "day.js", "figure_controls.js")

    @cached_property
    def controls(self) -> tuple[Size, ...]:
        return tuple(Size(name, LABELS.get(name, name), x, 1, 512, steps=powers(0, 9)) for name, x in START.items())

    @cached_property
    def example(self) -> tuple[dict, dict]:
        """START on the first day: what the page shows of it as numbers and in words."""
        there, step = cluster(0), placed(cluster(0), START)
        every, mid, best = ranked(there), float(step.estimate.mid), ranked(there).layout(0)
        seconds, of = sorted(every.seconds[: every.fits].tolist()), every.seconds[0]
        you, *bars = (bisect(EDGES, times(s, of) * NEAR) - 1 for s in (mid, *seconds))
        values = dict(zip(NAMES_OF_STEP, row(step, step.estimate))) | {"you": you}
        values |= {f"h{n}": bars.count(n) / max(map(bars.count, bars)) for n in BARS}
        hbm = there.machine.slice.chip.hbm_bytes
        said = {name: f"{x:,}" if isinstance(x, int) else x for name, x in vars(there).items()}
        said |= {"chip": self.chips[there.chip], "place": f"{there.machine}", "hbm": reading(hbm, "B")}
        said |= {r.name: reading(values[r.name], r.unit) for r in RESULTS}
        said |= {"layout": axes(step.layout), "policy": step.layout.policy, "most": longest(values)}
        said |= {
            "best": SENTENCES["best"].format(layout=axes(best), policy=best.policy, seconds=reading(of, "s")),
            "line": SENTENCES["noLine"], "share": f"{100 * (len(seconds) - bisect(seconds, mid * NEAR)) // len(seconds)}",
            "times": f"{times(mid, of):.2f}×", "fitting": f"{len(seconds)}", "median": f"{times(seconds[len(seconds) // 2], of):.2f}",
        }  # fmt: skip
        said["given"] = SENTENCES["given"].format(**said)
        said["say"] = SENTENCES["ran"].format(**said, beside=SENTENCES["beside"].format(**said))
        return values | {"m_all": max(hbm, values["memory"])}, said

    def script(self) -> str:
        """The data and the traced functions as one call of JavaScript."""
        structures = tuple(dict.fromkeys(structure(model(name)) for name in self.models))
        texts, at = functions(structures, not any(chip(name).neighbours for name in self.chips))
        models = {}
        for name in self.models:
            c = model(name)
            models[name] = {"sizes": [*whole(c).values()], "at": at[structures.index(structure(c))], "may": divide(c)}
        data = {
            "id": f"live-{self.name}", "own": "liveLayouts", "args": (),
            "controls": [c.data for c in self.controls],
            "results": [r.data for r in RESULTS],
            "layouts": {"models": models, "chips": {label: _chip(chip(name)) for name, label in self.chips.items()}} | _days(self),
            **DRAWING.data(), "alt": "{alt}",
        }  # fmt: skip
        return pushed(data, f"{{F:[{','.join(texts)}],rank:{ranks()},times:{javascript(times, 8.0, 8.0)}}}")

    def html(self) -> str:
        """Controls, which stay hidden until the script has started; the sentence, the histogram, the best and the table."""
        key, (values, said) = f"live-{self.name}", self.example
        day = f'<div><label for="{key}-day">Day</label><input type="text" id="{key}-day" name="day" value="{FIRST}"></div>'
        controls = day + "".join(c.html(key) for c in self.controls)
        results = {name: Result(name, label) for name, label in SAYS.items()} | {r.name: r for r in RESULTS}
        groups = {"Placed": tuple(SAYS)} | {heading: tuple(r.name for r in rows) for heading, rows in TABLE.items()}
        button = '<div class="live-play"{}><button>{}</button></div>'
        return (
            head_html(
                key, self.title, HINT, controls + button.format("", "Run a step"), said["say"], "live live-many",
                above=f'<noscript><p>{STILL}</p></noscript><p><b data-say="given">{escape(said["given"])}</b></p>',
            )
            + DRAWING.svg(key, SENTENCES["alt"].format(**said), values, said)
            + f'<p>To copy: <b data-say="line">{escape(said["line"])}</b></p>{button.format(" hidden", "Copy")}'
            + f'<details><summary>The best layout</summary><p data-say="best">{escape(said["best"])}</p></details>'
            + Rows(groups).html("Your step", results, values, said) + f"<figcaption>{escape(RULES)}</figcaption></figure>"
        )  # fmt: skip


def _chip(chip: Chip) -> dict:
    """A chip's numbers, and for each place the arguments of its wires and its words."""
    return {"speeds": speeds(chip), "kind": 0 if chip.axes else 1, "places": [numbered(p) for p in machines(chip, 512)]}


def _days(figure: DayFigure) -> dict:
    """What the page knows of all days, and of the first how its layouts rank."""
    every, days = ranked(cluster(0)), [cluster(day) for day in range(len(ROWS))]
    best = vars(every.layout(0)) | {"seconds": every.seconds[0], "policy": KEPT.index(every.layout(0).policy)}
    best["mesh"] = [best[axis] for axis in ("tp", "cp", "ep", "fsdp", "dp", "pp")]
    known = {name: best[name] for name in ("mesh", "zero", "microbatches", "v", "policy", "seconds")}
    return tools() | {
        "stored": (MASTER.gradient, MASTER.state), "say": SENTENCES, "edges": EDGES, "near": NEAR, "start": START,
        "epoch": (FIRST - date(1970, 1, 1)).days,
        "days": [[there.model, figure.chips[there.chip], there.n, there.tokens, there.T] for there in days],
        "known": {0: {"fits": every.seconds[: every.fits].tolist(), "best": known}},
    }  # fmt: skip


FIGURE = DayFigure()
