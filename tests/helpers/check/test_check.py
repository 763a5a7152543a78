"""What a learner's answer is told: by value, by law, by mistake."""

import copy
import math
from decimal import Decimal
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest

from helpers import check
from helpers.check.random_inputs import inputs
from tests.helpers.check.told import answer, double, told

# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("got", [6, 6.0, np.int32(6), np.float32(6), np.array(6.0), 6.002])
def test_any_kind_of_number_passes(got, capsys):
    assert told(capsys, answer(lambda: got, 6))[0] == 2


@pytest.mark.parametrize("got, expected, says", [
    (6.1, 6, "too large"),
    (-5.9, -6, "too large"),
    (float("nan"), 6, "no number"),
    (Decimal("sNaN"), 6, "no number"),
    (Fraction(10) ** 1200, 6, "too large"),
    (-(10**400), 6, "too small"),
    (math.inf, 6, "too large"),
    (6, math.inf, "too small"),
    (None, 6, "it returns nothing"),
    ("6", 6, "a number is asked for, this is a string"),
    (True, "compute", "a string is asked for, this is a truth value"),
    (1, True, "a truth value is asked for, this is a number"),
    ("memory", "compute", "that is not it"),
    ((1, 2), (1, 2, 3), "3 values are asked for, these are 2"),
    (1, (1, 2), "2 values are asked for, this is a number"),
    ((1, 3), (1, 2), "value 2 of 2: that is not it: too large"),
    ({"a": 1}, {"a": 1, "b": 2}, "the entry 'b' is missing"),
    ({"a": 1, "b": 3}, {"a": 1, "b": 2}, "in entry 'b', that is not it"),
    (3, {"a": 1}, "a dict with the entries a is asked for, this is a number"),
    (np.zeros((2, 3)), np.zeros((3, 2)), "the shape is (2, 3)"),
    (np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 3.0]), "1 of 3 numbers are off: they stand at 2 of 3 along dimension 0"),
    (np.ones(1), 1.0, "the shape is (1,)"),
])  # fmt: skip
def test_wrong_values_are_described_without_giving_the_answer(got, expected, says, capsys):
    earned, out = told(capsys, answer(lambda: got, expected))
    assert earned == 0 and says in out


def test_a_tuple_may_be_a_list_or_an_array_and_a_dict_may_have_more(capsys):
    assert told(capsys, answer(lambda: [1, 2], (1, 2)))[0] == 2
    assert told(capsys, answer(lambda: np.array([1, 2]), (1, 2)))[0] == 2
    assert told(capsys, answer(lambda: {"b": 2, "a": 1}, {"a": 1}))[0] == 2
    assert told(capsys, answer(lambda: np.str_("memory"), "memory"))[0] == 2
    for true in (np.bool_(True), np.array(True), jnp.array(True)):
        assert told(capsys, answer(lambda: true, True))[0] == 2  # noqa: B023


def test_dots_in_an_expected_value_match_anything(capsys):
    assert told(capsys, answer(lambda: (1, "whatever"), (1, ...)))[0] == 2


# -- what goes wrong --------------------------------------------------------------------------------------------------


def test_not_done_is_not_wrong(capsys):
    def stub(x):
        raise NotImplementedError

    for undone in (stub, lambda x: ..., ...):
        assert "is not done yet" in told(capsys, answer(undone, 1, 1))[1]


def test_an_exception_is_one_line(capsys):
    def broken(x):
        raise KeyError("first line\nsecond line")

    earned, out = told(capsys, answer(broken, 1, 1))
    assert earned == 0 and "broken(1) raised KeyError" in out and "Traceback" not in out


@pytest.mark.parametrize("factor, says", [
    (2, "exactly 2 times too much"),
    (0.5, "exactly half"),
    (8, "bits where bytes"),
    (1 / 8, "bytes where bits"),
    (1e3, "which prefix"),
    (1e-3, "which unit of time"),
    (1e6, "microseconds"),
    (1e9, "1e9 times too much"),
    (1e-9, "plain bytes and seconds"),
    (2**30 / 1e9, "GiB for GB"),
    (1e9 / 2**30, "GB for GiB"),
    (-1, "the sign is wrong"),
])  # fmt: skip
def test_generic_slips_are_named_though_the_expected_value_is_rounded(factor, says, capsys):
    assert says in told(capsys, answer(lambda: 123.456 * factor, 123.5))[1]


def test_named_mistakes_come_before_generic_ones_and_end_like_sentences(capsys):
    a = answer(lambda x: x, 6, 3)
    a.wrong("that is x itself. Did you double it?", lambda x: x)
    assert "points that is x itself. Did you double it? (<lambda>(3)" in told(capsys, a)[1]


def test_a_partly_stated_mistake_is_named_only_if_that_part_is_wrong(capsys):
    """What it states must differ from the right value, whatever else is wrong with the answer."""
    for got, says in (({"a": 1, "b": 9}, "b is off"), ({"a": 9, "b": 2}, "a is off")):
        a = answer(lambda got=got: got, {"a": 1, "b": 2})
        a.wrong("never", lambda: {"a": 1})
        a.wrong("never", lambda: (..., 2))
        a.wrong("a is off", lambda: {"a": 9})
        a.wrong("b is off", lambda: {"b": 9})
        out = told(capsys, a)[1]
        assert says in out and "never" not in out


def test_a_mistake_that_fails_is_passed_over(capsys):
    a = answer(lambda x: 5, 6, 3)
    a.wrong("never", lambda x: 1 / 0)
    a.wrong("five", lambda x: 5)
    assert "five" in told(capsys, a)[1]


def test_laws_and_refusals(capsys):
    a = check.Answer(double, points=2)
    a.law("it grows", lambda f: f(2) > f(1))
    a.law("it shrinks", lambda f: f(2) < f(1))
    earned, out = told(capsys, a)
    assert earned == 0 and "double is not right yet: it shrinks." in out and "it grows" not in out

    def picky(x):
        if x < 0:
            raise ValueError("x is a size, so not negative")
        return x

    for f, points in ((picky, 2), (double, 0)):
        a = check.Answer(f, points=2)
        a.refuses(-1)
        assert told(capsys, a)[0] == points


def test_equals_draws_the_same_for_one_seed_and_others_for_another(monkeypatch):
    draws = dict(n=check.ints(1, 10**6, multiple=8), x=check.floats(1, 2), kind=check.choice("a", "b"))
    first = list(inputs(5, "f", draws))
    assert first == list(inputs(5, "f", draws)) != list(inputs(5, "g", draws))
    assert all(c["n"] % 8 == 0 and 1 <= c["x"] <= 2 and c["kind"] in "ab" for c in first)
    monkeypatch.setenv("COURSE_SEED", "another")
    assert first != list(inputs(5, "f", draws))


def test_equals_finds_a_rare_difference(capsys):
    a = check.Answer(lambda n: n if n < 500 else n + 1, points=2, rtol=1e-9)
    a.equals(lambda n: n, n=check.ints(1, 10**4))
    assert told(capsys, a)[0] == 0
    with pytest.raises(ValueError, match="range of positive numbers"):
        check.ints(0, 4)
    with pytest.raises(ValueError, match="range of positive numbers"):
        check.floats(2, 1)


def test_a_rule_that_cannot_be_asked_does_not_blame_the_answer_for_raising(capsys):
    a = check.Answer(lambda x: None, points=2)
    a.law("a batch is positive", lambda f: f(3) > 0)
    said = told(capsys, a)[1]
    assert "a batch is positive." in said and "raised" not in said
    a = check.Answer(lambda x: x / 0, points=2)
    a.law("a batch is positive", lambda f: f(3) > 0)
    said = told(capsys, a)[1]
    assert "raised ZeroDivisionError: division by zero." in said and "a batch is positive." in said


def test_a_hidden_rule_that_raises_keeps_what_was_raised_to_itself(capsys, monkeypatch):
    def telling(x):
        raise ValueError(f"not {x}")

    for secret, seen in (("", True), ("of this test", False)):
        monkeypatch.setenv("COURSE_VALUES", secret)
        a = check.Answer(telling, points=2)

        def cell(a=a):
            check.hidden()
            a.law("a batch is positive", lambda f: f(777) > 0)
            return check.report("0.1", a)

        assert check.run(cell) == 0
        said = " ".join(capsys.readouterr().err.split())
        assert "raised ValueError" in said and "a batch is positive." in said
        assert ("777" in said) == seen


def test_warnings_of_an_answer_cost_nothing(capsys):
    def guarded(x):
        return np.where(x > 0, np.log(x), 0.0)

    for state in (
        lambda a: a.gives(np.zeros(2), np.zeros(2)),
        lambda a: a.law("it is 0", lambda f: f(np.zeros(1))[0] == 0),
    ):
        a = check.Answer(guarded, points=2)
        state(a)
        assert check.report("0.1", a) == 2
        assert capsys.readouterr().err == ""


def test_short_arrays_are_shown_and_fractions_are_numbers(capsys):
    assert "[1., 2., 4.]" in told(capsys, answer(lambda: np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 3.0])))[1]
    assert told(capsys, answer(lambda: Fraction(1, 2), 0.5))[0]
    assert "(3,)" in told(capsys, answer(lambda x: x, 1, (3,)))[1]


@pytest.mark.parametrize(("change", "given"), [
    (lambda x: x.pop("n"), {"n": 3}),
    (lambda x: x.sort() or 3, [3, 1]),
    (lambda x: x[1].__setitem__(0, 2) or 3, (1, np.zeros(2))),
])  # fmt: skip
def test_an_answer_leaves_what_it_is_given(capsys, change, given):
    kept = copy.deepcopy(given)
    a = check.Answer(change, points=1)
    a.gives(3, given)
    points, said = told(capsys, a)
    assert points == 0 and "changes an argument in place" in said and str(kept) == str(given)


def test_a_check_before_its_answer_says_what_to_do(capsys):
    assert check.run(lambda: check.report("0.1", check.Answer(not_there_yet, points=1))) == 0  # noqa: F821
    assert "Run the cells above first: name 'not_there_yet' is not defined." in capsys.readouterr().err
    assert check.run(lambda: 3) == 3


def test_the_name_of_an_answer_does_not_choose_what_is_drawn():
    drawn = {"block": [], "block286": []}
    for name, seen in drawn.items():

        def f(x, seen=seen):
            seen.append(x)
            return x

        f.__name__ = name
        a = check.Answer(f, points=1)
        a.equals(lambda x: x, x=check.ints(1, 10**6))
        check.report("0.3", a)
    assert drawn["block"] == drawn["block286"] and len(drawn["block"]) > 8
