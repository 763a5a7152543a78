"""After a cell that failed, a check judges nothing old, and an answer is ended; a check cell of one call finds what it judges."""

import json
from types import SimpleNamespace

import pytest
from IPython.core.formatters import DisplayFormatter

from autograder.making.cells import meta
from autograder.places import ROOT, Tree
from helpers import check
from helpers.check import answer_checks, notebook_cells, raised, shown_checks, solutions
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


NAME = "ch99_q01_check"
LINES = [
    f"def {NAME}():",
    "    a = check.Answer(twice, points=2)",
    "    a.gives(6, 3)",
    '    a.wrong("that is the square", 9, 3)',
    '    a.law("more gives more", lambda f: f(4) > f(3))',
    '    return check.report("99.1", a)',
]


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """A folder with the check of 99.1, where the notebook is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checks.json").write_text(json.dumps({NAME: LINES}), encoding="utf-8")
    return tmp_path / "checks.json"


def called(twice, number: str = "99.1") -> float:
    return eval(f'check.exercise("{number}")', {"check": check, "twice": twice})


def test_a_call_judges_the_answer_of_its_notebook(beside, capsys):
    assert called(lambda x: 2 * x) == 2 and called(lambda x: x * x) == 0
    assert "that is the square" in capsys.readouterr().err


def test_a_check_that_is_not_there_is_no_mistake_of_the_answer(beside, capsys):
    assert called(lambda x: 2 * x, "99.2") == 0
    said = capsys.readouterr().err
    assert said.startswith("The check of 99.2 is in no checks.json") and said.endswith("Nothing is judged.\n")
    no_functions = [], ["("], [f"def {NAME}(a):", " 1"], [f"def {NAME}():", "exit()"], [f"def {NAME}():", " ("]
    odd = *no_functions, [1], 1, "x", None
    for text in ["{", "[" * 100_000, "[]", *(json.dumps({NAME: lines}) for lines in odd)]:
        beside.write_text(text, encoding="utf-8")
        shown_checks._read.cache_clear()  # these are written in one moment
        assert called(lambda x: 2 * x) == 0
        assert "copy it anew from the course. Nothing is judged." in capsys.readouterr().err, text[:80]


def test_a_whole_check_counts_and_not_the_file(beside):
    """As where a class is graded: the file may be altered, and may be gone."""
    beside.write_text(json.dumps({NAME: [f"def {NAME}():", "    return 2"]}), encoding="utf-8")
    scope = {"check": check, "twice": lambda x: x * x}
    exec("@check.in_full\n" + "\n".join(LINES), scope)
    assert eval('check.exercise("99.1")', scope) == 0
    beside.unlink()
    exec("@check.in_full\n" + "\n".join(LINES), scope | {"twice": lambda x: 2 * x})
    assert eval('check.exercise("99.1")', scope) == 2


def test_in_words(beside, capsys):
    eval('check.judges("99.1")', {"check": check})
    assert capsys.readouterr().out.split("\n") == [
        "What is asked of an answer, in a class of other numbers as well:",
        "- twice(3) gives 6",
        "- more gives more",
        "It knows 1 likely mistake.",
        "",
    ]


@pytest.mark.parametrize("topic", [p.stem for p in Tree().exercises])
def test_every_check_of_a_chapter_is_there_and_can_be_told(topic, monkeypatch, capsys):
    import nbformat

    monkeypatch.chdir(ROOT)
    released = nbformat.read(Tree().released(topic), as_version=4)
    cells = [c.source for c in released.cells if meta(c).get("grade") and not meta(c).get("solution")]
    assert cells
    for source in cells:
        eval(source.split("  # ")[-1].removesuffix(" says what it tests"), {"check": check})
        head, *lines = capsys.readouterr().out.strip().split("\n")
        asked = [line for line in lines if not line.startswith("It knows ")]
        assert head.endswith(":") and asked and all(line[:2] in ("- ", "  ") for line in asked), source
