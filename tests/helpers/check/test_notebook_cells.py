"""After a cell that failed, a check judges nothing old; an answer that does not end is ended."""

from types import SimpleNamespace

import pytest
from IPython.core.formatters import DisplayFormatter

from helpers import check
from helpers.check import answer_checks, notebook_cells, raised, solutions
from tests.helpers.check.test_raised import cell as learners
from tests.helpers.check.told import told


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    monkeypatch.setattr(notebook_cells, "_broken", {})
    monkeypatch.setattr(notebook_cells, "_makers", {})
    monkeypatch.setattr(notebook_cells, "_gone", {})
    monkeypatch.setattr(answer_checks, "notebook", object)
    monkeypatch.setattr(solutions, "_tries", {})


def cell(source: str, before: Exception | None = None, inside: Exception | None = None):
    info = SimpleNamespace(raw_cell=source)
    notebook_cells.ended(SimpleNamespace(info=info, error_before_exec=before, error_in_exec=inside))


def syntax_error(source: str) -> SyntaxError:
    with pytest.raises(SyntaxError) as e:
        compile(source, "<cell>", "exec")
    return e.value


def crossover(x):
    return x


def judged():
    def cell():
        a = check.Answer(crossover, points=3)
        a.gives(1, 1)
        return check.report("3.7", a)

    return check.run(cell)


def test_an_older_answer_is_not_judged(capsys):
    assert judged() == 3
    source = "def crossover(x)\n    return x"
    cell(source, before=syntax_error(source))
    capsys.readouterr()
    assert judged() == 0
    said = capsys.readouterr().err
    assert said.startswith(
        "The cell that defines crossover ended with SyntaxError: expected ':', at line 1: `def crossover(x)`."
    )
    assert "Nothing is judged: mend that cell, run it, then this one." in said and solutions._tries == {}


def test_once_it_is_mended_it_counts_again():
    cell("def crossover(x):\n    return 1 / 0\nprint(crossover(1))", inside=ZeroDivisionError("division by zero"))
    assert judged() == 0
    cell("other = 3")
    assert judged() == 0
    cell("def crossover(x):\n    return x")
    assert judged() == 3


def test_a_failed_cell_that_defines_something_else_costs_nothing():
    cell("speed = 1 / 0", inside=ZeroDivisionError("division by zero"))
    assert judged() == 3


def test_an_endless_answer_is_ended_with_its_line(capsys, monkeypatch):
    limited = raised.limited
    monkeypatch.setattr(raised, "limited", lambda: limited(1))
    source = (
        "def answer(n):\n    while True:\n        try:\n            n += 1\n        except Exception:\n            pass"
    )
    a = check.Answer(learners(source)["answer"], points=1)
    a.gives(1, 1)
    earned, said = told(capsys, a)
    assert earned == 0 and "the answer has not ended after 1 s, at line" in said and "does a loop never end?" in said


def test_a_sharded_answer_can_be_looked_at(capsys):
    from jax import lax

    def block(A, B):
        return lax.psum(A @ B, "X")

    given = {"X": 2}, ["A[I, J_X]", "B[J_X, K]"], "C[I, K]", {"I": 2, "J": 4, "K": 2}
    check.look(block, *given)
    out = capsys.readouterr().out
    assert out.count("→ C[I, K] [2, 2]") == 2 and "device X = 1" in out and "[0.4, 0.5]" in out
    assert out.rstrip().endswith("sends: AllReduce_X f32[2, 2] -> [2, 2]")

    def undone(A, B):
        raise NotImplementedError

    check.look(undone, *given)
    check.look(lambda A, B: A[:, :1] @ B, *given)
    out = capsys.readouterr().out
    assert "undone is not done yet." in out and "<lambda> raised TypeError: dot_general requires" in out


def stopped():
    scope = learners("def crossover(x):\n    while True:\n        raise KeyboardInterrupt")

    def cell():
        a = check.Answer(scope["crossover"], points=3)
        a.gives(1, 1)
        return check.report("3.7", a)

    return check.run(cell)


def test_a_check_that_is_interrupted_names_the_line_and_counts_no_try(capsys):
    assert stopped() == 0 and solutions._tries == {}
    said = capsys.readouterr().err
    assert said == "You stopped this check, at line 3: `raise KeyboardInterrupt`. Nothing is judged.\n"


def test_a_command_that_is_interrupted_ends(monkeypatch):
    monkeypatch.setattr(answer_checks, "notebook", lambda: None)
    with pytest.raises(KeyboardInterrupt):
        stopped()


def test_nbgrader_reads_the_points_as_text():
    assert DisplayFormatter().format(judged())[0] == {"text/plain": "3"}
