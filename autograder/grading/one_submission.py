"""The work of grading one submission, as a worker does it: no database, no secret, no file of the course but the code.

assignment   what is the same for everybody: the release, the checks, the seed of the course
job          what one student sent
graded       the submission rebuilt, run and judged: the same job gives the same result, here or elsewhere
"""

import atexit
import hashlib
import os
import platform
import time
import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import metadata
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_output

from autograder.engine.bundle import Bundle, bundle
from autograder.engine.cell_names import exercise_number, key_of
from autograder.engine.cell_outputs import cleaned
from autograder.engine.plain_text import clean
from autograder.engine.run_submission import Engine
from autograder.engine.sandbox import Limits
from autograder.places import SourceError

from . import intake
from .deciding_code import deciding_files
from .rebuild import rebuild

AGAIN = "It ran once more, alone: the first time this machine gave no verdict."


@dataclass(frozen=True)
class Assignment:
    """What is the same for every submission of a run."""

    topic: str
    released: str  # the released notebook, as JSON
    bundle: Bundle
    course_seed: str
    limits: Limits
    isolated: bool  # False: told to run answers in an ordinary kernel, without walls
    timeout: int = 60  # seconds a cell, for the ordinary kernel

    @classmethod
    def of(cls, topic: str, source: Path, released: Path, isolated: bool, timeout: int) -> "Assignment":
        """An assignment as it lies in nbgrader's folders."""
        full = bundle(whole(source, topic))
        course_seed = os.environ.get("COURSE_SEED", "0")
        limits = Limits(cell=min(Limits.cell, timeout))
        whole(released, topic)
        return cls(topic, released.read_text(encoding="utf-8"), full, course_seed, limits, isolated, timeout)

    @cached_property
    def basis(self) -> dict[str, str]:
        """What every verdict depends on besides the answers and the check itself, by name: what it is, or its digest."""
        given = [c for c in self.bundle.cells if c[1] != "check"]
        packages = {name: metadata.version(name) for name in ("jax", "jaxlib", "numpy")}
        return {
            "Python": platform.python_version(),
            **packages,
            "COURSE_SEED": self.course_seed,
            "COURSE_SANDBOX": "on" if self.isolated else "off",
            "the limits": digest(repr(self.limits), str(self.timeout)),
            "cells that the course gives": digest(repr(given)),
            **deciding_files(self.bundle),
        }

    @cached_property
    def checks(self) -> dict[str, str]:
        """Check -> digest of what it is."""
        return {i: digest(source, str(points)) for i, kind, source, points in self.bundle.cells if kind == "check"}


@dataclass(frozen=True)
class Job:
    """One submission, small enough to travel."""

    student: str
    data: bytes  # of the submitted file
    why: str = ""  # why there is no such file
    values: str = ""  # what its hidden values are drawn from; none where a learner has their own work judged
    only: frozenset[str] | None = None  # checks to run; the outputs of the others are kept
    kept: dict[str, list] = field(default_factory=dict)
    note: str = ""  # why this file of several
    last: bool = False  # it runs once more, alone, because a part of it had no verdict

    def again(self, found: "Graded") -> "Job":
        """What is left to do of it: the checks without a verdict, or all."""
        if not found.void:
            return replace(self, last=True)
        kept = {cell: outputs for cell, outputs in found.outputs.items() if cell not in found.void}
        return replace(self, last=True, only=frozenset(found.void), kept=kept)


@dataclass
class Graded:
    """What a worker found."""

    student: str
    notebook: str = ""  # the rebuilt submission with all outputs, as JSON
    outputs: dict[str, list] = field(default_factory=dict)  # cell -> outputs
    notes: list[str] = field(default_factory=list)
    why: str = ""  # why it could not be graded
    fault: bool = False  # the fault is ours: it is tried again, and again in the next run
    void: dict[str, str] = field(default_factory=dict)  # check -> why it has no verdict, where all others have theirs
    seconds: float = 0.0

    @property
    def trouble(self) -> str:
        """What has no verdict and why, for who grades."""
        if not self.void:
            return self.why
        exercises = ", ".join(dict.fromkeys(exercise_number(check) or check for check in self.void))
        return f"{exercises}: {next(iter(self.void.values()))} All else is graded."


def whole(path: Path, topic: str) -> NotebookNode:
    """A notebook of ours, which a full disk or a power cut may have left in part."""
    try:
        return nbformat.read(path, as_version=4)
    except FileNotFoundError:
        raise
    except Exception:  # nbformat has many
        place = f"{path.parent.parent.name}/{topic}/{path.name}"
        raise SourceError(f"The course's own {place} is not a whole notebook: run `make release` again.") from None


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def graded(assignment: Assignment, job: Job) -> Graded:
    """Rebuild, run and judge one submission. It never raises for what a student sent."""
    began = time.monotonic()
    found = Graded(job.student, why=job.why)
    released = nbformat.reads(assignment.released, as_version=4)
    nb = released
    try:
        if not found.why:
            sent, of_file = intake.opened(job.data)
            nb, notes = rebuild(sent, released)
            found.notes = [n for n in (job.note, *of_file, *notes) if n]
    except intake.Refused as e:
        found.why = str(e)
    if not found.why:
        judged(assignment, job, nb, found)
    if found.why:
        nb, found.outputs = refused(released, found.why), {}
    found.notebook = nbformat.writes(nb, version=4)
    found.seconds = time.monotonic() - began
    return found


def judged(assignment: Assignment, job: Job, nb: NotebookNode, found: Graded | None = None) -> Graded:
    """Run and judge a rebuilt notebook, and put the outputs into it."""
    found = found or Graded(job.student)
    if job.only is not None and not job.only:
        found.outputs = dict(job.kept)
    else:
        for attempt in range(2):
            try:
                found.outputs = {**job.kept, **_outputs(assignment, job, nb, found)}
                break
            except Exception as e:
                close()
                if attempt:
                    found.why, found.fault = f"Grading failed, and not by this notebook: {_short(e)}", True
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.outputs = [nbformat.from_dict(o) for o in found.outputs.get(key_of(cell), [])]
    return found


def _short(e: Exception) -> str:
    return f"{type(e).__name__}: {str(e)[:300]}"


def _outputs(assignment: Assignment, job: Job, nb: NotebookNode, found: Graded) -> dict[str, list]:
    if not assignment.isolated:
        return _in_a_kernel(assignment, nb)
    result = engine(assignment.course_seed, assignment.limits).grade(
        assignment.bundle, nb, job.values, only=None if job.only is None else set(job.only), last=job.last
    )
    found.notes += [AGAIN] * job.last + result.notes
    found.void, found.fault = result.void, bool(result.void)
    return result.outputs


def _in_a_kernel(assignment: Assignment, nb: NotebookNode) -> dict[str, list]:
    """Stock nbgrader's way: everything in one kernel, the released checks completed by their hidden tests."""
    full = {i: source for i, kind, source, _ in assignment.bundle.cells if kind == "check"}
    copy = nbformat.from_dict(nb)
    for cell in copy.cells:
        cell.source = full.get(key_of(cell), cell.source)
    done = executed(copy, Path.cwd(), assignment.timeout)
    return {key_of(c): cleaned(c.outputs) for c in done.cells if c.cell_type == "code"}


def executed(nb: NotebookNode, where: Path, timeout: int | None = None) -> NotebookNode:
    """Run a notebook as stock nbgrader does, in a kernel that starts in the folder `where`."""
    from nbgrader.preprocessors import Execute

    from autograder import course

    c = course.config()
    if timeout:
        c.ExecutePreprocessor.timeout = timeout
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Execute(config=c).preprocess(nb, {"metadata": {"path": str(where)}})[0]


def refused(released: NotebookNode, why: str) -> NotebookNode:
    """The empty release with the reason on top, and no points for any check."""
    nb = nbformat.from_dict(released)
    for cell in nb.cells:
        cell.metadata.released = True
        if cell.metadata.get("nbgrader", {}).get("grade") and cell.cell_type == "code":
            cell.outputs = [new_output("execute_result", data={"text/plain": "0"}, execution_count=None)]
    nb.cells.insert(0, new_markdown_cell(f"**This submission could not be graded.** {clean(why)}", id="not-graded"))
    return nb


_engines: dict[str, Engine] = {}


def engine(course_seed: str, limits: Limits) -> Engine:
    """This process's engine, warm from the first submission on."""
    key = digest(course_seed, repr(limits))
    if key not in _engines:
        close()
        _engines[key] = Engine(limits, course_seed=course_seed)
    return _engines[key]


def warm(assignment: Assignment) -> None:
    """Start this process's sandboxes: what is wrong with its host should stop the run, and not cost points."""
    if assignment.isolated:
        mine = engine(assignment.course_seed, assignment.limits)
        mine.warm_zygote(assignment.bundle.helpers)
        mine.open_checker(assignment.bundle)


@atexit.register
def close() -> None:
    """End this process's sandboxes."""
    while _engines:
        _engines.popitem()[1].close()
