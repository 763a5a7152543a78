"""Grade what lies in submitted/: `python -m autograder.grade ch01_rooflines`.

Every submission is graded by nbgrader in a process of its own with a limit, so that none stops the others.
One that cannot be graded has zero points, with the reason in its feedback and on the screen.
"""

import argparse
import contextlib
import multiprocessing
import os
import re
import shutil
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import psutil
from nbformat.v4 import new_markdown_cell
from tqdm import tqdm

from . import course
from .places import COURSE, NOTEBOOK, SourceError
from .preprocessors import refusal
from .rebuild import rebuild
from .trial import exercise_of

LIMIT = 900  # seconds for one submission, whatever it does
WORKERS = min(4, os.cpu_count() or 1)  # submissions at a time, each in a process of its own


NAME = re.compile(r"[\w.@+-][\w.@+ -]*")
"""A student's id: letters of any language, digits, and . @ + - space."""


@dataclass
class Result:
    """One row of the table."""

    student: str
    scores: dict[str, tuple[float, float]] = field(default_factory=dict)  # exercise -> (points, of so many)
    open: set[str] = field(default_factory=set)  # exercises that a person still has to grade
    why: str = ""  # why it could not be graded
    notes: list[str] = field(default_factory=list)

    @property
    def total(self) -> float:
        return sum(got for got, _ in self.scores.values())


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
        return sorted(s for s in self._folders() if NAME.fullmatch(s))

    @property
    def strangers(self) -> list[str]:
        """Folders whose names no gradebook should hold."""
        return sorted(ascii(s) for s in self._folders() if not NAME.fullmatch(s))

    def _folders(self) -> list[str]:
        return [p.parent.name for p in (self.root / "submitted").glob(f"*/{self.topic}")]

    def config(self):
        c = course.config(self.scratch)
        if self.timeout:
            c.ExecutePreprocessor.timeout = self.timeout
        return c

    def notebook(self, step: str, student: str = ".") -> Path:
        return self.root / step / student / self.topic / f"{NOTEBOOK}.ipynb"

    def gradebook(self):
        from nbgrader.api import Gradebook

        c = self.config().CourseDirectory
        return Gradebook(c.db_url, c.course_id)


def grade(what: Class, limit: float = LIMIT) -> list[Result]:
    """Grade every submission, write feedback, grades.csv and canvas.csv, and return a row for each student."""
    if not what.notebook("release").is_file():
        raise SourceError(f"{what.topic} has not been released: run `make release` first.")
    if not what.students:
        raise SourceError(f"No submission of {what.topic} lies in {what.root.name}/submitted.")
    why = {}
    with (
        ThreadPoolExecutor(WORKERS) as pool,
        tqdm(total=len(what.students), desc="grading", unit="notebook", leave=False) as bar,
    ):
        jobs = {pool.submit(autograde, what, s, limit): s for s in what.students}
        try:
            for job in as_completed(jobs):
                fault = job.exception()
                why[jobs[job]] = f"{type(fault).__name__}: {fault}" if fault else job.result()
                bar.update()
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    with what.gradebook() as gradebook:
        for student in filter(why.get, why):
            record_zero(what, gradebook, student, why[student])
        results = [row(what, gradebook, student, why[student]) for student in what.students]
    write_feedback(what)
    return results


def autograde(what: Class, student: str, limit: float = LIMIT) -> str:
    """Grade one submission in a process of its own; the reason if that failed, else ""."""
    if bad := refusal(what.notebook("submitted", student)):
        return bad
    context = multiprocessing.get_context("forkserver" if sys.platform != "win32" else "spawn")
    context.set_forkserver_preload(["nbgrader.apps", "autograder.preprocessors"])
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_autograde, args=(what, student, there))
    child.start()
    there.close()
    try:
        if here.poll(limit):
            return here.recv()
        return f"Grading took longer than {limit:g} s and was stopped."
    except EOFError:
        return "The process that graded it died."
    finally:
        stop(child)


def _autograde(what: Class, student: str, pipe) -> None:
    """The child's part of `autograde`: what it and its kernel print goes nowhere, its verdict into the pipe."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    try:
        worked, why = course.run(course.api(what.config()).autograde, what.topic, student)
        pipe.send("" if worked else why)
    except BaseException as error:
        pipe.send(f"{type(error).__name__}: {error}")


def stop(child) -> None:
    """End a process and all that it started."""
    child.join(5)
    if child.is_alive():
        found = psutil.Process(child.pid)
        for process in [*found.children(recursive=True), found]:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                pass
        child.join()


def record_zero(what: Class, gradebook, student: str, why: str) -> None:
    """A row of zeros in the gradebook, and the empty release with the reason on top where the graded notebook would be."""
    gradebook.update_or_create_student(student)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nbgrader's use of SQLAlchemy
        submission = gradebook.update_or_create_submission(what.topic, student)
    for notebook in submission.notebooks:
        for one in notebook.grades:
            one.auto_score, one.needs_manual_grade = 0, False  # what a person gave stays
    gradebook.db.commit()
    nb = nbformat.read(what.notebook("release"), as_version=4)
    for cell in nb.cells:
        cell.metadata.released = True
    nb.cells.insert(0, new_markdown_cell(f"**This submission could not be graded.** {why}", id="not-graded"))
    to = what.notebook("autograded", student)
    shutil.rmtree(to.parent, ignore_errors=True)
    to.parent.mkdir(parents=True)
    nbformat.write(nb, to)
    for name in ("timestamp.txt", "submission_secret.txt"):  # nbgrader's release_feedback wants them
        if (own := what.notebook("submitted", student).with_name(name)).is_file() and not own.is_symlink():
            shutil.copyfile(own, to.with_name(name))


def row(what: Class, gradebook, student: str, why: str) -> Result:
    """What the gradebook says of a student."""
    result = Result(student, why=why, notes=[] if why else notes(what, student))
    for notebook in gradebook.find_submission(what.topic, student).notebooks:
        for one in notebook.grades:
            exercise = exercise_of(one.name)
            got, most = result.scores.get(exercise, (0.0, 0.0))
            result.scores[exercise] = (got + (one.score or 0), most + one.max_score)
            if one.needs_manual_grade:
                result.open.add(exercise)
    result.scores = dict(sorted(result.scores.items()))
    return result


def notes(what: Class, student: str) -> list[str]:
    """What was put right in a submission, and where it was stopped."""
    submitted, released = (
        nbformat.read(what.notebook(*at), as_version=4) for at in (("submitted", student), ("release",))
    )
    found = rebuild(submitted, released)[1]
    for cell in nbformat.read(what.notebook("autograded", student), as_version=4).cells:
        if any(o.output_type == "error" and o.ename == "CellTimeoutError" for o in cell.get("outputs", [])):
            name = cell.metadata.get("nbgrader", {}).get("grade_id", cell.id)
            found.append(f"The cell {name} did not end in time and was stopped.")
    return found


def write_feedback(what: Class) -> None:
    """feedback/ for every student, grades.csv, and canvas.csv."""
    from nbgrader.plugins import CsvExportPlugin

    from .canvas import Canvas

    worked, why = course.run(course.api(what.config()).generate_feedback, what.topic, force=True)
    if not worked:
        print(f"Feedback could not be written: {why}", file=sys.stderr)
    for page in (what.root / "feedback").glob(f"*/{what.topic}/*"):
        if page.is_symlink() or page.name not in (f"{NOTEBOOK}.html", "timestamp.txt", "submission_secret.txt"):
            page.unlink() if page.is_symlink() or page.is_file() else shutil.rmtree(
                page
            )  # a student's file is no feedback
    with what.gradebook() as gradebook:
        CsvExportPlugin(to=str(what.root / "grades.csv"), assignment=[what.topic]).export(gradebook)
        Canvas(to=str(what.root / "canvas.csv"), assignment=[what.topic]).export(gradebook)


@contextlib.contextmanager
def alone(what: Class):
    """One grading at a time: two would tread on each other's folders."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    with open(what.root / ".grading", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SourceError("Another grading is under way in this course: wait for it, or stop it first.") from None
        yield


def table(results: list[Result], who: str = "student") -> str:
    """Students by exercises with totals; `?` marks what a person still has to grade."""
    exercises = sorted({e for r in results for e in r.scores})
    most = {e: m for r in results for e, (_, m) in r.scores.items()}
    wide = max([len(who), *(len(r.student) for r in results)])
    names = [e.split("-q")[-1] for e in exercises]

    def line(first: str, parts: list[str], total: str) -> str:
        return f"{first:<{wide}}  " + " ".join(f"{p:>4}" for p in parts) + f"  {total:>6}"

    lines = [line(who, names, "total"), line("points", [f"{most[e]:g}" for e in exercises], f"{sum(most.values()):g}")]
    for r in results:
        parts = ["?" if e in r.open else f"{r.scores.get(e, (0, 0))[0]:g}" for e in exercises]
        lines.append(line(r.student, parts, f"{r.total:g}") + (" *" if r.why else ""))
    if any(r.why for r in results):
        lines += ["", "* could not be graded:"] + [f"  {r.student}: {r.why}" for r in results if r.why]
    if any(r.notes for r in results):
        lines += ["", "put right, or stopped:"] + [f"  {r.student}: {n}" for r in results for n in r.notes]
    if any(r.open for r in results):
        lines += ["", "? waits for a person, in the Formgrader."]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m autograder.grade", description=__doc__.split("\n")[0])
    parser.add_argument("assignment", help="for example ch01_rooflines")
    what = Class(parser.parse_args(argv).assignment)
    try:
        with alone(what):
            results = grade(what)
    except SourceError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. What was graded is kept; run the same command again.", file=sys.stderr)
        return 130
    for name in what.strangers:
        print(f"Not graded: the folder {name}; a student's id has letters, digits and . @ + - only.")
    print(table(results))
    print(
        "\nFeedback pages lie in autograder/feedback, the grades in autograder/grades.csv and, for Canvas, in autograder/canvas.csv."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
