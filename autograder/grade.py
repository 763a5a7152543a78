"""Grade what lies in submitted/: `python -m autograder.grade ch01_rooflines`.

Answers run in sandboxes, checks apart from them; a submission that breaks stops no other.
Stop it at any moment and start it again: it goes on where it was, and scores given by hand stay.

COURSE_SEED     what checks draw from where there is no secret (default 0)
COURSE_SECRET   hidden values are drawn from it, 32 characters or more (default: a private file of yours, made on first use)
COURSE_DB_URL   the gradebook (default: SQLite in autograder/)
COURSE_WORKERS  how many at a time (default: as many as there are cores, up to 4)
COURSE_SANDBOX  "off": run answers without walls, so that they can read and change all that you can
"""

import argparse
import contextlib
import functools
import os
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from tqdm import tqdm

from autograder.engine.host import UNSAFE
from autograder.engine.sandbox import available
from autograder.grading.feedback_pages import write_feedback
from autograder.grading.hidden_values import secret
from autograder.grading.jobs import pool
from autograder.grading.one_submission import Assignment
from autograder.grading.records import Decides, Record, Records, Sent
from autograder.grading.what_changed import Changes, points
from autograder.lms.exports import export
from autograder.making.in_process_grading import exercise_of

from . import course
from .grading import accepted, extensions, intake, records, which_notebook
from .grading.class_summary import Result, absent, by_exercise, complaints, number_of, plain, table, titles, wrapped
from .places import COURSE, FULL, NOTEBOOK, SourceError, is_full

NAME = re.compile(r"[\w.@+-](?:[\w.@+ -]*[\w.@+-])?")
"""A student's id: letters of any language, digits, and . @ + - with spaces between."""


@dataclass(frozen=True)
class Class:
    """An assignment of the course, or of a scratch copy of it."""

    topic: str
    scratch: Path | None = None
    timeout: int | None = None  # seconds a cell, if not the settings'

    @property
    def root(self) -> Path:
        return self.scratch or COURSE

    @property
    def students(self) -> list[str]:
        return sorted(s for s in self._folders() if self.fit(s))

    @property
    def strangers(self) -> list[str]:
        """Folders whose names no gradebook should hold."""
        return sorted(ascii(s) for s in self._folders() if not self.fit(s))

    @staticmethod
    def fit(name: str) -> bool:
        """Whether a student may have this id."""
        return bool(NAME.fullmatch(name)) and name not in (".", "..") and len(name) <= 128

    def _folders(self) -> list[str]:
        return [p.parent.name for p in (self.root / "submitted").glob(f"*/{self.topic}")]

    def config(self):
        c = course.config(self.scratch)
        if self.timeout:
            c.ExecutePreprocessor.timeout = self.timeout
        return c

    def gradebook(self):
        """nbgrader's gradebook, to be closed."""
        from nbgrader.api import Gradebook

        c = self.config().CourseDirectory
        return Gradebook(c.db_url, c.course_id)

    def notebook(self, step: str, student: str = ".") -> Path:
        return self.root / step / student / self.topic / f"{NOTEBOOK}.ipynb"

    def page(self, student: str) -> Path:
        return self.notebook("feedback", student).with_suffix(".html")

    def assignment(self) -> Assignment:
        known = sorted(p.parent.name for p in (self.root / "release").glob(f"*/{NOTEBOOK}.ipynb"))
        if self.topic not in known or not self.notebook("source").is_file():
            there = f"there are {', '.join(known)}" if known else "none is released"
            raise SourceError(f'No assignment "{plain(self.topic)}" is released ({there}): run `make release` first.')
        timeout = int(self.config().ExecutePreprocessor.timeout)
        return Assignment.of(self.topic, self.notebook("source"), self.notebook("release"), isolated(), timeout)

    def sent(self, student: str) -> Sent:
        """What a student handed in, read without trust."""
        folder = self.notebook("submitted", student).parent
        try:
            data, note = which_notebook.taken(folder, self.notebook("release"))
            return Sent(student, data, "", intake.timestamp(folder), note)
        except intake.Refused as e:
            return Sent(student, b"", str(e), intake.timestamp(folder))


def isolated() -> bool:
    """Whether answers run inside walls, after saying which; an error if there are none and nobody said that none are wanted."""
    if os.environ.get("COURSE_SANDBOX") == "off":
        print(f"No walls: {UNSAFE}", file=sys.stderr)
        return False
    if why := available().refused:
        raise SourceError(why)
    print(available().walls, file=sys.stderr)
    return True


@dataclass
class Run:
    """One grading on its way."""

    what: Class
    decides: Decides
    known: Records
    writer: object
    changes: Changes = field(default_factory=Changes)
    open: dict[str, tuple[Record, bytes | None]] = field(default_factory=dict)  # jobs that workers have
    faults: dict[str, str] = field(default_factory=dict)
    news: dict[str, tuple[dict, float]] = field(default_factory=dict)  # points and penalties that were not said before

    def jobs(self, bar: tqdm):
        """What has to be done, read while it is being done: the class is never in memory at once."""
        grades, late, due = self.writer.grades(), self.writer.penalties(), self.writer.penalties_due()
        for student in self.what.students:
            sent, known = self.what.sent(student), self.known.load(student)
            why = records.reasons(self.decides, sent, known) or self._lost(known, student in grades)
            if not why and not abs(late.get(student, 0.0) - due.get(student, 0.0)) < 1e-9:  # also if it is no number
                why = ["points that lateness costs"]
            if not why:
                self.writer.hand_on(student)
                bar.update()
                continue
            self.changes.why[student] = why
            job, record = records.job(self.decides, sent, known)
            self.open[student] = record, sent.stamp
            yield job

    def _lost(self, known: Record, in_gradebook: bool) -> list[str]:
        """What is not there, or not whole, of all that was written for a submission."""
        if not (known.written and in_gradebook):
            return ["not in the gradebook"]
        graded = self.writer.graded(known.student)
        if graded == known.graded:
            return []
        return ["the graded notebook is not as it was written" if graded else "the graded notebook is gone"]

    def take(self, found) -> None:
        """Keep what a worker found, then put it into the gradebook."""
        record, stamp = self.open.pop(found.student)
        try:
            record = records.filled(record, found, self.known.load(found.student))
            self.known.save(record)
            if found.fault:
                self.faults[found.student] = found.trouble
            if why := self.writer.write(found.student, found.notebook, stamp, self._settled(record)):
                if is_full(why):
                    raise SourceError(FULL)
                self.writer.must_answer()
                self.faults[found.student] = f"The gradebook did not take it: {why}"
                return
            record.written, record.changed, record.graded = True, [], self.writer.graded(found.student)
            self.known.save(record)
        except SourceError:
            raise
        except Exception as e:  # one submission, whatever it holds, stops no other
            if is_full(e):
                raise SourceError(FULL) from None  # what is graded now would be lost, and graded again
            self.writer.must_answer()  # a gradebook that is gone takes none of the others either
            self.faults[found.student] = f"Its result could not be kept: {type(e).__name__}: {e}"

    def told(self) -> None:
        """What had changed has been said: also a grading that is stopped before it says so leaves it to be said."""
        for student, (now, late) in self.news.items():
            record = self.known.load(student)
            record.told, record.told_late = now, late
            self.known.save(record)

    def _settled(self, now: Record) -> set[str]:
        """Cells graded by hand that may stay so: the same work, and the same verdict."""
        if now.changed == [""]:
            return set()
        grades = self.writer.grades(now.student).get(now.student, {})
        return {i for i, g in grades.items() if g.manual is not None and not g.waits and i not in now.changed}


def grade(
    what: Class,
    workers: str | None = None,
    progress: bool = True,
    show: Callable[[list[Result], Changes], None] = lambda *_: None,
    dry: bool = False,
    again: str = "",
) -> list[Result]:
    """Grade every submission that has not been, write exports and feedback, and return a row for each student.

    show   gets the rows, and what they changed, before the feedback pages are written, which take a while
    dry    only find out what would be; nothing is written
    again  an exercise that is judged anew for everybody who misses points in it
    """
    with tempfile.TemporaryDirectory(prefix="grading-dry-") if dry else contextlib.nullcontext() as scratch:
        return _grade(what, workers, progress, show, scratch, again)


def _grade(
    what: Class, workers: str | None, progress: bool, show: Callable, scratch: str | None, again: str
) -> list[Result]:
    """scratch: where all is written, if nothing is"""
    from autograder.grading.gradebook_writer import Writer

    assignment, dry = what.assignment(), scratch is not None
    if not what.students:
        raise SourceError(f"No submission of {what.topic} lies in {what.root.name}/submitted.")
    decides = Decides(assignment, secret(), checks_of(assignment, again))
    writer = Writer(what.root, what.topic, what.config(), scratch)
    writer.clean()
    run = Run(what, decides, Records(what.root / ".grading" / what.topic, dry), writer)
    where = workers or os.environ.get("COURSE_WORKERS") or ""
    with pool(assignment, where) as grading:
        with tqdm(total=len(what.students), desc="grading", unit="notebook", leave=False, disable=not progress) as bar:
            for found in grading.run(run.jobs(bar)):
                run.take(found)
                bar.update()
    run.changes.accepted = accepted.give(run)
    if not dry:
        export(what)
    found = results(run)
    show(found, run.changes)
    if not dry:
        run.told()
        write_feedback(run, progress)
    return found


def checks_of(assignment: Assignment, exercise: str) -> frozenset[str]:
    """The checks of an exercise, given as the learner knows it."""
    found = frozenset(c for c in assignment.checks if number_of(exercise_of(c)) == exercise)
    if exercise and not found:
        known = ", ".join(dict.fromkeys(number_of(exercise_of(c)) for c in assignment.checks))
        raise SourceError(f'{assignment.topic} has no check of an exercise "{plain(exercise)}"; it has {known}.')
    return found


def results(run: Run) -> list[Result]:
    """A row for each student, as the gradebook has it."""
    grades, late, names = run.writer.grades(), run.writer.penalties(), {}
    found = []
    for student in run.what.students:
        record = run.known.load(student)
        why = run.faults.get(student) or (record.why if record else "It was not graded.")
        row = Result(student, why=why, notes=record.notes if record and not why else [])
        for cell, one in sorted(grades.get(student, {}).items()):
            exercise = names.setdefault(cell, exercise_of(cell))
            got, most = row.scores.get(exercise, (0.0, 0.0))
            row.scores[exercise] = (got + one.score, most + one.most)
            if one.waits:
                row.open.add(exercise)
            if record and (one.auto or 0) < one.most:
                unanswered = cell not in record.outputs and one.auto == 0  # a written answer that is not there
                said = ["not done yet."] if unanswered else complaints(record.outputs.get(cell, []))
                row.said.setdefault(exercise, []).extend(said)
        row.late, row.fault = late.get(student, 0.0), student in run.faults
        if record and run.changes.add(record, grades.get(student, {}), row.late):
            run.news[student] = points(grades.get(student, {})), row.late
        found.append(row)
    return found


def missing(what: Class) -> list[str]:
    """The students of the gradebook who have not handed in, neither here nor with another grader."""
    with what.gradebook() as gradebook:
        graded = {one.student_id for one in gradebook.assignment_submissions(what.topic)}
        return sorted({s.id for s in gradebook.students} - graded - set(what.students))


@contextlib.contextmanager
def alone(what: Class):
    """One grading at a time: two would tread on each other's folders."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    folder = what.root / ".grading"
    try:
        folder.mkdir(exist_ok=True)
        (folder / "lock").touch()
    except OSError as e:
        raise SourceError(f"The course's folder {what.root} cannot be written: {e.strerror}.") from None
    with open(folder / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SourceError("Another grading is under way in this course: wait for it, or stop it first.") from None
        yield


def print_results(what: Class, found: list[Result], changes: Changes | None = None) -> None:
    """The class for a terminal: students by exercises, what each exercise went like, and what has changed."""
    for name in what.strangers:
        print(f"Not graded: the folder {name}; a student's id has letters, digits and _ . @ + - with spaces between.")
    print(table(found))
    print()
    print(by_exercise(found, titles(nbformat.read(what.notebook("release"), as_version=4))))
    for line in extensions.lines(extensions.until(what.root, what.topic), what.students, gone := missing(what)):
        print(f"\n{wrapped(line, 0)}")
    if said := absent(gone):
        print(f"\n{said}")
    if changes and (lines := changes.lines()):
        print("", *lines, sep="\n")
    sys.stdout.flush()


def print_changes(found: list[Result], changes: Changes) -> None:
    """What a grading would change."""
    if lines := changes.lines(new=True):
        print(*lines, "Nothing is written: without DRY=1 this is done.", sep="\n")
    else:
        print("Nothing would be graded again.")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m autograder.grade", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("assignment", help="for example ch01_rooflines")
    parser.add_argument("--dry", action="store_true", help="only say what would be graded again, and what would change")
    parser.add_argument("--again", default="", metavar="4.30", help="judge it anew for whoever misses points in it")
    options = parser.parse_args(argv)
    what, dry = Class(options.assignment), options.dry
    sys.stdout.reconfigure(errors="replace")  # names, on a terminal that is not UTF-8
    from nbgrader.api import InvalidEntry  # what nbgrader makes of an error of the database
    from sqlalchemy.exc import SQLAlchemyError

    from autograder.grading.gradebook_writer import trouble

    try:
        with alone(what):
            show = print_changes if dry else functools.partial(print_results, what)
            found = grade(what, show=show, dry=dry, again=options.again)
    except SourceError as error:
        print(error, file=sys.stderr)
        return 1
    except (SQLAlchemyError, InvalidEntry) as error:
        print(trouble(error), file=sys.stderr)
        return 1
    except OSError as error:  # a folder that cannot be written
        kept = f"Grading stopped: {error}. What was graded is kept; run the same command again."
        print(FULL if is_full(error) else kept, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. What was graded is kept; run the same command again.", file=sys.stderr)
        return 130
    if not dry:
        print("\nFeedback pages lie in autograder/feedback, grades in autograder/grades.csv, canvas.csv, moodle.csv.")
    if lost := sum(r.fault for r in found):
        print(f"{lost} of them could not be graded, by no fault of theirs: run this command again.", file=sys.stderr)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
