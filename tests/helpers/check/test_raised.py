"""An exception in an answer is told with the call, and with the learner's own line."""

import linecache
import textwrap

import pytest

from helpers import check
from helpers.check import raised, solutions, traced_program
from tests.helpers.check.told import told


def cell(source: str, name: str = "<ch09-q01>") -> dict:
    """The names of a learner's cell."""
    source, scope = textwrap.dedent(source), {}
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), scope)
    return scope


def judged(source: str, state) -> check.Answer:
    scope = cell(source)
    a = check.Answer(scope["answer"], points=2)
    state(a)
    return a


NESTED = """
    def helper(prices, name):
        return prices[name]

    def answer(n):
        return helper({"weights": n}, "weight")
"""


def test_the_line_is_that_of_the_learners_own_helper(capsys):
    said = told(capsys, judged(NESTED, lambda a: a.gives(3, 3)))[1]
    assert "answer(3) raised KeyError: 'weight', at line 3: `return prices[name]`." in said


def test_library_frames_are_left_out(capsys):
    source = "import numpy as np\ndef answer(n):\n    x = np.zeros(n)\n    return np.reshape(x, (2, 2))"
    said = told(capsys, judged(source, lambda a: a.gives(3, 3)))[1]
    assert (
        "answer(3) raised ValueError: cannot reshape" in said and "at line 4: `return np.reshape(x, (2, 2))`." in said
    )


def test_a_rule_that_asks_says_which_call_failed(capsys):
    said = told(capsys, judged(NESTED, lambda a: a.law("more is more", lambda f: f(2) < f(n=30))))[1]
    assert (
        "answer(2) raised KeyError: 'weight', at line 3: `return prices[name]`. It was asked for this: more is more."
        in said
    )


def test_hidden_numbers_are_not_told_but_the_line_is(capsys, monkeypatch):
    monkeypatch.setenv("COURSE_VALUES", "secret")
    source = "def answer(n):\n    raise ValueError(n)"
    said = told(capsys, judged(source, lambda a: a.equals(lambda x: x, x=check.ints(777, 778))))[1]
    assert (
        "raised ValueError for numbers that it has not seen, at line 2: `raise ValueError(n)`." in said
        and "77" not in said
    )


def test_what_a_rule_raises_by_itself_is_no_line_of_the_learner(capsys):
    said = told(
        capsys, judged("def answer(n):\n    return n", lambda a: a.law("a pair is asked for", lambda f: f(2)[0] == 1))
    )[1]
    assert "at line" not in said and "a pair is asked for" in said


@pytest.mark.parametrize("jit", [False, True])
def test_a_traced_answer_names_its_line(capsys, jit):
    import jax
    import jax.numpy as jnp

    source = "def answer(a, b):\n    c = a + 1\n    return c @ b"
    ask = (lambda f: jax.jit(f)(jnp.ones(3), jnp.ones(4))) if jit else (lambda f: f(jnp.ones(3), jnp.ones(4)))
    said = told(capsys, judged(source, lambda a: a.law("it fits", lambda f: ask(f) is not None)))[1]
    assert "raised TypeError: dot_general requires" in said and "at line 3: `return c @ b`" in said


SHARDED = """
    def scaled(prices, x):
        return prices["weight"] * x

    def answer(x):
        return scaled({"weights": 2}, x)
"""


def test_a_sharded_answer_names_its_line(capsys):
    a = check.Program(cell(SHARDED)["answer"], 2, {"X": 2}, ["A[I_X]"], "A[I_X]", sizes={"I": 8})
    a.sends()
    said = told(capsys, a)[1]
    assert (
        "answer raised KeyError: 'weight', at line 3: `return prices[\"weight\"] * x`." in said
        and "not done" not in said
    )


def failing(kind):
    def fails(*_, **__):
        raise kind("of the machine")

    return fails


@pytest.mark.parametrize("kind", [NameError, ModuleNotFoundError, OSError, MemoryError, ValueError])
@pytest.mark.parametrize("by", ["rule", "reference", "library", "mesh"])
def test_what_no_line_of_the_answer_raises_is_not_its_fault(kind, by, capsys, monkeypatch):
    right = cell("import math\ndef answer(x):\n    return 2 * x")["answer"]
    a = check.Answer(failing(kind) if by == "library" else right, points=2)
    if by == "library":
        monkeypatch.setattr(raised, "LIBRARIES", (__file__,))
    if by == "mesh":
        a = check.Program(right, 2, {"X": 2}, ["A[I_X]"], "A[I_X]", sizes={"I": 8})
        monkeypatch.setattr(traced_program.meshes, "mesh", failing(kind))
        a.sends()
    elif by == "rule":
        a.law("it doubles", lambda f: failing(kind)())
    else:
        a.equals(failing(kind) if by == "reference" else lambda x: 2 * x, x=check.ints(1, 9))
    monkeypatch.setattr(solutions, "_tries", tries := {})
    said = told(capsys, a)[1]
    assert f"no line of yours was at work: {kind.__name__}: of the machine. Nothing is judged." in said and tries == {}


def test_an_answer_that_fails_anyway_is_told_no_rule_by_chance(capsys):
    source = "def answer(x):\n    return x / 0"
    said = told(capsys, judged(source, lambda a: (a.law("large is not infinite", lambda f: f(9) < 10), a.gives(3, 3))))[
        1
    ]
    assert "answer(3) raised ZeroDivisionError" in said and "infinite" not in said
