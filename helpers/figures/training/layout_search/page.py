"""The best layout on a page: choose a model, chips and a batch, and see what the search of all layouts finds.

`candidates` has the set, the search in Python, and what JAX traces of `costs` for the page; `layout_search.js` loops over
the set there, and tests hold the one against the other.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.training.layout_search import EQUAL
from helpers.costs.transformers.public_models import model
from helpers.figures.transformers.decoder_sizes.decoder import SIZES, sizes, structure
from helpers.live.controls import Choice, Result, Slider, control_data, control_html, counted, head_html, reading

from .candidates import (
    KEPT,
    MOST_CP,
    NAMES_OF_STEP as NAMES,
    NEAR,
    PARTS,
    ROLES,
    TIMES,
    Found,
    Place,
    axes,
    best,
    divide,
    functions,
    numbered,
    places,
    row,
    smallest,
    speeds,
)

TAKES = {
    "kernels": "kernels of the layers, forward and backward",
    "again": "kernels, done again",
    "tensor": "tp: activations",
    "experts": "ep: tokens to experts and back",
    "context": "cp: keys and values",
    "weights": "fsdp: weights and gradients",
    "unembedding": "unembedding and loss",
    "uneven": "pp: the fullest stage's more layers",
    "sends": "pp: activations between stages",
    "bubble": "pp: stages that wait",
    "gradients": "copies: sums of gradients",
    "update": "optimizer",
}
HELD = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer",
    "gathered": "gathered, two layers",
    "activations": "activations",
    "working": "made again, one layer",
    "logits": "logits",
    "library": "libraries",
}
TEXTS = {
    "layout": "layout",
    "policy": "kept for the backward pass",
    "tried": "layouts tried",
    "fitting": "of these fit",
    "most": "takes longest, kernels apart",
}
TABLE = {
    "A step": (
        Result("mid", "estimate", "s"),
        Result("low", "probably no less than", "s"),
        Result("high", "nor more than", "s"),
        Result("math", "floor: its products at published rates", "s"),
        Result("mfu", "MFU: products that the model asks for", "%"),
        Result("hfu", "HFU: products done again too", "%"),
    ),
    "Seconds of the estimate": tuple(Result(f"t{n}", TAKES[name], "s") for n, name in enumerate(PARTS)),
    "Memory of the fullest device": (
        Result("memory", "all", "B"),
        *(Result(f"m{n}", HELD[name], "B") for n, name in enumerate(ROLES)),
    ),
}
RESULTS = tuple(r for rows in TABLE.values() for r in rows)

WHERE = "{model} on {n} {chip} ({place}), {tokens} tokens a step in sequences of {T}: "
BEST = WHERE + (
    "{layout}, keeping {policy}, is best of {tried} layouts. A step is estimated to take {mid}, probably from {low} to {high}; "
    "the floor is {math}. MFU {mfu}. What takes longest, kernels apart: {most}. A device holds {memory} of {hbm}."
)
LACKS = (
    WHERE
    + "nothing fits. Of {tried} layouts {layout}, keeping {policy}, needs least: {missing} more than {hbm}. {more}"
)
MORE = "{least} chips ({larger}) would do."
NO_MORE = "Nor would more of these chips do: choose another chip, a smaller model or shorter sequences."
MANY = "{chip} ends at {most} chips ({place}) here: take {most} or fewer, or another chip."
SHORT = "A step of {tokens} tokens has no whole sequence of {T}: take {T} tokens or more, or shorter sequences."
FEW = "{n} chips cannot share {sequences} sequences: {need} tokens a step would do, or fewer chips."
NONE = "none"
HINT = "Choose a model, chips and a batch; each move searches again."
RULES = (
    "Tried: the chips in powers of two as tp · cp · ep · pp times fsdp or dp (not both), cp up to {cp}, as far as sizes and "
    "sequences divide; every ZeRO stage; microbatches in powers of two. Best is the least estimate; of those within a percent "
    "the one with the fewest axes. Tuned software with fused attention; bf16, Adam's moments in float32, no "
    "master copy of the weights, 1F1B. Bars are shares of the estimate, and of the device's memory."
)
ANY = "whichever is fastest"


@dataclass(frozen=True)
class LayoutFinder:
    """A live figure: a model, chips, a batch, and the best layout.

    models  names of `costs.transformers.public_models`, as the menu lists them
    chips   names of `costs.rooflines.chips`, and what the menu calls them
    """

    name: str
    title: str
    models: tuple[str, ...]
    chips: Mapping[str, str]
    first: Mapping[str, object]  # what the controls say at first
    n: tuple[int, int]  # least and most of the sliders, as powers of two: chips, tokens, T
    tokens: tuple[int, int]
    T: tuple[int, int]
    runners = ("candidates.js", "layout_search.js", "figure_controls.js")

    @cached_property
    def controls(self) -> tuple[Choice | Slider, ...]:
        keep = {ANY: {}} | {policy: {} for policy in KEPT}
        return (
            Choice("model", "Model", self.first["model"], {name: {} for name in self.models}),
            Choice("chip", "Chip", self.first["chip"], {label: {} for label in self.chips.values()}),
            Slider("n", "Chips", self.first["n"], *self.n, step=1),
            Slider("tokens", "Tokens a step", self.first["tokens"], *self.tokens, step=1),
            Slider("T", "T, context", self.first["T"], *self.T, step=1),
            Choice("keep", "Keep for backward", self.first["keep"], keep),
        )

    def chosen(self, changes: Mapping | None = None) -> tuple[dict, Chip]:
        """What all controls say, and the chip."""
        at = {**self.first, **(changes or {})}
        return at, chip(next(name for name, label in self.chips.items() if label == at["chip"]))

    def place(self, at: Mapping, of: Chip) -> Place | None:
        return next((p for p in self.places(of) if p.chips == at["n"]), None)

    def places(self, of: Chip) -> list[Place]:
        """As many chips as the slider can say."""
        return [p for p in places(of.name) if p.chips <= 2 ** self.n[1]]

    def found(self, changes: Mapping | None = None) -> Found:
        """What the search finds."""
        at, of = self.chosen(changes)
        there = self.place(at, of)
        return best(model(at["model"]), there, at["tokens"], at["T"], self.kept(at)) if there else Found(None, 0, 0)

    def kept(self, at: Mapping) -> tuple[str, ...]:
        return KEPT if at["keep"] == ANY else (at["keep"],)

    def values(self, found: Found) -> dict[str, float]:
        """All results as numbers; times are unknown where nothing fits, everything where nothing can be tried."""
        if found.step is None:
            return dict.fromkeys(NAMES, math.nan)
        values = dict(zip(NAMES, row(found.step, found.step.estimate)))
        values |= {name: 100 * values[name] for name in ("mfu", "hfu")}
        return (
            values
            if found.fitting
            else {n: x if n == "memory" or n[0] == "m" and n[1:].isdigit() else math.nan for n, x in values.items()}
        )

    def said(self, found: Found) -> dict[str, str]:
        """What the table says."""
        values = self.values(found)
        said = {r.name: reading(values[r.name], r.unit) for r in RESULTS} | dict.fromkeys(TEXTS, NONE)
        if found.step is None:
            return said
        said |= {"tried": f"{found.tried:,}", "fitting": f"{found.fitting:,}", "layout": axes(found.step.layout)}
        said |= {"policy": found.step.layout.policy}
        if found.fitting:
            said["most"] = longest(values)
        return said

    def sentence(self, found: Found, changes: Mapping | None = None) -> str:
        """What is said after each change."""
        return counted(self._sentence(found, changes))

    def _sentence(self, found: Found, changes: Mapping | None) -> str:
        at, of = self.chosen(changes)
        words = {n: f"{x:,}" if isinstance(x, int) else x for n, x in at.items()} | self.said(found)
        there, last = self.place(at, of), self.places(of)[-1]
        if there is None:
            return MANY.format(**words | {"most": f"{last.chips:,}", "place": str(last)})
        words |= {"place": str(there), "hbm": reading(of.hbm_bytes, "B")}
        if found.fitting:
            return BEST.format(**words)
        if at["tokens"] < at["T"]:
            return SHORT.format(**words)
        if found.step is None:
            need = next(2**n for n in range(1, 64) if best(model(at["model"]), there, 2**n, at["T"], KEPT[:1]).tried)
            return FEW.format(**words | {"sequences": f"{at['tokens'] // at['T']:,}", "need": f"{need:,}"})
        words["missing"] = reading(found.step.missing, "B")
        larger = smallest(model(at["model"]), of.name, at["n"], at["tokens"], at["T"], self.kept(at))
        fits = larger and larger.chips <= 2 ** self.n[1]
        words["more"] = MORE.format(least=f"{larger.chips:,}", larger=str(larger)) if fits else NO_MORE
        return LACKS.format(**words)

    def script(self) -> str:
        """The data and the traced functions as one call of JavaScript."""
        structures = list(dict.fromkeys(structure(model(name)) for name in self.models))
        texts, at = functions(tuple(structures))
        data = {
            "id": f"live-{self.name}", "args": (), "marks": [],
            "controls": [control_data(c) for c in self.controls],
            "results": [{"name": r.name, "unit": r.unit, "words": r.words} for r in RESULTS],
            "layouts": {
                "models": {n: _model(n, at[structures.index(structure(model(n)))]) for n in self.models},
                "chips": {label: self._chip(chip(name)) for name, label in self.chips.items()},
                "kept": KEPT, "any": ANY, "near": NEAR, "equal": EQUAL,
            "cp": MOST_CP, "names": NAMES, "times": len(TIMES),
                "parts": len(PARTS),
                "best": BEST, "lacks": LACKS, "more": MORE, "noMore": NO_MORE, "many": MANY, "short": SHORT, "few": FEW,
                "none": NONE,
            },
        }  # fmt: skip
        text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
        return f"(window.liveFigures=window.liveFigures||[]).push([{text},\n[{','.join(texts)}]]);"

    def _chip(self, of: Chip) -> dict:
        """A chip's numbers, and for each place the arguments of its wires and its words."""
        there = [numbered(p) for p in self.places(of)]
        return {"speeds": speeds(of), "kind": 0 if of.axes else 1, "places": there}

    def html(self) -> str:
        """Controls, which stay hidden until the script has started; the sentence and the table."""
        key, found = f"live-{self.name}", self.found()
        values, said = self.values(found), self.said(found)
        controls = "".join(control_html(key, c) for c in self.controls)
        texts = "".join(
            _line(label, f'<span data-say="{name}">{escape(said[name])}</span>') for name, label in TEXTS.items()
        )
        return (
            head_html(key, self.title, HINT, controls, self.sentence(found), "live live-many")
            + f'<div class="pst-scrollable-table-container"><table class="table live-plans"><caption>{escape(self.title)}</caption>'
            '<thead><tr><th scope="col">what</th><th scope="col">how much</th></tr></thead>'
            f'<tbody><tr><th colspan="2" scope="rowgroup">Found</th></tr>{texts}</tbody>'
            + "".join(_group(heading, rows, values, self.chosen()[1]) for heading, rows in TABLE.items())
            + f"</table></div><figcaption>{escape(RULES.format(cp=MOST_CP))}</figcaption></figure>"
        )


def longest(values: Mapping[str, float]) -> str:
    """What a step takes longest for, kernels of its layers apart, in words."""
    parts = [values[f"t{n}"] for n in range(2, len(PARTS))]
    return [*TAKES.values()][2 + parts.index(max(parts))]


def _model(name: str, at: list) -> dict:
    has = dict.fromkeys(SIZES, 1) | sizes(model(name))
    return {"sizes": [has[s] for s in SIZES], "at": at, "may": divide(model(name))}


def _line(label: str, cell: str, hidden: bool = False) -> str:
    return f'<tr{" hidden" if hidden else ""}><th scope="row">{escape(label)}</th><td>{cell}</td></tr>'


def _group(heading: str, rows: tuple[Result, ...], values: Mapping[str, float], of: Chip) -> str:
    lines = [f'<tbody><tr><th colspan="2" scope="rowgroup">{escape(heading)}</th></tr>']
    for r in rows:
        value, bar = values[r.name], ""
        if r.name[1:].isdigit():
            share = value / values["mid"] if r.name[0] == "t" else value / max(of.hbm_bytes, values["memory"])
            bar = f'<span class="live-bar" data-bar="{r.name}" style="width:{100 * share:.1f}%"></span>'
        cell = f'<span data-result="{r.name}">{escape(reading(value, r.unit))}</span>{bar}'
        lines.append(_line(r.label, cell, bool(bar) and value == 0))
    return "".join(lines) + "</tbody>"
