"""A collective on a cluster, on a page: choose a model, a machine and what is sent, and see every algorithm's time tier by tier.

`times` has the numbers, which `helpers.live.jaxpr_to_javascript` traces from `costs`; `collective_times.js` moves what this
module and `bars` draw, and tests hold the one against the other.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape

from helpers.costs.racks.tiered_collectives import ALGORITHMS, HOP_DCN
from helpers.costs.rooflines.chips import CHIPS, chip
from helpers.live.controls import Choice, Size, control_data, control_html, head_html
from helpers.live.words import counted, reading

from .bars import HEAD, LEFT, ROOM, SLOT, SLOTS, WIDTH, bars
from .times import GROUP, ROW, SENT, Found, Machine, find, functions, loaded, sides, sizes

NAMES = {
    "ring": "flat ring",
    "hierarchical": "hierarchical",
    "tree": "two trees",
    "nvls": "switch (NVLS)",
    "direct": "direct",
    "rails": "along rails",
}
COLUMNS = {
    "in_bytes": "inside, bytes",
    "in_hops": "inside, hops",
    "out_bytes": "across, bytes",
    "out_hops": "across, hops",
    "lower": "at least",
}

SAY = (
    "{what} by {kind} over {n} {chips} in {count}: {best} at least {lower}. Most of that is {by}, and bytes take longer {tier}; "
    "{cut} {hide}"
)
WHAT, OWN = "{sent} of {model}, {size},", "{size} of your own"
BEST = (
    "{first} takes",
    "the fastest is {first}, with",
    "each algorithm takes",
)  # of one, of several, and if none is faster
CUT = "the cut around {side} allows no less than {bound}{made}."
BEATS = "the cut around {side} would ask for {bound}{made}, but here the switch adds."
MADE = " for a ReduceScatter and an AllGather"
FROM = "Hiding it takes {flops} on each chip at peak: {work} has as many from {tokens} tokens on each chip on, so {b} are {enough}."
GROWS = (
    "Hiding it takes {flops} on each chip at peak: with {b} tokens on each chip {work} has {have}, which is {enough}. "
)
SOME = "Bytes and arithmetic grow with the tokens, hops do not, so it hides from {tokens} tokens on."
NEVER = "Its bytes grow as the arithmetic does and take longer, so more tokens do not hide it."
ALONE = "Hiding it takes {flops} on each chip at peak."
ENOUGH = {False: ("too few", "enough"), True: ("too little", "enough")}
NO_EXPERTS = "{model} has no experts to send tokens to: choose {mixtures}, another collective, or a size V of your own."
MANY = "The {E} experts of {model} cannot be spread over {n} {chips}. {most}another model or a size V of your own."
MOST, NONE_FITS = "Take at most {fit}, ", "Even one {domain} has more chips than that: take "
HINT = "Choose a model, a machine and what is sent; they set the size V, which you can move as well."
ALT = (
    "Two bars for each algorithm, its bytes inside the domains and its bytes across them, each with all of its hops behind them; a "
    "dashed line at the time that the bottleneck cut allows. The table has the numbers."
)
RULES = (
    "Bytes are floors: published rates, of one direction of each link, and both tiers busy at once, so the longer bar of an algorithm "
    "counts. Hops follow each other, so each bar has those of both tiers, and they are estimates. "
    f"A hop takes {reading(chip('H100').hop, 's')} over NVLink, {reading(chip('v5p').hop, 's')} over ICI and, as an order of "
    f"magnitude, {reading(HOP_DCN, 's')} over the network; over slices no hops are counted but an AllToAll's. Numbers are bf16. "
    "A layer is its matrices, of a mixture those of a layer with experts. V is the whole array, for an AllToAll all shards together, in "
    "which each copy of a token travels alone, and all messages at once, in one hop of each tier; half of the experts' arithmetic hides "
    "it, and the other half the way back. TP and EP take all chips. A switch (NVLS) adds or copies inside a domain, and two trees add "
    f"across. Uplinks 4:1 are those of groups of {GROUP} hosts."
)


@dataclass(frozen=True)
class Steps(Size):
    """A slider over these numbers alone."""

    steps: tuple[int, ...] = ()

    @cached_property
    def grid(self) -> tuple[int, ...]:
        return self.steps


@dataclass(frozen=True)
class CollectiveTimer:
    """A live figure: a model, a machine and what is sent, and the time of each algorithm by tier.

    models    names of `costs.transformers.public_models`, as the menu lists them
    machines  what the menu calls them
    first     what the menus say at first: model, machine, sent
    sliders   m domains, b tokens on each chip, V bytes
    """

    name: str
    title: str
    models: tuple[str, ...]
    machines: Mapping[str, Machine]
    first: Mapping[str, str]
    sliders: tuple[Size, ...]
    runners = ("grids.js", "collective_times.js", "figure_controls.js")

    @cached_property
    def menus(self) -> tuple[Choice, ...]:
        def rates(m: Machine) -> dict[str, float]:
            c = m.chip
            return {
                "g": m.g,
                "W": c.link_bandwidth,
                "card": c.dcn_bandwidth,
                "up": m.uplink,
                "hop": c.hop,
                "C": c.rate(),
            }

        return (
            Choice("model", "Model", self.first["model"], {name: {} for name in self.models}),
            Choice("machine", "Machine", self.first["machine"], {text: rates(m) for text, m in self.machines.items()}),
            Choice("sent", "Collective", self.first["sent"], {text: {} for text in SENT}),
        )

    def chosen(self, changes: Mapping | None = None) -> dict:
        """What all controls say; V is the model's unless changed."""
        changes = changes or {}
        at = {**self.first, **{s.name: s.value for s in self.sliders}, **changes}
        if "V" not in changes:
            at["V"] = self.models_size(at)
        return at

    def models_size(self, at: Mapping) -> int:
        """V that the model sets."""
        place = list(SENT).index(at["sent"])
        return round(loaded(at["model"], self.machines[at["machine"]], at["m"], at["b"])[place])

    def problem(self, changes: Mapping | None = None) -> str:
        """Why all is unknown, if it is."""
        at = self.chosen(changes)
        E, machine, sent = sizes(at["model"])["E"], self.machines[at["machine"]], SENT[at["sent"]]
        n, own = at["m"] * machine.g, at["V"] != self.models_size(at)
        if sent.kind != "AllToAll" or own or 0 < n <= E:
            return ""
        if not E:
            return NO_EXPERTS.format(model=at["model"], mixtures=self.mixtures)
        fit = counting(E // machine.g, machine.domain)
        most = (MOST if machine.g <= E else NONE_FITS).format(fit=fit, domain=machine.domain)
        return MANY.format(E=E, model=at["model"], n=f"{n:,}", chips=kinds(machine), most=most)

    @cached_property
    def mixtures(self) -> str:
        *some, last = (name for name in self.models if sizes(name)["E"])
        return f"{', '.join(some)} or {last}"

    def found(self, changes: Mapping | None = None) -> Found | None:
        """All numbers, if there are any."""
        if self.problem(changes):
            return None
        at = self.chosen(changes)
        return find(at["model"], self.machines[at["machine"]], at["m"], at["sent"], at["b"], float(at["V"]))

    def values(self, found: Found | None) -> dict[str, float]:
        """The cells of the table."""
        rows = found.rows if found else ()
        return {
            f"{what}{n}": rows[n][ROW.index(what)] if n < len(rows) else math.nan
            for n in range(SLOTS)
            for what in COLUMNS
        }

    def said(self, found: Found | None) -> dict[str, str]:
        """What the table says."""
        return {name: reading(v, "s") for name, v in self.values(found).items()}

    def sentence(self, found: Found | None, changes: Mapping | None = None) -> str:
        """What is said after each change."""
        at = self.chosen(changes)
        if found is None:
            return self.problem(changes)
        machine, sent = self.machines[at["machine"]], SENT[at["sent"]]
        row, lower = found.rows[found.first], found.rows[found.first][-1]
        k = 0 if row[0] >= row[3] else 3
        words = {n: f"{x:,}" if isinstance(x, int) else x for n, x in at.items()} | {
            "sent": sent.what, "kind": sent.kind, "work": sent.work, "n": f"{found.n:,}", "chips": kinds(machine),
            "count": counting(at["m"], machine.domain), "size": reading(found.V, "B"), "lower": reading(lower, "s"),
            "best": BEST[0 if len(found.rows) == 1 else 1 if found.wins else 2].format(first=NAMES[found.names[found.first]]),
            "tier": tiers(machine)[k > 0], "by": ("bytes", "hops")[row[1] + row[4] > row[k]],
            "side": named_sides(machine)[found.side], "bound": reading(found.bound, "s"),
            "flops": reading(found.need, "FLOPs"), "have": reading(found.have, "FLOPs"),
            "enough": ENOUGH[sent.grows][found.have >= found.need],
        }  # fmt: skip
        words["tokens"] = f"{math.ceil(found.tokens):,}" if math.isfinite(found.tokens) else ""
        words["what"] = (OWN if found.own else WHAT).format(**words)
        words["made"] = MADE if sent.kind == "AllReduce" else ""
        words["cut"] = (BEATS if lower < found.bound else CUT).format(**words)
        grows = GROWS + (NEVER if math.isinf(found.tokens) else SOME)
        words["hide"] = (ALONE if found.own else grows if sent.grows else FROM).format(**words)
        return counted(SAY.format(**words))

    def script(self) -> str:
        """The data and the traced functions as one call of JavaScript."""
        slices = {m.shape for m in self.machines.values() if m.chip.axes}
        if len(slices) != 1:
            raise ValueError(f"the page has one shape of slices, not {sorted(slices)}")
        some = next(m.slice for m in self.machines.values() if m.chip.axes)
        data = {
            "id": f"live-{self.name}", "args": (), "marks": [],
            "controls": [
                *(control_data(m) for m in self.menus), *({"name": s.name, "grid": s.grid, "value": s.value} for s in self.sliders),
            ],
            "results": [{"name": name, "unit": "s", "words": ()} for name in self.values(None)],
            "cluster": {
                "models": {name: list(sizes(name).values()) for name in self.models},
                "machines": {text: self._machine(m) for text, m in self.machines.items()},
                "sent": {text: [s.kind, s.row, s.what, s.work, int(s.grows)] for text, s in SENT.items()},
                "group": GROUP, "hop": HOP_DCN, "row": ROW, "columns": list(COLUMNS), "slots": SLOTS,
                "box": [WIDTH, LEFT, ROOM, HEAD, SLOT],
                "say": SAY, "what": WHAT, "own": OWN, "best": BEST, "cut": CUT, "beats": BEATS, "made": MADE,
                "from": FROM, "grows": GROWS, "some": SOME, "never": NEVER,
                "alone": ALONE, "enough": [ENOUGH[False], ENOUGH[True]], "noExperts": NO_EXPERTS, "mixtures": self.mixtures, "many": MANY,
                "most": MOST, "noneFits": NONE_FITS,
            },
        }  # fmt: skip
        text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
        return f"(window.liveFigures=window.liveFigures||[]).push([{text},\n[{','.join(functions(some))}]]);"

    def _machine(self, m: Machine) -> dict:
        """Names of its algorithms, kind by kind; its sides; its words."""
        return {
            "torus": int(bool(m.chip.axes)),
            "names": [[NAMES[a] for a in known(m, kind)] for kind in ("AllGather", "AllReduce", "AllToAll")],
            "sides": [[(named_sides(m)[name], a, W) for name, a, W in some] for some in sides(m)],
            "chips": kinds(m), "domain": m.domain, "tiers": tiers(m),
        }  # fmt: skip

    def html(self) -> str:
        """Controls, which stay hidden until the script has started; the sentence, the bars and the table."""
        key, found, at = f"live-{self.name}", self.found(), self.chosen()
        values, said = self.values(found), self.said(found)
        sliders = (replace(s, value=at[s.name]) for s in self.sliders)
        controls = "".join(control_html(key, m) for m in self.menus) + "".join(s.html(key, True) for s in sliders)
        names, best = [NAMES[name] for name in found.names], found.first if found.wins else -1
        times = [tuple(reading(row[k], "s") for k in (2, 5)) for row in found.rows]
        head = "".join(f'<th scope="col">{escape(text)}</th>' for text in COLUMNS.values())
        rows = "".join(_row(n, names, values, said) for n in range(SLOTS))
        return (
            head_html(key, self.title, HINT, controls, self.sentence(found), "live live-many")
            + bars(key, ALT, named(names, best), found.rows, times, best, found.bound)
            + f'<div class="pst-scrollable-table-container live-forms" tabindex="0" role="region" aria-label="{escape(self.title)}">'
            f'<table class="table"><caption>{escape(self.title)}</caption><thead><tr><th scope="col">algorithm</th>{head}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div><figcaption>{escape(RULES)}</figcaption></figure>"
        )


def _row(n: int, names: list[str], values: Mapping[str, float], said: Mapping[str, str]) -> str:
    cells = "".join(f'<td data-result="{what}{n}">{escape(said[f"{what}{n}"])}</td>' for what in COLUMNS)
    hidden, name = ("", names[n]) if n < len(names) else (" hidden", "")
    return f'<tr data-row="{n}"{hidden}><th scope="row">{escape(name)}</th>{cells}</tr>'


def named(names: list[str], first: int) -> list[str]:
    """What stands above the bars; `first` is -1 where no algorithm is faster than the others.

    >>> named(["flat ring", "two trees"], 1), named(["direct"], 0)
    (['flat ring', 'two trees: fastest'], ['direct'])
    """
    return [f"{name}: fastest" if n == first and len(names) > 1 else name for n, name in enumerate(names)]


def known(m: Machine, kind: str) -> tuple[str, ...]:
    """The algorithms that the page has for a kind on a machine, in the order of its rows."""
    if m.chip.axes:
        return ("direct",) if kind == "AllToAll" else ("hierarchical",)
    if not m.chip.switch_adds:
        adding = ", ".join(sorted(c.name for c in CHIPS.values() if c.switch_adds))
        raise ValueError(f"the page has GPUs whose switch adds, {adding}, not {m.chip_name}")
    return ALGORITHMS[kind]


def kinds(m: Machine) -> str:
    return f"{m.chip.kind.upper()}s"


def counting(m: int, domain: str) -> str:
    """So many of them.

    >>> counting(1, "host"), counting(16, "rack")
    ('1 host', '16 racks')
    """
    return f"{m} {domain}{'s' * (m != 1)}"


def tiers(m: Machine) -> tuple[str, str]:
    return f"inside the {m.domain}", f"across {m.domain}s"


def named_sides(m: Machine) -> dict[str, str]:
    """What the sides of `costs.racks.cut.sides` are called on a machine."""
    halves = {f"half of axis {axis}": f"half a {m.domain}" for axis in range(3)}
    return {
        "a chip": f"one {m.chip.kind.upper()}",
        "a domain": f"one {m.domain}",
        "a group": f"{GROUP} {m.domain}s",
    } | halves
