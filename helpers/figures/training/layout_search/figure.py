"""The best layout on a page: choose a model, chips and a batch, and see what the search of all layouts finds.

`costs.training.layout_search` finds it; `candidates` has what JAX traces of `costs` for the page, where `candidates.js` searches the
same set, and tests hold the one against the other.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape

from helpers.costs.rooflines.chips import chip, menu
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.rooflines.machines import Machine, machines
from helpers.costs.training import layout_search
from helpers.costs.training.layout import MASTER, Layout
from helpers.costs.training.layout_search import KEPT
from helpers.costs.training.training_step import Step, step
from helpers.costs.transformers.public_models import model
from helpers.figures.training.layout_search.candidates import (
    NAMES_OF_STEP as NAMES,
    PARTS,
    ROLES,
    axes,
    divide,
    functions,
    numbered,
    ranks,
    row,
    speeds,
    tools,
    whole,
)
from helpers.figures.transformers.decoder_sizes.decoder import structure
from helpers.live.controls import Choice, Size, control_data, control_html, head_html, powers
from helpers.live.tables import Result, Rows
from helpers.live.words import counted, reading

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
    "Seconds of the estimate": tuple(Result(f"t{n}", TAKES[name], "s", share="mid") for n, name in enumerate(PARTS)),
    "Memory of the fullest device": (
        Result("memory", "all", "B"),
        *(Result(f"m{n}", HELD[name], "B", share="m_all") for n, name in enumerate(ROLES)),
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
HINT = "Choose a dense model, chips and a batch; each move searches again. The planner has mixtures, too."
RULES = (
    "Tried: the chips as tp · cp · fsdp · dp · pp, every ZeRO stage and number of microbatches, as far as sizes and sequences "
    "divide. Of those within a percent of the least estimate the one with the fewest axes is best. "
    "Tuned software with fused attention; bf16, Adam's moments and a master copy of the weights in float32, "
    "1F1B with v stages on each device. Bars are shares of the estimate, and of the device's memory."
)
ANY = "whichever is fastest"


@dataclass(frozen=True)
class Found:
    """What a search found.

    step     the best step that fits; if none does, the one that needs least memory
    tried    layouts, once for each policy
    fitting  those of them that fit
    """

    step: Step | None = None
    tried: int = 0
    fitting: int = 0


def _power(name: str, label: str, value: int, low: int, high: int) -> Size:
    return Size(name, label, value, 2**low, 2**high, steps=powers(low, high))


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
    runners = ("grids.js", "settings.js", "candidates.js", "layout_search.js", "figure_controls.js")

    @cached_property
    def controls(self) -> tuple[Choice | Size, ...]:
        keep = {ANY: {}} | {policy: {} for policy in KEPT}
        return (
            Choice("model", "Model", self.first["model"], {name: {} for name in self.models}),
            Choice("chip", "Chip", self.first["chip"], {label: {} for label in self.chips.values()}),
            _power("n", "Chips", self.first["n"], *self.n),
            _power("tokens", "Tokens a step", self.first["tokens"], *self.tokens),
            _power("T", "T, context", self.first["T"], *self.T),
            Choice("keep", "Keep for backward", self.first["keep"], keep),
        )

    def chosen(self, changes: Mapping | None = None) -> tuple[dict, Chip]:
        """What all controls say, and the chip."""
        at = {**self.first, **(changes or {})}
        return at, chip(next(name for name, label in self.chips.items() if label == at["chip"]))

    def place(self, chosen: Mapping, chip: Chip) -> Machine | None:
        return next((m for m in self.places(chip) if m.chips == chosen["n"]), None)

    def places(self, chip: Chip) -> list[Machine]:
        """As many chips as the slider can say."""
        return [*machines(chip, 2 ** self.n[1])]

    def found(self, changes: Mapping | None = None) -> Found:
        """What the search finds."""
        at, of = self.chosen(changes)
        there = self.place(at, of)
        return self.search(at, there, at["tokens"]) if there else Found()

    def search(self, chosen: Mapping, machine: Machine, tokens: int) -> Found:
        c, T = model(chosen["model"]), chosen["T"]
        if tokens < T:
            return Found()
        found = layout_search.ranking(
            c, tokens, T, machine.slice, Layout(pods=machine.pods, stored=MASTER), self.kept(chosen)
        )
        first = step(c, found.layout(0), tokens, T, machine.slice, "causal") if len(found) else None
        return Found(first, found.tried, found.fitting)

    def kept(self, chosen: Mapping) -> tuple[str, ...]:
        return KEPT if chosen["keep"] == ANY else (chosen["keep"],)

    def values(self, search: Found) -> dict[str, float]:
        """All results as numbers; times are unknown where nothing fits, everything where nothing can be tried."""
        if search.step is None:
            return dict.fromkeys(NAMES, math.nan)
        values = dict(zip(NAMES, row(search.step, search.step.estimate)))
        return (
            values
            if search.fitting
            else {n: x if n == "memory" or n[0] == "m" and n[1:].isdigit() else math.nan for n, x in values.items()}
        )

    def said(self, search: Found) -> dict[str, str]:
        """What the table says."""
        values = self.values(search)
        said = {r.name: reading(values[r.name], r.unit) for r in RESULTS} | dict.fromkeys(TEXTS, NONE)
        if search.step is None:
            return said
        said |= {"tried": f"{search.tried:,}", "fitting": f"{search.fitting:,}", "layout": axes(search.step.layout)}
        said |= {"policy": search.step.layout.policy}
        if search.fitting:
            said["most"] = longest(values)
        return said

    def sentence(self, search: Found, changes: Mapping | None = None) -> str:
        """What is said after each change."""
        return counted(self._sentence(search, changes))

    def _sentence(self, search: Found, changes: Mapping | None) -> str:
        at, of = self.chosen(changes)
        words = {n: f"{x:,}" if isinstance(x, int) else x for n, x in at.items()} | self.said(search)
        there, last = self.place(at, of), self.places(of)[-1]
        if there is None:
            return MANY.format(**words | {"most": f"{last.chips:,}", "place": str(last)})
        words |= {"place": str(there), "hbm": reading(of.hbm_bytes, "B")}
        if search.fitting:
            return BEST.format(**words)
        if at["tokens"] < at["T"]:
            return SHORT.format(**words)
        if search.step is None:
            need = next(2**n for n in range(1, 64) if self.search(at, there, 2**n).tried)
            return FEW.format(**words | {"sequences": f"{at['tokens'] // at['T']:,}", "need": f"{need:,}"})
        words["missing"] = reading(search.step.missing, "B")
        case = model(at["model"]), at["tokens"], at["T"], of, self.kept(at)
        larger = layout_search.smallest(*case, template=Layout(stored=MASTER), beyond=at["n"], most=2 ** self.n[1])
        words["more"] = MORE.format(least=f"{larger.chips:,}", larger=str(larger)) if larger else NO_MORE
        return LACKS.format(**words)

    def script(self) -> str:
        """The data and the traced functions as one call of JavaScript."""
        structures = list(dict.fromkeys(structure(model(name)) for name in self.models))
        switched = not any(chip(name).neighbours for name in self.chips)
        texts, at = functions(tuple(structures), switched)
        data = self.data({name: at[structures.index(structure(model(name)))] for name in self.models})
        text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
        traced = ",".join(f"{name}:{source}" for name, source in self.traced().items())
        return f"(window.liveFigures=window.liveFigures||[]).push([{text},\n{{F:[{','.join(texts)}],{traced}}}]);"

    def data(self, functions: Mapping[str, list]) -> dict:
        """What the scripts know; `at` has the places of each model's functions."""
        return {
            "id": f"live-{self.name}", "args": (), "marks": [],
            "controls": [control_data(c) for c in self.controls],
            "results": [{"name": r.name, "unit": r.unit, "words": r.words, "share": r.share} for r in RESULTS],
            "layouts": {
                "models": {n: _model(n, functions[n]) for n in self.models},
                "chips": {label: self._chip(chip(name)) for name, label in self.chips.items()},
                **tools(), "any": ANY, "stored": (MASTER.gradient, MASTER.state),
                "best": BEST, "lacks": LACKS, "more": MORE, "noMore": NO_MORE, "many": MANY, "short": SHORT, "few": FEW,
                "none": NONE,
            },
        }  # fmt: skip

    def traced(self) -> dict[str, str]:
        """Functions besides those of a step."""
        return {"rank": ranks()}

    def _chip(self, chip: Chip) -> dict:
        """A chip's numbers, and for each place the arguments of its wires and its words."""
        there = [numbered(p) for p in self.places(chip)]
        return {"speeds": speeds(chip), "kind": 0 if chip.axes else 1, "places": there}

    def html(self) -> str:
        """Controls, which stay hidden until the script has started; the sentence and the table."""
        key, found = f"live-{self.name}", self.found()
        values, said = self.values(found), self.said(found)
        controls = "".join(control_html(key, c) for c in self.controls)
        values["m_all"] = max(self.chosen()[1].hbm_bytes, values["memory"])
        results = {name: Result(name, label) for name, label in TEXTS.items()} | {r.name: r for r in RESULTS}
        table = Rows(
            {"Found": tuple(TEXTS)} | {heading: tuple(r.name for r in rows) for heading, rows in TABLE.items()}
        )
        return (
            head_html(key, self.title, HINT, controls, self.sentence(found), "live live-many")
            + table.html(self.title, results, values, said)
            + f"<figcaption>{escape(RULES)}</figcaption></figure>"
        )


def longest(values: Mapping[str, float]) -> str:
    """What a step takes longest for, kernels of its layers apart, in words."""
    parts = [values[f"t{n}"] for n in range(2, len(PARTS))]
    return [*TAKES.values()][2 + parts.index(max(parts))]


def _model(name: str, functions: list) -> dict:
    c = model(name)
    return {"sizes": [*whole(c).values()], "at": functions, "may": divide(c)}


FIGURE = LayoutFinder(
    name="layout",
    title="The best layout",
    models=(
        "llama-2-13b", "llama-3-8b", "llama-3-70b", "llama-3.1-405b", "qwen-2.5-72b", "mistral-nemo-12b",
    ),
    chips={key: label for key, label in menu().items() if key not in ("A100", "H200")},
    first={"model": "llama-3-70b", "chip": "v5p", "n": 64, "tokens": 2**20, "T": 8192, "keep": ANY},
    n=(0, 12),
    tokens=(14, 26),
    T=(10, 17),
)  # fmt: skip
