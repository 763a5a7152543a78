"""The answer stands nowhere in a check that a learner sees: neither an expression of it nor all its statements together.

Every function that the visible part defines or states as a mistake is tried as the answer, under the whole check; so is a table
of its cases; and for an answer that is a dict, every dict that the visible part makes.
"""

import contextlib
import inspect
import io

import pytest

from autograder.making import in_process_grading
from autograder.places import ROOT
from helpers import check
from tests.solutions import course

TOPICS = sorted(path.stem for path in (ROOT / "solutions").glob("ch*.md"))
ANSWERS = [(topic, *part) for topic in TOPICS for text in course.exercises(topic) for part in course.parts(text)]


@pytest.fixture(scope="module")
def scopes():
    """Names of a chapter with its answers solved, made once."""
    made = {}

    def of(topic: str) -> dict:
        if topic not in made:
            made[topic] = course.solved(topic, lambda cell: "picture()" not in cell.source)
        return dict(made[topic])

    return of


def recorded(cell: str, name: str, scope: dict, monkeypatch) -> tuple[list, dict, dict]:
    """(callables that the cell states or defines, {arguments: value} of its cases, its names); there is no answer yet."""

    def stub(*_, **__):
        raise NotImplementedError

    found, cases, scope = [], {}, scope | {name: stub}
    wrong, gives = check.Answer.wrong, check.Answer.gives

    def noted_wrong(self, message, mistake, *case):
        if callable(mistake):
            found.append(mistake)
        wrong(self, message, mistake, *case)

    def noted_gives(self, expected, *args, **kwargs):
        with contextlib.suppress(TypeError):
            cases[repr((args, sorted(kwargs.items())))] = expected
        gives(self, expected, *args, **kwargs)

    before = dict(scope)
    with monkeypatch.context() as m:
        m.setattr(check.Answer, "wrong", noted_wrong)
        m.setattr(check.Answer, "gives", noted_gives)
        m.setattr(check, "report", lambda *_, **__: 0)
        in_process_grading.execute(cell, "<visible>", scope)
    made = [x for n, x in scope.items() if before.get(n) is not x]
    return [f for f in found + made if inspect.isfunction(f)], cases, scope


def earned(cell: str, scope: dict, name: str, answer) -> float:
    """The points of the whole check for another answer."""
    with contextlib.redirect_stderr(io.StringIO()):
        value, said, fault = in_process_grading.execute(cell, "<check>", scope | {name: answer})
    return 0 if fault or not isinstance(value, int | float) else value


def dicts(scope: dict, names: set) -> list[dict]:
    """Dicts with all these entries that the visible part has made."""
    return [x for x in scope.values() if isinstance(x, dict) and names <= set(map(str, x))]


@pytest.mark.parametrize(("topic", "grade_id", "answer", "cell"), ANSWERS, ids=[a[1] for a in ANSWERS])
@pytest.mark.xdist_group("solved")  # one process solves the chapters
@pytest.mark.sample(quick=2, slow=60, draw=8)
def test_nothing_that_is_seen_is_the_answer(topic, grade_id, answer, cell, scopes, monkeypatch):
    functions = course.functions(answer)
    if not functions:
        pytest.skip("the answer is no function")
    name, scope = functions[-1].name, scopes(topic)
    cell = course.with_values(grade_id, answer, cell, scope)
    visible = course.visible(cell)
    functions, cases, seen = recorded(visible, name, scope, monkeypatch)
    full = earned(cell, dict(scope), name, scope[name])
    assert full > 0
    for f in functions:
        assert earned(cell, dict(scope), name, f) < full, f"{grade_id}: {source(f)}"

    def table(*args, **kwargs):
        return cases[repr((args, sorted(kwargs.items())))]

    assert earned(cell, dict(scope), name, table) < full or not cases, f"{grade_id}: a table of the visible cases"
    if not inspect.signature(scope[name]).parameters:
        expected = scope[name]()
        for x in dicts(seen, set(map(str, expected)) if isinstance(expected, dict) else {"no such entry"}):
            assert earned(cell, dict(scope), name, lambda x=x: x) < full, f"{grade_id}: a dict of the visible part"


def source(f) -> str:
    """Where the function stands in the visible part."""
    return f"{f.__name__}, at line {f.__code__.co_firstlineno} of the visible part"
