"""Where things lie, and the sentence-long error that everybody here raises."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COURSE = Path(__file__).resolve().parent
NOTEBOOK = "exercises"  # the one notebook of every assignment


class SourceError(ValueError):
    """One sentence: what is wrong in a source, and what would be right."""


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
