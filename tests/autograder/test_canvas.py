"""The Canvas file, read back as Canvas reads it."""

import csv

import pytest
from nbgrader.api import Gradebook

from autograder.canvas import Canvas

# nbgrader's own add_submission makes SQLAlchemy warn.
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")


@pytest.fixture(scope="module")
def gradebook(tmp_path_factory):
    with Gradebook(f"sqlite:///{tmp_path_factory.mktemp('book')}/gradebook.db") as g:
        g.add_student("ada", first_name="Ada", last_name='King, "Countess"', lms_user_id="1234")
        g.add_student("bob")
        g.add_assignment("ch01_rooflines")
        g.add_notebook("exercises", "ch01_rooflines")
        g.add_grade_cell("q1", "exercises", "ch01_rooflines", max_score=3, cell_type="code")
        g.add_source_cell("q1", "exercises", "ch01_rooflines", cell_type="code")
        g.add_submission("ch01_rooflines", "ada")
        g.find_grade("q1", "exercises", "ch01_rooflines", "ada").auto_score = 2.5
        g.db.commit()
        yield g


def test_a_row_for_each_student_and_points_possible(gradebook, tmp_path):
    Canvas(to=str(tmp_path / "c.csv")).export(gradebook)
    rows = list(csv.reader((tmp_path / "c.csv").read_text(encoding="utf-8").splitlines()))
    assert rows[0] == ["Student", "ID", "SIS Login ID", "Section", "ch01_rooflines"]
    assert rows[1] == ["    Points Possible", "", "", "", "3"]
    assert ['King, "Countess", Ada', "1234", "ada", "", "2.5"] in rows
    assert ["bob", "", "bob", "", ""] in rows


def test_only_the_assignments_asked_for(gradebook, tmp_path):
    Canvas(to=str(tmp_path / "c.csv"), assignment=["another"]).export(gradebook)
    assert (tmp_path / "c.csv").read_text(encoding="utf-8").splitlines()[0] == "Student,ID,SIS Login ID,Section"
