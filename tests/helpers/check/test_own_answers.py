"""A later chapter uses a learner's own function where it has passed and still works, and says whose it uses."""

import json

import pytest

from helpers import check
from helpers.check import progress, solutions

CELLS = (
    ("import math\nprint('devices')\n%matplotlib inline", {}),
    ("import math\nprint('devices')\n\ndef half(x):\n    return x / 2", {}),
    ("def other(x):\n    return 0", {"grade_id": "ch01-q01", "solution": True}),
    ("def double(x):\n    return math.floor(4 * half(x))", {"grade_id": "ch01-q10", "solution": True}),
    ("raise SystemExit", {"grade_id": "ch01-q10-check", "solution": False}),
    ("def half(x):\n    return 0", {}),
)


def saved(folder, cells=CELLS):
    cells = [
        {"cell_type": "code", "source": s.splitlines(True), "metadata": {"nbgrader": m} if m else {}} for s, m in cells
    ]
    (folder / "exercises.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")


@pytest.fixture
def later(tmp_path, monkeypatch):
    """Somebody sits before chapter 4, with chapter 1's exercise 1.10 passed."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks/README.md").write_text("# A course\n")
    for name in ("ch01_rooflines", "ch04_training"):
        (tmp_path / "work" / name).mkdir(parents=True)
    record = {"won": 2, "of": 2, "tries": 1, "begun": "2026-01-02", "passed": "2026-01-02"}
    (tmp_path / "work/progress.json").write_text(json.dumps({"exercises": {"1.10": {"double": record}}}))
    saved(tmp_path / "work/ch01_rooflines")
    monkeypatch.chdir(tmp_path / "work/ch04_training")
    monkeypatch.setattr(progress, "attended", lambda: True)
    for name, empty in (("_tries", {}), ("_passed", set()), ("_recalled", set())):
        monkeypatch.setattr(solutions, name, empty)
    return tmp_path / "work"


def test_what_passed_is_used_with_the_functions_it_needs(later, capsys):
    double = check.own("1.10", "double", lambda f: f(3) == 6)
    assert double(8) == 16
    assert capsys.readouterr().out == "Yours: `double` of Exercise 1.10.\n"  # and no line of its cells ran


def test_what_did_not_pass_is_ours(later, capsys):
    assert check.own("1.1", "other") is None
    assert capsys.readouterr().out == "Ours: once Exercise 1.1 has passed, this cell uses your `other`.\n"


@pytest.mark.parametrize(("now", "said"), [
    ("def double(x):\n    return x + 2", "it gives other results than when it passed"),
    ("def double(x) return 2", "SyntaxError"),
    ("def twice(x):\n    return 2 * x", "NameError: its cell does not define double"),
    ("def double(x):\n    raise KeyError('x')", "KeyError: 'x'"),
])  # fmt: skip
def test_what_was_edited_since_is_ours_and_said(later, now, said, capsys):
    saved(later / "ch01_rooflines", [(now, m) if m.get("grade_id") == "ch01-q10" else (s, m) for s, m in CELLS])
    assert check.own("1.10", "double", lambda f: f(3) == 6) is None
    assert said in capsys.readouterr().out


def test_a_notebook_that_is_gone_or_broken_stops_nothing(later, capsys):
    (later / "ch01_rooflines/exercises.ipynb").write_text("<<<<<<< HEAD")
    assert check.own("1.10", "double") is None
    (later / "ch01_rooflines/exercises.ipynb").unlink()
    assert check.own("1.10", "double") is None
    assert "no notebook of chapter 1" in capsys.readouterr().out


def test_nothing_of_anybodys_runs_while_a_page_is_built(later, monkeypatch, capsys):
    monkeypatch.setattr(progress, "attended", lambda: False)
    monkeypatch.setattr(solutions, "_own_function", lambda *_: 1 / 0)
    assert check.own("1.10", "double") is None and capsys.readouterr().out == ""
