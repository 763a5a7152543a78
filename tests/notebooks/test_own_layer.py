"""The decoder layer of Exercise 3.19 trains in chapter 4 and generates in chapter 5, in the cells that learners run."""

import ast
import re
from functools import partial

import nbformat
import pytest

from autograder.places import ROOT
from helpers import check
from helpers.kernels.inference import tiny_language_model
from tests.helpers.kernels.inference.test_tiny_language_model import exercise_319

pytestmark = pytest.mark.slow


def code(topic: str, notebook: str, first: str, last: str) -> str:
    """The imports of a reading, and its cells from the one that has `first` in it to the one that has `last`."""
    cells = [
        c.source for c in nbformat.read(ROOT / f"notebooks/{topic}/{notebook}.ipynb", 4).cells if c.cell_type == "code"
    ]
    begin, end = (next(i for i, c in enumerate(cells) if words in c) for words in (first, last))
    before = [
        node for c in cells[:begin] for node in ast.parse(c).body if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    return "\n".join([*map(ast.unparse, before), *cells[begin : end + 1]])


@pytest.fixture
def passed(monkeypatch):
    """3.19 has passed; twelve steps are enough to see that weights move."""
    used = []

    def own(exercise, name, agrees):
        layer = exercise_319()
        assert (exercise, name) == ("3.19", "decoder_layer") and agrees(layer)
        used.append(layer)
        return layer

    def few(train, c, tokens, steps, layer):
        assert c.positions and layer is used[-1]
        return train(c, tokens, steps=12, layer=layer)

    monkeypatch.setattr(check, "own", own)
    monkeypatch.setattr(tiny_language_model, "train", partial(few, tiny_language_model.train))
    return used


def test_it_trains_in_chapter_4(passed, capsys):
    exec(code("ch04_training", "further_programs", "decoder_layer", "decoder_layer"), {"__name__": "__main__"})
    first, last = map(float, re.search(r"loss ([\d.]+) at first, ([\d.]+) after", capsys.readouterr().out).groups())
    assert passed and last < first


def test_it_generates_in_chapter_5_what_the_cached_program_does(passed, capsys):
    exec(code("ch05_inference", "reading", "decoder_layer", "forward = jax.jit"), {"__name__": "__main__"})
    assert passed and capsys.readouterr().out.rstrip().endswith("✓ equal logits, the same text")
