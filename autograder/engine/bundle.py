"""What goes into the grading of a submission, the assignment and a seed, and what comes out."""

import hashlib
import hmac
from dataclasses import dataclass, field

from nbformat import NotebookNode

from .cell_names import key_of


@dataclass(frozen=True)
class Bundle:
    """An assignment as the engine needs it: the course's own cells, hidden tests included."""

    key: str
    cells: tuple[tuple[str, str, str, float], ...]  # (id, kind, source, points)
    helpers: tuple[str, ...] = ()  # modules of the course that its answers may use

    @property
    def checks(self) -> dict[str, float]:
        return {id: points for id, kind, _, points in self.cells if kind == "check"}

    @property
    def given(self) -> dict[str, str]:
        return {id: source for id, kind, source, _ in self.cells if kind == "given"}


def bundle(source: NotebookNode) -> Bundle:
    """What the engine needs of an instructor's notebook: locked cells, checks, and cells of the course that anyone may change."""
    cells = []
    for cell in source.cells:
        m = cell.metadata.get("nbgrader", {})
        if cell.cell_type != "code" or m.get("solution"):
            continue
        kind = "check" if m.get("grade") else "given" if m.get("locked") else "free"
        cells.append((key_of(cell), kind, cell.source, float(m.get("points", 0))))
    helpers = tuple(source.metadata.get("course", {}).get("helpers", ()))
    return Bundle(hashlib.sha256(repr((cells, helpers)).encode()).hexdigest(), tuple(cells), helpers)


def seed(secret: str, assignment: str, student: str, attempt: int) -> str:
    """What a submission's hidden values are drawn from: the same on a regrade, unknown to who has not the secret.

    The class's seed and, after a hyphen, the submission's own.
    """
    texts = f"{assignment}\0class", "\0".join((assignment, student, str(attempt)))
    return "-".join(hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest() for text in texts)


@dataclass
class Result:
    """What a submission gave."""

    outputs: dict[str, list[NotebookNode]] = field(default_factory=dict)  # cell id -> outputs as nbgrader reads them
    scores: dict[str, float] = field(default_factory=dict)  # check -> points
    notes: list[str] = field(default_factory=list)
    void: dict[str, str] = field(default_factory=dict)  # check -> why the machine gave no verdict

    def message(self, check: str) -> str:
        """All that a check printed."""
        return "".join(o.text for o in self.outputs[check] if o.output_type == "stream").strip()
