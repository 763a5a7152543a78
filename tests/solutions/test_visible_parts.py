"""The answer stands nowhere in a check that a learner sees; and a check that looks into an answer's program has run it.

Every function that the visible part defines or states as a mistake is tried as the answer, under the whole check; so is a table
of its cases; and for an answer that is a dict, every dict that the visible part makes.
"""

import contextlib
import functools
import inspect
import io
import sys

import jax
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
@pytest.mark.sample(quick=1, slow=60, draw=8)
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


JUDGES = ("judged_program.py", "sharded_program.py", "traced_program.py")
LOOKS = ("make_jaxpr", "eval_shape", "count", "walk", "moved", "sent", "export", "lower")
WORDS = ("trace.", "make_jaxpr", "eval_shape", "check.ran", "check.all_ran", "check.Program", ".lower(", "export")

JUDGED = """
    ch01-q20 ch02-q17 ch02-q18 ch02-q18-all ch02-q20 ch02-q21 ch02-q22 ch02-q25 ch03-q03 ch03-q15 ch03-q17 ch03-q19
    ch04-q05 ch04-q06 ch04-q07 ch04-q08 ch04-q09 ch04-q19 ch04-q20 ch05-q12 ch05-q13-program ch05-q23 ch05-q24
    ch06-q06 ch06-q08 ch06-q10 ch06-q11 ch06-q14 ch06-q19 ch06-q20 ch06-q24
    ch07-q05 ch07-q06 ch07-q10 ch07-q12 ch07-q13
    ch08-q05 ch08-q07 ch08-q10 ch08-q11 ch08-q12 ch08-q13 ch08-q14 ch08-q15
""".split()
"""Answers whose program is counted; a new one is added here."""

FOUND = [a for a in ANSWERS if any(word in a[3] for word in WORDS)]
COUNTING = sorted(FOUND, key=lambda a: a[1] not in JUDGED)


def asked_by() -> tuple[bool, bool]:
    """(whether a judge of programs has asked for this call, whether somebody reads a program) by the frames above."""
    judge = reader = False
    frame = sys._getframe(2)
    while frame:
        file = frame.f_code.co_filename.replace("\\", "/")
        judge = judge or file.endswith(tuple(f"/check/{j}" for j in JUDGES))
        inside = "/helpers/trace/" in file or "/jax/" in file
        reader = reader or (inside and any(frame.f_code.co_name.startswith(look) for look in LOOKS))
        frame = frame.f_back
    return judge, reader


def watched(f, seen: list):
    @functools.wraps(f)
    def answer(*args, **kwargs):
        if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((args, kwargs))):
            seen.append(asked_by())
        return f(*args, **kwargs)

    answer.__signature__ = inspect.signature(f)
    return answer


@pytest.mark.parametrize(("topic", "grade_id", "answer", "cell"), COUNTING, ids=[a[1] for a in COUNTING])
@pytest.mark.xdist_group("solved")  # one process solves the chapters
@pytest.mark.sample(quick=1, slow=12)
def test_what_is_counted_is_run(topic, grade_id, answer, cell, scopes):
    scope, seen = scopes(topic), []
    cell = course.with_values(grade_id, answer, cell, scope)
    for f in course.functions(answer):
        scope[f.name] = watched(scope[f.name], seen)
    value, said, fault = in_process_grading.execute(cell, "<check>", scope)
    assert value and not fault, said + fault
    assert not [1 for judge, reader in seen if reader and not judge], "a program is read that nobody has run"
    assert (grade_id in JUDGED) == any(judge for judge, _ in seen)


def test_every_answer_that_is_listed_is_looked_at():
    assert set(JUDGED) <= {a[1] for a in COUNTING}
