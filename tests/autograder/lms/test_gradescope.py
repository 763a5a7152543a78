"""results.json as Gradescope documents it, from a small gradebook and graded notebooks made by hand."""

import json

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from nbgrader.api import Gradebook
from traitlets.config import Config

from autograder.lms.gradescope import Gradescope

# nbgrader's own add_submission makes SQLAlchemy warn.
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
TOPIC = "ch01_sample"
SECTIONS = {"score", "execution_time", "output", "output_format", "visibility", "stdout_visibility", "extra_data", "tests",
            "test_output_format", "test_name_format", "leaderboard"}  # fmt: skip
FIELDS = {"score", "max_score", "status", "name", "name_format", "number", "output", "output_format", "tags", "visibility",
          "extra_data"}  # fmt: skip
SHOWN = {"hidden", "after_due_date", "after_published", "visible"}


def check_cell(name, *outputs, source="check.report()"):
    return new_code_cell(source, metadata={"nbgrader": {"grade_id": name, "grade": True}}, outputs=list(outputs))


def stream(text, name="stdout"):
    return new_output("stream", text=text, name=name)


def number(value):
    return new_output("execute_result", data={"text/plain": value})


ADA = new_notebook(cells=[
    new_markdown_cell("### Exercise 1.1 — Moving bytes\n\nText."),
    check_cell("ch01-q01-check", stream("Exercise 1.1: 2 of 2 points\n\nThink again: why?"), number("2")),
    new_markdown_cell("### Exercise 1.2 — Longer"),
    check_cell("ch01-q02-check", stream("Exercise 1.2: 1 of 3 points\n  \x1b[31mhalf of\n    it.\n  the sign is wrong."), number("1")),
    check_cell("ch01-q03", source="Latency."),
    check_cell("ch01-q04-check", new_output("error", ename="CellTimeoutError", evalue="not in time",
                                            traceback=["assert secret == 42", "  ### BEGIN HIDDEN TESTS"])),
])  # fmt: skip
BOB = new_notebook(cells=[new_markdown_cell("**This submission could not be graded.** It is empty.", id="not-graded"),
                          new_markdown_cell("Text."), check_cell("ch01-q04-check", number("0"))])  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Student -> results.json."""
    root = tmp_path_factory.mktemp("course")
    points = {"ch01-q01-check": 2, "ch01-q02-check": 3, "ch01-q03": 4, "ch01-q04-check": 1}
    with Gradebook(f"sqlite:///{root}/gradebook.db") as g:
        g.add_assignment(TOPIC)
        g.add_notebook("exercises", TOPIC)
        for cell, most in points.items():
            g.add_grade_cell(cell, "exercises", TOPIC, max_score=most, cell_type="code")
            g.add_solution_cell(cell, "exercises", TOPIC)
            g.add_source_cell(cell, "exercises", TOPIC, cell_type="code")
        for student in ("ada", "bob", "idle", "..", "gone"):
            g.add_student(student)
            if student != "idle":
                g.add_submission(TOPIC, student)
        for cell, auto in zip(points, (2, 1, None, 0)):
            grade = g.find_grade(cell, "exercises", TOPIC, "ada")
            grade.auto_score, grade.needs_manual_grade = auto, auto is None
        g.find_grade("ch01-q01-check", "exercises", TOPIC, "ada").extra_credit = 0.5
        g.find_comment("ch01-q03", "exercises", TOPIC, "ada").manual_comment = "See me.\x07"
        g.find_submission_notebook("exercises", TOPIC, "ada").late_submission_penalty = 0.25
        for cell in points:
            g.find_grade(cell, "exercises", TOPIC, "bob").auto_score = 0
        g.find_submission_notebook("exercises", TOPIC, "bob").late_submission_penalty = 1
        g.db.commit()
        for student, nb in (("ada", ADA), ("bob", BOB)):
            to = root / "autograded" / student / TOPIC / "exercises.ipynb"
            to.parent.mkdir(parents=True)
            nbformat.write(nb, to)
        c = Config()
        c.CourseDirectory.root = str(root)
        Gradescope(to=str(root / "out"), assignment=[TOPIC], config=c).export(g)
    return {
        p.parent.name: json.loads(p.read_text(encoding="utf-8")) for p in (root / "out" / TOPIC).glob("*/results.json")
    }


def test_one_file_for_each_submission(written):
    assert set(written) == {"ada", "bob", "gone"}  # `..` is no folder's name


def test_the_format_is_the_documented_one(written):
    for found in written.values():
        assert set(found) <= SECTIONS and found["visibility"] in SHOWN and found["stdout_visibility"] in SHOWN
        assert isinstance(found["score"], float) and isinstance(found["output"], str)
        assert len(found["tests"]) == 4
        for test in found["tests"]:
            assert set(test) <= FIELDS and test["visibility"] in SHOWN
            assert all(isinstance(test[f], str) for f in ("name", "number", "output"))
            assert all(isinstance(test[f], int | float) for f in ("score", "max_score"))
            assert test.get("status", "passed") in {"passed", "failed"}


def test_points_and_messages(written):
    ada = written["ada"]
    assert ada["score"] == 2.5 + 1 - 0.25
    assert ada["output"] == "Late: 0.25 points taken off."
    assert [t["name"] for t in ada["tests"]] == [
        "Exercise 1.1: Moving bytes", "Exercise 1.2: Longer", "Exercise 1.3", "Exercise 1.4"]  # fmt: skip
    assert [(t["score"], t["max_score"], t.get("status")) for t in ada["tests"]] == [
        (2.5, 2.0, "passed"), (1.0, 3.0, "failed"), (0.0, 4.0, None), (0.0, 1.0, "failed")]  # fmt: skip
    assert [t["output"] for t in ada["tests"]] == [
        "", "half of it.\nthe sign is wrong.", "A person still has to look at this one.\nComment: See me.",
        "CellTimeoutError: not in time"]  # fmt: skip


def test_cells_that_a_notebook_has_not_come_last(written):
    assert [t["number"] for t in written["bob"]["tests"]] == ["1.4", "1.1", "1.2", "1.3"]


def test_neither_source_nor_values_of_hidden_tests(written):
    text = json.dumps(written)
    assert "42" not in text and "HIDDEN" not in text and "check.report" not in text and "\\u001b" not in text


def test_what_could_not_be_graded_says_why_and_is_not_below_zero(written):
    bob = written["bob"]
    assert bob["score"] == 0
    assert bob["output"].splitlines() == [
        "This submission could not be graded. It is empty.",
        "Late: 1 points taken off.",
    ]
    assert [t["score"] for t in written["gone"]["tests"]] == [0, 0, 0, 0]  # there is no graded notebook
