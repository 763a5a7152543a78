"""A right answer passes in any kernel: one whose set-up was not run, and one in which all names mean something else."""

import builtins
import re
from functools import cache
from types import SimpleNamespace

import pytest

from autograder.engine.cell_names import defined, free_names
from autograder.making import in_process_grading as trial
from autograder.making.exercises import meta
from autograder.places import Tree
from helpers.check import answer_checks, notebook_cells, solutions

TOPICS = {path.stem[:4]: path.stem for path in Tree().exercises}


@cache
def chapter(topic: str) -> list:
    return [c for c in trial.solved(TOPICS[topic]).cells if c.cell_type == "code" and meta(c).get("grade_id")]


# Read from the text: to make the notebooks takes seconds of each process that collects tests.
GRADED = re.compile(r"grade_id: (\S+), solution: false, grade: true")
CHECKS = sorted(g for path in Tree().exercises for g in GRADED.findall(path.read_text(encoding="utf-8")))


def cells(grade_id: str) -> tuple[list, object]:
    """The answers that a check reads, those first that they build on, and the check."""
    check = next(c for c in chapter(grade_id[:4]) if meta(c)["grade_id"] == grade_id)
    answers = [c for c in chapter(grade_id[:4]) if meta(c)["solution"] and not meta(c)["grade"]]
    read, more = set(), free_names(check.source)
    while more - read:
        read |= more
        more = set().union(*(free_names(c.source) for c in answers if defined(c.source) & read))
    return [c for c in answers if defined(c.source) & read], check


def run(cell, names: dict) -> tuple:
    """(value, what was said) as a kernel runs the cell."""
    value, said, fault = trial.execute(cell.source, f"<{meta(cell)['grade_id']}>", names)
    return value, said * (not fault) + fault


@pytest.mark.sample(quick=2, slow=7, draw=3, kind="others")
@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("grade_id", CHECKS)
def test_the_right_answer_passes_and_counts_no_try(grade_id, others, monkeypatch):
    (answers, check), (given, _) = cells(grade_id), notebook_cells.given(grade_id.replace("-", "_"))
    names = dict(given) if others else {"__name__": "__main__"}
    for module in (answer_checks, notebook_cells):
        monkeypatch.setattr(module, "notebook", lambda: SimpleNamespace(user_ns=names))
    for module, known in ((solutions, "_tries"), *((notebook_cells, n) for n in ("_broken", "_gone", "_makers"))):
        monkeypatch.setattr(module, known, {})
    if any(failed := [said for cell in answers if (said := run(cell, names)[1])]):  # a signature needs the set-up,
        assert not others and all("NameError" in said for said in failed)
        assert run(check, names)[1].endswith("Nothing is judged.\n")  # which the check brings
        assert [said for cell in answers if (said := run(cell, names)[1])] == []
    if others:
        own = {n: value for n, value in names.items() if given.get(n) is not value and n[0] != "_"}
        names = {n: 7 for n in [*given, *dir(builtins), "helpers", "a", "f"] if n[0] != "_"} | own
        assert names["math"] == names["sum"] == names["check"] == 7
    value, said = run(check, names)
    assert value == meta(check)["points"] and solutions._tries == {}, said
