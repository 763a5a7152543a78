"""A right answer passes in any kernel: one whose set-up was not run, and one in which the set-up's names mean something else."""

import builtins
from functools import cache
from types import SimpleNamespace

import pytest

from autograder.engine.cell_names import defined, free_names
from autograder.making import in_process_grading as trial
from autograder.making.exercises import meta
from autograder.places import Tree
from helpers.check import answer_checks, given_names, notebook_cells, solutions
from helpers.check.raised import NOT_JUDGED


@cache
def chapter(topic: str) -> list:
    return [c for c in trial.solved(topic).cells if c.cell_type == "code"]


TOPICS = {path.stem[:4]: path.stem for path in Tree().exercises}
CHECKS = sorted(
    m["grade_id"]
    for topic in TOPICS.values()
    for c in chapter(topic)
    if (m := meta(c)).get("grade") and not m.get("solution")
)


@pytest.fixture
def kernel(monkeypatch):
    """The names of a notebook's kernel, empty."""
    names, tries = {"__name__": "__main__", "display": lambda *_, **__: None}, []
    shell = SimpleNamespace(user_ns=names)
    monkeypatch.setattr(answer_checks, "notebook", lambda: shell)
    monkeypatch.setattr(notebook_cells, "notebook", lambda: shell)
    for known in ("_broken", "_gone", "_makers"):
        monkeypatch.setattr(notebook_cells, known, {})
    monkeypatch.setattr(solutions, "_tries", tries := {})
    return SimpleNamespace(names=names, tries=tries)


def cells(grade_id: str) -> tuple[list, object]:
    """The answers that a check reads, those first that they build on, and the check."""
    check = next(c for c in chapter(TOPICS[grade_id[:4]]) if meta(c).get("grade_id") == grade_id)
    answers = {c.id: c for c in chapter(TOPICS[grade_id[:4]]) if meta(c).get("solution") and not meta(c)["grade"]}
    read, more = set(), free_names(check.source)
    while more - read:
        read |= more
        more = set().union(*(free_names(c.source) for c in answers.values() if defined(c.source) & read))
    return [c for c in answers.values() if defined(c.source) & read], check


def run(answers: list, names: dict) -> str:
    """Run cells as a learner does; what was said on stderr."""
    return "".join(trial.execute(c.source, f"<{meta(c)['grade_id']}>", names)[2] for c in answers)


def passes(check, names: dict) -> str:
    """ "" if it gives all its points and puts nothing on stderr, else what it said."""
    value, said, fault = trial.execute(check.source, f"<{meta(check)['grade_id']}>", names)
    return "" if value == meta(check)["points"] and not fault else said + fault


@pytest.mark.sample(quick=1, slow=1, kind=lambda params: params["grade_id"][:4])
@pytest.mark.parametrize("grade_id", CHECKS)
def test_the_right_answer_alone_in_a_new_kernel(grade_id, kernel):
    answers, check = cells(grade_id)
    if failed := run(answers, kernel.names):  # its first line needs the set-up, which the check brings
        assert "NameError" in failed and NOT_JUDGED in passes(check, kernel.names) and kernel.tries == {}
        assert run(answers, kernel.names) == ""
    assert passes(check, kernel.names) == "" and kernel.tries == {}


@pytest.mark.sample(quick=1, slow=1, kind=lambda params: params["grade_id"][:4])
@pytest.mark.parametrize("grade_id", CHECKS)
def test_the_right_answer_among_other_meanings_of_all_names(grade_id, kernel):
    answers, check = cells(grade_id)
    given, _ = given_names.given(grade_id.replace("-", "_"))
    own = dict(given)
    assert run(answers, own) == ""
    public = [n for n in dir(builtins) if n[0] != "_"]
    kernel.names |= dict.fromkeys([*given, *public, "helpers", "a", "f"], 7) | {
        n: v for n, v in own.items() if given.get(n) is not v and n[0] != "_"
    }
    assert kernel.names["math"] == kernel.names["sum"] == 7
    assert passes(check, kernel.names) == "" and kernel.tries == {}
