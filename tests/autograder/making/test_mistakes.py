"""Values of a check's cases, made of our answer and of mistakes in it."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from autograder.making import mistakes, whole_arrays
from autograder.making.bank import Mutant

ANSWER = """def cost(n: int, m: int) -> dict:
    return {"ops": 2 * n * m, "bytes": n + m}
"""
CHECK = """a = check.Answer(cost, points=1, rtol=1e-6)
shown = [(5, 1)]
a.cases((3, 4), shown[0])
a.law("more is more", lambda f: f(2, 2) is not None)
### BEGIN HIDDEN TESTS
a.gives({"ops": 4, "bytes": 3}, 2, 1)
### END HIDDEN TESTS
check.report("1.1", a)
"""


def mutant(old: str, new: str, mistake: str) -> Mutant:
    return Mutant("ch01-q01", old, new, mistake, mistake)


def names_of(answer: str) -> dict:
    names: dict = {}
    exec(answer, names)
    return names


def filled(*mutants: Mutant, check: str = CHECK) -> list[str]:
    source, unseen = mistakes.filled(check, ANSWER, names_of(ANSWER), mutants)
    assert not unseen
    return source.split("\n")


def test_a_mistake_stands_at_the_first_case_in_which_it_shows_with_its_first_wrong_entry():
    lines = filled(
        mutant("2 * n * m", "n * m", "two FLOPs each"),
        mutant("n + m", "2 * n", "m as well"),
        mutant("2 * n", "2 * min(n, 4)", "n may be large"),
    )
    assert lines[2:7] == [
        'a.wrong("two FLOPs each", {"ops": 12}, 3, 4)',
        'a.wrong("m as well", {"bytes": 6}, 3, 4)',
        'a.wrong("n may be large", {"ops": 8}, *shown[0])',
        'a.gives({"ops": 24, "bytes": 7}, 3, 4)',
        'a.gives({"ops": 10, "bytes": 6}, *shown[0])',
    ]
    assert lines[:2] == CHECK.split("\n")[:2] and lines[7:] == CHECK.split("\n")[3:]


def test_mistakes_with_one_first_entry_are_told_apart_by_the_others():
    lines = filled(
        mutant("2 * n * m", "n * m", "two FLOPs each"),
        mutant('2 * n * m, "bytes": n', 'n * m, "bytes": n * m', "all is wrong"),
    )
    assert lines[2:4] == [
        'a.wrong("two FLOPs each", {"ops": 12}, 3, 4)',
        'a.wrong("all is wrong", {"ops": 12, "bytes": 16}, 3, 4)',
    ]


def test_a_part_asks_for_its_entries():
    lines = filled(
        mutant("2 * n * m", "n * m", "two FLOPs each"),
        mutant("n + m", "n", "m as well"),
        check='a, b = (check.Answer(cost, points=1) for _ in "ab")\n'
        'a.cases((3, 4), only=("ops",))\nb.cases((3, 4), only=("bytes",))\ncheck.report("1.1", a, b)',
    )
    assert lines[1:5] == [
        'a.wrong("two FLOPs each", {"ops": 12}, 3, 4)',
        'a.gives({"ops": 24}, 3, 4)',
        'b.wrong("m as well", {"bytes": 3}, 3, 4)',
        'b.gives({"bytes": 7}, 3, 4)',
    ]


def test_a_part_that_shares_cases_knows_a_mistake_by_the_entries_that_led_there():
    lines = filled(
        mutant('return {"ops": 2 * n * m', 'n *= 2; return {"ops": 2 * n * m', "n as given"),
        check='shown = [(3, 4), (5, 1)]\na = check.Answer(cost, points=1)\na.cases(*shown, only=("bytes",))\ncheck.report("1.1", a)',
    )
    assert lines[2:-1] == [
        'a.wrong("n as given", {"ops": 48, "bytes": 10}, *shown[0])',
        'a.gives({"bytes": 7}, *shown[0])',
        'a.gives({"bytes": 6}, *shown[1])',
    ]


def test_a_part_does_not_name_a_mistake_in_an_entry_that_is_right():
    """At (9, 9) ops is right by chance: a learner whose bytes alone are wrong there has not made this mistake."""
    lines = filled(
        mutant('2 * n * m, "bytes": n', '2 * m * m, "bytes": min(n, 7)', "n as given"),
        check='shown = [(3, 4), (9, 9), (8, 4)]\na = check.Answer(cost, points=1)\na.cases(*shown, only=("bytes",))\ncheck.report("", a)',
    )
    assert lines[2] == 'a.wrong("n as given", {"ops": 32, "bytes": 11}, *shown[2])'


def test_parts_that_share_cases_ask_each_mistake_once():
    calls: list = []
    names = {"calls": calls}
    exec(ANSWER, names)
    edit = mutant("    return", "    calls.append((n, m)); n, m = 2 * n, 2 * m; return", "n as given")
    mistakes.filled(
        'shown = [(3, 4), (5, 1)]\na, b = (check.Answer(cost, points=1) for _ in "ab")\n'
        'a.cases(*shown, only=("ops",))\nb.cases(*shown, only=("bytes",))\ncheck.report("1.1", a, b)',
        ANSWER,
        names,
        [edit],
    )
    assert calls == [(3, 4)]


@pytest.mark.parametrize("new", ["2 * (m * n)", "2 * n * m if n < 9 else 0"])
def test_a_mistake_that_shows_in_no_case_is_told(new):
    found = [mutant("n + m", "n", "m as well"), mutant("2 * n * m", new, "none")]
    _, unseen = mistakes.filled(CHECK, ANSWER, names_of(ANSWER), found)
    assert unseen == found[1:] and f"{found[1].name} gives what our answer gives" in mistakes.nowhere(unseen[0])


def test_a_mistake_that_fails_or_never_ends_has_no_value(monkeypatch):
    monkeypatch.setattr(mistakes, "PATIENCE", 0.05)
    lines = filled(
        mutant("    return", "    while n == 3: pass\n    return 0 and", "it hangs"),
        mutant("n + m", "n / (m - 4)", "it fails"),
    )
    assert lines[2:4] == [
        'a.wrong("it hangs", 0, *shown[0])',
        'a.wrong("it fails", {"bytes": -1.666666667}, *shown[0])',
    ]


SUMMED = """def summed(a):
    return jax.lax.psum(a.sum(0), "X")
"""
PROGRAM = """a = check.Program(summed, 1, {"X": 2, "Y": 2}, ["A[I_X, J_Y]"], "B[J_Y]", dtype="f32")
a.wrong("nothing is gathered", AllGather=1)
rows = np.float32([[1, 2], [3, 0.1], [0, 0], [1, 1]])
a.cases((rows,))
check.report("1.1", a)
"""


def test_a_case_of_a_program_is_its_whole_arrays():
    scope = {"jax": jax, "np": np}
    exec(SUMMED, scope)
    mutants = [
        mutant("a.sum(0)", "a.max(0)", "rows are added"),
        mutant("psum", "pmean", "no mean"),
        mutant('jax.lax.psum(a.sum(0), "X")', "a.sum(0)", "copies differ"),
    ]
    source, unseen = mistakes.filled(PROGRAM, SUMMED, scope, mutants)
    assert source.split("\n")[3:6] == [
        'a.wrong("rows are added", np.array([4.0, 3.0]), rows)',
        'a.wrong("no mean", np.array([2.5, 1.55]), rows)',
        "a.gives(np.array([5.0, 3.1]), rows)",
    ]
    assert unseen == mutants[2:]


GATHERED = """def gathered(a):
    return jax.lax.all_gather(a, ("X", "Y"), tiled=True)
"""


def test_a_program_may_gather_over_two_axes_at_once():
    scope = {"jax": jax, "np": np}
    exec(GATHERED, scope)
    check = """a = check.Program(gathered, 1, {"X": 2, "Y": 2}, lambda: ["A[I_XY]"], lambda: "B[I]", dtype="f32")
a.cases((np.arange(4),))"""
    source, _ = mistakes.filled(check, GATHERED, scope, [mutant('("X", "Y")', '("Y", "X")', "X is major")])
    assert source.split("\n")[1:] == [
        'a.wrong("X is major", np.array([0.0, 2.0, 1.0, 3.0]), np.arange(4))',
        "a.gives(np.array([0.0, 1.0, 2.0, 3.0]), np.arange(4))",
    ]


def test_a_program_gets_arrays_of_JAX_also_where_no_axis_cuts_them():
    run = whole_arrays.program(lambda a: a.at[0].add(jax.lax.psum(a[1], "X")), {"X": 2}, ["A[I]"], "A[I]", "f32")
    assert run(np.float32([1, 2])).tolist() == [5, 2]


CELLS = """
import sys
from nbformat.v4 import new_code_cell
from autograder.making import mistakes

kinds = {}, {"grade_id": "ch00-q01", "solution": True}, {"grade_id": "ch00-q01-check", "grade": True}
cells = [new_code_cell(source, metadata={"nbgrader": kind}) for source, kind in zip(sys.argv[1:], kinds)]
mistakes.fill(cells, [])
print(cells[2].source)
"""


def test_a_check_may_ask_for_devices_after_an_answer_has_made_an_array():
    """In a process of its own: the tests' has eight devices from its beginning."""
    array, check = (
        "import jax.numpy as jnp\nones = jnp.ones(2)",
        f"from helpers.kernels import mesh\nmesh.devices(8)\n{CHECK}",
    )
    env = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    done = subprocess.run([sys.executable, "-c", CELLS, array, ANSWER, check], env=env, capture_output=True, text=True)
    assert 'a.gives({"ops": 24, "bytes": 7}, 3, 4)' in done.stdout, done.stderr


def test_an_empty_array_keeps_its_shape():
    """As a list it would be one of shape (0,), which no answer that makes this mistake gives."""
    assert [mistakes.text(np.zeros(shape)) for shape in ((0, 2), (0,), (1,))] == [
        "np.zeros((0, 2))",
        "np.zeros((0,))",
        "np.array([0.0])",
    ]
