"""A check cell of one call: where it finds what it judges, what it says where that is not there, and what it prints in words."""

import json

import pytest

from autograder.making.cells import meta
from autograder.places import ROOT, Tree
from helpers import check

NAME = "ch99_q01_check"
LINES = [
    f"def {NAME}():",
    "    a = check.Answer(twice, points=2)",
    "    a.gives(6, 3)",
    '    a.wrong("that is the square", 9, 3)',
    '    a.law("more gives more", lambda f: f(4) > f(3))',
    '    return check.report("99.1", a)',
]


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """A folder with the check of 99.1, where the notebook is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checks.json").write_text(json.dumps({NAME: LINES}), encoding="utf-8")
    return tmp_path / "checks.json"


def called(twice, number: str = "99.1") -> float:
    return eval(f'check.exercise("{number}")', {"check": check, "twice": twice})


def test_a_call_judges_the_answer_of_its_notebook(beside, capsys):
    assert called(lambda x: 2 * x) == 2 and called(lambda x: x * x) == 0
    assert "that is the square" in capsys.readouterr().err


def test_a_check_that_is_not_there_is_no_mistake_of_the_answer(beside, capsys):
    assert called(lambda x: 2 * x, "99.2") == 0
    said = capsys.readouterr().err
    assert said.startswith("The check of 99.2 is in no checks.json") and said.endswith("Nothing is judged.\n")
    beside.write_text("{", encoding="utf-8")
    assert called(lambda x: 2 * x) == 0
    assert "copy it anew from the course. Nothing is judged." in capsys.readouterr().err


def test_a_whole_check_counts_and_not_the_file(beside):
    """As where a class is graded: the file may be altered, and may be gone."""
    beside.write_text(json.dumps({NAME: [f"def {NAME}():", "    return 2"]}), encoding="utf-8")
    scope = {"check": check, "twice": lambda x: x * x}
    exec("@check.in_full\n" + "\n".join(LINES), scope)
    assert eval('check.exercise("99.1")', scope) == 0
    beside.unlink()
    exec("@check.in_full\n" + "\n".join(LINES), scope | {"twice": lambda x: 2 * x})
    assert eval('check.exercise("99.1")', scope) == 2


def test_in_words(beside, capsys):
    eval('check.judges("99.1")', {"check": check})
    assert capsys.readouterr().out.split("\n") == [
        "What is asked of an answer, in a class of other numbers as well:",
        "- twice(3) gives 6",
        "- more gives more",
        "It knows 1 likely mistake.",
        "",
    ]


@pytest.mark.parametrize("topic", [p.stem for p in Tree().exercises])
def test_every_check_of_a_chapter_is_there_and_can_be_told(topic, monkeypatch, capsys):
    import nbformat

    monkeypatch.chdir(ROOT)
    released = nbformat.read(Tree().released(topic), as_version=4)
    cells = [c.source for c in released.cells if meta(c).get("grade") and not meta(c).get("solution")]
    assert cells
    for source in cells:
        eval(source.split("  # ")[-1].removesuffix(" says what it tests"), {"check": check})
        head, *lines = capsys.readouterr().out.strip().split("\n")
        asked = [line for line in lines if not line.startswith("It knows ")]
        assert head.endswith(":") and asked and all(line[:2] in ("- ", "  ") for line in asked), source
