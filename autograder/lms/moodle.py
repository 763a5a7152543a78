"""Moodle: who sent a file by the name that it has in the zip, who a row of its worksheet is, and grades as it imports them.

The grading worksheet that was collected as class list, filled in, goes back into the assignment, by "Upload grading
worksheet". Without one, the file is for "Grades, Import, CSV file", which finds people by their e-mail address.
"""

import csv
import html
import re
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory
from nbgrader.plugins import ExportPlugin

from autograder.grading.class_summary import number_of, plain
from autograder.grading.own_tables import number
from autograder.making.in_process_grading import exercise_of

from . import class_list
from .archives import Claim, Sender
from .class_list import CANVAS, PARTICIPANT, WORKSHEET, ClassList, Person, key, saved, signs
from .tables import cell, chosen, score, submissions

NAME = "Moodle"
# name, Moodle's number of the person in this assignment, what was asked for, the file's own name if there are no folders
MOODLE = re.compile(
    r"(?P<name>.*?)_(?P<number>[0-9]+)_assignsubmission_(?P<kind>[a-z][a-z0-9]*?)(?:_(?P<rest>.*))?", re.S
)
FEEDBACK = "Points by exercise: "


def claim(part: str, below: tuple[str, ...]) -> Claim | None:
    """What a file's or a folder's name says."""
    if m := MOODLE.fullmatch(part):
        path = (m["rest"], *below) if m["rest"] else below or (m["kind"],)
        return Claim(Sender(NAME, m["number"], m["name"]), path, at=m.start("number"))


def person(of: Callable[[str], str]) -> Person | None:
    """The person of a row of Moodle's worksheet; None for a teacher."""
    number = (re.findall(r"[0-9]+$", of("identifier")) or [""])[0]
    found = class_list.person(of, number and PARTICIPANT + number)
    late, team = bool(re.search(r"\b(late|overdue)\b", of("status"))), of("team") if number else ""
    return found and replace(found, moodle=number, late=late, team=team or found.team)


def own_names(p: Person) -> set[str]:
    """What Moodle writes of a person's name, as a key."""
    return {key(p.first + p.last), key(p.last + p.first)} - {""}


def in_folder(team: str) -> set[str]:
    """What Moodle may leave of a group's name, which it writes as on a page before it drops signs: R&D is Ramp;D there."""
    return {signs(team), signs(html.escape(team, quote=False))}


class Moodle(ExportPlugin):
    """The worksheet of one assignment, or a table of the points of all."""

    def export(self, gradebook: Gradebook) -> None:
        assignments, students = chosen(self, gradebook)
        lists = saved(Path(CourseDirectory(parent=self).root), assignments[0].name) if len(assignments) == 1 else []
        if given := next((one for one in lists if one.kind == WORKSHEET), None):
            rows = self._worksheet(gradebook, assignments[0], {s.id for s in students}, given)
        else:
            rows, left = self._table(gradebook, assignments, students)
            if left and any(one.kind != CANVAS for one in lists):
                names = ", ".join(plain(name, 40) for name in left)
                print(f"Not in moodle.csv, for want of an e-mail address: {names}.", file=sys.stderr)
        with open(self.to or "moodle.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)

    @staticmethod
    def _worksheet(gradebook: Gradebook, assignment, students: set[str], given: ClassList) -> list[list[str]]:
        """Grade and feedback of those who handed in; all else as it came."""
        sent = submissions(gradebook, assignment)
        grade, comment, most = (given.place(what) for what in ("grade", "comment", "most"))
        rows, limits = [[cell(c) for c in given.columns]], set()
        for student, row in zip(given.students, given.rows):
            # A comment is a teacher's own.
            row = [c if c == "-" or i == comment else cell(c) for i, c in enumerate(row)]
            if student in students and student in sent:
                row[grade] = f"{score(sent[student]):.10g}"
                if comment is not None and (not row[comment].strip() or FEEDBACK in row[comment]):
                    row[comment] = feedback(sent[student])
                if most is not None:
                    limits.add(number(row[most]))
            rows.append(row)
        for limit in sorted(limits - {None, assignment.max_score}):
            print(
                f"{assignment.name} has {assignment.max_score:g} points here and a maximum grade of {limit:g} in Moodle, "
                "which leaves out grades above that: set it there, and collect a new worksheet.",
                file=sys.stderr,
            )
        return rows

    @staticmethod
    def _table(gradebook: Gradebook, assignments, students) -> tuple[list[list[str]], list[str]]:
        """A row for each who handed in, and those left out: one whom Moodle does not find stops its whole import."""
        sent = [submissions(gradebook, a) for a in assignments]
        handed = [s for s in students if any(s.id in of for of in sent)]
        found = [s for s in handed if s.email] or handed
        rows = [["First name", "Last name", "Student id", "Email address", *(cell(a.name) for a in assignments)]]
        for s in found:
            points = (f"{score(of[s.id]):.10g}" if s.id in of else "" for of in sent)
            rows.append([*map(cell, (s.first_name, s.last_name, s.id, s.email)), *points])
        return rows, [s.id for s in handed if s not in found]


def feedback(submission) -> str:
    """Points by exercise, in one line; what the checks said stands in the feedback page."""
    points: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    waits = False
    for notebook in submission.notebooks:
        for one in notebook.grades:
            of = points[number_of(exercise_of(one.name))]
            of[0] += one.score or 0.0
            of[1] += one.max_score
            waits = waits or one.needs_manual_grade
    order = sorted(points, key=lambda n: [int(x) for x in re.findall("[0-9]+", n)])
    said = FEEDBACK + ", ".join(f"{n}: {points[n][0]:g} of {points[n][1]:g}" for n in order) + "."
    if submission.late_submission_penalty:
        said += f" Late: {submission.late_submission_penalty:g} points taken off."
    return cell(said + " A person still has to look at some of it." * waits)
