"""Points for all who were told the same: `autograder/accepted.csv`, with the columns exercise, told, points, read at each grading.

Where a check was too strict, or a mistake is worth some points, a row gives whoever was told these words so many points of that check,
as a person would in the Formgrader: a score that a person gave before stays, and so do these when their row goes.
"""

import csv
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from autograder.making.in_process_grading import exercise_of
from autograder.places import NOTEBOOK, SourceError

from .class_summary import complaints, named, number_of, plain

NAME = "accepted.csv"
COLUMNS = ("exercise", "told", "points")


@dataclass(frozen=True)
class Accepted:
    """So many points of a check of this exercise for those whom it told these words, or more of them."""

    exercise: str
    told: str
    points: float


def read(root: Path) -> list[Accepted]:
    """The rows of the file; none without one."""
    path = root / NAME
    if not path.is_file():
        return []
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows, found = csv.DictReader(file), []
        if missing := [c for c in COLUMNS if c not in (rows.fieldnames or [])]:
            raise SourceError(f"{NAME} has no column {missing[0]}: its first line is {','.join(COLUMNS)}.")
        for row in rows:
            exercise, told, points = (str(row[c] or "").strip() for c in COLUMNS)
            where = f"{NAME}, line {rows.line_num},"
            if not told:
                raise SourceError(
                    f"{where} has no words that a check tells: without them everybody would get these points."
                )
            try:
                found.append(Accepted(exercise, told, float(points)))
            except ValueError:
                raise SourceError(f'{where} has "{plain(points, 40)}" where points belong.') from None
    return found


def give(run) -> list[str]:
    """Give these points, and say to whom.

    run  a grading whose verdicts are in the gradebook
    """
    rows, to = read(run.what.root), defaultdict(list)
    if not rows:
        return []
    topic = run.what.topic
    with run.what.gradebook() as gradebook:
        for student, cells in run.writer.grades().items():
            record = run.known.load(student)
            for cell, grade in cells.items() if record else ():
                row = _first(rows, cell, complaints(record.outputs.get(cell, [])))
                points = min(row.points, grade.most) if row else 0.0
                if row and grade.manual is None and (grade.auto or 0.0) < points:
                    gradebook.find_grade(cell, NOTEBOOK, topic, student).manual_score = points
                    to[row].append(student)
        gradebook.db.commit()
    return [
        f'accepted: {row.points:g} points in {row.exercise} for "{plain(row.told, 60)}" ({named(who)}).'
        for row, who in to.items()
    ]


def _first(rows: list[Accepted], cell: str, told: list[str]) -> Accepted | None:
    """The first row that a check's words are about."""
    here = [row for row in rows if row.exercise == number_of(exercise_of(cell))]
    return next((row for row in here if any(row.told in line for line in told)), None)
