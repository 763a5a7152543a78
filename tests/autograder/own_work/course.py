"""Releases of real chapters that differ as those of a course in use do, and a learner who works in copies of them."""

import json
import re
from copy import deepcopy
from dataclasses import dataclass, field

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from nbgrader.preprocessors import ClearHiddenTests, ClearSolutions, ComputeChecksums, LockCells

from autograder.grading.rebuild import rebuild
from autograder.making import cells, in_process_grading
from autograder.making.exercises import HEADING, meta
from autograder.own_work.copies import Work
from autograder.own_work.start import update
from autograder.places import Tree


def released(solved: NotebookNode) -> NotebookNode:
    """What learners get of a source notebook."""
    nb = deepcopy(solved)
    for step in (LockCells(), ClearSolutions(), ClearHiddenTests(), ComputeChecksums()):
        nb, _ = step.preprocess(nb, {})
    return cells.normal(nb)


def blocks(nb: NotebookNode) -> dict[str, list[NotebookNode]]:
    """Title of an exercise -> its cells; "" has those above the first."""
    found, title = {"": []}, ""
    for cell in nb.cells:
        if cell.cell_type == "markdown" and (heading := HEADING.search(cell.source)):
            title = heading[3]
            found[title] = []
        found[title].append(cell)
    return found


def joined(parts: dict[str, list[NotebookNode]]) -> list[NotebookNode]:
    return [cell for part in parts.values() for cell in part]


def answer(nb: NotebookNode, title: str) -> NotebookNode:
    """The cell for the first answer to an exercise."""
    return next(c for c in blocks(nb)[title] if meta(c).get("solution"))


def shifted(nb: NotebookNode, first: int, by: int = 1) -> NotebookNode:
    """A source in which all exercises from number `first` on have moved on, as if others stood before them."""
    nb = deepcopy(nb)

    def moved(m: re.Match) -> str:
        number = int(m[2])
        width = len(m[2]) if m[2].startswith("0") or len(m[2]) > 1 else 0
        return f"{m[1]}{number + by if number >= first else number:0{width}}{m[3]}"

    def text(source: str) -> str:
        for pattern in (
            r"(\bch\d\d-q)(\d\d)()",
            r"(\bch\d\d_q)(\d\d)()",
            r"(Exercise \d\.)(\d+)( —)",
            r'(report\("\d\.)(\d+)(")',
        ):
            source = re.sub(pattern, moved, source)
        return re.sub(r"(exercise-\d-)(\d+)(-)", moved, source)

    for cell in nb.cells:
        cell.source, cell.id = text(cell.source), text(cell.id)
        if meta(cell):
            cell.metadata.nbgrader.grade_id = text(meta(cell)["grade_id"])
    return nb


@dataclass
class Learner:
    """Somebody at work in the copies: what was typed, by chapter, and where it belongs."""

    tree: Tree
    answers: dict[tuple[str, str], str] = field(default_factory=dict)  # (chapter, title) -> text
    own: list[tuple[str, str]] = field(default_factory=list)  # (notebook, text)

    def path(self, name: str):
        return self.tree.root / "work" / name

    def open(self, name: str) -> NotebookNode:
        return nbformat.read(self.path(name), as_version=4)

    def save(self, name: str, nb: NotebookNode) -> None:
        """As JupyterLab saves it."""
        nb.metadata.language_info = {"name": "python", "version": "3.12.3", "file_extension": ".py"}
        nbformat.write(nb, self.path(name))

    def answers_it(self, chapter: str, title: str, text: str) -> None:
        name = f"{chapter}/exercises.ipynb"
        nb = self.open(name)
        cell = answer(nb, title)
        cell.source = text
        if cell.cell_type == "code":
            cell.execution_count, cell.outputs = 7, [new_output("stream", text=f"ran {title}\n")]
        self.save(name, nb)
        self.answers[chapter, title] = text

    def adds(self, name: str, behind: int, text: str, code: bool = True) -> None:
        nb = self.open(name)
        nb.cells.insert(behind + 1, (new_code_cell if code else new_markdown_cell)(text))
        self.save(name, nb)
        self.own.append((name, text))

    def restarts(self) -> list[str]:
        """What `make lab` does first; what it says."""
        work = Work(self.tree)
        update(work)
        return work.said

    def lost(self) -> list[str]:
        """What was typed and is nowhere in the notebook that it was typed into."""
        typed = [(f"{chapter}/exercises.ipynb", text) for (chapter, _), text in self.answers.items()] + self.own
        return [text for name, text in typed if not any(c.source == text for c in self.open(name).cells)]

    def score(self, chapter: str, solved: NotebookNode) -> dict[str, tuple[float, float]]:
        """grade_id of a check -> points and most points, of the answers as the grader finds them in the copy."""
        nb, _ = rebuild(
            json.loads(self.path(f"{chapter}/exercises.ipynb").read_text()), in_process_grading.blank(solved)
        )
        titles = {t for c, t in self.answers if c == chapter} & blocks(solved).keys()
        checks = [meta(c)["grade_id"] for t in titles for c in blocks(solved)[t] if meta(c).get("grade")]
        found = in_process_grading.judge(nb, *checks)
        return {k: (found[k].score, found[k].points) for k in checks if k in found}
