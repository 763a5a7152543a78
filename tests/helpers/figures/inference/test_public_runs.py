"""Public runs: what their sources publish agrees with itself, and what is said of them holds."""

import json
import statistics

import pytest

from helpers.costs.training.layout import Layout
from helpers.costs.training.step_estimate import utilisation
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.figures.inference.planner import public_runs
from helpers.plan.ask import room
from helpers.plan.train import typed
from tests.scratch import ROOT

RUNS = {r.name: r for r in public_runs.load(json.loads((ROOT / "book/data/runs.json").read_text("utf-8")))}


@pytest.mark.parametrize("name, off", [("PaLM 540B", 0.005), ("MPT-13B under FSDP", 0.005), ("Llama 3.1 405B", 0.01)])
def test_the_published_utilisation_is_that_of_the_published_seconds(name, off):
    """Papers count every query times every key; Llama 3.1's counts half."""
    r = RUNS[name]
    count = "half" if "tflops" in r.published else "all"
    mfu, _ = utilisation(r.config, r.slice.chip, r.layout, r.sequences, r.T, r.seconds, count)
    assert mfu == pytest.approx(r.published["mfu"], abs=off)


@pytest.mark.parametrize("r", RUNS.values(), ids=RUNS)
def test_a_run_is_what_the_command_is_told(r):
    """The layout takes all chips, and typed into the command it is the same step but for the types of what is stored."""
    machine = room(r.chips)
    assert r.step.chips == machine.chips and r.source
    assert Layout(**typed(r.typed, machine.pods), stored=r.layout.stored) == r.layout
    assert abs(sum(r.estimate.parts.values()) / r.estimate.mid - 1) < 1e-9


@pytest.mark.parametrize("r", RUNS.values(), ids=RUNS)
@pytest.mark.sample(quick=3)
def test_the_pick_is_no_slower_and_fits(r):
    assert r.pick.estimate.mid <= 1.01 * r.step.estimate.mid or r.step.missing
    assert not r.pick.missing and r.pick.chips == r.step.chips and len(r.reasons()) == 2


def test_days_are_tokens_over_the_pace():
    r = RUNS["DeepSeek-V3"]
    assert r.days(r.seconds) == pytest.approx(14.8 * 180e3 / 24 / 2048, rel=1e-3)  # of its Table 1
    assert r.days_published == pytest.approx(2.664e6 / 24 / 2048)
    assert parameters(RUNS["GPT of 1 trillion in Megatron"].config).total == pytest.approx(1.008e12, rel=0.005)


UNSEEN = json.loads((ROOT / "book/data/serving_unseen.json").read_text("utf-8"))


def test_errors_on_served_loads_that_no_fit_has_seen():
    """Medians as the page tells them, and no more: dense models and sums over hosts are close, first tokens and one card are not."""
    ratios = public_runs.served(UNSEEN)
    errors = {name: statistics.median(abs(x - 1) for x in some) for name, some in ratios.items()}
    assert statistics.median(abs(x - 1) for name, some in ratios.items() if "full load" in name for x in some) < 0.1
    assert errors["tokens/s at full load, dense"] < 0.05 and errors["token, tp over two hosts"] < 0.2
    assert errors["first token, DeepSeek-R1 on one host"] < 0.4 and errors["whole request on MI300X"] < 0.4
