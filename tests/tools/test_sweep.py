"""A sample of the sweep, and that the sweep finds what it looks for."""

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


def test_the_fastest_is_what_the_search_finds():
    case = model("llama-3-8b"), 2**20, 4096, Slice(chip("H100"), (8,))
    (best,) = sweep.layout_search.search(*case, top=1).best
    fastest = sweep.layout_search.ranking(*case).edges[0] / sweep.layout_search.EQUAL
    assert sweep.fastest(best, 1, lambda laid: laid.tp > 0) == pytest.approx(fastest)
    assert sweep.fastest(best, 1, lambda laid: laid.tp > 8) == float("inf")
