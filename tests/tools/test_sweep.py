"""A sample of the sweep, and that the sweep finds what it looks for."""

from types import SimpleNamespace

import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training.layout import Layout
from helpers.costs.training.training_step import step
from helpers.costs.transformers.public_models import model
from tests.tiers import repeats
from tools import sweep


def test_no_answer_is_impossible():
    some = sweep.cases()[:: len(sweep.cases()) // repeats(20, 400)]
    found = [(str(case), kind, said) for case in some for kind, said in sweep.findings(case)]
    assert not found


def test_every_model_and_chip_is_swept():
    some = sweep.cases()
    assert set(sweep.trained()) > {"llama-3-8b", "mixtral-8x7b", "deepseek-v3", "gemma-3-27b"}
    for name in set(sweep.MODELS) - set(sweep.trained()):
        with pytest.raises(ValueError, match="a training step does not know"):
            step(model(name), Layout(), 2**15, 4096, Slice(chip("H100"), (1,)))
    assert len(some) == len(sweep.trained()) * len(sweep.CHIPS) * 5 * 2 == len({str(c) for c in some})
    assert all(c.tokens % c.T == 0 and c.tokens >= c.n * sweep.EACH for c in some)


def kinds(found) -> set[str]:
    return {kind for kind, _ in found}


def test_it_finds_more_flops_than_the_chips_have(monkeypatch):
    case = sweep.Case("llama-3-8b", "H100", 8, 4096)
    assert not kinds(sweep.findings(case))
    monkeypatch.setattr(sweep, "utilisation", lambda *_: (0.9, 1.01))
    assert kinds(sweep.findings(case)) == {"HFU"}


def test_it_finds_bytes_below_nothing():
    at = step(model("llama-3-8b"), Layout(fsdp=8), 2**20, 4096, Slice(chip("H100"), (8,)), "causal")
    assert not kinds(sweep.impossible(at))
    vars(at)["memory"] = SimpleNamespace(**vars(at.memory) | {"logits": -1.0})
    assert kinds(sweep.impossible(at)) == {"negative"}


def test_it_finds_tp_over_the_network_and_short_blocks():
    c, s = model("llama-3-8b"), Slice(chip("H100"), (8,))
    over = step(c, Layout(tp=16, pods=2), 2**20, 4096, s, "causal")
    assert kinds(sweep.doubtful(over, 2)) == {"tp"}
    short = step(c, Layout(cp=8, pods=8, fsdp=8, tp=1), 2**20, 4096, s, "causal")
    assert kinds(sweep.doubtful(short, 8)) <= {"cp"} and short.T / 8 < 1000
    across = step(c, Layout(cp=64, pods=8), 2**20, 4096, s, "causal")
    assert kinds(sweep.doubtful(across, 8)) == {"cp"}


def test_the_fastest_is_what_the_search_finds():
    case = model("llama-3-8b"), 2**20, 4096, Slice(chip("H100"), (8,))
    (best,) = sweep.layout_search.search(*case, top=1).best
    fastest = sweep.layout_search.ranking(*case).edges[0] / sweep.layout_search.EQUAL
    assert sweep.fastest(best, 1, lambda laid: laid.tp > 0) == pytest.approx(fastest)
    assert sweep.fastest(best, 1, lambda laid: laid.tp > 8) == float("inf")


def test_the_command_says_how_many_searches_it_made(capsys, monkeypatch):
    monkeypatch.setattr(sweep, "cases", lambda every: [sweep.Case("llama-3-8b", "H100", 8, 4096)] * every)
    assert sweep.main(["--every", "2"]) == 0 and capsys.readouterr().out == "2 searches: nothing found\n"
    monkeypatch.setattr(sweep, "findings", lambda case: [("MFU", "2.00")])
    assert sweep.main(["--every", "1"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said == ["MFU: llama-3-8b on 8 H100, 524288 tokens in sequences of 4096: 2.00", "1 searches: 1 MFU"]
