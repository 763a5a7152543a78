"""Grades as spreadsheets: nbgrader's grades.csv, and what those of all platforms have in common.

`nbgrader export` writes grades.csv, `nbgrader export --exporter=autograder.lms.canvas.Canvas --to=canvas.csv` that of a platform.
No name becomes a formula of the spreadsheet program that opens them.
"""

import csv
import re

from nbgrader.api import Gradebook, SubmittedAssignment
from nbgrader.plugins import CsvExportPlugin, ExportPlugin

from autograder.grading.own_tables import NUMBER

SIGNS = "=+\\-@\uff0b\uff0d\uff1d\uff20\ufe62\ufe63\ufe66\ufe6b"  # the wide and small ones count as = + - @ in some countries
# Where a decimal comma is usual, a spreadsheet begins a new cell at each semicolon.
FORMULA = re.compile(rf"(?:^|(?<=;))(?=[\s\u200b-\u200f\u2060\ufeff\"]*[{SIGNS}])")


def cell(value) -> str:
    """A value as text on one line that a spreadsheet shows and never computes.

    >>> cell("=1+1"), cell("@ada"), cell("-x"), cell("Ada"), cell(-1.5), cell("+49"), cell(None), cell("x;=1;y")
    ("'=1+1", "'@ada", "'-x", 'Ada', '-1.5', '+49', '', "x;'=1;y")
    """
    text = "" if value is None else re.sub(r"[\x00-\x1f\x7f]", " ", str(value))
    return text if NUMBER.fullmatch(text) else FORMULA.sub("'", text)


def chosen(plugin: ExportPlugin, gradebook: Gradebook) -> tuple[list, list]:
    """The assignments and the students that an export is of: those asked for, else all."""
    assignments, students = set(map(str, plugin.assignment)), set(map(str, plugin.student))
    return (
        [a for a in gradebook.assignments if not assignments or a.name in assignments],
        sorted((s for s in gradebook.students if not students or s.id in students), key=lambda s: s.id),
    )


def submissions(gradebook: Gradebook, assignment) -> dict:
    """Student -> submission, of all who handed in an assignment, in one question to the database."""
    asked = gradebook.db.query(SubmittedAssignment).filter(SubmittedAssignment.assignment_id == assignment.id)
    return {one.student_id: one for one in asked}


def score(submission) -> float:
    """What counts: the points, with extra credit and without what lateness costs."""
    return max(0.0, submission.score - submission.late_submission_penalty)


class Grades(CsvExportPlugin):
    """nbgrader's grades.csv, column for column, with quotes where a name has a comma."""

    COLUMNS = ("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email", "raw_score",
               "late_submission_penalty", "score", "max_score")  # fmt: skip

    def export(self, gradebook: Gradebook) -> None:
        assignments, students = chosen(self, gradebook)
        with open(self.to or "grades.csv", "w", newline="", encoding="utf-8") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(self.COLUMNS)
            for a in assignments:
                sent = submissions(gradebook, a)
                for s in students:
                    one = sent.get(s.id)
                    points = (one.score, one.late_submission_penalty, score(one)) if one else (0.0, 0.0, 0.0)
                    row = (a.name, a.duedate, one and one.timestamp, s.id, s.last_name, s.first_name, s.email)
                    table.writerow([*map(cell, row), *map(cell, points), cell(a.max_score)])
