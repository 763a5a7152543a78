"""A check that looks into the program of an answer looks into one that it has run: `check.ran`, `check.all_ran`, or `check.Program`.

Every check runs on its solution, and each call of the answer with arrays that have no numbers yet is looked at: who asked for it?
"""

import functools
import inspect
import sys

import jax
import pytest

from autograder.making import in_process_grading
from tests.solutions import course
from tests.solutions.test_visible_parts import ANSWERS, scopes  # noqa: F401

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
def test_what_is_counted_is_run(topic, grade_id, answer, cell, scopes):  # noqa: F811
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
