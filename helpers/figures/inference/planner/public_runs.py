"""Public training runs beside what the planner says of them: `book/data/runs.json` as records (the page on public runs).

Each run has the layout that it is said to have had, and a step's seconds, from whatever its source gives.
"""

from dataclasses import dataclass, replace
from functools import cached_property

from helpers.costs.inference.serving_constants import ENGINES
from helpers.costs.inference.serving_estimate import Server, loaded, tokens_per_second
from helpers.costs.inference.serving_operations import Deployment
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training.layout import BF16, Bytes, Layout
from helpers.costs.training.layout_search import KEPT, search
from helpers.costs.training.operation_seconds import Software
from helpers.costs.training.step_estimate import Estimate, step_seconds, utilisation
from helpers.costs.training.training_step import DAY, DeviceMemory, Step, peak_memory, step
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import flops
from helpers.costs.transformers.public_models import model
from helpers.plan.ask import room
from helpers.plan.train import typed

SERVED = {
    "throughput": "tokens/s at full load",
    "first": "first token, DeepSeek-R1 on one host",
    "gap": "token, tp over two hosts",
    "request": "whole request on MI300X",
}
"""What each kind of served load is called."""


@dataclass(frozen=True)
class Run:
    """A training run on so many sequences of T tokens a step.

    published  what its source says of a step, and of the whole run
    """

    name: str
    config: Config
    chips: str
    slice: Slice
    layout: Layout
    typed: str
    software: Software
    sequences: int
    T: int
    published: dict
    source: str

    @cached_property
    def seconds(self) -> float:
        """Of a step, as published."""
        p, chips, tokens = self.published, self.step.chips, self.sequences * self.T
        if "seconds" in p:
            return p["seconds"]
        if "tokens_per_s" in p:
            return tokens / p["tokens_per_s"]
        if "tokens_per_s_per_chip" in p:
            return tokens / (p["tokens_per_s_per_chip"] * chips)
        if "chip_hours_of_1e12" in p:
            return p["chip_hours_of_1e12"] * 3600 * tokens / 1e12 / chips
        return flops(self.config, self.sequences, self.T, count="half").train / (p["tflops"] * 1e12 * chips)

    @cached_property
    def step(self) -> Step:
        """Under the published layout."""
        return step(self.config, self.layout, self.sequences * self.T, self.T, self.slice, "causal")

    @cached_property
    def estimate(self) -> Estimate:
        """Of a step, in the software that the source states."""
        return step_seconds(self.config, self.slice.chip, self.layout, self.sequences, self.T, self.software)

    @cached_property
    def memory(self) -> DeviceMemory:
        """Of the fullest device."""
        return peak_memory(self.config, self.slice.chip, self.layout, self.sequences, self.T, self.software)

    def mfu(self, seconds: float) -> float:
        """Of a step that takes so long: pairs that the mask leaves, over the peak of the type that products have."""
        return utilisation(self.config, self.slice.chip, self.layout, self.sequences, self.T, seconds)[0]

    def days(self, seconds: float) -> float:
        """Of the whole run at that pace, without failures and restarts."""
        return self.published["tokens"] / (self.sequences * self.T) * seconds / DAY

    @property
    def days_published(self) -> float:
        """Chip-hours of the whole run over its chips."""
        return self.published["chip_hours"] / 24 / self.step.chips

    @cached_property
    def pick(self) -> Step:
        """The planner's first layout for the same chips, batch and types, of a program that can do what the run's could."""
        like, policies = replace(self.layout, v=1, sequence_parallel=True), tuple({*KEPT, self.layout.policy})
        return search(self.config, self.sequences * self.T, self.T, self.slice, like, policies, top=1).best[0]

    @property
    def picked(self) -> str:
        """Its layout in words, without what the run had as well: types of what is stored, domains of GPUs."""
        laid = replace(self.pick.layout, stored=BF16)
        return str(laid if self.slice.chip.axes else replace(laid, pods=1))

    def reasons(self, most: int = 2) -> list[tuple[str, float]]:
        """The parts of a step that differ most between the planner's layout and the published one, in seconds."""
        here, there = self.pick.estimate.parts, self.step.estimate.parts
        differ = {name: here.get(name, 0.0) - x for name, x in there.items()}
        return sorted(differ.items(), key=lambda d: -abs(d[1]))[:most]


def load(data: dict) -> list[Run]:
    """The runs of `book/data/runs.json`."""
    return [_run(**r) for r in data["runs"]]


def _run(name, model, chips, layout, stored, software, sequences, length, published, source, dcn=None) -> Run:
    machine = room(chips)
    s = machine.slice
    if dcn:
        s = replace(s, chip=replace(s.chip, dcn_bandwidth=dcn))
    laid = Layout(**typed(layout, machine.pods), stored=Bytes(**stored))
    return Run(name, _config(model), chips, s, laid, layout, Software(**software), sequences, length, published, source)


def _config(model_or_sizes: str | dict) -> Config:
    return model(model_or_sizes) if isinstance(model_or_sizes, str) else Config(**model_or_sizes)


def served(data: dict) -> dict[str, list[float]]:
    """Estimate over measured of each load of `book/data/serving_unseen.json`, by what was measured; tokens/s are of one chip."""
    out: dict[str, list[float]] = {}
    for r in data["rows"]:
        s = Server(model(r["model"]), chip(r["chip"]), Deployment(**r["at"]), ENGINES[r["engine"]])
        load = r["prompt"], r["answer"], r["users"]
        seen, kind = loaded(s, *load), r["kind"]
        estimates = {"first": seen.first.mid, "gap": seen.gap.mid, "request": seen.request}
        said = tokens_per_second(s, *load) / s.deployment.chips if kind == "throughput" else estimates[kind]
        parts = {"throughput": ", mixtures" if s.config.moe else ", dense"}
        name = SERVED[kind] + parts.get(kind, "")
        out.setdefault(name, []).append(said / r["measured"])
    return out
