"""A sentence is said if it is the only known mistake that leads to a value; of two both are said."""

import numpy as np
import pytest
from jax import lax

from helpers import check
from helpers.check.sharded_program import Program
from tests.helpers.check import programs
from tests.helpers.check.told import told


def said_of(capsys, value, state, **how):
    a = check.Answer(lambda n: value, points=1, **how)
    state(a)
    return told(capsys, a)[1]


def test_two_mistakes_of_one_value_are_both_named(capsys):
    def state(a):
        a.wrong("twice the reads", 6)
        a.wrong("the write is left out", 6)
        a.wrong("bytes for bits", 9)
        a.gives(3, 1)

    said = said_of(capsys, 6, state)
    assert "twice the reads — or: the write is left out." in said and "bits" not in said


def test_a_value_of_one_case_says_nothing_of_others(capsys):
    def state(a):
        a.wrong("the write is left out", 7, 1)
        a.wrong("any case that is seen", 8)
        a.gives(3, 2)

    assert "left out" not in said_of(capsys, 7, state) and "any case" in said_of(capsys, 8, state)


def test_a_value_says_nothing_of_hidden_numbers(capsys):
    def state(a):
        a.wrong("the write is left out", 7)
        a.wrong("a rule", lambda x: 8)
        a.equals(lambda x: 3, x=check.ints(1, 9))

    assert "left out" not in said_of(capsys, 7, state) and "a rule" in said_of(capsys, 8, state)


@pytest.mark.parametrize(
    ("twice", "words"), [("both directions of a link", "too much: both directions of a link?"), ("", "too much.")]
)
def test_twice_names_what_can_have_been_counted_twice(capsys, twice, words):
    assert words in said_of(capsys, 6.0, lambda a: a.gives(3.0, 1), twice=twice)
    assert "multiply-add" not in said_of(capsys, 6.0, lambda a: a.gives(3.0, 1), twice=twice)


@pytest.mark.parametrize(("expected", "value", "words"), [
    ({"a": 3.0, "b": 4.0}, {"a": 3.0, "b": 8.0}, "in entry 'b', that is exactly 2 times too much."),
    ([3.0, 4.0], (1.5, 5.0), "value 1 of 2: that is exactly half."),
    ({"a": [1.0, 5.0]}, {"a": [1.0, 5e3]}, "in entry 'a', value 2 of 2: that is 1000 times too much"),
    (np.array([1.0, 0.0, 5.0]), np.array([0.7, 0.0, 3.5]), "every number is 0.7 times what it should be."),
    (np.array([[1.0, 5.0]]), np.array([[-1.0, -5.0]]), "the sign is wrong."),
])  # fmt: skip
def test_a_factor_of_one_entry_or_of_a_whole_array_is_told(capsys, expected, value, words):
    said = said_of(capsys, value, lambda a: a.gives(expected, 1))
    assert words in said and "multiply-add" not in said


@pytest.mark.parametrize(("expected", "value", "words"), [
    ({"a": 3.0, "b": 4.0}, {"a": 6.0}, "the entry 'b' is missing"),
    ([3.0, 4.0], [6.0], "2 values are asked for"),
    ({"a": 60}, {"a": 480}, "in entry 'a', that is not it: too large"),  # a count, which has no unit
    ({"a": 3.0}, {"a": "6"}, "a number is asked for"),
    (np.array([1.0, 5.0]), np.array([2.0, 9.0]), "numbers are off"),
    (np.array([1.0, 5.0]), np.array([np.inf, 10.0]), "the result holds NaN or infinity"),
    (np.array([0.0, 5.0]), np.array([0.0, 10.0]), "numbers are off"),
])  # fmt: skip
def test_without_a_common_factor_the_place_is_told(capsys, expected, value, words):
    assert words in said_of(capsys, value, lambda a: a.gives(expected, 1))


def test_a_key_that_is_part_of_the_answer_is_not_named(capsys):
    a = check.Answer(lambda n: {"a": n}, points=1)
    a.gives({"a": 1}, 1)
    a.gives({"a": 2, "b": 4}, 2)
    said = told(capsys, a)[1]
    assert "an entry is missing" in said and "'b'" not in said


def test_of_several_mistakes_the_one_comes_first_that_leads_to_the_other_values_too(capsys):
    a = check.Answer(lambda n: 2 * n, points=1)
    a.wrong("squared", lambda n: n * n)
    a.wrong("added to itself", lambda n: n + n)
    a.gives(2, 2)
    a.gives(3, 3)
    said = told(capsys, a)[1]
    assert "added to itself — or: squared. (" in said


def test_a_case_states_the_result_for_given_arrays_and_what_mistakes_make_of_them():
    A = np.arange(4.0).reshape(4, 1) + 0.1
    asked = lambda f: Program(f, 1, {"X": 2}, ["A[I_X, J]"], "A[I, J]", sizes=dict(I=64, J=64), dtype="f32")  # noqa: E731
    for f, said in (
        (lambda a: lax.all_gather(a, "X", tiled=True), ""),
        (lambda a: 2 * lax.all_gather(a, "X", tiled=True), "twice too large"),
        (
            lambda a: 3 * lax.all_gather(a, "X", tiled=True),
            "every number is 3 times what it should be, on a mesh of X = 2.",
        ),
    ):
        a = asked(f)
        a.wrong("twice too large", 2 * A, A)
        a.wrong("of another case", 3 * A, A + 1)
        a.gives(A, A)
        assert programs.told(a) == (not said, said)


def test_two_mistakes_that_send_the_same_are_both_named():
    a = Program(lambda a: lax.psum(a, "X"), 1, {"X": 2}, ["A[I]"], "A[I]", sizes={"I": 8})
    a.wrong("the sum is not needed", AllReduce=1)
    a.wrong("over one axis only", AllReduce=1)
    a.wrong("that is another one", AllGather=1)
    a.sends()
    assert programs.told(a)[1].startswith(
        "the sum is not needed — or: over one axis only. (Your program sends {'AllReduce': 1}.)"
    )
