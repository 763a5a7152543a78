"""The course as nbgrader sees it, at its own place or in a scratch copy."""

import contextlib
import logging
import os
import re
import warnings
from pathlib import Path

from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from .places import COURSE, SourceError


def misread(path: str) -> str:
    """What of a path nbgrader would take for something else; "" if nothing.

    It looks for notebooks by patterns, gives the gradebook's path to SQLAlchemy as a URL, and reads variables into paths.

    >>> misread("/srv/Meine Kurse ü, it's #1"), misread("/srv/Course [2026]"), misread("/srv/$HOME")
    ('', '[', '$HOME')
    """
    found = re.search(r"[\[?]|\$\w+|\$\{\w+\}", path)
    return found[0] if found else ""


def config(scratch: Path | None = None, database: bool = True) -> Config:
    """nbgrader's settings; with `scratch`, all folders and the gradebook lie there and nowhere else.

    database  False: releasing needs no gradebook
    """
    if sign := misread(str(COURSE)):
        raise SourceError(f"nbgrader cannot work in a folder whose path has {sign!r}: move {COURSE.parent} to another.")
    with contextlib.suppress(KeyError):
        c = PyFileConfigLoader("nbgrader_config.py", path=str(COURSE)).load_config()
    if scratch is not None:
        c.CourseDirectory.root = str(scratch)
        c.CourseDirectory.db_url = f"sqlite:///{scratch / 'gradebook.db'}"
        c.Exchange.root = str(scratch / "exchange")
        c.Exchange.cache = str(scratch / "exchange" / "cache")
        c.Exchange.assignment_dir = str(scratch / "work")
        for folder in (scratch / "exchange", scratch / "work"):
            folder.mkdir(parents=True, exist_ok=True)
    if not database:
        c.SaveCells.enabled = False
        c.GenerateAssignment.no_database = True
    return c


def api(c: Config):
    """nbgrader's own interface under these settings, quiet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from nbgrader.apps import NbGraderAPI

        made = NbGraderAPI(config=c)
    made.log.setLevel(logging.WARNING)
    made.log.propagate = False
    return made


def run(step, *args, **kwargs) -> tuple[bool, str]:
    """Call one of the interface's steps; whether it worked, and the last thing that its log says."""
    cwd = os.getcwd()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = step(*args, **kwargs)
    finally:
        os.chdir(cwd)
    return result["success"], "" if result["success"] else reason(result)


SAYINGS = {
    "CellTimeoutError": "A cell did not end in time and could not be interrupted.",
    "UnresponsiveKernelError": "A cell did not end in time and could not be interrupted.",
    "DeadKernelError": "The kernel died while a cell ran.",
    "MemoryError": "It takes too much memory.",
}


def reason(result: dict) -> str:
    """The sentence in a failed step's log that says most."""
    log = re.sub(r"\x1b\[[0-9;]*m", "", result.get("log", "")) + "\n" + result.get("error", "")
    raised = re.findall(r"^\s*(?:\w+\.)*(\w+(?:Error|Exception|Exit|Interrupt))(?:: (.+))?$", log, re.M)
    known = [SAYINGS[name] for name, _ in raised if name in SAYINGS]
    said = re.findall(r"^\[(?:ERROR|CRITICAL)[^\]]*\] (.+)$", log, re.M)
    return ([*known, *(text for _, text in raised if text), *said, "nbgrader gave no reason."])[0]
