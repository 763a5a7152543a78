"""A later chapter uses a learner's own function where it has passed; a wrong result that leaves out an argument is told so."""

import json

import jax.numpy as jnp
import pytest
from jax import lax

from helpers import check
from helpers.check import progress, solutions

CELLS = (
    ("import math\nprint('devices')\n%matplotlib inline", {}),
    ("import math\nprint('devices')\n\ndef half(x):\n    return x / 2", {}),
    ("def other(x):\n    return 0", {"grade_id": "ch01-q01", "solution": True}),
    ("def double(x):\n    return math.floor(4 * half(x))", {"grade_id": "ch01-q10", "solution": True}),
    ("raise SystemExit", {"grade_id": "ch01-q10-check", "solution": False}),
    ("def half(x):\n    return 0", {}),
)


def saved(folder, cells=CELLS):
    cells = [
        {"cell_type": "code", "source": s.splitlines(True), "metadata": {"nbgrader": m} if m else {}} for s, m in cells
    ]
    (folder / "exercises.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")


@pytest.fixture
def later(tmp_path, monkeypatch):
    """Somebody sits before chapter 4, with chapter 1's exercise 1.10 passed."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks/README.md").write_text("# A course\n")
    for name in ("ch01_rooflines", "ch04_training"):
        (tmp_path / "work" / name).mkdir(parents=True)
    record = {"won": 2, "of": 2, "tries": 1, "begun": "2026-01-02", "passed": "2026-01-02"}
    (tmp_path / "work/progress.json").write_text(json.dumps({"exercises": {"1.10": {"double": record}}}))
    saved(tmp_path / "work/ch01_rooflines")
    monkeypatch.chdir(tmp_path / "work/ch04_training")
    monkeypatch.setattr(progress, "attended", lambda: True)
    for name, empty in (("_tries", {}), ("_passed", set()), ("_recalled", set())):
        monkeypatch.setattr(solutions, name, empty)
    return tmp_path / "work"


def test_what_passed_is_used_with_the_functions_it_needs(later, capsys):
    double = check.own("1.10", "double", lambda f: f(3) == 6)
    assert double(8) == 16
    assert capsys.readouterr().out == "Yours: `double` of Exercise 1.10.\n"  # and no line of its cells ran


def test_what_did_not_pass_is_ours(later, capsys):
    assert check.own("1.1", "other") is None
    assert capsys.readouterr().out == "Ours: once Exercise 1.1 has passed, this cell uses your `other`.\n"


@pytest.mark.parametrize(("now", "said"), [
    ("def double(x):\n    return x + 2", "it gives other results than when it passed"),
    ("def double(x) return 2", "SyntaxError"),
    ("def twice(x):\n    return 2 * x", "NameError: its cell does not define double"),
    ("def double(x):\n    raise KeyError('x')", "KeyError: 'x'"),
])  # fmt: skip
def test_what_was_edited_since_is_ours_and_said(later, now, said, capsys):
    saved(later / "ch01_rooflines", [(now, m) if m.get("grade_id") == "ch01-q10" else (s, m) for s, m in CELLS])
    assert check.own("1.10", "double", lambda f: f(3) == 6) is None
    assert said in capsys.readouterr().out


def test_a_notebook_that_is_gone_or_broken_stops_nothing(later, capsys):
    (later / "ch01_rooflines/exercises.ipynb").write_text("<<<<<<< HEAD")
    assert check.own("1.10", "double") is None
    (later / "ch01_rooflines/exercises.ipynb").unlink()
    assert check.own("1.10", "double") is None
    assert "no notebook of chapter 1" in capsys.readouterr().out


def test_nothing_of_anybodys_runs_while_a_page_is_built(later, monkeypatch, capsys):
    monkeypatch.setattr(progress, "attended", lambda: False)
    monkeypatch.setattr(solutions, "_own_function", lambda *_: 1 / 0)
    assert check.own("1.10", "double") is None and capsys.readouterr().out == ""


def two_products(W, In, axis=1):
    whole = lax.all_gather(In, "X", axis=axis, tiled=axis == 1).reshape(len(In), -1)
    return lax.psum_scatter(whole @ W[0] @ W[1].T, "X", scatter_dimension=1, tiled=True)


def own_rows(W, In):
    """The product of what the device has of In alone, with the rows that belong to it."""
    mine = lax.dynamic_slice_in_dim(W, lax.axis_index("X") * In.shape[1], In.shape[1], axis=1)
    return lax.psum_scatter(In @ mine[0] @ W[1].T, "X", scatter_dimension=1, tiled=True)


@pytest.mark.parametrize(("f", "says"), [
    (lambda W, In: two_products(jnp.stack([W[0], W[0]]), In), "There S does not depend on W at M = 1, and should."),
    (lambda W, In: two_products(W, In.at[2].set(In[0])), "at 2 along dimension 0 stand the numbers that belong at 0."),
    (lambda W, In: two_products(W, In.at[0].add(In[3])), "There S at B = 0 depends on In at B = 3, and should not."),
    (lambda W, In: two_products(W[::-1], In), "it is what a right answer gives with W in reverse order along dimension 0."),
    (lambda W, In: two_products(W, In, axis=2), "gives with In in another order along dimension 1, as if 4 blocks were dealt in turn."),
    (own_rows, "There S of the device at X = 0 does not depend on W of the device at X = 0 at D = 4, and should."),
    (lambda W, In: two_products(W, In) ** 2, "It is not linear in In, and should be."),
    (lambda W, In: In + two_products(W, In), "the result is right, with In added to it."),
    (lambda W, In: (3 * In + two_products(W, In)) / 4, "what is added to In is 4 times too small: is something divided"),
    (lambda W, In: 3 * (two_products(W, In) - In), "what should be added to In, times 3, and In is not in it."),
    (lambda W, In: two_products(W, In).astype("bfloat16").astype("float32"), "every number is right to two digits"),
])  # fmt: skip
def test_what_a_result_does_not_depend_on_and_should_is_said(f, says):
    given = ["W[M, D, F_X]", "In[B, D_X]"], "S[B, D_X]"
    a = check.Program(f, 1, {"X": 4}, *given, sizes=dict(M=2, B=4, D=8, F=12), dtype="f32")
    a.equals(lambda W, In: In @ W[0] @ W[1].T, n=1, M=2, B=4, D=8, F=12)
    earned, (said,) = a.evaluate()
    assert earned == 0 and says in said


@pytest.mark.parametrize(
    "n, says",
    [(4, "4 times too large: was something summed that was already whole, or is a number"), (2, "4 times what")],
)
def test_a_factor_of_as_many_as_there_are_devices_may_be_that_of_a_number_not_used(n, says):
    a = check.Program(
        lambda W, lr: W - W**2 / 2, 1, {"X": n}, ["W[M_X]"], "W[M_X]", sizes=dict(M=8), dtype="f32", static=(0.125,)
    )
    a.equals(lambda W: W - 0.125 * W**2, n=1, M=8)
    assert f"what is added to W is {says}" in a.evaluate()[1][0]
