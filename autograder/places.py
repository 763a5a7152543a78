"""Where things lie, and the sentence-long error that everybody here raises."""

import errno
import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COURSE = Path(__file__).resolve().parent
NOTEBOOK = "exercises"  # the one notebook of every assignment


class SourceError(ValueError):
    """One sentence: what is wrong in a source, and what would be right."""


FULL = "The disk is full: what was done before is kept, so make room and run the same command again."
SAID = (
    "database or disk is full",
    *(os.strerror(e) for e in (errno.ENOSPC, errno.EDQUOT)),
)  # SQLite's words, the system's


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
    def chapters(self) -> list[Path]:
        """Sources of the reading notebooks, in order."""
        return sorted((self.root / "book").glob("ch[0-9][0-9]_*.md"))

    @property
    def exercises(self) -> list[Path]:
        """Sources of the exercises, in order."""
        return sorted((self.root / "solutions").glob("ch[0-9][0-9]_*.md"))

    @property
    def pages(self) -> list[Path]:
        """Every other page of the book: links may point to it."""
        return sorted(set((self.root / "book").rglob("*.md")) - set(self.chapters))

    @property
    def notebooks(self) -> Path:
        return self.root / "notebooks"

    def released(self, topic: str) -> Path:
        """The exercises that a learner opens, e.g. of topic `ch01_rooflines`."""
        return self.notebooks / topic / f"{NOTEBOOK}.ipynb"
