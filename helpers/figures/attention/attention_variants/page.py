"""What attention moves, on a page: choose heads, a length and a chip, and see every form of attention side by side.

`variants` has the numbers, which `helpers.live.jaxpr_to_javascript` traces from `costs`; `attention_variants.js` moves what
this module draws, and tests hold the one against the other.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.transformers.public_models import model
from helpers.figures.transformers.decoder_sizes.decoder import heads
from helpers.live.controls import Choice, Size, control_data, control_html, head_html
from helpers.live.drawings import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Axis, scale
from helpers.live.jaxpr_to_javascript import javascript
from helpers.live.words import reading

from .chart import GAP, SHORT, X, chart
from .variants import (
    ARGS,
    CHUNK,
    FORMS,
    PHASES,
    SMALLEST,
    WHAT,
    WIDTHS,
    Setting,
    exponentials,
    forms,
    functions,
    rate,
    room,
    rows,
)

UNITS = {"seconds": "s", "bound": "", "bytes": "B", "flops": "FLOPs", "memory": "B"}
COLUMNS = {
    "seconds": "time, at least",
    "bound": "waits for",
    "bytes": "through HBM",
    "flops": "products",
    "memory": "held in HBM",
}
WORDS = ("arithmetic", "HBM", "exponentials")
CHARTS = {"time": "seconds", "bytes through HBM": "bytes", "FLOPs of products": "flops", "bytes held in HBM": "memory"}
WINDOW = 4096  # of a model that has none
KIB = 1024

WHERE = "{who} on {chip}, {phase}, S = {S}: "
BOTH = (
    "softmax fused takes {fused_seconds} and waits for {fused_bound}; Flash 2 in blocks of {used} takes {flash2_seconds} and waits for "
    "{flash2_bound}, {faster} times as fast with {share} % of the bytes. "
)
SAYS = {
    "prefill": BOTH + "A window of {w} takes {window_seconds}, linear attention {linear_seconds}.",
    "unmasked": BOTH + "Linear attention takes {linear_seconds}.",
    "training": BOTH + "A window of {w} takes {window_seconds}.",
    "decode": "softmax fused takes {fused_seconds} and waits for {fused_bound}; one pass over the cache takes {flash2_seconds} and waits "
    "for {flash2_bound}, {faster} times as fast with {share} % of the bytes. A window of {w} takes {window_seconds}, linear attention "
    "{linear_seconds}.",
}
SOONER = " Flash 3, whose exponentials run beside products, takes {flash3_seconds}."
TIGHT = " Into {M} KiB fit blocks of {fit}, not of {b}."
TIGHT_BACK = " Into {M} KiB fit blocks of {fit}, and of {back} backward, not of {b}."
NO_BLOCK = (
    "Flash is unknown, for not even blocks of {smallest} fit into {M} KiB: with heads of {H} they take {need}. "
    "Take more memory on the chip or narrower heads."
)
LACKS = " More than {hbm} of memory: {names}."
HEADS = (
    "N = {N} query heads cannot share K = {K} KV heads evenly, so all is unknown: K = {fit} would do, or N = {near}."
)
NO_RATE = "{chip} has no published rate for {widths}, so all is unknown: choose other numbers, or a chip that has one, such as {other}."
OVER = " > {hbm}"
HINT = "Choose a model, a chip and a phase, then move any size. A chip sets its memory and its blocks at once, a model its heads."
RULES = (
    "Times are lower bounds of one layer's attention without its projections. Traffic is beside all else; products and exponentials "
    "take turns but in Flash 3, and exponentials are counted on GPUs alone, since nobody publishes the rate of a TPU's. Naive, fused and "
    f"in chunks compute masked pairs too; Flash pays for whole blocks. Chunks have {CHUNK} queries; linear attention has as many features "
    "as a head is wide. Memory on the chip is that of one TensorCore or SM. Blocks at once that share what is read of K and V through one "
    "cache are, at first, all SMs of a GPU."
)
ALT = "{what} of each form of attention against the number of tokens, with the chosen number marked"


@dataclass(frozen=True)
class AttentionMover:
    """A live figure: heads, lengths and a chip, and what each form of attention moves and takes.

    models   names of `costs.transformers.public_models`, as the menu lists them
    chips    names of `costs.rooflines.chips`, and what the menu calls them
    first    what the menus say at first: model, phase, widths, chip, chart
    sliders  S, B, N, K, H, w, b, M (KiB), R
    """

    name: str
    title: str
    models: tuple[str, ...]
    chips: Mapping[str, str]
    first: Mapping[str, str]
    sliders: tuple[Size, ...]
    runners = ("grids.js", "attention_variants.js", "figure_controls.js")

    @cached_property
    def menus(self) -> tuple[Choice, ...]:
        def options(names):
            return {name: {} for name in names}

        return (
            Choice("model", "Heads of", self.first["model"], options(self.models)),
            Choice("chip", "Chip", self.first["chip"], options(self.chips.values())),
            Choice("phase", "Phase", self.first["phase"], options(PHASES.values())),
            Choice("widths", "Numbers", self.first["widths"], options(WIDTHS)),
            Choice("chart", "Chart", self.first["chart"], options(CHARTS)),
        )

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Along the curves."""
        return next(s.grid for s in self.sliders if s.name == "S")

    def chip(self, label: str) -> Chip:
        return chip(next(name for name, text in self.chips.items() if text == label))

    def chosen(self, changes: Mapping | None = None) -> dict:
        """What all controls say: what model and chip set unless changed."""
        at = {**self.first, **(changes or {})}
        free = {s.name: s.value for s in self.sliders}
        return {**free, **sizes(at["model"]), **places(self.chip(at["chip"])), **at}

    def problem(self, at: Mapping) -> str:
        """Why all is unknown, if it is."""
        if at["N"] % at["K"]:
            words = at | {n: f"{x:,.0f}" for n, x in heads(at["N"], at["K"]).items()}
            return HEADS.format(**words)
        if rate(self.chip(at["chip"]), at["widths"]) is None:
            other = next(text for name, text in self.chips.items() if rate(chip(name), at["widths"]))
            return NO_RATE.format(other=other, **at)
        return ""

    def fitting(self, at: Mapping) -> list[float]:
        """The largest block forward, what the smallest takes, and the same two backward."""
        k = 4 * (2 * list(WIDTHS).index(at["widths"]) + (not self.chip(at["chip"]).axes))
        return [float(n) for n in room(at["M"] * KIB, at["H"])[k : k + 4]]

    def phase(self, at: Mapping) -> str:
        return next(name for name, text in PHASES.items() if text == at["phase"])

    def values(self, changes: Mapping | None = None) -> dict[str, float]:
        """All results as numbers, named form_what; unknown where a phase has no such form."""
        at = self.chosen(changes)
        names = {f"{form}_{what}": math.nan for form in FORMS for what in WHAT}
        if self.problem(at):
            return names
        of, (fit, _, back, _) = self.chip(at["chip"]), self.fitting(at)
        x, s, _ = WIDTHS[at["widths"]]
        numbers = {n: float(at[n]) for n in "SBNKHwbR"} | dict(
            fit=fit, back=back, gpu=float(not of.axes), x=float(x), s=float(s)
        )
        numbers |= dict(C=rate(of, at["widths"]), W=of.hbm_bandwidth, exps=exponentials(of))
        found = rows(self.phase(at), Setting(**numbers))
        return names | {f"{form}_{what}": float(v) for form, row in found.items() for what, v in row.items()}

    def said(self, changes: Mapping | None = None) -> dict[str, str]:
        """What the table says."""
        values, out = self.values(changes), {}
        for name, v in values.items():
            what = name.split("_")[1]
            out[name] = WORDS[int(v)] if what == "bound" and not math.isnan(v) else reading(v, UNITS[what])
        return out

    def over(self, changes: Mapping | None = None) -> dict[str, str]:
        """What stands behind the memory of each form: nothing, or that it is more than the chip has."""
        hbm, values = self.chip(self.chosen(changes)["chip"]).hbm_bytes, self.values(changes)
        return {form: OVER.format(hbm=reading(hbm, "B")) if values[f"{form}_memory"] > hbm else "" for form in FORMS}

    def sentence(self, changes: Mapping | None = None) -> str:
        """What is said after each change."""
        at, values = self.chosen(changes), self.values(changes)
        if problem := self.problem(at):
            return problem
        phase, (fit, need, back, need_back), hbm = self.phase(at), self.fitting(at), self.chip(at["chip"]).hbm_bytes
        words = {n: f"{v:,}" if isinstance(v, int) else v for n, v in at.items()} | self.said(changes)
        words |= {
            "who": at["model"]
            if all(at[n] == v for n, v in sizes(at["model"]).items() if n != "w")
            else "Heads of your own"
        }
        words |= {"fit": f"{fit:,.0f}", "back": f"{back:,.0f}", "smallest": SMALLEST, "hbm": reading(hbm, "B")}
        words["used"] = f"{min(at['b'], fit):,.0f}"
        words["faster"] = reading(values["fused_seconds"] / values["flash2_seconds"])
        words["share"] = reading(100 * values["flash2_bytes"] / values["fused_bytes"])
        wants = [] if phase == "decode" else [(fit, need)] + ([(back, need_back)] if phase == "training" else [])
        no = next((take for most, take in wants if not most), None)
        text = WHERE + SAYS[phase]
        if no is not None:
            text, words["need"] = WHERE + NO_BLOCK, reading(no, "B")
        else:
            text += "" if math.isnan(values["flash3_seconds"]) else SOONER
            if any(at["b"] > most for most, _ in wants):
                text += TIGHT_BACK if phase == "training" else TIGHT
        words["names"] = ", ".join(SHORT[form] for form in forms(phase) if values[f"{form}_memory"] > hbm)
        return (text + (LACKS if words["names"] else "")).format(**words)

    def drawn(self, changes: Mapping | None = None) -> dict[str, float]:
        """Points of the lines, of the chosen length, and the decades of the vertical axis, by name."""
        at, values = self.chosen(changes), self.values(changes)
        what = CHARTS[at["chart"]]
        out = {f"x{n}": float(S) for n, S in enumerate(self.lengths)} | {"at": float(at["S"])}
        for n, S in enumerate(self.lengths):
            there = self.values({**at, "S": S})
            out |= {f"{form}{n}": there[f"{form}_{what}"] for form in FORMS}
        out |= {f"{form}_at": values[f"{form}_{what}"] for form in FORMS}
        seen = [v for name, v in out.items() if name.rstrip("0123456789") in FORMS and not math.isnan(v)]
        low, high = (math.floor(math.log10(min(seen))), math.ceil(math.log10(max(seen)))) if seen else (0, 1)
        return out | {"low": 10.0**low, "high": 10.0 ** max(high, low + 1)}

    @cached_property
    def marks(self) -> list[dict]:
        """What figure_controls.js moves: lines, the chosen length, and where it meets them."""
        every = range(len(self.lengths))
        lines = [{"kind": "line", "points": [(f"x{n}", f"{form}{n}") for n in every]} for form in FORMS]
        return [
            *lines,
            {"kind": "dash", "points": [("at", "low"), ("at", "high")]},
            *({"kind": "dot", "points": [("at", f"{form}_at")]} for form in FORMS),
        ]

    def script(self) -> str:
        """The data and the traced functions as one call of JavaScript."""
        data = {
            "id": f"live-{self.name}", "args": (), "marks": self.marks,
            "controls": [
                *(control_data(m) for m in self.menus), *({"name": s.name, "grid": s.grid, "value": s.value} for s in self.sliders),
            ],
            "results": [
                {"name": f"{form}_{what}", "unit": UNITS[what], "words": WORDS if what == "bound" else ()}
                for form in FORMS for what in WHAT
            ],
            "x": scale(X, LEFT, WIDTH - RIGHT), "y": scale(Axis("", 0, 1), HEIGHT - BOTTOM, TOP),
            "attention": {
                "models": {n: sizes(n) for n in self.models},
                "chips": {text: self._chip(chip(name)) for name, text in self.chips.items()},
                "args": ARGS, "what": WHAT, "short": SHORT, "phases": [[text, name, forms(name)] for name, text in PHASES.items()],
                "widths": {text: w[:2] for text, w in WIDTHS.items()}, "charts": {t: (w, UNITS[w]) for t, w in CHARTS.items()},
                "box": [TOP, HEIGHT - BOTTOM], "gap": GAP, "smallest": SMALLEST, "where": WHERE, "says": SAYS, "tight": TIGHT,
                "tightBack": TIGHT_BACK, "noBlock": NO_BLOCK, "lacks": LACKS, "heads": HEADS, "noRate": NO_RATE, "over": OVER,
                "sooner": SOONER,
            },
        }  # fmt: skip
        text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
        return f"(window.liveFigures=window.liveFigures||[]).push([{text},\n[{','.join([*functions(), javascript(heads, 8.0, 8.0)])}]]);"

    def _chip(self, of: Chip) -> dict:
        """What a chip sets, and its speeds; null for what it has not, or has no limit of."""
        exps = exponentials(of)
        speeds = {
            "W": of.hbm_bandwidth,
            "exps": None if math.isinf(exps) else exps,
            "hbm": of.hbm_bytes,
            "gpu": int(not of.axes),
        }
        return {"sets": places(of), "C": [rate(of, w) for w in WIDTHS], **speeds}

    def html(self) -> str:
        """Controls, which stay hidden until the script has started; the sentence, the chart and the table."""
        key, values, said, over = f"live-{self.name}", self.values(), self.said(), self.over()
        set_at_first = self.chosen()
        sliders = (Size(s.name, s.label, set_at_first[s.name], s.low, s.high, s.parts, s.grain) for s in self.sliders)
        controls = "".join(control_html(key, m) for m in self.menus) + "".join(s.html(key, True) for s in sliders)
        head = "".join(f'<th scope="col">{escape(text)}</th>' for text in COLUMNS.values())
        return (
            head_html(key, self.title, HINT, controls, self.sentence(), "live live-many")
            + self._chart(key)
            + f'<div class="pst-scrollable-table-container live-forms" tabindex="0" role="region" aria-label="{escape(self.title)}">'
            f'<table class="table"><caption>{escape(self.title)}</caption><thead><tr><th scope="col">form</th>{head}</tr></thead><tbody>'
            + "".join(_row(form, values, said, over[form]) for form in FORMS)
            + f"</tbody></table></div><figcaption>{escape(RULES)}</figcaption></figure>"
        )

    def _chart(self, key: str) -> str:
        what = self.chosen()["chart"]
        alt = ALT.format(what=what[0].upper() + what[1:])
        return chart(key, alt, what, UNITS[CHARTS[what]], self.lengths, self.marks, self.drawn())


def sizes(name: str) -> dict[str, int]:
    """What a model sets: heads, and the window of its local layers, if it has any.

    >>> sizes("gpt-oss-120b")
    {'N': 64, 'K': 8, 'H': 64, 'w': 128}
    """
    c = model(name)
    return {"N": c.N, "K": c.K, "H": c.H, "w": c.window or WINDOW}


def places(of: Chip) -> dict[str, int]:
    """What a chip sets: KiB of fast memory of a core, and blocks at once behind one cache.

    >>> places(chip("v5p")), places(chip("H100"))
    ({'M': 65536, 'R': 1}, {'M': 228, 'R': 132})
    """
    return {"M": round(of.fast_bytes / of.cores / KIB), "R": 1 if of.axes else of.cores}


def _row(form: str, values: Mapping[str, float], said: Mapping[str, str], over: str) -> str:
    spans = [f'<span data-result="{form}_{what}">{escape(said[f"{form}_{what}"])}</span>' for what in WHAT]
    spans[-1] += f'<span data-over="{form}">{escape(over)}</span>'
    cells = "".join(f"<td>{span}</td>" for span in spans)
    hidden = " hidden" if math.isnan(values[f"{form}_bytes"]) else ""
    return f'<tr data-form="{form}"{hidden}><th scope="row">{escape(FORMS[form])}</th>{cells}</tr>'
