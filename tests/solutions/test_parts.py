"""Where parts of an answer have points of their own, a part that is wrong, or not there yet, costs no other part's."""

import ast
import re
from collections.abc import Callable, Mapping
from functools import cache
from itertools import count

import pytest

from autograder.making import in_process_grading
from autograder.places import Tree
from helpers import check

from .course import calls, exercises, parts, with_values

REPORT = re.compile(r'^check\.report\("[\d.]+", (.+)\)$', re.M)
GIVES_DICT = re.compile(r'^def (\w+)\([^"]*?-> dict', re.M)
FOLLOW = {
    "1.15": "bottleneck and bounds are of the learner's own stages, which have to take different times",
    "2.24": "its points are for one collective and for more; each of its traces asks for all three shardings",
    "2.26": "a choice of layouts and of what is sent is one plan, for four problems",
    "3.5": "the total is the sum of the learner's own parts, and all of it is active if every expert is used",
    "5.15": "who goes into which slot is one choice; its second points are for how soon all are served",
}
"""Exercises in which one part is judged by another, and why."""


def by_parts() -> dict[str, tuple[str, str, tuple[str, str, str]]]:
    """{exercise: (chapter, function, its part of the source)} of all that give a dict, judged as several answers."""
    found = {}
    for topic in (path.stem for path in Tree().exercises):
        for text in exercises(topic):
            for part in parts(text):
                _, answer, judged = part
                names = set(re.findall(r"check\.Answer\((\w+)", judged)) & set(GIVES_DICT.findall(answer))
                if len(names) == 1 and re.search("[,*]", REPORT.search(judged)[1]):
                    found[re.search(r"Exercise (\S+)", text)[1]] = (topic, *names, part)
    return found


KNOWN = by_parts()
TURNS = count()
scope = cache(lambda topic: in_process_grading.names(topic, lambda cell: "picture()" not in cell.source))


def earned(answer: Callable, exercise: str, monkeypatch) -> list[bool]:
    """Which of the answers that the check reports earn their points."""
    topic, name, part = KNOWN[exercise]
    judged, found = with_values(*part, scope(topic)), []

    def report(exercise: str, *answers: check.Answer) -> float:
        for i, a in enumerate(answers):
            a.draws = f"{exercise} {i}"
        found.extend(a.evaluate()[0] == a.points for a in answers)
        return 0.0

    with monkeypatch.context() as m:
        m.setattr(check, "report", report)
        _, _, fault = in_process_grading.execute(judged, f"<{exercise}>", scope(topic) | {name: answer})
    assert not fault, fault
    return found


def spoiled(answer: Callable, part: str, other: Callable) -> Callable:
    """The answer with another value, or none, for one part."""

    def f(*args, **kwargs):
        entries = answer(*args, **kwargs)
        return entries and {
            k: v for name, x in entries.items() for k, v in ([(name, x)] if name != part else other(name, x))
        }

    f.__name__ = answer.__name__
    return f


def off(x):
    """Another value of the same kind, and never off by the same."""
    n = 2 + next(TURNS) % 7
    match x:
        case bool():
            return not x
        case int() | float():
            return x * (1 + 1 / n) + 1 / n
        case Mapping():
            return {name: off(value) for name, value in x.items()}
        case list() | tuple():
            return type(x)([*map(off, x), n])
        case _:
            return n


@pytest.mark.parametrize("exercise", KNOWN)
@pytest.mark.sample(quick=1, slow=6)
def test_a_part_costs_its_own_points_only(exercise, monkeypatch):
    topic, name, _ = KNOWN[exercise]
    ours, given = scope(topic)[name], set()

    def watched(*args, **kwargs):
        entries = ours(*args, **kwargs)
        given.update(entries or {})
        return entries

    watched.__name__ = name
    assert all(earned(watched, exercise, monkeypatch))
    for part in given:
        for other in (lambda name, x: [(name, off(x))], lambda name, x: []):
            left = earned(spoiled(ours, part, other), exercise, monkeypatch)
            lost = left.count(False)
            assert lost if exercise in FOLLOW else lost == 1, (part, left)


def test_parts_are_judged_on_the_same_draws_in_a_class():
    """`equals` draws so by itself (tests/helpers/check/test_points.py); a loop has to say so, and draws by no other name."""
    seen = 0
    for topic in (path.stem for path in Tree().exercises):
        for text in exercises(topic):
            for _, _, judged in parts(text):
                assert "random_inputs" not in judged
                if (points := REPORT.search(judged)) and re.search("[,*]", points[1]):
                    drawn = [c for c in calls(judged) if c.func.attr == "inputs"]
                    apart = [c for c in drawn if not {"parts", "shapes"} & {k.arg for k in c.keywords}]
                    assert [ast.unparse(c) for c in apart] == []
                    seen += len(drawn)
    assert seen > 15


def test_what_follows_is_still_there():
    assert set(FOLLOW) <= set(KNOWN)
    assert {"4.16", "4.26", "5.11", "6.1", "7.14"} <= set(KNOWN)
