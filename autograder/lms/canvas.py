"""Grades as spreadsheets: nbgrader's grades.csv, and the file that Canvas imports.

`nbgrader export` writes the one, `nbgrader export --exporter=autograder.lms.canvas.Canvas --to=canvas.csv` the other.
No name becomes a formula of the spreadsheet program that opens them.
"""

import csv
import re
import sys
from pathlib import Path

from nbgrader.api import Gradebook, SubmittedAssignment
from nbgrader.coursedir import CourseDirectory
from nbgrader.plugins import CsvExportPlugin, ExportPlugin

from .class_list import CANVAS, ClassList, key, newest, saved

NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
FORMULA = re.compile(r"\s*[=+\-@\uff0b\uff0d\uff1d\uff20]")  # the wide ones count as = + - @ in some countries


def cell(value) -> str:
    """A value as text on one line that a spreadsheet shows and never computes.

    >>> cell("=1+1"), cell("@ada"), cell("-x"), cell("Ada"), cell(-1.5), cell("+49"), cell(None)
    ("'=1+1", "'@ada", "'-x", 'Ada', '-1.5', '+49', '')
    """
    text = "" if value is None else re.sub(r"[\x00-\x1f\x7f]", " ", str(value))
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text


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


FIXED = ("Student", "ID", "SIS Login ID", "Section")
OWN = (
    "Student",
    "LastName",
    "FirstName",
    "ID",
    "SIS User ID",
    "SIS Login ID",
    "Integration ID",
    "Root Account",
    "Section",
)
"""What Canvas says of a person: its import wants these columns first, in the order of its export."""

COMPUTED = re.compile(r"\b(Current|Final|Override) (Score|Points|Grade|Status)\b")


class Canvas(ExportPlugin):
    """A row for each student and a column for each assignment, after a row with the points possible.

    Canvas matches a student by `ID` (nbgrader's lms_user_id), else by its SIS ids.
    If its own export was collected as class list, the columns before the grades are those of the export, and so is an
    assignment's title, whose number Canvas knows it by; Canvas makes a column that it lacks.
    An assignment that was not handed in stays empty, which Canvas reads as "no grade yet".
    """

    def export(self, gradebook: Gradebook) -> None:
        assignments, students = chosen(self, gradebook)
        root = Path(CourseDirectory(parent=self).root)
        given = newest(root, CANVAS, [a.name for a in assignments])
        columns = [c for c in given.columns if c in OWN] if given else list(FIXED)
        rows = dict(zip(given.students, given.rows)) if given else {}
        if given:  # those of another platform are nobody in Canvas
            lists = [one for a in assignments for one in saved(root, a.name) if one.kind != CANVAS]
            others = {student for one in lists for student in one.students} - rows.keys()
            students = [s for s in students if s.lms_user_id or s.id not in others]
        titles = [title(given, a.name) for a in assignments]
        with open(self.to or "canvas.csv", "w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow([*columns, *map(cell, titles)])
            most = [f"{a.max_score:g}" for a in assignments]
            table.writerow(["    Points Possible", *[""] * (len(columns) - 1), *most])
            sent = [submissions(gradebook, a) for a in assignments]
            for s in students:
                name = ", ".join(part for part in (s.last_name, s.first_name) if part) or s.id
                own = {"Student": name, "LastName": s.last_name, "FirstName": s.first_name, "ID": s.lms_user_id,
                       "SIS Login ID": s.id}  # fmt: skip
                if s.id in rows:
                    own = dict(zip(given.columns, rows[s.id]))
                scores = (self._score(of.get(s.id)) for of in sent)
                table.writerow([*(cell(own.get(c)) for c in columns), *scores])
        for a, name in zip(assignments, titles):
            if (points := possible(given, name)) not in (None, a.max_score):
                print(
                    f"{a.name} has {a.max_score:g} points here and {points:g} in Canvas: give it as many there.",
                    file=sys.stderr,
                )

    @staticmethod
    def _score(submission) -> str:
        return f"{score(submission):.10g}" if submission else ""


def title(given: ClassList | None, name: str) -> str:
    """What Canvas calls an assignment: the column of its export that has the name, or alone begins with it; else the name."""
    found = [(m[1], c) for c in (given.columns if given else ()) if (m := re.fullmatch(r"(.*)\s\([0-9]+\)", c, re.S))]
    found = [(key(text), c) for text, c in found if not COMPUTED.search(text)]
    same = [c for text, c in found if text == key(name)]
    begin = [c for text, c in found if text.startswith(key(name))]
    return same[0] if same else begin[0] if len(begin) == 1 else name


def possible(given: ClassList | None, name: str) -> float | None:
    """The points possible of a column, as Canvas exported them."""
    if given is None or name not in given.columns:
        return None
    row = next((r for r in given.rows if "Points Possible" in r[0]), None)
    return number(row[given.columns.index(name)]) if row else None


def number(text: str) -> float | None:
    """A number as people of several countries write it.

    >>> number("100.00"), number("7,5"), number("-"), number("")
    (100.0, 7.5, None, None)
    """
    text = text.strip().replace(",", ".")
    return float(text) if NUMBER.fullmatch(text) else None
