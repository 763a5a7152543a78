"""A decoder on a page: choose a public model, move its sizes, and see parameters, FLOPs, KV cache and memory to train.

What a model is made of (gates, norms, biases, windows, experts, latent attention) is its structure, and sizes are numbers:
`counts` asks `costs` for everything from a structure and numbers, and `helpers.live.jaxpr_to_javascript` traces it once for each structure.
`decoder_sizes.js` moves the sliders, and tests hold the page against `costs`.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from html import escape

import numpy as np

from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import flops, kv_cache, parameters
from helpers.costs.transformers.public_models import model
from helpers.costs.transformers.training_memory_bytes import POLICIES, recomputed, training_memory
from helpers.live.controls import Choice, Result, control_html, counted, head_html, reading
from helpers.live.jaxpr_to_javascript import javascript
from helpers.numeric import floor, maximum, where

SIZES = ("D", "L", "N", "K", "H", "F", "V", "E", "k", "FE")
ARGS = (*SIZES, "T", "B", "policy", "weight", "gradient", "state", "activation")
MOST_HEADS = 256  # N and K on the page
KEPT = tuple(p for p in POLICIES if p != "nothing")  # which saves no memory by itself

PARTS = {
    "embedding": "embedding, and positions if learned",
    "attention": "attention",
    "mlp": "MLP",
    "experts": "experts",
    "shared": "shared experts",
    "router": "routers",
    "rest": "norms, biases and sinks",
    "unembedding": "unembedding",
}
ROLES = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer",
    "activations": "activations",
    "logits": "logits, float32",
}
# heading: rows, the first of which is what bars are shares of
TABLE = {
    "Parameters": (
        Result("total", "all"),
        *(Result(f"p_{name}", label) for name, label in PARTS.items()),
        Result("active", "for each token: all but idle experts"),
    ),
    "FLOPs of a token, mean over T": (
        Result("forward", "forward", "FLOPs"),
        Result("matrices", "products with weights", "FLOPs"),
        Result("pairs", "queries with keys, shares with values", "FLOPs"),
        Result("train", "training, with what is computed again", "FLOPs"),
        Result("again", "of these computed again", "FLOPs"),
    ),
    "Memory to train on B sequences at once": (
        Result("memory", "all", "B"),
        *(Result(f"m_{name}", label, "B") for name, label in ROLES.items()),
    ),
    "KV cache of one sequence, bf16": (Result("cache", "T tokens", "B"),),
}
SHARES = {
    **{f"p_{name}": "total" for name in PARTS},
    "matrices": "forward",
    "pairs": "forward",
    "again": "train",
    **{f"m_{name}": "memory" for name in ROLES},
}
RESULTS = tuple(r for rows in TABLE.values() for r in rows)

SAY, PART = "{who}: {total} parameters", ", {active} of them for each token"
REST = (
    ". At T = {T} a token takes {forward} forward, and a sequence {cache} of cache. "
    "To train on B = {B}: {memory}.{note}"
)
NOTE = " T is beyond the {positions} rows of its table of positions."
PROBLEMS = (
    "",
    "N = {N} query heads cannot share K = {K} KV heads evenly, so all is unknown: K = {fit} would do, or N = {near}.",
    "A token cannot go to k = {k} of E = {E} experts, so all is unknown: k = {E} or less would do.",
)
UNUSED = "Not used by {model}: {unused}."
ALL_USED = "{model} uses every size."
HINT = "Choose a model, then move any size: the structure stays that of the model."
RULES = (
    "Windows and the causal mask are counted exactly in FLOPs, as pairs of query and key that they leave. "
    "Activations are those that the layers keep under the policy, with all T·T shares of attention if everything is kept. "
    "A bar is a share of the first line above it."
)


def build(like: Config, D, L, N, K, H, F, V, E, k, FE) -> Config:
    """A decoder of the structure of `like` and of these sizes, tracers welcome; what the structure lacks is ignored.

    >>> build(model("mixtral-8x7b"), 64, 2, 8, 2, 16, 99, 1000, 4, 1, 256).moe
    MoE(E=4, k=1, F=256, shared=0, first_dense=0, every=1)
    """
    moe = like.moe and replace(like.moe, E=E, k=k, F=FE)
    K, H = (N, None) if like.mla else (K, H)
    return replace(like, D=D, L=L, N=N, K=K, H=H, F=F, V=V, moe=moe, name="")


def counts(like: Config, *sizes, T, B, policy, weight, gradient, state, activation) -> dict:
    """All results for one decoder; `policy` is a number, the place in KEPT."""
    c = build(like, *sizes)
    p, f = parameters(c), flops(c, 1, T, count="causal")
    memories = [training_memory(c, B, T, name, weight, gradient, state, activation) for name in KEPT]
    m = vars(memories[0]) | {"activations": _pick(policy, [m.activations for m in memories])}
    again = _pick(policy, [recomputed(c, 1, T, name, count="causal") for name in KEPT]) / T
    parts = p.by_role | {"embedding": p.embedding + p.positions, "rest": p.norms + p.biases + p.sinks}
    return {
        "total": p.total,
        "active": p.active,
        **{f"p_{name}": parts[name] for name in PARTS},
        "forward": f.forward / T,
        "pairs": f.attention / T,
        "matrices": (f.forward - f.attention) / T,
        "train": f.train / T + again,
        "again": again,
        "cache": kv_cache(c, T),
        **{f"m_{role}": n for role, n in m.items()},
        "memory": sum(m.values()),
    }


def _pick(n, rows):
    return where(n == 0, rows[0], where(n == 1, rows[1], rows[2]))


def problem(like: Config, N, K, E, k):
    """What is wrong with a setting, as a place in PROBLEMS.

    >>> problem(model("llama-3-8b"), 38, 8, 8, 2), problem(model("mixtral-8x7b"), 32, 8, 8, 9)
    (1, 2)
    """
    experts = where(k > E, 2, 0) if like.moe else 0
    return experts if like.mla else where(N % K != 0, 1, experts)


def traced(structures: tuple[Config, ...], *args) -> tuple:
    """`counts` of every structure, each behind its problem: one row, so that JavaScript writes what they share once."""
    at = dict(zip(ARGS, args, strict=True))
    rows = []
    for like in structures:
        found = counts(like, *args[: len(SIZES)], **dict(list(at.items())[len(SIZES) :]))
        rows += [problem(like, at["N"], at["K"], at["E"], at["k"]), *(found[r.name] for r in RESULTS)]
    return tuple(rows)


def heads(N, K) -> dict:
    """KV heads that would do for N query heads, at most K of them, and query heads for K KV heads, about N.

    >>> [(int(h["fit"]), h["near"]) for h in (heads(38, 8), heads(8, 12))]
    [(2, 32), (8, 12)]
    """
    row = np.arange(1.0, MOST_HEADS + 1)
    fit = where((floor(N / row) * row == N) & (row <= K), row, 0.0).max()
    return {"fit": fit, "near": K * maximum(1, floor(N / K))}


@dataclass(frozen=True)
class Size:
    """A size on a slider whose positions are round numbers: each doubling in `parts` equal steps, multiples of `grain`.

    A value off the grid, as public models have them, is kept until this very slider moves.

    >>> Size("N", "N", 14, 8, 32, parts=4).grid
    (8, 10, 12, 14, 16, 20, 24, 28, 32)
    >>> Size("D", "D", 300, 256, 512, parts=8, grain=64).grid
    (256, 320, 384, 448, 512)
    """

    name: str
    label: str
    value: int
    low: int
    high: int
    parts: int = 4
    grain: int = 1

    @cached_property
    def grid(self) -> tuple[int, ...]:
        octaves = [self.low * 2**e for e in range((self.high // self.low).bit_length() - 1)]
        exact = [low + low * n / self.parts for low in octaves for n in range(self.parts)]
        return tuple(sorted({math.floor(x / self.grain + 0.5) * self.grain for x in exact} | {self.high}))

    def position(self, value: int) -> int:
        """The place on the grid that is nearest by ratio; the lower one of two."""
        return min(range(len(self.grid)), key=lambda n: abs(math.log(self.grid[n] / value)))

    def html(self, key: str, used: bool) -> str:
        name, text = f"{key}-{self.name}", f"{self.value:,}" if used else "not used"
        return (
            f'<div><label for="{name}">{escape(self.label)}</label><input type="range" id="{name}" name="{self.name}" min="0" '
            f'max="{len(self.grid) - 1}" step="1" value="{self.position(self.value)}" autocomplete="off" '
            f'aria-valuetext="{text}"{"" if used else " disabled"}><span>{text}</span></div>'
        )


def sizes(c: Config) -> dict[str, int]:
    """The sizes of a model that sliders show.

    >>> sizes(model("qwen-3-30b-a3b"))
    {'D': 2048, 'L': 48, 'N': 32, 'K': 4, 'H': 128, 'V': 151936, 'E': 128, 'k': 8, 'FE': 768}
    """
    every = {s: getattr(c, s) for s in "DLNKHFV"}
    if c.moe:
        every |= {"E": c.moe.E, "k": c.moe.k, "FE": c.moe.F}
    return {name: n for name, n in every.items() if name not in unused(c)}


def unused(c: Config) -> tuple[str, ...]:
    """Sizes that the structure of a model has no use for.

    >>> unused(model("llama-3-8b")), unused(model("deepseek-v3")), unused(model("mixtral-8x7b"))
    (('E', 'k', 'FE'), ('K', 'H'), ('F',))
    """
    lacking = {"K", "H"} if c.mla else set()
    lacking |= {"E", "k", "FE"} if not c.moe else {"F"} if c.moe.every == 1 and not c.moe.first_dense else set()
    return tuple(s for s in SIZES if s in lacking)


@cache
def _function(structures: tuple[Config, ...]) -> str:
    return javascript(partial(traced, structures), *[8.0] * len(ARGS))


def structure(c: Config) -> Config:
    """The model with its sizes made alike: two models of one structure are equal.

    >>> structure(model("llama-3-8b")) == structure(model("llama-3.1-405b")), structure(model("gpt-2")) == structure(model("gpt-3"))
    (True, False)
    """
    return build(c, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8)


@dataclass(frozen=True)
class DecoderBuilder:
    """A live figure: a public model and its sizes.

    models  names of `costs.transformers.public_models`, as the menu lists them; `first` is shown at first
    """

    name: str
    title: str
    models: tuple[str, ...]
    first: str
    sliders: tuple[Size, ...]  # in the order of SIZES, then T and B
    menus: tuple[Choice, ...]
    runners = ("grids.js", "decoder_sizes.js", "figure_controls.js")

    @cached_property
    def structures(self) -> tuple[Config, ...]:
        return tuple(dict.fromkeys(structure(model(name)) for name in self.models))

    @cached_property
    def start(self) -> Choice:
        """The menu of models; each option is the number of a function."""
        at = {name: {"family": self.structures.index(structure(model(name)))} for name in self.models}
        return Choice("start", "Start from", self.first, at)

    def chosen(self, changes: Mapping[str, object] | None = None) -> dict:
        """What all controls say: a model, its sizes unless changed, tokens, and what menus say."""
        changes = dict(changes or {})
        name = changes.get("start", self.first)
        at = {"start": name} | {s.name: s.value for s in self.sliders} | {m.name: m.value for m in self.menus}
        return at | sizes(model(name)) | changes

    def values(self, changes: Mapping[str, object] | None = None) -> dict[str, float]:
        """All results by `costs` itself, which refuses what is impossible: then they are unknown."""
        at = self.chosen(changes)
        like, numbers = model(at["start"]), dict(at)
        for menu in self.menus:
            numbers |= menu.options[at[menu.name]]
        wrong = problem(like, *(at[s] for s in "NKEk"))
        extra = {"problem": wrong, "past": int(0 < like.positions < at["T"])} | heads(at["N"], at["K"])
        try:
            return counts(like, *(at[s] for s in SIZES), **{n: numbers[n] for n in ARGS[len(SIZES) :]}) | extra
        except ValueError:
            return dict.fromkeys((r.name for r in RESULTS), math.nan) | extra

    def said(self, changes: Mapping[str, object] | None = None) -> dict[str, str]:
        """What the table says."""
        values = self.values(changes)
        return {r.name: reading(values[r.name], r.unit) for r in RESULTS}

    def sentence(self, changes: Mapping[str, object] | None = None) -> str:
        """What is said after each change."""
        at, values = self.chosen(changes), self.values(changes)
        c = model(at["start"])
        same = all(at[s] == n for s, n in sizes(c).items())
        words = {n: f"{x:,}" if isinstance(x, int) else x for n, x in at.items()} | self.said(changes)
        words |= {"who": at["start"] if same else f"Changed from {at['start']}", "positions": f"{c.positions:,}"}
        words |= {n: f"{values[n]:,.0f}" for n in ("fit", "near")}
        words["note"] = NOTE.format(**words) if values["past"] else ""
        part = PART if values["active"] != values["total"] else ""
        return counted((PROBLEMS[values["problem"]] or SAY + part + REST).format(**words))

    def unused_text(self, name: str) -> str:
        """Which sliders stand still, in words."""
        labels = {s.name: s.label for s in self.sliders}
        listed = "; ".join(labels[s] for s in unused(model(name)))
        return (UNUSED if listed else ALL_USED).format(model=name, unused=listed)

    def script(self) -> str:
        """The data and the traced functions as one call of JavaScript."""
        every = _function(self.structures)
        shared = javascript(heads, 8.0, 8.0)
        function = f"[{every},{shared}]"
        data = {
            "id": f"live-{self.name}", "args": ("family", *ARGS), "marks": [],
            "controls": [
                {"name": "start", "options": self.start.options},
                *({"name": s.name, "label": s.label, "grid": s.grid, "value": s.value} for s in self.sliders),
                *({"name": m.name, "options": m.options} for m in self.menus),
            ],
            "results": [{"name": r.name, "unit": r.unit, "words": r.words} for r in RESULTS],
            "decoder": {
                "models": {n: sizes(c) | {"positions": c.positions} for n, c in ((n, model(n)) for n in self.models)},
                "sizes": SIZES, "shares": SHARES, "say": SAY + REST, "experts": SAY + PART + REST, "note": NOTE, "problems": PROBLEMS,
                "unused": UNUSED, "all": ALL_USED,
            },
        }  # fmt: skip
        text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
        return f"(window.liveFigures=window.liveFigures||[]).push([{text},\n{function}]);"

    def html(self) -> str:
        """Controls, which stay hidden until the script has started; the sentence and the table."""
        key, values = f"live-{self.name}", self.values()
        still = unused(model(self.first))
        controls = (
            control_html(key, self.start)
            + "".join(s.html(key, s.name not in still) for s in self.sliders)
            + "".join(control_html(key, m) for m in self.menus)
            + f'<p class="live-unused" aria-live="polite">{escape(self.unused_text(self.first))}</p>'
        )
        return (
            head_html(key, self.title, HINT, controls, self.sentence(), "live live-many")
            + f'<div class="pst-scrollable-table-container"><table class="table live-plans"><caption>{escape(self.title)}</caption>'
            '<thead><tr><th scope="col">what</th><th scope="col">how much</th></tr></thead>'
            + "".join(_group(heading, rows, values) for heading, rows in TABLE.items())
            + f"</table></div><figcaption>{escape(RULES)}</figcaption></figure>"
        )


def _group(heading: str, rows: tuple[Result, ...], values: Mapping[str, float]) -> str:
    lines = [f'<tbody><tr><th colspan="2" scope="rowgroup">{escape(heading)}</th></tr>']
    for r in rows:
        value, bar = values[r.name], ""
        if whole := SHARES.get(r.name):
            share = 100 * value / values[whole]
            bar = f'<span class="live-bar" data-bar="{r.name}" style="width:{share:.1f}%"></span>'
        hidden = " hidden" if bar and value == 0 else ""
        text = escape(reading(value, r.unit))
        lines.append(
            f'<tr{hidden}><th scope="row">{escape(r.label)}</th><td><span data-result="{r.name}">{text}</span>{bar}</td></tr>'
        )
    return "".join(lines) + "</tbody>"
