"""Mutants and variants: read, applied once, refused with a sentence."""

import re
from pathlib import Path

import pytest

from autograder.places import ROOT, SourceError, Tree
from autograder.samples import bank

CELL = "def f(a):\n    ### BEGIN SOLUTION\n    return a + 1\n    ### END SOLUTION\n\n### BEGIN SOLUTION\nx = 1\n### END SOLUTION"


def test_mutant_replaces_once():
    assert "a - 1" in bank.Mutant("ch01-q01", "sign", "a + 1", "a - 1").apply(CELL)
    for text, n in (("a * 1", 0), ("BEGIN SOLUTION", 2)):
        with pytest.raises(SourceError, match=f"stands {n} times"):
            bank.Mutant("ch01-q01", "none", text, "").apply(CELL)


def test_variant_replaces_the_region():
    text = bank.Variant("ch01-q01", "v", "b = a\nreturn 1 + b\n").apply(CELL)
    assert text == "def f(a):\n    b = a\n    return 1 + b\n\n"
    with pytest.raises(SourceError, match="no solution region"):
        bank.Variant("ch01-q01", "v", "").apply("def f(): pass")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a", "must map grade_ids to lists"),
        ("ch01-q01: x", "ch01-q01 must be a list"),
        ("ch01-q01: [{name: a}]", "needs name, replace, with as text and may have says, it has name"),
        ("ch01-q01: [{name: a, replace: b, with: 1}]", "as text"),
        ("ch01-q01: [{name: a, replace: b, with: c, why: d}]", "it has name, replace, why, with"),
        ("ch01-q01: [{name: a, replace: b, with: c}, {name: a, replace: b, with: c}]", "has the name a twice"),
    ],
)
def test_errors(tmp_path, text, said):
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong" / "ch01_x.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SourceError, match=said):
        bank.mutants("ch01_x", tmp_path)


def test_kth_of_every_exercise():
    found = [
        bank.Mutant("ch01-q01", "a", "", ""),
        bank.Mutant("ch01-q02", "b", "", ""),
        bank.Mutant("ch01-q01", "c", "", ""),
    ]
    assert [m.name for m in bank.kth(found, 0)] == ["a", "b"]
    assert [m.name for m in bank.kth(found, 1)] == ["c"]
    assert bank.kth(found, 2) == []


def test_every_wrong_answer_has_a_cause_that_is_told():
    """`says` is the cause, a part of what the learner reads; `test_chapters` holds it against the message."""
    assert [f"{m.grade_id} {m.name}" for path in Tree().exercises for m in bank.mutants(path.stem) if not m.says] == []


FORMED = (
    "use ppermute alone", "travels as bf16", "the limit is 300", "this is None", "incompatible shapes", "too many values",
    "IndexError", "raised ValueError", "triangular_solve", "returned [[0., 0.]]", "the FLOPs are not right", "value 3 of 5",
    "copied is None", "batch: all M axes", "dk: every head", "q.reshape(", "every number is 1.0", "but where ", "only at place",
    "along axis", "the same whatever", "a sum over ", "whole along",
)  # fmt: skip
"""What Python, JAX, or a check that fills in names says; only the check that runs can show these."""


def written(*files: Path) -> str:
    """Their text on one line, strings that stand one below the other joined."""
    joined = (re.sub(r'"\s*\n\s*f?"', "", f.read_text(encoding="utf-8")).replace("\\", "") for f in files)
    return " ".join(" ".join(joined).split())


@pytest.mark.parametrize("source", Tree().exercises, ids=lambda p: p.stem)
def test_four_words_of_what_a_sample_is_told_are_written_somewhere(source):
    """Most samples run with FULL=1 only, and messages are reworded more often."""
    messages = written(
        source, *sorted((ROOT / "helpers/check").glob("*.py")), *sorted((ROOT / "helpers/trace").rglob("*.py"))
    )
    lost = []
    for m in bank.mutants(source.stem):
        words = m.says.split()
        some = (" ".join(words[i : i + 4]) for i in range(max(1, len(words) - 3)))
        if not any(four in messages for four in some) and not any(f in m.says for f in FORMED):
            lost.append(f"{m.grade_id} {m.name}: {m.says}")
    assert not lost
