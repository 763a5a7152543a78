"""Points for all who were told the same: `autograder/accepted.csv`, with the columns exercise, told, points, read at each grading.

Where a check was too strict, or a mistake is worth some points, a row gives whoever was told these words so many points of that check.
Of an answer in words it is a rubric's item: whoever's comment, by a person, has these words gets the points, those of all items together.
A score that a person gave stays; what a row gave changes with the row, and goes with it.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.making.in_process_grading import exercise_of
from autograder.places import NOTEBOOK, SourceError

from . import own_tables
from .class_summary import complaints, named, number_of, plain
from .gradebook_writer import Grade, Standing
from .whole_files import replace

NAME = "accepted.csv"


@dataclass(frozen=True)
class Accepted:
    """So many points in this exercise for those whom a check, or a person's comment, told these words, or more of them."""

    exercise: str
    told: str
    points: float


def read(root: Path) -> Iterator[Accepted]:
    """The rows of the file; none without one."""
    for where, (exercise, told, points) in own_tables.rows(root / NAME, ("exercise", "told", "points")):
        if not told:
            raise SourceError(f"{where} has no words that a check tells: everybody would get these points.")
        if (worth := own_tables.number(points)) is None:
            raise SourceError(f'{where} has "{plain(points, 40)}" where points belong.')
        yield Accepted(exercise, told, worth)


def give(run) -> list[str]:
    """Give these points, and say to whom.

    run  a grading whose verdicts are in the gradebook
    """
    note = run.what.root / ".grading" / f"accepted-{run.what.topic}.json"
    rows, before = [*read(run.what.root)], _given(note)
    if not rows and not before:
        return []
    given, to, gone, comments = defaultdict(dict), defaultdict(list), defaultdict(list), run.writer.comments()
    with run.what.gradebook() as gradebook:
        for student, cells in run.writer.grades().items():
            record = run.known.load(student)
            for cell, grade in cells.items() if record else ():
                was = before.get(student, {}).get(cell, [])
                if grade.manual is not None and grade.manual not in was:
                    continue  # a person's
                in_words = cell not in run.decides.assignment.checks
                told = [comments[student, cell]] if in_words else complaints(record.outputs.get(cell, []))
                found = _found(rows, cell, told, in_words, grade)
                points = max(0.0, min(sum(row.points for row in found), grade.most))
                if in_words and was and grade.waits:  # the work has changed since: a person looks once more
                    given[student][cell] = was
                elif found:
                    given[student][cell] = [points]
                    if points != grade.manual or grade.waits:
                        _write(run, gradebook, (student, cell), cells, points, False)
                        for row in found:
                            to[row].append(student)
                elif was:
                    _write(run, gradebook, (student, cell), cells, None, in_words)
                    gone[number_of(exercise_of(cell))].append(student)
        # A run may be stopped between these lines: the next one takes both points for those of rows.
        if not run.writer.dry:
            both = {who: _joined(before.get(who, {}), given.get(who, {})) for who in {**before, **given}}
            replace(note, json.dumps(both))
            gradebook.db.commit()
            replace(note, json.dumps(given))
    said = [
        f'accepted: {row.points:g} points in {row.exercise} for "{plain(row.told, 60)}" ({named(who)}).'
        for row, who in to.items()
    ]
    return said + [f"not accepted any more, in {exercise}: {named(who)}." for exercise, who in gone.items()]


Given = dict[str, list[float]]
"""Cell -> points that a row gave: two where a grading was stopped while it changed them."""


def _given(note: Path) -> dict[str, Given]:
    """Student -> what rows gave before."""
    try:
        kept = json.loads(note.read_text(encoding="utf-8"))
        return {who: {c: p if isinstance(p, list) else [p] for c, p in cells.items()} for who, cells in kept.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError):
        raise SourceError(
            f"The note .grading/{note.name} of what {NAME} gave is not whole. Put a copy of it there; or remove it, and points"
            " that a row gave count as given by a person."
        ) from None


def _joined(before: Given, now: Given) -> Given:
    return {cell: before.get(cell, []) + now.get(cell, []) for cell in {**before, **now}}


def _found(rows: list[Accepted], cell: str, told: list[str], in_words: bool, grade: Grade) -> list[Accepted]:
    """The rows that what was told is about: all items of a rubric, or the first, if a check gave less."""
    found = [r for r in rows if r.exercise == number_of(exercise_of(cell)) and any(r.told in line for line in told)]
    return found if in_words else [r for r in found[:1] if (grade.auto or 0.0) < min(r.points, grade.most)]


def _write(run, gradebook, where: tuple[str, str], cells: dict[str, Grade], points: float | None, waits: bool) -> None:
    student, cell = where
    if run.writer.dry:
        cells[cell].manual, cells[cell].waits = points, waits
        run.writer.would[student] = Standing(cells, run.writer.penalties().get(student, 0.0))
    else:
        grade = gradebook.find_grade(cell, NOTEBOOK, run.what.topic, student)
        grade.manual_score, grade.needs_manual_grade = points, waits
