"""From the exercises' source to graded classes: release, grading, and the checks on both.

    making      from sources to notebooks              engine    sandboxes and the checker
    grading     from submissions to the gradebook      lms       Canvas, Moodle
    samples     wrong and right sample answers         own_work  a learner's own copies of the notebooks

The commands are `release`, `grade`, `grade_own`, `own_work` and `edition`; `places` and `course` say where things lie.
nbgrader's course root is this folder. Tests: tests/autograder.
"""

import os
import sys
import traceback
from pathlib import Path

COURSE = f"{Path(__file__).resolve().parents[1]}{os.sep}"


def broken_package(error: BaseException) -> str:
    """A sentence, if an error arose while a package that is not the course's was imported; "" for all others."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [i for i, f in enumerate(frames) if f.filename.startswith(COURSE) and "site-packages" not in f.filename]
    theirs = frames[ours[-1] + 1 :] if ours else []
    if isinstance(error, ModuleNotFoundError) and not theirs:
        reason = str(error)
    elif "<module>" not in [f.name for f in theirs]:
        return ""
    elif isinstance(error, SyntaxError):
        reason = f"{error.filename}, line {error.lineno}: {error.msg}"
    else:
        reason = f"{theirs[-1].filename}, line {theirs[-1].lineno}: {type(error).__name__}: {error}"
    return (
        f"A package that the course needs cannot be imported here: {reason.rstrip('.')}."
        " Run `make env`, which installs those that fit, and leave packages of other folders out."
    )


def _report(kind, error, trace) -> None:
    sentence = broken_package(error) if isinstance(error, Exception) else ""
    print(sentence, file=sys.stderr) if sentence else sys.__excepthook__(kind, error, trace)


if sys.argv[:1] == ["-m"]:  # so it is while Python looks for the command that it is to run
    sys.excepthook = _report
