"""The one writer: what workers found goes through nbgrader's own converter into the gradebook.

The converter gets a notebook that was rebuilt from the release and already holds its outputs, and nothing else of a
submission; its steps that execute and clear are left out, all others are stock.
"""

import contextlib
import logging
import math
import shutil
import stat
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from nbgrader import api, preprocessors as stock
from sqlalchemy import false, update
from sqlalchemy.exc import SQLAlchemyError

from autograder import course
from autograder.places import FULL, NOTEBOOK, SourceError, is_full

from . import extensions
from .nbgrader_internals import Shared, faster, replay
from .one_submission import digest
from .whole_files import digest_of

STAGED = ".grading/staged"


def settings(c, dry: str | None = None):
    """nbgrader's settings for the writer, from those of the course.

    dry  a folder for all that would be written
    """
    c.CourseDirectory.submitted_directory = f"{dry}/{STAGED}" if dry else STAGED
    if dry:
        c.CourseDirectory.autograded_directory = f"{dry}/autograded"
    c.Exporter.optimistic_validation = True  # once, after all steps
    return c


@dataclass
class Grade:
    """One cell's grade as the gradebook has it."""

    auto: float | None
    manual: float | None
    extra: float
    most: float
    waits: bool  # for a person

    @property
    def score(self) -> float:
        return (self.auto or 0 if self.manual is None else self.manual) + self.extra


@dataclass
class Standing:
    """What a student has, or would have."""

    grades: dict[str, Grade]
    late: float


# nbgrader logs an error of the database with its whole stack, and raises it too: `trouble` says it in a sentence.
logging.getLogger("tornado.application").addFilter(lambda record: "Rolling back session" not in record.getMessage())


def trouble(e: Exception) -> str:
    """What is wrong with the gradebook, and what to do."""
    if is_full(e):
        return FULL
    return (
        f"The gradebook cannot be read or written: {str(e).splitlines()[0]}."
        " What was graded is kept beside it: mend it or put your copy in its place, and run the same command again."
    )


class Writer:
    """The gradebook of one assignment."""

    def __init__(self, root: Path, topic: str, c, dry: str | None = None):
        """dry: a folder; grades are what they would be, and nothing is written but into it"""
        faster()
        self.root, self.topic, self.config = root, topic, c
        self.dry: str | None = dry
        self.would: dict[str, Standing] = {}
        self.until = extensions.until(root, topic)
        self.db_url, self.course_id = c.CourseDirectory.db_url, c.CourseDirectory.course_id
        self.api = course.api(settings(c, dry))
        try:
            with self.gradebook() as gradebook:
                gradebook.find_assignment(topic)
            self.must_answer()  # found out now and not after the class was run
            self.shared = Shared(self.db_url, self.course_id, self.noted if dry else None)
        except api.MissingEntry:
            raise SourceError(self._unknown()) from None
        except ModuleNotFoundError as e:
            raise SourceError(f"The gradebook needs {e.name}: run `make env EXTRA=postgres`.") from None
        except SQLAlchemyError as e:
            raise SourceError(trouble(e)) from None

    def _unknown(self) -> str:
        """What to do where the gradebook does not know the assignment."""
        said = f"The gradebook does not know {self.topic}"
        if not any((self.root / ".grading" / self.topic).glob("*.json")):
            return f"{said}: run `make release` first."
        return (
            f"{said}, which has been graded before: put your copy of the gradebook in its place. Without a copy run "
            "`make release`, then this again: verdicts are kept, but points and comments that a person gave are lost."
        )

    def gradebook(self) -> api.Gradebook:
        return api.Gradebook(self.db_url, self.course_id)

    def must_answer(self) -> None:
        """An error of the database if it cannot be written."""
        with self.gradebook() as gradebook:
            gradebook.db.execute(update(api.Student).where(false()).values(first_name=""))

    def grades(self, student: str | None = None) -> dict[str, dict[str, Grade]]:
        """Student -> cell -> grade, of all submissions of the assignment (or one student's), in one question."""
        found: dict[str, dict[str, Grade]] = defaultdict(dict)
        with self.gradebook() as gradebook:
            rows = self._by_cell(
                gradebook, api.Grade, api.GradeCell, api.GradeCell.max_score, api.Grade.auto_score, api.Grade.manual_score,
                api.Grade.extra_credit, api.Grade.needs_manual_grade,
            )  # fmt: skip
            if student is not None:
                rows = rows.filter(api.SubmittedAssignment.student_id == student)
            for who, cell, most, auto, manual, extra, waits in rows:
                found[who][cell] = Grade(auto, manual, extra or 0, most, bool(waits))
        return found | {who: would.grades for who, would in self.would.items()}

    def noted(self, student: str, grades: list[api.Grade], late: float | None) -> None:
        """Keep what a student would have, instead of writing it."""
        cells = {
            g.name: Grade(g.auto_score, g.manual_score, g.extra_credit or 0, g.max_score, bool(g.needs_manual_grade))
            for g in grades
        }
        self.would[student] = Standing(cells, late or 0.0)

    def _by_cell(self, gradebook: api.Gradebook, kind, cell, *columns):
        """Student, name of a cell and these columns, of all that the assignment's submissions have of a kind, in one question.

        kind  grades or comments; cell: the kind of their cells
        """
        return (
            gradebook.db.query(api.SubmittedAssignment.student_id, cell.name, *columns)
            .select_from(kind)
            .join(api.SubmittedNotebook, api.SubmittedNotebook.id == kind.notebook_id)
            .join(api.SubmittedAssignment, api.SubmittedAssignment.id == api.SubmittedNotebook.assignment_id)
            .join(api.Assignment, api.Assignment.id == api.SubmittedAssignment.assignment_id)
            .join(cell, cell.id == kind.cell_id)
            .filter(api.Assignment.name == self.topic)
        )

    def shown(self) -> dict[str, str]:
        """Student -> digest of what a feedback page shows from the gradebook: scores and comments."""
        found: dict[str, list] = defaultdict(list)
        late = self.penalties()
        for student, cells in self.grades().items():
            found[student] += [(name, g.score, g.waits) for name, g in sorted(cells.items())]
            found[student] += [("late", late[student])] if student in late else []
        with self.gradebook() as gradebook:
            said = api.Comment.auto_comment, api.Comment.manual_comment
            rows = self._by_cell(gradebook, api.Comment, api.BaseCell, *said)
            for student, *rest in rows:
                found[student].append(tuple(map(str, rest)))
        return {student: digest(repr(sorted(map(repr, parts)))) for student, parts in found.items()}

    def comments(self) -> dict[tuple[str, str], str]:
        """Student and cell -> what a person wrote of the answer; "" of all others."""
        with self.gradebook() as gradebook:
            rows = self._by_cell(gradebook, api.Comment, api.BaseCell, api.Comment.manual_comment)
            return defaultdict(str, {(student, cell): text or "" for student, cell, text in rows})

    def penalties(self) -> dict[str, float]:
        """Student -> points that lateness costs."""
        found = {student: late for student, late, _ in self._lateness()}
        found |= {student: would.late for student, would in self.would.items()}
        return {student: points for student, points in found.items() if points}

    def penalties_due(self) -> dict[str, float]:
        """Student -> points that lateness costs by the rule as it is now: who asks it anew need not know what it reads.

        Not a number where the rule fails: nbgrader says how, when the student's grades are written.
        """
        if not any(
            issubclass(step, stock.AssignLatePenalties) for step in self.config.Autograde.autograde_preprocessors
        ):
            return self.penalties()
        step, grades, due = stock.AssignLatePenalties(config=self.config), self.grades(), {}
        step.init_plugin()
        for student, _, seconds in self._lateness():
            if seconds > 0:
                score = sum(g.score for g in grades.get(student, {}).values())
                try:
                    asked = step.plugin_inst.late_submission_penalty(student, score, seconds)
                    due[student] = min(max(0.0, asked or 0.0), score)
                except Exception:
                    due[student] = math.nan
        return {student: points for student, points in due.items() if points}

    def _lateness(self) -> list[tuple[str, float | None, float]]:
        """Student, points that lateness costs, seconds after the deadline: of all submissions, in one question."""
        submission, notebook = api.SubmittedAssignment, api.SubmittedNotebook
        with self.gradebook() as gradebook:
            deadline = gradebook.find_assignment(self.topic).duedate
            rows = (
                gradebook.db.query(
                    submission.student_id, notebook.late_submission_penalty, submission.timestamp, submission.extension
                )
                .join(notebook, submission.id == notebook.assignment_id)
                .join(api.Assignment, api.Assignment.id == submission.assignment_id)
                .filter(api.Assignment.name == self.topic)
            )
            if self.until is not None and deadline:
                rows = [(who, late, sent, self._more(who, deadline)) for who, late, sent, _ in rows]
            return [
                (student, late, (sent - deadline - (more or timedelta())).total_seconds() if sent and deadline else 0.0)
                for student, late, sent, more in rows
            ]

    def _more(self, student: str, deadline: datetime) -> timedelta | None:
        """How much later a student's deadline is than the others'."""
        return self.until[student] - deadline if student in self.until else None

    def _extend(self, student: str, gradebook: api.Gradebook) -> None:
        """Let nbgrader's own steps know a student's deadline."""
        deadline = gradebook.find_assignment(self.topic).duedate
        if self.until is not None and deadline:
            gradebook.update_or_create_student(student)
            gradebook.update_or_create_submission(self.topic, student, extension=self._more(student, deadline))

    def graded(self, student: str) -> str:
        """Digest of a student's graded notebook, "" if there is none."""
        return digest_of(self._place("autograded", student))

    def write(self, student: str, notebook: str, stamp: bytes | None, settled: set[str]) -> str:
        """Put one graded notebook into the gradebook; why that failed, if it did.

        settled  cells that a person graded, of which nothing has changed: they do not wait for a person again
        """
        staged = Path(self.dry or self.root, STAGED, student, self.topic, f"{NOTEBOOK}.ipynb")
        staged.parent.mkdir(parents=True, exist_ok=True)
        staged.write_text(notebook, encoding="utf-8")
        if stamp:
            staged.with_name("timestamp.txt").write_bytes(stamp)
        try:
            for _ in range(2):  # another grader may have added the student in this moment
                worked, why = course.run(replay, self.api, self.shared, self.topic, student, settled, self._extend)
                if worked:
                    break
        finally:
            shutil.rmtree(staged.parent.parent, ignore_errors=True)
        if worked:
            self.hand_on(student)
        return "" if worked else why

    def hand_on(self, student: str) -> None:
        """What nbgrader's release_feedback wants to find beside a graded notebook, and whole: it names the student's page."""
        own = self._place("submitted", student).with_name("submission_secret.txt")
        to = self._place("autograded", student).with_name(own.name)
        with contextlib.suppress(OSError):
            plain = stat.S_ISREG(own.lstat().st_mode) and own.stat().st_size < 1000
            if plain and not self.dry and digest_of(to) != digest_of(own):
                shutil.copyfile(own, to)

    def _place(self, step: str, student: str) -> Path:
        return self.root / step / student / self.topic / f"{NOTEBOOK}.ipynb"

    def clean(self) -> None:
        """Remove what a stopped run left."""
        if not self.dry:
            shutil.rmtree(self.root / STAGED, ignore_errors=True)
