"""An answer that is given a state goes by it; the number of an exercise that is gone leads to the one that replaces it."""

import json
import re
from collections import defaultdict

import numpy as np
import pytest

from autograder.making import cells, edition_text
from autograder.making.links import Links
from autograder.places import ROOT, Tree
from helpers import check
from helpers.check import progress
from tests.book.conftest import extension
from tests.helpers.check.told import told


def ours(x, total):
    return x + total, x + total


def honest(x, total):
    return x + total, x + total


kept = [0.0]


def global_only(x, total):
    """Takes a fresh start for one, and goes on by what it has kept itself."""
    kept[0] = x if total == 0 else kept[0] + x
    return kept[0], kept[0]


def last_given(x, total, memory={}):  # noqa: B006
    """Believes that a state comes once only."""
    if total in memory:
        return memory[total], memory[total]
    memory[total] = x + total
    return memory[total], memory[total]


def judged(f):
    a = check.Answer(f, points=2)
    a.carries(
        lambda f, state, x: (lambda pair: (pair, pair[1]))(f(x, state)), ours, (0.0, [1.0, 2, 3]), (0.0, [5.0, 1, 1])
    )
    return a


def test_a_state_that_is_handed_in_counts(capsys):
    assert told(capsys, judged(honest))[0] == 2


@pytest.mark.parametrize("f", [global_only, last_given])
def test_an_answer_that_keeps_its_own_loses(capsys, f):
    earned, said = told(capsys, judged(f))
    assert earned == 0 and "does not use the state that it is given" in said and "keep nothing between calls" in said


def test_what_an_answer_does_to_a_state_is_its_own(capsys):
    def in_place(x, state):
        state += x
        return state.copy(), state

    def reference(x, state):
        return state + x, state + x

    a = check.Answer(in_place, points=1)
    ask = lambda f, state, x: (lambda pair: (pair[0], pair[1]))(f(x, state))  # noqa: E731
    a.carries(ask, reference, (np.zeros(2), [1.0, 2.0]), (np.ones(2), [3.0, 4.0]))
    assert told(capsys, a)[0] == 1


EXERCISES = {n for path in Tree().exercises for n, _ in edition_text.blocks(path.read_text(encoding="utf-8")) if n}


def test_every_number_is_an_exercise_or_leads_to_one():
    numbers = defaultdict(set)
    for number in [*EXERCISES, *progress.REPLACED_BY]:
        numbers[number.split(".")[0]].add(int(number.split(".")[1]))
    for chapter, there in numbers.items():
        assert sorted(there) == [*range(1, len(there) + 1)], f"chapter {chapter}: what replaced the numbers that lack?"
    assert not EXERCISES & progress.REPLACED_BY.keys(), "a number was given again"
    assert {progress.current_number(gone) for gone in progress.REPLACED_BY} <= EXERCISES


def test_released_notebooks_have_the_anchors_of_all_numbers():
    for gone in progress.REPLACED_BY:
        old, new = (f'<a id="ex-{n.replace(".", "-")}"></a>' for n in (gone, progress.current_number(gone)))
        (path,) = ROOT.glob(f"notebooks/ch{int(gone.split('.')[0]):02}_*/exercises.ipynb")
        texts = ["".join(c["source"]) for c in json.loads(path.read_text(encoding="utf-8"))["cells"]]
        assert [new in text for text in texts if old in text] == [True]


@pytest.fixture
def twice(monkeypatch):
    """1.1 was replaced by 1.2, and that by 1.3."""
    monkeypatch.setattr(progress, "REPLACED_BY", {"1.1": "1.2", "1.2": "1.3"})


def test_links_and_search_lead_on(twice):
    links = Links()
    links.add("a.ipynb", cells.labelled("(ex-1-3)=\n### Exercise 1.3 — Roofs\n"))
    shown = {links.ref(f"ex-1-{n}", "b.ipynb") for n in (1, 2, 3)}
    assert shown == {f"[Exercise 1.3 — Roofs](a.ipynb#ex-1-{n})" for n in (1, 2, 3)}
    labels = "".join(f'<span id="ex-1-{n}"></span>' for n in (1, 2, 3))
    html = f'<section id="exercise-1-3">{labels}<h3>Exercise 1.3 — Roofs</h3></section>'
    pages = {"a.html": html, "book/glossary.html": "", "book/hardware.html": "", "book/planner.html": ""}
    assert extension("section_search").index(pages, [])["sections"][0][1:6:4] == [
        "ex-1-3",
        ["Exercise 1.1", "Exercise 1.2"],
    ]


def record(won: float) -> dict:
    return {"won": won, "of": 2, "tries": 1, "begun": "2026-01-02", "passed": "2026-01-03" if won == 2 else None}


@pytest.mark.parametrize("number", ["1.1", "1.2"])
@pytest.mark.parametrize("won", [2, 1])
def test_a_pass_counts_and_half_of_one_does_not(twice, number, won, tmp_path, monkeypatch, capsys):
    path = tmp_path / progress.NAME
    path.write_text(json.dumps({"exercises": {"1.1": {}, "1.2": {}, number: {"f": record(won)}}}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress, "attended", lambda: True)
    page = progress.with_state("| [1.3](a) Roofs | core | ★ | 3/5 | 9 min | 5 | |\n", progress.kept(path))
    assert ("passed 2026-01-03" in page) == check.passed("1.3") == check.passed(number) == (won == 2)
    check.solution(number)
    said, text = capsys.readouterr().out.split("\n", 1)
    assert said == f"Exercise {number} is gone; exercise 1.3 replaces it."
    assert re.match("def int8_matmul" if won == 2 else "Exercise 1.3 opens after a pass", text)
