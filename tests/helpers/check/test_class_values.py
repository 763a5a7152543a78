"""What is one for a class is worked out once, what a learner wrote never; draws are made of draws, and no seed decides an edge."""

import functools
import random

import jax
import numpy as np
import pytest

from helpers import check
from helpers.check import class_values, compare
from helpers.check.class_values import identity, once
from helpers.check.edge_cases import edges
from tests.helpers.check.told import told

CODE = """
def by_learner(a, b):
    return theirs(a, b)
"""


@pytest.fixture
def of_class(monkeypatch):
    """An assignment's checker: one class, submission after submission."""
    monkeypatch.setattr(class_values, "kept", {})
    monkeypatch.setattr(class_values, "learners", ())
    return lambda student: monkeypatch.setenv("COURSE_VALUES", f"class-{student}")


def judged(capsys, asked: list, answer=lambda a, b: a * b, parts: int = 1):
    """What a check says that asks its reference; `asked` gets the arguments, by a name that the reference does not read."""
    Asked.cases = asked
    answers = []
    for _ in range(parts):
        a = check.Answer(answer, points=1)
        a.equals(right, a=check.ints(2, 50), b=check.floats(1, 9))
        answers.append(a)
    return told(capsys, *answers)


class Asked:
    cases: list = []


def right(a, b):
    Asked.cases.append((a, b))
    return a * b


def test_the_edges_are_asked_once_for_a_class(of_class, capsys):
    of_class("ada")
    judged(capsys, first := [])
    of_class("bob")
    judged(capsys, second := [])
    assert len(first) > len(second) == 6, "the submission's own"
    assert not set(first[:6]) & set(second)


def test_what_a_check_works_out_at_edges_itself_is_worked_out_once_for_a_class(of_class):
    for student, most in (("ada", 99), ("bob", 6)):
        of_class(student)
        Asked.cases = asked = []
        for drawn, expected in check.with_edges("place", {"a": check.ints(2, 50), "b": check.floats(1, 9)}, right):
            assert expected == drawn["a"] * drawn["b"]
        assert 6 <= len(asked) <= most


def test_parts_ask_no_case_twice(of_class, capsys):
    of_class("ada")
    judged(capsys, first := [], parts=2)
    of_class("bob")
    judged(capsys, second := [], parts=2)
    assert len(set(second)) == len(second) < len(first)


def test_an_answer_that_is_wrong_at_an_edge_only_is_told_so_for_everybody(of_class, capsys):
    for student in ("ada", "bob", "cyd"):
        of_class(student)
        assert judged(capsys, [], lambda a, b: a * b * (1 + (a == 50)))[0] == 0
        assert judged(capsys, [])[0] == 1


def test_what_is_kept_stays_what_it_is_though_a_case_is_changed(of_class, capsys):
    def changing(x):
        x += 1  # the answer gets a copy, the next submission must as well
        return x

    for student in ("ada", "bob"):
        of_class(student)
        a = check.Answer(lambda x: x + 1, points=1)
        a.wrong("one too many, in place", changing)
        a.equals(lambda x: x + 1, x=lambda r: np.full(3, r.randint(1, 9)))
        assert told(capsys, a)[0] == 1


def test_functions_are_alike_by_what_they_read():
    scale = lambda n: lambda x: n * x  # noqa: E731
    table = lambda n: functools.cache(lambda x: {"a": n, "b": np.arange(n)}[x])  # noqa: E731
    assert identity(scale(2), table(3)) == identity(scale(2), table(3)) != identity(scale(2.0), table(3))
    assert identity(scale(True)) != identity(scale(1))
    assert identity(scale(np.arange(3))) == identity(scale(np.arange(3))) != identity(scale(np.arange(3.0)))
    assert identity(scale(object())) is None, "nobody knows what that reads"
    assert identity(scale(jax.devices())) is not None, "JAX has one for each"

    def countdown(n):
        return n and countdown(n - 1)

    assert identity(countdown) is not None


def test_what_a_learner_may_have_written_is_worked_out_each_time(monkeypatch):
    scope: dict = {}
    exec(CODE, scope)
    assert identity(scope["by_learner"]) is not None
    monkeypatch.setattr(class_values, "learners", ["theirs"])
    assert identity(scope["by_learner"]) is None
    outer = lambda f: lambda x: f(x, x)  # noqa: E731
    assert identity(outer(scope["by_learner"])) is None
    monkeypatch.setattr(class_values, "kept", {})
    assert [once(("place",), None, iter([n]).__next__) for n in (1, 2)] == [1, 2]
    assert [once(("place",), "basis", iter([n]).__next__) for n in (1, 2)] == [1, 1]
    assert once(("place",), "another", lambda: 3) == 3


NUMBERS = [0, 1, -1, 2.0, 2.001, 1e-13, -1e-15, 2**53 + 1, 2**62 + 513, 2**70, 1e308, -1e308, np.float64(2)]
NUMBERS += [float("inf"), float("-inf"), float("nan"), np.float64("nan")]


@pytest.mark.parametrize("rtol", [0, 1e-9, 1e-3, 0.5])
def test_plain_numbers_are_alike_as_arrays_are(rtol):
    for got in NUMBERS:
        for expected in filter(lambda x: abs(x) < 2**63 or isinstance(x, float), NUMBERS):
            with np.errstate(all="ignore"):
                assert compare.alike(got, expected, rtol) == compare.alike(np.array(float(got)), expected, rtol), (
                    got,
                    expected,
                )


def test_a_zero_of_a_list_may_be_what_rounding_leaves():
    """Chances as differences of sums: 1 - 1 + 2.2e-16; but no small number is taken for another, and none of a dict."""
    chances = [0.0, 0.25, 0.75]
    assert compare.alike([-2.2e-16, 0.25, 0.75], chances, 1e-6) and compare.alike([0, 0.25, 0.75], chances, 1e-6)
    assert not compare.alike([1e-13, 0.25, 0.75], chances, 1e-6)
    assert not compare.alike([2e-16, 1.0], [1e-16, 1.0], 1e-6) and not compare.alike([True, 1.0], [0, 1.0], 1e-6)
    assert not compare.alike({"a": 2e-16, "b": 1.0}, {"a": 0.0, "b": 1.0}, 1e-6)


FAULTS = {  # mistakes as they were seen: where each of them shows
    "the third axis of one subscript is forgotten": lambda shape, cuts, sizes: any(len(cut) > 2 for cut in cuts),
    "a third dimension is not looked at": lambda shape, cuts, sizes: len(shape) > 2,
    "a single dimension is": lambda shape, cuts, sizes: len(shape) == 1,
    "sizes that are equal": lambda shape, cuts, sizes: len(set(sizes.values())) < len(sizes),
    "a ring of one": lambda shape, cuts, sizes: 1 in sizes.values(),
    "nothing is cut": lambda shape, cuts, sizes: not "".join(cuts),
    "rows fewer than the axis": lambda shape, cuts, sizes: shape[0] < sizes["X"],
}


def nested(r: random.Random, deep: int = 3):
    """A draw, and what has to be tried of it: (what it is called, whether a value has it)."""
    kind = r.choice(["menu", "size", "row", "record"][: 4 if deep else 2])
    if kind == "menu":
        menu = r.sample([None, True, "", "X", "XY", "XYZ", 0.5, 4, 1024], r.randint(2, 5))
        return lambda s: s.choice(menu), [(f"the choice {x!r}", lambda got, x=x: got is x or got == x) for x in menu]
    if kind == "size":
        low, high = r.randint(1, 4), r.randint(8, 4000)
        return lambda s: s.randint(low, high), [
            ("the lowest", lambda got: got == low),
            ("the highest", lambda got: got == high),
        ]
    part, wanted = nested(r, deep - 1)
    if kind == "row":
        most = r.randint(2, 4)
        lengths = [(f"length {n}", lambda got, n=n: len(got) == n) for n in range(1, most + 1)]
        inside = [(f"in a row, {text}", lambda got, has=has: any(map(has, got))) for text, has in wanted]
        return lambda s: tuple(part(s) for _ in range(s.randint(1, most))), lengths + inside
    other, more = nested(r, deep - 1)
    both = [
        (f"{k}: {text}", lambda got, k=k, has=has: has(got[k]))
        for k, all_ in (("a", wanted), ("b", more))
        for text, has in all_
    ]
    return lambda s: {"a": part(s), "b": other(s)}, both


@pytest.mark.parametrize("seed", range(40))
def test_each_choice_and_each_end_of_nested_draws_is_tried(seed):
    draw, wanted = nested(random.Random(seed))
    tried = list(edges(f"nested {seed}", {"value": draw, "beside": lambda r: r.random()}))
    missing = [text for text, has in wanted if not any(has(case["value"]) for case in tried)]
    assert not missing and len(tried) < 120


def a_setting():
    case = {}  # drawn together, as in many checks

    def shape(r):
        case["shape"] = tuple(r.choice([2, 20, 64, 64]) for _ in range(r.randint(1, 3)))
        return case["shape"]

    def cuts(r):
        found = [""] * len(case["shape"])
        for a in r.sample("XYZ", 3):
            if r.random() < 0.7:
                found[r.randrange(len(found))] += a
        return tuple(found)

    return dict(shape=shape, cuts=cuts, sizes=lambda r: {a: r.randint(1, 4) for a in "XYZ"})


@pytest.mark.parametrize("fault", FAULTS)
def test_a_mistake_shows_whatever_the_seed(fault, monkeypatch):
    asked = []
    for values in ("", "spring-ada", "autumn-bob"):
        monkeypatch.setenv("COURSE_VALUES", values)
        asked.append(list(edges("0.1", a_setting())))
        assert sum(FAULTS[fault](**case) for case in asked[-1]) > 1
    assert asked[0] == asked[1] == asked[2]


def test_a_reference_may_read_what_the_draws_of_its_case_have_left():
    left = {}
    for case in edges("0.2", {"x": lambda r: left.update(x=r.random()) or left["x"]}):
        assert case["x"] == left["x"]
