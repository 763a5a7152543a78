"""The one writer: what workers found goes through nbgrader's own converter into the gradebook.

The converter gets a notebook that was rebuilt from the release and already holds its outputs, and nothing else of a
submission; its steps that execute and clear are left out, all others are stock.
"""

import logging
import shutil
import stat
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from nbgrader import api, preprocessors as stock
from sqlalchemy import false, update
from sqlalchemy.exc import SQLAlchemyError

from autograder import course
from autograder.places import FULL, NOTEBOOK, SourceError, is_full

from .nbgrader_autograde import Shared, faster, replay
from .one_submission import digest

STAGED = ".grading/staged"


def settings(c):
    """nbgrader's settings for the writer, from those of the course."""
    from nbgrader.converters import Autograde

    c.CourseDirectory.submitted_directory = STAGED
    steps = c.Autograde.get("autograde_preprocessors") or Autograde.autograde_preprocessors.default()
    replayed = [s for s in steps if not issubclass(s, stock.Execute)]
    c.Autograde.autograde_preprocessors = [stock.OverwriteCells, *replayed]
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

    def __init__(self, root: Path, topic: str, c):
        faster()
        self.root, self.topic = root, topic
        self.db_url, self.course_id = c.CourseDirectory.db_url, c.CourseDirectory.course_id
        self.api = course.api(settings(c))
        try:
            with self.gradebook() as gradebook:
                gradebook.find_assignment(topic)
            self.must_answer()  # found out now and not after the class was run
            self.shared = Shared(self.db_url, self.course_id)
        except api.MissingEntry:
            raise SourceError(f"The gradebook does not know {topic}: run `make release` first.") from None
        except ModuleNotFoundError as e:
            raise SourceError(f"The gradebook needs {e.name}: run `make env EXTRA=postgres`.") from None
        except SQLAlchemyError as e:
            raise SourceError(trouble(e)) from None

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
        return dict(found)

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
        for student, cells in self.grades().items():
            found[student] += [(name, g.score, g.waits) for name, g in sorted(cells.items())]
        with self.gradebook() as gradebook:
            said = api.Comment.auto_comment, api.Comment.manual_comment
            rows = self._by_cell(gradebook, api.Comment, api.BaseCell, *said)
            for student, *rest in rows:
                found[student].append(tuple(map(str, rest)))
        return {student: digest(repr(sorted(map(repr, parts)))) for student, parts in found.items()}

    def penalties(self) -> dict[str, float]:
        """Student -> points that lateness costs."""
        with self.gradebook() as gradebook:
            rows = (
                gradebook.db.query(api.SubmittedAssignment.student_id, api.SubmittedNotebook.late_submission_penalty)
                .join(api.SubmittedNotebook, api.SubmittedAssignment.id == api.SubmittedNotebook.assignment_id)
                .join(api.Assignment, api.Assignment.id == api.SubmittedAssignment.assignment_id)
                .filter(api.Assignment.name == self.topic)
            )
            return {student: points for student, points in rows if points}

    def due(self) -> dict[str, str]:
        """Student -> deadline, for those who have an extension, and "" -> that of all others."""
        with self.gradebook() as gradebook:
            assignment = gradebook.find_assignment(self.topic)
            own = {s.student_id: s.extension for s in assignment.submissions if s.extension}
            return {"": str(assignment.duedate)} | {s: f"{assignment.duedate} + {e}" for s, e in own.items()}

    def has(self, student: str) -> bool:
        return self._place("autograded", student).is_file()

    def write(self, student: str, notebook: str, stamp: bytes | None, settled: set[str]) -> str:
        """Put one graded notebook into the gradebook; why that failed, if it did.

        settled  cells that a person graded, of which nothing has changed: they do not wait for a person again
        """
        staged = self._place(STAGED, student)
        staged.parent.mkdir(parents=True, exist_ok=True)
        staged.write_text(notebook, encoding="utf-8")
        if stamp:
            staged.with_name("timestamp.txt").write_bytes(stamp)
        try:
            for _ in range(2):  # another grader may have added the student in this moment
                worked, why = course.run(replay, self.api, self.shared, self.topic, student, settled)
                if worked:
                    break
        finally:
            shutil.rmtree(staged.parent.parent, ignore_errors=True)
        if worked:
            self._hand_on(student)
        return "" if worked else why

    def _hand_on(self, student: str) -> None:
        """What nbgrader's release_feedback wants to find beside a graded notebook."""
        own = self._place("submitted", student).with_name("submission_secret.txt")
        try:
            if stat.S_ISREG(own.lstat().st_mode) and own.stat().st_size < 1000:
                shutil.copyfile(own, self._place("autograded", student).with_name(own.name))
        except OSError:
            pass

    def _place(self, step: str, student: str) -> Path:
        return self.root / step / student / self.topic / f"{NOTEBOOK}.ipynb"

    def clean(self) -> None:
        """Remove what a stopped run left."""
        shutil.rmtree(self.root / STAGED, ignore_errors=True)
