"""The planner: a model, chips, a task; every layout ranked, and what the picked one holds, waits for and costs.

`training` and `serving` rank and price, `tiers` divides what is sent among links; `words` has what is said, `page` the page without
JavaScript; `planner.js` does the same on the page with the functions that `live` wrote, and tests hold the two together.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from helpers.costs.inference.serving_constants import ENGINES
from helpers.costs.inference.serving_estimate import MEASURED, SPREAD as SERVED, arithmetic
from helpers.costs.inference.serving_operations import BITS, FOUR, Deployment
from helpers.costs.inference.serving_plan import LARGEST, MOST
from helpers.costs.racks.training_over_tiers import largest_group
from helpers.costs.rooflines.chips import chip, menu
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.training.layout import AXES, BY_BYTES, GRAMMAR
from helpers.costs.training.layout_search import KEPT
from helpers.costs.training.partial_layout import UNSHARED
from helpers.costs.training.step_estimate import SPREAD
from helpers.costs.transformers.config import UNUSUAL, Config
from helpers.costs.transformers.public_models import model
from helpers.figures.inference.planner import deployments, page, promises, serving, tiers, training, words as say
from helpers.figures.training.layout_search.candidates import (
    LONGEST,
    functions as of_steps,
    longest,
    numbered,
    ranks,
    speeds,
    tools,
    whole,
)
from helpers.figures.transformers.decoder_sizes.decoder import SIZES, build, sizes, structure, unused
from helpers.live.figure import pushed
from helpers.live.words import counted, reading
from helpers.plan.train import unswitched


@dataclass(frozen=True)
class Plan:
    """What one setting leads to.

    rows     ranked layouts, best first; none if nothing can be tried, or if a field holds nonsense
    picked   which of them is shown
    values   numbers by name, unknown where they mean nothing
    said     the same as text, and more
    sentence what the page says
    frontier  deployments with batches of which no other serves more at the same speed
    wrong    what is said of a layout that is typed and cannot be
    """

    rows: tuple
    picked: int
    values: dict[str, float]
    said: dict[str, str]
    sentence: str
    frontier: tuple = ()
    wrong: str = ""


class Planner:
    """The figure: models and chips of its menus, and what all controls say at first."""

    name = "planner"
    title = "The planner"
    models = (
        "llama-2-7b", "llama-2-13b", "llama-2-70b", "llama-3-8b", "llama-3-70b", "llama-3.1-405b", "llama-4-maverick",
        "tinyllama-1.1b", "yi-34b", "mistral-nemo-12b", "mistral-small-24b", "mistral-large-123b", "mixtral-8x7b", "mixtral-8x22b",
        "gemma-3-12b", "gemma-3-27b", "phi-4", "qwen-2.5-7b", "qwen-2.5-72b", "qwen-3-8b", "qwen-3-32b", "qwen-3-30b-a3b",
        "qwen-3-235b-a22b", "qwen-3-next-80b-a3b", "gpt-oss-20b", "gpt-oss-120b", "deepseek-v3", "deepseek-v3.2", "kimi-k2",
    )  # fmt: skip
    chips = menu("planner")
    engines = {
        "vllm": "vLLM",
        "sglang": "SGLang",
        "trtllm": "TensorRT-LLM",
        "jax": "JAX, compiled",
        "unknown": "another engine",
    }
    first = {
        "task": "train", "model": "llama-3-70b", "chip": "v5p", "n": 64, "tokens": 2**20, "T": 8192,
        "keep": "the fastest", "bytes": 16, "weights": "bf16", "cache": "bf16", "engine": "vLLM",
    }  # fmt: skip
    scripts = "grids", "settings", "candidates", "frontier", "deployments", "planner", "figure_controls"
    runners = tuple(map("{}.js".format, scripts))

    @cached_property
    def menus(self) -> dict[str, tuple[str, tuple[str, ...], str]]:
        """Label, options and task of each menu, by name."""
        return {
            "task": ("Task", say.TASKS, ""),
            "model": ("Model", self.models, ""),
            "chip": ("Chip", tuple(self.chips.values()), ""),
            "n": ("Chips", tuple(str(2**n) for n in range(training.LARGEST.bit_length())), "train"),
            "tokens": ("Tokens a step", tuple(str(2**n) for n in range(14, 27)), "train"),
            "T": ("T, context", tuple(str(2**n) for n in range(10, 18)), "train"),
            "keep": ("Keep for backward", (say.ANY, *KEPT), "train"),
            "bytes": ("Bytes a parameter", tuple(map(str, BY_BYTES)), "train"),
            "weights": ("Weights", tuple(BITS), "serve"),
            "cache": ("KV caches", say.CACHES, "serve"),
            "engine": ("Engine", tuple(self.engines.values()), "serve"),
        }

    def chosen(self, changes: Mapping | None = None) -> dict[str, str]:
        """What all controls say, as text."""
        at = {f.name: f.value for f in say.FIELDS} | {k: str(x) for k, x in self.first.items()}
        changes = {k: str(x) for k, x in (changes or {}).items()}
        c = model(changes.get("model", at["model"]))
        return at | {s: str(x) for s, x in sizes(c).items()} | {"pick": "", "own": ""} | changes

    def chip_of(self, chosen: Mapping[str, str]) -> Chip:
        return chip(next(name for name, label in self.chips.items() if label == chosen["chip"]))

    def fields(self, chosen: Mapping[str, str]) -> tuple[say.Field, ...]:
        """Number fields that count under these menus."""
        still = unused(model(chosen["model"]))
        asked = tuple(f for f in say.FIELDS if f.task in ("", chosen["task"]))
        return asked + tuple(say.Field(s, say.LABELS[s], "", 1, say.MOST[s]) for s in SIZES if s not in still)

    def config(self, chosen: Mapping[str, str], numbers: Mapping[str, float]) -> Config:
        """The model; ValueError, in one sentence, if its sizes do not go together."""
        like = model(chosen["model"])
        has = {s: int(numbers.get(s, x)) for s, x in whole(like).items()}
        if not like.mla and has["N"] % has["K"]:
            raise ValueError(say.UNEVEN.format(**has))
        if like.moe and has["k"] > has["E"]:
            raise ValueError(say.SPLIT.format(**has))
        if like.moe and has["L"] <= like.moe.first_dense:
            raise ValueError(say.SHALLOW.format(**has, model=chosen["model"], dense=like.moe.first_dense))
        return build(like, *has.values())

    def plan(self, changes: Mapping | None = None) -> Plan:
        """What the page has to show."""
        at = self.chosen(changes)
        of = self.chip_of(at)
        try:
            numbers = {f.name: f.number(at[f.name]) for f in self.fields(at)}
            return (self._train if at["task"] == "train" else self._serve)(at, numbers, self.config(at, numbers), of)
        except ValueError as error:
            return Plan((), 0, {}, {}, counted(str(error)))

    def _train(self, chosen, numbers, c: Config, chip: Chip) -> Plan:
        n, tokens, T = (int(chosen[name]) for name in ("n", "tokens", "T"))
        words = self._words(chosen, numbers)
        if sentence := strange(chosen["model"]):
            raise ValueError(sentence)
        there = training.places(chip.name)
        place = next((p for p in there if p.chips == n), None)
        if place is None:
            raise ValueError(say.MANY.format(**words | {"last": f"{there[-1].chips:,}"}))
        if tokens < T:
            raise ValueError(say.SHORT.format(**words))
        stored = BY_BYTES[int(chosen["bytes"])]
        found = training.found(c, place, tokens, T, KEPT if chosen["keep"] == say.ANY else (chosen["keep"],), stored)
        if not len(found):
            raise ValueError(say.FEW.format(**words))
        rows, wrong = self._own(chosen, numbers, c, place, found)
        picked = next((k for k, r in enumerate(rows) if r.name == chosen["pick"]), 0)
        one = rows[picked]
        paid = 1e9 * numbers["budget"], numbers["price"]
        values = training.values(c, place, one, tokens, T, *paid, numbers["over"])
        bound_by = longest(values)
        if not one.fits:
            values = {k: x if k == "memory" or k[0] == "m" and k[1:].isdigit() else math.nan for k, x in values.items()}
        same, fastest = training.equal(rows)
        words |= {"place": str(place), "bound": bound_by, "equal": f"{same:,}", "ratio": f"{one.seconds / fastest:.2f}"}
        words |= {"rank": f"{picked + 1:,}", "count": f"{len(rows):,}", "fitting": f"{sum(r.fits for r in rows):,}"}
        words |= {"links": tiers.said(chip, one.layout, values)}
        words |= {"note": note(chip, chosen["chip"]), "missing": reading(one.memory - chip.hbm_bytes, "B")}
        return self._plan(chosen, rows, picked, values, words, chip, wrong)

    def _own(self, chosen, numbers, c: Config, machine, ranking) -> tuple[tuple, str]:
        """The ranking with the layout that is typed, or what is wrong with that."""
        if not chosen["own"].strip():
            return training.lines(ranking), ""
        sizes_of = tuple(int(numbers.get(s, x)) for s, x in whole(model(chosen["model"])).items())
        try:
            tokens, T, each = (int(chosen[name]) for name in ("tokens", "T", "bytes"))
            case = machine, tokens, T, self._words(chosen, numbers)["who"], BY_BYTES[each]
            case = *case, "" if chosen["keep"] == say.ANY else chosen["keep"]
            return training.beside(ranking, training.own(chosen["own"], c, sizes_of, *case)), ""
        except ValueError as error:
            return training.lines(ranking), str(error)

    def _serve(self, chosen, numbers, c: Config, chip: Chip) -> Plan:
        words, ask = self._words(chosen, numbers), promises.asked(numbers)
        if sentence := promises.refused(chip, words):
            raise ValueError(sentence)
        engine = ENGINES[next(name for name, label in self.engines.items() if label == chosen["engine"])]
        like = Deployment(weights=chosen["weights"], cache=chosen["cache"])
        found = serving.search(c, chip.name, ask, engine, like, chosen["pick"])
        if not found:
            raise ValueError(promises.no_room(c, chip, ask, engine, like, words))
        picked = next((k for k, r in enumerate(found.rows) if r.name == chosen["pick"]), 0)
        row = found.rows[picked]
        values = {k: float(x) for k, x in serving.values(row, found.chips, numbers["price"]).items()}
        numbers_said = shown("serve", values)
        words |= promises.said(found, picked, ask, words, numbers_said) | promises.rates(row)
        words |= {"layout": row.layout, "note": promises.note(chip, chosen["chip"]), "would": ""}
        if ask.chips and not found.rows[0].fits:
            fewest = serving.search(c, chip.name, replace(ask, chips=None), engine, like)
            words["would"] = promises.would(fewest, words)
        words["paid"] = say.SERVING["paid"].format(**numbers_said) if chosen["price"].strip() else ""
        return self._plan(chosen, found.rows, picked, values, words, chip, frontier=found.frontier)

    def _words(self, chosen, numbers) -> dict[str, str]:
        """What sentences quote of the controls."""
        own = any(int(numbers[s]) != x for s, x in sizes(model(chosen["model"])).items())
        words = {k: f"{int(x):,}" if k in ("n", "tokens", "T") else x for k, x in chosen.items()}
        words |= {k: f"{int(numbers[k]):,}" for k in ("prompt", "answer") if k in numbers}
        return words | {"who": say.CHANGED.format(model=chosen["model"]) if own else chosen["model"]}

    def _plan(self, chosen, rows, picked, values, words, chip: Chip, wrong="", frontier=()) -> Plan:
        task, one = chosen["task"], rows[picked]
        said = shown(task, values)
        if not chosen["price"].strip():
            said |= {name: say.TYPE for name in say.PAID if name in said}
        words = {"layout": one.words} | words | said | {"hbm": reading(chip.hbm_bytes, "B")}
        sentence = counted(say.SAY[task, one.fits].format(**words))
        return Plan(rows, picked, values, said, sentence, frontier, wrong)

    def script(self) -> str:
        """The data and the traced functions as one call of JavaScript."""
        every = [model(name) for name in self.models]
        structures = tuple(dict.fromkeys(map(structure, every)))
        trained = tuple(c for c in structures if not _parts(c))
        F, places = of_steps(trained)
        sent, over = tiers.functions(trained)
        steps = dict(zip(trained, places))
        first = {c: n for n, c in enumerate(trained)}
        G, pairs = deployments.functions(structures)
        bill, lies, legal = training.functions(structures)
        models = {}
        for name, c in zip(self.models, every):
            k = structures.index(structure(c))
            models[name] = {
                "sizes": [*whole(c).values()], "at": steps.get(structures[k], []), "to": pairs[k], "k": k, "unused": unused(c),
                "dense": c.moe.first_dense if c.moe else 0, "moe": int(bool(c.moe)), "mla": int(bool(c.mla)),
                "strange": strange(name), "sent": first.get(structures[k], -1), "wide": SERVED["experts"] if c.moe else 1,
            }  # fmt: skip
        data = {"id": f"live-{self.name}", "own": "livePlanner", "args": (), "marks": [], "controls": [], "results": []}
        data["planner"] = {**self._data(), "models": models}
        rows = {"F": F, "G": G, "legal": legal, "sent": sent, "over": over}
        named = [f"{name}:[{','.join(some)}]" for name, some in rows.items()]
        named += [f"{name}:{one}" for name, one in (("bill", bill), ("lies", lies), ("rank", ranks()))]
        return pushed(data, f"{{{','.join(named)}}}")

    def _data(self) -> dict:
        fields = {f.name: {"label": f.label, "kind": f.kind, "low": f.low, "high": f.high, "whole": f.whole,
                           "empty": f.empty, "task": f.task, "value": f.value}
                  for f in (*say.FIELDS, *(say.Field(s, say.LABELS[s], "", 1, say.MOST[s]) for s in SIZES))}  # fmt: skip
        return {
            "chips": {label: self._chip(chip(name), label) for name, label in self.chips.items()},
            "menus": {n: m[2] for n, m in self.menus.items()} | {"own": "train"}, "fields": fields, "sizes": SIZES,
            "bill": training.BILL, "serve": self._serving(), "misses": say.MISSES, "frontier": say.FRONTIER,
            "results": {k: [(r.name, r.unit) for r in some] for k, some in say.RESULTS.items()},
            "paid": say.PAID, "whole_numbers": say.WHOLES, "bars": say.BARS, "drawn": say.DRAWN, "high": page.HIGH,
            "rows": say.ROWS, "longest": LONGEST,
            **tools(), "any": say.ANY, "unshared": UNSHARED, "stored": {n: (x.gradient, x.state) for n, x in BY_BYTES.items()},
            "number": f"^({say.NUMBER.pattern})$", "wholes": f"^({say.WHOLE.pattern})$",
            "say": {f"{task}{int(fits)}": s for (task, fits), s in say.SAY.items()},
            **{n.lower(): getattr(say, n) for n in ("WRONG", "MANY", "SHORT", "FEW", "UNEVEN", "SPLIT", "SHALLOW", "LAYOUT", "ALSO",
                                                     "LACKS", "PAGE", "TYPE", "CHANGED", "NAMED", "LONG")},
            "tiers": {"names": tiers.NAMES, "links": say.LINKS, "hsdp": say.HSDP},
            "axes": AXES, "elsewhere": [name for name in GRAMMAR if name not in training.TYPED],
            "grammar": {name: {"least": x.least, "most": x.most, "words": x.words, "range": x.range, "before": x.before}
                        for name, x in training.TYPED.items()},
        }  # fmt: skip

    def _chip(self, chip: Chip, label: str) -> dict:
        return {
            "speeds": speeds(chip), "kind": 0 if chip.axes else 1, "places": [numbered(p) for p in training.places(chip.name)],
            "wired": [tiers.wired(p) for p in training.places(chip.name)], "group": largest_group(chip), "tiers": tiers.called(chip),
            "note": note(chip, label), "wide": 1 if chip.generation else SPREAD["chip"],
            "rates": deployments.speeds(chip), "domain": LARGEST if chip.axes else chip.pod[0], "noted": promises.note(chip, label),
            "types": {w: deployments.stored(chip, w) for w in BITS},
            "caches": [x for x in say.CACHES if x in ("bf16", "int8") or arithmetic(chip, x) != "bf16"],
            "served": 1 if chip.name in MEASURED else SERVED["chip"],
        }  # fmt: skip

    def _serving(self) -> dict:
        """What the page knows of serving beside its chips and models."""
        return {
            "names": deployments.NAMES, "fields": promises.FIELDS,
            "sizes": serving.SIZES,
            "largest": LARGEST, "most": MOST, "bits": BITS, "four": FOUR, "say": say.SERVING,
            "engines": {label: [deployments.engine(ENGINES[name]), _wider(ENGINES[name])]
                        for name, label in self.engines.items()},
            "wide": [SERVED["gap"], SERVED["first"]],
        }  # fmt: skip

    def html(self) -> str:
        """Controls, which stay hidden until the script has started; the sentence, the ranking, the bars and the table."""
        return page.html(self)


def _parts(c: Config) -> list[str]:
    """What a model has that no training step has a price for."""
    return [UNUSUAL[n] for n in c.unusual if n != "shared_gate"]


def strange(name: str) -> str:
    """Why a model has no training step here; "" if it has.

    >>> strange("llama-3-8b"), strange("deepseek-v3.2")[:51]
    ('', 'A training step has no price for an indexer of keys')
    """
    parts = _parts(model(name))
    return say.STRANGE.format(part=parts[0], model=name) if parts else ""


def shown(task: str, values: Mapping[str, float]) -> dict[str, str]:
    """The results of a task as text."""
    return {
        r.name: f"{values[r.name]:,.0f}" if r.name in say.WHOLES else reading(values[r.name], r.unit)
        for r in say.RESULTS[task]
    }


def note(chip: Chip, label: str) -> str:
    """What is said of a chip that the estimate knows less of."""
    borrowed = "" if chip.generation else say.BORROWED.format(chip=label, lender=chip.lender)
    return borrowed + (f" {unswitched(chip)}" if chip.neighbours else "")


def _wider(engine) -> list[float]:
    """How much wider intervals of a gap and of a first token are for an engine that nobody measured."""
    return [1 if engine.measured else SERVED[f"{what}, engine"] for what in ("gap", "first")]


FIGURE = Planner()
