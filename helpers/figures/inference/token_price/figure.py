"""What a token costs, on a page: choose a model, chips, context and batch, and see the seconds of a decode step and its price.

`decode_step` has the numbers, which `helpers.live.jaxpr_to_javascript` traces from `costs`; `token_price.js` looks at every cut
of the model there, and tests hold the one against the other.
"""

import math
from collections.abc import Mapping
from functools import cached_property
from html import escape

from helpers.costs.inference.prefill_and_decode_step import Replica
from helpers.costs.rooflines.chips import chip, menu
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.transformers.public_models import model
from helpers.figures.inference.token_price.decode_step import (
    MATH,
    NAMES,
    RESOURCES,
    ROLES,
    SOON,
    Cut,
    alike,
    best,
    curve,
    enough,
    functions,
    numbers,
    places,
    ways,
    widest,
    wired,
)
from helpers.live.controls import Choice, Size, head_html, powers
from helpers.live.drawings import ACROSS, UP, Axis, Mark, Plot
from helpers.live.figure import pushed
from helpers.live.tables import Result, Rows
from helpers.live.words import reading

TABLE = {
    "Time per token": (
        Result("seconds", "block after block", "s"),
        Result("lower", "all at once: no program is faster", "s"),
        Result("t_weights", "weights from HBM", "s", share="t_all"),
        Result("t_caches", "caches from HBM", "s", share="t_all"),
        Result("t_rest", "activations, HBM", "s", share="t_all"),
        Result("t_math", "arithmetic", "s", share="t_all"),
        Result("t_links", "links between chips", "s", share="t_all"),
    ),
    "Throughput and cost": (
        Result("per_chip", "one chip", "tokens/s"),
        Result("rate", "all chips", "tokens/s"),
        Result("hours", "a million tokens", "chip-hours"),
    ),
    "Memory of the fullest chip": (
        Result("held", "all", "B"),
        Result("m_weights", "weights", "B", share="m_all"),
        Result("m_caches", "caches, an even share", "B", share="m_all"),
        Result("m_copies", "copies and uneven shares of caches", "B", share="m_all"),
        Result("free", "left free", "B"),
    ),
}
RESULTS = tuple(r for rows in TABLE.values() for r in rows)
TEXTS = {
    "cut": ("Time per token", "cut"),
    "bound": ("Time per token", "what bounds it"),
    "most": ("Memory of the fullest chip", "sequences that fit"),
    "critical": ("Throughput and cost", "from this batch on products wait for arithmetic"),
}
ALWAYS = ("held", "m_weights", "m_caches", "m_copies", "free", "critical")  # said of what does not fit, too
MATRICES = {
    "projections": "attention's matrices",
    "mlp": "the MLP",
    "unembedding": "the unembedding",
    "experts": "the experts",
    "shared": "the shared experts",
    "router": "the routers",
}
BOUND = (
    {(role, "math"): f"arithmetic of {name}" for role, name in MATRICES.items()}
    | {(role, "hbm"): f"reading the weights of {name}" for role, name in MATRICES.items()}
    | {(role, "ici"): f"links, summing up after {name}" for role, name in MATRICES.items()}
    | {
        ("attention", "math"): "arithmetic of attention",
        ("attention", "hbm"): "reading the caches",
        ("attention", "ici"): "links, to the caches and back",
    }
)
WORDS = tuple(BOUND[role, resource] for role in ROLES for resource in RESOURCES)

WHERE = "{model} on {n} {chip}{place}, {widths}, B = {B} with {S} tokens of context each: "
FITS = WHERE + (
    "a token takes {seconds}, and at least {lower} if all overlaps. Each chip makes {per_chip}, so a million tokens take "
    "{hours}. It takes longest for {bound}. Of {hbm} a chip needs {held}, and up to B = {most} fit."
)
LACKS = WHERE + "that does not fit. The fullest chip would need {missing} more than its {hbm}. {less} {more}"
LESS, NOT_ONE = "Up to B = {most} fit.", "Not even B = 1 fits."
MORE = "{least} chips{larger} would do."
NO_MORE = "No number of these chips that the figure offers would do: choose narrower numbers, shorter contexts or another chip."
MANY = "{chip} ends at {last} chips here: take {last} or fewer, or another chip."
HEADS = "{n} chips cannot share the {heads} heads of {model} evenly: take {last} or fewer."
NONE = "unknown"
CUT = "heads over {Y}, sequences over {Z}"
HINT = "Choose a model and chips, then move the batch: the best cut is searched for at each move."
RULES = (
    f"Arithmetic in {MATH}. Scales of int8 are left out, and nothing is kept free for activations and programs. Contexts may be "
    "longer than a model was trained for. GPUs end at one NVSwitch domain. A bar of time is a share of the five together, one "
    "of memory a share of the chip. A million tokens are those of decode steps, without prefill."
)
ALT = "Tokens per second of one chip against seconds for a token, with the batch along the curve"
AXES = (Axis("seconds for a token", -4, 0, "s"), Axis("tokens/s of a chip", 0, 5))
LABELLED = (1, 8, 64, 512, 4096)  # batches that the curve names


class TokenPricer:
    """A live figure: a model, chips, a context and a batch, and what a token takes and costs."""

    name = "serving"
    title = "What a token costs"
    models = (
        "llama-2-13b", "llama-3-8b", "llama-3-70b", "llama-3.1-405b", "qwen-3-32b", "gemma-3-27b", "mixtral-8x7b",
        "qwen-3-30b-a3b", "qwen-3-235b-a22b", "gpt-oss-120b", "deepseek-v3", "kimi-k2",
    )  # fmt: skip
    chips = menu()
    widths = {
        "weights and caches in bf16": (2, 2),
        "weights in int8, caches in bf16": (1, 2),
        "weights in bf16, caches in int8": (2, 1),
        "weights and caches in int8": (1, 1),
    }
    first = {"model": "llama-3-70b", "chip": "v5p", "widths": "weights and caches in bf16"}
    sliders = (
        Size("n", "Chips", 8, 1, 256, steps=powers(0, 8)),
        Size("S", "S, context", 8192, 256, 2**20, parts=2, grain=64),
        Size("B", "B, sequences", 32, 1, 16384),
    )
    runners = ("grids.js", "settings.js", "token_price.js", "figure_controls.js")

    @cached_property
    def menus(self) -> tuple[Choice, ...]:
        kinds = {text: {"w": w, "cache": cache} for text, (w, cache) in self.widths.items()}
        return (
            Choice("model", "Model", self.first["model"], {name: {} for name in self.models}),
            Choice("chip", "Chip", self.first["chip"], {label: {} for label in self.chips.values()}),
            Choice("widths", "Numbers", self.first["widths"], kinds),
        )

    @cached_property
    def batches(self) -> tuple[int, ...]:
        """Along the curve."""
        return next(s.grid for s in self.sliders if s.name == "B")

    @property
    def largest(self) -> int:
        """The most chips that the slider can say."""
        return next(s.high for s in self.sliders if s.name == "n")

    def chosen(self, changes: Mapping | None = None) -> dict:
        """What all controls say."""
        return {**self.first, **{s.name: s.value for s in self.sliders}, **(changes or {})}

    def chip(self, label: str) -> Chip:
        return chip(next(name for name, text in self.chips.items() if text == label))

    def replica(self, chosen: Mapping) -> tuple[Replica, Slice | None]:
        """The model on that many chips; no slice if there is none, or if its heads cannot be shared."""
        c, of = model(chosen["model"]), self.chip(chosen["chip"])
        s = next((s for s in places(of, self.largest) if s.chips == chosen["n"]), None)
        return Replica(c, of, chosen["n"], *self.widths[chosen["widths"]]), s if chosen["n"] <= widest(c) else None

    def found(self, changes: Mapping | None = None) -> Cut | None:
        """The best cut, if there is any."""
        at = self.chosen(changes)
        r, s = self.replica(at)
        return s and best(r, s, at["B"], at["S"])

    def values(self, cut: Cut | None) -> dict[str, float]:
        """All results as numbers; times are unknown where it does not fit, everything where it cannot be cut."""
        values = cut.values if cut else dict.fromkeys(NAMES, math.nan)
        shown = {n: x if cut and (cut.fits or n in ALWAYS) else math.nan for n, x in values.items()}
        times = [x for n, x in shown.items() if n.startswith("t_")]
        return shown | {"t_all": sum(times), "m_all": shown["held"] + shown["free"]}

    def said(self, cut: Cut | None) -> dict[str, str]:
        """What the table says."""
        values = self.values(cut)
        said = {r.name: reading(values[r.name], r.unit) for r in RESULTS} | dict.fromkeys(TEXTS, NONE)
        if cut is None:
            return said
        said |= {
            "cut": CUT.format(Y=cut.Y, Z=cut.Z),
            "most": f"{cut.most:,}",
            "critical": f"B = {values['critical']:,.0f}",
        }
        if cut.fits:
            said["bound"] = WORDS[int(values["bound"])]
        return said

    def sentence(self, cut: Cut | None, changes: Mapping | None = None) -> str:
        """What is said after each change."""
        at = self.chosen(changes)
        r, s = self.replica(at)
        words = {n: f"{x:,}" if isinstance(x, int) else x for n, x in at.items()} | self.said(cut)
        if cut is None:
            some = places(r.chip, self.largest)
            words |= {"last": f"{min(some[-1].chips, widest(r.config)):,}", "heads": r.config.N}
            return (MANY if at["n"] > some[-1].chips else HEADS).format(**words)
        words |= {"place": place(s), "hbm": reading(r.chip.hbm_bytes, "B")}
        if cut.fits:
            return FITS.format(**words)
        words["missing"] = reading(cut.values["held"] - r.chip.hbm_bytes, "B")
        words["less"] = (LESS if cut.most else NOT_ONE).format(**words)
        larger = enough(r, r.chip, self.largest, at["B"], at["S"])
        words["more"] = NO_MORE
        if larger:
            words |= {"least": f"{larger.chips:,}", "larger": place(larger)}
            words["more"] = MORE.format(**words)
        return LACKS.format(**words)

    def drawn(self, cut: Cut | None, changes: Mapping | None = None) -> dict[str, float]:
        """Points of the curve and where the chosen batch lies on it, by name."""
        at = self.chosen(changes)
        r, s = self.replica(at)
        points = curve(r, s, at["S"], self.batches) if s else [(math.nan, math.nan, False)] * len(self.batches)
        good = sum(fits for *_, fits in points)
        out = {}
        for n in range(len(points)):
            held = points[min(n, good - 1)] if good else (math.nan, math.nan)
            beyond = points[max(n, good - 1, 0)] if good < len(points) else (math.nan, math.nan)
            out |= {f"x{n}": held[0], f"y{n}": held[1], f"u{n}": beyond[0], f"v{n}": beyond[1]}
        there = (cut.values["seconds"], cut.values["per_chip"]) if cut else (math.nan, math.nan)
        for name, shown in (("dot", cut and cut.fits), ("ring", cut and not cut.fits)):
            out |= (
                {f"{name}_x": there[0], f"{name}_y": there[1]}
                if shown
                else dict.fromkeys((f"{name}_x", f"{name}_y"), math.nan)
            )
        return out

    @cached_property
    def marks(self) -> tuple[Mark, ...]:
        every = range(len(self.batches))
        return (
            Mark("line", "batches that fit", tuple((f"x{n}", f"y{n}") for n in every)),
            Mark("dash", "batches that do not", tuple((f"u{n}", f"v{n}") for n in every)),
            Mark("dot", "the chosen batch", (("dot_x", "dot_y"),)),
            Mark("ring", "chosen, does not fit", (("ring_x", "ring_y"),)),
        )

    def script(self) -> str:
        """The data and the traced functions as one call of JavaScript."""
        structures, at = alike(self.models)
        texts, pairs = functions(structures)
        data = {
            "id": f"live-{self.name}", "own": "liveServing", "args": (),
            "controls": [
                *(m.data for m in self.menus), *(s.data for s in self.sliders),
            ],
            "results": [{"name": r.name, "unit": r.unit, "words": r.words, "share": r.share} for r in RESULTS],
            **Plot(*AXES, self.marks).data(),
            "serving": {
                "models": {n: {"sizes": numbers(c), "at": pairs[k], "N": c.N, "most": widest(c)}
                           for n, c, k in zip(self.models, map(model, self.models), at)},
                "chips": {label: self._chip(chip(name)) for name, label in self.chips.items()},
                "names": NAMES, "soon": len(SOON), "always": ALWAYS, "words": WORDS,
                "fits": FITS, "lacks": LACKS, "less": LESS, "notOne": NOT_ONE, "more": MORE,
                "noMore": NO_MORE, "many": MANY, "heads": HEADS, "none": NONE, "cut": CUT,
            },
        }  # fmt: skip
        return pushed(data, f"[{','.join(texts)}]")

    def _chip(self, chip: Chip) -> dict:
        """A chip's numbers, and for each number of chips the slice as numbers, ways to share heads on it, and its words."""
        there = [(wired(s), s.chips, ways(s), place(s)) for s in places(chip, self.largest)]
        speeds = (chip.rate(MATH), chip.hbm_bandwidth, chip.hbm_bytes, chip.link_bandwidth, chip.hop)
        return {"speeds": speeds, "kind": 0 if chip.axes else 1, "places": there}

    def html(self) -> str:
        """Controls, which stay hidden until the script has started; the sentence, the curve and the table."""
        key, found = f"live-{self.name}", self.found()
        controls = "".join(c.html(key) for c in (*self.menus, *self.sliders))
        return (
            head_html(key, self.title, HINT, controls, self.sentence(found), "live live-many")
            + self.svg(found)
            + self._table(found)
            + f"<figcaption>{escape(RULES)}</figcaption></figure>"
        )

    def svg(self, cut: Cut) -> str:
        """The curve, with the names of some batches on it."""
        values, px, py = self.drawn(cut), AXES[0].pixels(*ACROSS), AXES[1].pixels(*UP)
        plot = Plot(*AXES, self.marks).svg(f"live-{self.name}", ALT, values)
        names = []
        for B in LABELLED:
            n = self.batches.index(B)
            x, y = px(values[f"x{n}"]), py(values[f"y{n}"])
            hidden = "" if B <= cut.most else ' style="display:none"'
            names.append(
                f'<text data-batch="{n}" text-anchor="end" x="{x - 8:.1f}" y="{y - 6:.1f}"{hidden}>B = {B:,}</text>'
            )
        return plot.removesuffix("</svg>") + f'<g class="live-batches">{"".join(names)}</g></svg>'

    def _table(self, cut: Cut) -> str:
        """Under each heading its numbers, then what is said there in words."""
        texts = {name: Result(name, label) for name, (_, label) in TEXTS.items()}
        groups = {h: (*(r.name for r in rows), *(n for n in TEXTS if TEXTS[n][0] == h)) for h, rows in TABLE.items()}
        values = {name: x for name, x in self.values(cut).items() if name not in TEXTS}
        return Rows(groups).html(self.title, {r.name: r for r in RESULTS} | texts, values, self.said(cut))


def place(s: Slice) -> str:
    """The shape of a slice, where it has one.

    >>> place(Slice(chip("v5e"), (4, 4))), place(Slice(chip("H100"), (8,)))
    (' (4x4)', '')
    """
    return f" ({'x'.join(map(str, s.shape))})" if s.chip.axes else ""


FIGURE = TokenPricer()
