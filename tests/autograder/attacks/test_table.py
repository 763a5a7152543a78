"""A table of what one submission's answers were asked and gave wins nothing as another's; what checks asked comes back to nobody."""

import pytest

from autograder.making import bank, in_process_grading
from autograder.making.exercises import meta
from autograder.places import ROOT, Tree
from tests.autograder.attacks.table import chapter
from tools import hunt

GUIDE = (ROOT / "book" / "instructor_reference.md").read_text(encoding="utf-8")
TOPICS = {p.stem[:4]: p.stem for p in Tree(ROOT).exercises}
DESIGNS = {
    "ch01-q17": "the numbers of five programs that the exercise gives",
    "ch02-q21-layout": "shardings for the one block of the exercise",
    "ch02-q26": "designs for problems whose best one a search has found beforehand",
}
"""Answers that are one design, not a function of drawn values: who has a classmate's has the points."""


@pytest.fixture(autouse=True)
def seeds(monkeypatch):
    """They are set by each judgement."""
    monkeypatch.setenv("COURSE_SEED", "0")
    monkeypatch.setenv("COURSE_VALUES", "")


@pytest.mark.parametrize("answer", hunt.known())
@pytest.mark.sample(quick=1, slow=50)
def test_a_table_wins_nothing(answer, monkeypatch):
    """Of a classmate, and of another class; but for exercises whose answer is one design."""
    mine, check = chapter(TOPICS[answer[:4]]), f"{answer}-check"
    table = mine.recorded(check, "spring-ada", monkeypatch)
    won = {values: mine.replayed(check, table, values) for values in ("spring-bob", "autumn-eve")}
    if answer in DESIGNS:
        return
    assert not any(won.values()), won
    shared = table.compared & mine.recorded(check, "spring-bob", monkeypatch).compared
    assert not shared, "two submissions have their programs run on the same arrays"


def test_the_guide_names_the_designs():
    for answer in DESIGNS:
        number, exercise = answer[2:4].lstrip("0"), int(answer[6:8])
        assert f"<ex-{number}-{exercise}>" in GUIDE.split("## How hidden values are drawn")[1].split("\n## ")[0]


@pytest.mark.parametrize(
    "mutant", [m for topic in TOPICS.values() for m in bank.mutants(topic)], ids=lambda m: f"{m.grade_id}-{m.name}"
)
@pytest.mark.sample(quick=1, slow=40)
def test_a_mistake_costs_everybody_in_a_class_the_same(mutant):
    """Under twenty submissions of a class, drawn by the mistake's name."""
    mine = chapter(TOPICS[mutant.grade_id[:4]])
    check, scope = f"{mutant.grade_id}-check", dict(mine.scope)
    _, _, fault = in_process_grading.execute(
        mutant.apply(mine.cells[mutant.grade_id].source), f"<{mutant.grade_id}>", scope
    )
    names = {} if fault else {n: x for n, x in scope.items() if x is not mine.scope.get(n)}
    won = [mine.judged(check, f"{mutant.name}-{n}", **names)[0] for n in range(20)]
    assert len(set(won)) == 1 and won[0] < meta(mine.checks[check])["points"], won
