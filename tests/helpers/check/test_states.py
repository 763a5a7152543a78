"""An answer that is given a state goes by it, and keeps none of its own."""

import numpy as np
import pytest

from helpers import check
from tests.helpers.check.told import told


def ours(x, total):
    return x + total, x + total


def honest(x, total):
    return x + total, x + total


kept = [0.0]


def global_only(x, total):
    """Takes a fresh start for one, and goes on by what it has kept itself."""
    kept[0] = x if total == 0 else kept[0] + x
    return kept[0], kept[0]


def last_given(x, total, memory={}):  # noqa: B006
    """Believes that a state comes once only."""
    if total in memory:
        return memory[total], memory[total]
    memory[total] = x + total
    return memory[total], memory[total]


def judged(f):
    a = check.Answer(f, points=2)
    a.carries(
        lambda f, state, x: (lambda pair: (pair, pair[1]))(f(x, state)), ours, (0.0, [1.0, 2, 3]), (0.0, [5.0, 1, 1])
    )
    return a


def test_a_state_that_is_handed_in_counts(capsys):
    assert told(capsys, judged(honest))[0] == 2


@pytest.mark.parametrize("f", [global_only, last_given])
def test_an_answer_that_keeps_its_own_loses(capsys, f):
    earned, said = told(capsys, judged(f))
    assert earned == 0 and "does not use the state that it is given" in said and "keep nothing between calls" in said


def test_what_an_answer_does_to_a_state_is_its_own(capsys):
    def in_place(x, state):
        state += x
        return state.copy(), state

    def reference(x, state):
        return state + x, state + x

    a = check.Answer(in_place, points=1)
    ask = lambda f, state, x: (lambda pair: (pair[0], pair[1]))(f(x, state))  # noqa: E731
    a.carries(ask, reference, (np.zeros(2), [1.0, 2.0]), (np.ones(2), [3.0, 4.0]))
    assert told(capsys, a)[0] == 1
