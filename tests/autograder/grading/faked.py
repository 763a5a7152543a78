"""Grading that grades nothing, for tests of what carries it: what a job does is said by its student's name."""

import os
import signal
import time
from pathlib import Path

import nbformat
from nbformat.v4 import new_notebook

from autograder.engine.bundle import Bundle
from autograder.engine.sandbox import Limits
from autograder.grading.one_submission import Assignment, Graded, Job


def assignment(seconds: float = 60) -> Assignment:
    released = nbformat.writes(new_notebook())
    return Assignment("ch01_sample", released, Bundle("key", ()), "0", Limits(submission=seconds), True)


def jobs(*names: str, marks: Path | None = None) -> list[Job]:
    """Jobs by these names; `marks` is a folder where those that differ the second time leave a mark."""
    return [Job(name, name.encode(), values=str(marks)) for name in names]


def graded(assignment: Assignment, job: Job) -> Graded:
    """What a student of this name gets."""
    print("a worker prints this")
    os.write(2, b"a worker complains of this")
    kind = job.student.split("-")[0]
    mark = Path(job.values, job.student)
    again = mark.exists()
    if kind in ("once", "hangs", "loses", "slow"):
        mark.write_text(str(os.getpid()))
    if kind == "dies" or (kind == "once" and not again):
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "hangs":
        time.sleep(1000)
    elif kind == "raises":
        raise ZeroDivisionError("no way")
    elif kind == "slow":
        time.sleep(0.2)
    notes = [f"{k}={v}" for k, v in os.environ.items()] if kind == "tells" else []
    return Graded(job.student, job.data.decode()[::-1], {"a": [{"text": "é\ud800"}]}, notes, seconds=float(os.getpid()))
