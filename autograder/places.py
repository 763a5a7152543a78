"""Where things lie, and the sentence-long error that everybody here raises."""

import errno
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from helpers.study_time import chapter_of as topic_of, notebook_of as reading_of  # noqa: F401  (asked for here)

ROOT = Path(__file__).resolve().parent.parent
COURSE = Path(__file__).resolve().parent
NOTEBOOK = "exercises"  # the one notebook of every assignment
MARK = ".edition.yml"  # what an edition of the course was made from


class SourceError(ValueError):
    """One sentence: what is wrong in a source, and what would be right."""


def is_reading(name: str) -> bool:
    """Whether a notebook is one to read.

    >>> [is_reading(name) for name in ("reading.ipynb", "further_systolic.ipynb", "exercises.ipynb")]
    [True, True, False]
    """
    return re.fullmatch(r"(?:reading|further_\w+)\.ipynb", name) is not None


FULL = "The disk is full: what was done before is kept, so make room and run the same command again."
SAID = "database or disk is full", os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT)  # SQLite's words, the system's


def is_full(said: object) -> bool:
    """Whether an error, or what a log says of it, is that of a disk without room.

    >>> is_full(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))), is_full("disk I/O error")
    (True, False)
    """
    return any(words in str(said) for words in SAID)


@dataclass(frozen=True)
class Tree:
    """A checkout of the course: sources are read from it, notebooks are written into it."""

    root: Path = ROOT

    @property
    def readings(self) -> list[Path]:
        """Sources of the reading notebooks, in order: each chapter's core, and behind it its pages further down."""
        return sorted((self.root / "book").glob("ch[0-9][0-9]_*.md"))

    @property
    def chapters(self) -> list[Path]:
        """Sources of the chapters' cores, in order."""
        return [path for path in self.readings if topic_of(path.stem) == path.stem]

    @property
    def exercises(self) -> list[Path]:
        """Sources of the exercises, in order."""
        return sorted((self.root / "solutions").glob("ch[0-9][0-9]_*.md"))

    @property
    def pages(self) -> list[Path]:
        """Every other page of the book: links may point to it."""
        return sorted(set((self.root / "book").rglob("*.md")) - set(self.readings))

    @cached_property
    def edition(self) -> dict:
        """What was chosen for this edition of the course; nothing in the course itself."""
        path = self.root / MARK
        import yaml  # a fifth of a second, which a start of JupyterLab does without

        return yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}

    @property
    def notebooks(self) -> Path:
        return self.root / "notebooks"

    def released(self, topic: str) -> Path:
        """The exercises that a learner opens, e.g. of topic `ch01_rooflines`."""
        return self.notebooks / topic / f"{NOTEBOOK}.ipynb"
