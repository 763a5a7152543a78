"""Late penalties, extra credit, manual grades and comments, as nbgrader has them, through the course's grading (slow)."""

import csv
import json
import math
from dataclasses import dataclass

import nbformat
import pytest
from nbgrader.plugins import BasePlugin

from autograder import course, demo, grade
from autograder.engine.sandbox import available
from autograder.places import ROOT, Tree
from tests.skip_conditions import needs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),
    pytest.mark.xdist_group("late"),
]  # they share a class

SAMPLE = ROOT / "tests" / "autograder" / "sample"
TREE = Tree(SAMPLE)
TOPIC = "ch01_sample"
DUE = "2030-02-01 12:00:00 UTC"
STAMPS = {
    "early": "2030-02-01 11:59:59 UTC",
    "no-stamp": None,
    "late": "2030-02-01 13:30:00.250000 UTC",  # two hours begun: 2 points
    "very-late": "2030-03-01 00:00:00 UTC",  # more than it has
    "other-zone": "2030-02-01 14:30:00 Europe/Berlin",  # 13:30 UTC
    "forged": "2030-02-01 11:00:00 UTC\n<script>",
}


class PerHour(BasePlugin):
    """What an instructor would write: a point for each hour begun."""

    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return math.ceil(total_seconds_late / 3600)


@dataclass(frozen=True)
class Strict(grade.Class):
    """The sample, in a course whose nbgrader_config.py has a rule for late work."""

    def config(self):
        c = super().config()
        c.AssignLatePenalties.plugin_class = "tests.autograder.grading.test_late.PerHour"
        return c


@pytest.fixture(scope="module")
def what(tmp_path_factory):
    """A class that handed in the same work at different times, graded."""
    needs(available().refusal is None, available().refusal or "")
    folder = tmp_path_factory.mktemp("late")
    opened = demo.open_class(TOPIC, TREE, folder / "course")
    made = Strict(opened.topic, opened.scratch, timeout=20)
    solved = demo.sample_class(TOPIC, TREE, SAMPLE)["reference"]
    demo.hand_in(made, dict.fromkeys(STAMPS, solved))
    for student, stamp in STAMPS.items():
        if stamp:
            made.notebook("submitted", student).with_name("timestamp.txt").write_text(stamp, encoding="utf-8")
    with made.gradebook() as g:
        g.update_or_create_assignment(TOPIC, duedate=DUE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_SECRET", "of this test")
        patch.setenv("COURSE_WORKERS", "1")
        patch.setenv("HOME", str(folder))
        grade.grade(made, progress=False)
        yield made


def penalties(what) -> dict[str, float]:
    with what.gradebook() as g:
        return {s.student_id: s.late_submission_penalty for s in g.assignment_submissions(TOPIC)}


def exports(what) -> dict[str, tuple[float, float, float]]:
    """Student -> what counts, in grades.csv, canvas.csv and gradescope/."""
    with open(what.root / "grades.csv", newline="", encoding="utf-8") as file:
        first = {r["student_id"]: float(r["score"]) for r in csv.DictReader(file)}
    with open(what.root / "canvas.csv", newline="", encoding="utf-8") as file:
        second = {r["SIS Login ID"]: r[TOPIC] for r in csv.DictReader(file)}
    found = (what.root / "gradescope").rglob("results.json")
    third = {p.parent.name: json.loads(p.read_text(encoding="utf-8"))["score"] for p in found}
    assert set(first) == set(third) == set(second) - {""}
    return {s: (first[s], float(second[s]), third[s]) for s in first}


def mend(what):
    """Another text of a check that passes everybody, so that it has to be graded again."""
    path = what.notebook("source")
    nb = nbformat.read(path, as_version=4)
    cell = next(c for c in nb.cells if c.id == "ch01-q01-check")
    cell.source += f"\n{cell.metadata.nbgrader.points}"
    nbformat.write(nb, path)
    worked, why = course.run(course.api(what.config()).generate_assignment, TOPIC, force=True)
    assert worked, why


def test_the_rule_for_late_work(what):
    assert penalties(what) == {"early": 0, "no-stamp": 0, "late": 2, "very-late": 5, "other-zone": 2, "forged": 0}


def test_penalties_are_in_every_export(what):
    found = exports(what)
    assert found["early"] == found["no-stamp"] == (5, 5, 5)
    assert found["late"] == found["other-zone"] == (3, 3, 3)
    assert found["very-late"] == (0, 0, 0)


def test_extra_credit_manual_grades_and_comments_stay(what):
    """Set in the gradebook, as the Formgrader does; a mended check is graded again; all of it counts everywhere."""
    with what.gradebook() as g:
        for student in ("early", "late"):
            written = g.find_grade("ch01-q03", "exercises", TOPIC, student)
            written.manual_score, written.needs_manual_grade = 3.5, False
            g.find_grade("ch01-q02-check", "exercises", TOPIC, student).extra_credit = 1.25
            g.find_comment("ch01-q03", "exercises", TOPIC, student).manual_comment = "Which of them?"
        overruled = g.find_grade("ch01-q02-check", "exercises", TOPIC, "no-stamp")
        overruled.manual_score, overruled.needs_manual_grade = 1, False
        g.db.commit()
    mend(what)
    results = {r.student: r for r in grade.grade(what, progress=False)}
    with what.gradebook() as g:
        for student in ("early", "late"):
            written = g.find_grade("ch01-q03", "exercises", TOPIC, student)
            assert (written.manual_score, written.needs_manual_grade) == (3.5, False)
            assert g.find_grade("ch01-q02-check", "exercises", TOPIC, student).extra_credit == 1.25
            assert g.find_comment("ch01-q03", "exercises", TOPIC, student).comment == "Which of them?"
        assert g.find_grade("ch01-q02-check", "exercises", TOPIC, "no-stamp").score == 1
    found = exports(what)
    assert found["early"] == (9.75, 9.75, 9.75)
    assert found["late"] == (7.75, 7.75, 7.75)
    assert found["no-stamp"] == (3, 3, 3)
    assert results["early"].total == results["late"].total == 9.75  # the table is of work, not of lateness
    assert results["early"].open == set() and results["forged"].open == {"ch01-q03"}
    page = what.notebook("feedback", "early").with_suffix(".html").read_text(encoding="utf-8")
    assert "Which of them?" in page


def test_another_due_date_counts_at_the_next_grading(what):
    """The deadline moves a day: nobody but the last is late any more, and what people gave stays."""
    before = exports(what)
    with what.gradebook() as g:
        g.update_or_create_assignment(TOPIC, duedate="2030-02-02 12:00:00 UTC")
    grade.grade(what, progress=False)
    assert {s: p for s, p in penalties(what).items() if p} == {"very-late": 5}
    assert exports(what)["late"][0] == before["late"][0] + 2
