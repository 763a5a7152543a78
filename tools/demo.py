"""A sample class, made, graded and shown, in a scratch copy: `python -m tools.demo [ch01_rooflines]`."""

import argparse
import os
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from autograder import course, grade, release
from autograder.making import bank, cells, in_process_grading
from autograder.making.exercises import meta
from autograder.places import NOTEBOOK, ROOT, SourceError, Tree

TIMEOUT = 20  # seconds a cell: the honest ones need much less


def sample_class(topic: str, tree: Tree, folder: Path) -> dict[str, NotebookNode | str]:
    """Student -> notebook (or the text of a file that is none), made from the released notebook.

    folder  where wrong/ and right/ lie
    """
    solved = in_process_grading.solved(topic, tree)
    empty = in_process_grading.blank(solved)
    answers = [c.id for c in solved.cells if meta(c).get("solution")]
    made: dict[str, NotebookNode | str] = {"reference": solved, "untouched": empty}
    made["partly-done"] = mixed(solved, empty, set(answers[: len(answers) // 2]))
    for kind, found in (("mutant", bank.mutants(topic, folder)), ("variant", bank.variants(topic, folder))):
        k = 0
        while changes := bank.kth(found, k):
            k += 1
            made[f"{kind}-{k}"] = bank.applied(solved, changes)
    first = next(c for c in solved.cells if meta(c).get("solution") and c.cell_type == "code").id
    made["never-ends"] = replaced(solved, first, "while True:\n    pass")
    made["corrupt-json"] = cells.dumps(solved)[:1000]
    made["deleted-cell"] = without(solved, next(c.id for c in solved.cells if meta(c).get("grade")))
    return made


def mixed(solved: NotebookNode, empty: NotebookNode, done: set[str]) -> NotebookNode:
    """The empty notebook with the answers `done` (cell ids) filled in."""
    from copy import deepcopy

    nb = deepcopy(empty)
    nb.cells = [deepcopy(s) if s.id in done else c for s, c in zip(solved.cells, nb.cells, strict=True)]
    return nb


def replaced(nb: NotebookNode, cell_id: str, source: str) -> NotebookNode:
    """A copy with another text in one cell."""
    nb = nbformat.from_dict(nb)
    nb.cells = [new_code_cell(source, id=c.id, metadata=c.metadata) if c.id == cell_id else c for c in nb.cells]
    return nb


def without(nb: NotebookNode, cell_id: str) -> NotebookNode:
    """A copy without one cell."""
    nb = nbformat.from_dict(nb)
    nb.cells = [c for c in nb.cells if c.id != cell_id]
    return nb


def as_submitted(nb: NotebookNode, released: NotebookNode) -> NotebookNode:
    """What a learner would hand in: no hidden test, the release's checksums, the answers of `nb`."""
    checksums = {c.id: c for c in released.cells}
    nb = nbformat.from_dict(nb)
    for cell in nb.cells:
        if cell.id in checksums:
            cell.metadata = checksums[cell.id].metadata
            if meta(cell).get("grade") and not meta(cell).get("solution"):
                cell.source = checksums[cell.id].source
    return nb


def hand_in(group: grade.Class, made: dict[str, NotebookNode | str]) -> None:
    """Put a class into submitted/."""
    released = nbformat.read(group.notebook("release"), as_version=4)
    for student, nb in made.items():
        text = nb if isinstance(nb, str) else cells.dumps(as_submitted(nb, released))
        release.write(group.notebook("submitted", student), text)


def open_class(topic: str, tree: Tree, scratch: Path) -> grade.Class:
    """Release an assignment in a scratch course with a gradebook of its own."""
    release.generate(tree, scratch, scratch / "notebooks", database=True)
    course.config(scratch)
    return grade.Class(topic, scratch, timeout=TIMEOUT)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.demo", description=__doc__.split("\n")[0])
    parser.add_argument("assignment", nargs="?", help="default: the first one")
    options = parser.parse_args(argv)
    sys.stdout.reconfigure(errors="replace")  # names, on a terminal that is not UTF-8
    tree, began = Tree(), time.monotonic()
    shown = ROOT / "_build" / "demo"
    os.environ["COURSE_SECRET"] = secrets.token_hex(32)  # the class is made up, and no reason to make you one
    try:
        if not tree.exercises:
            raise SourceError("There is no assignment in solutions/ to show.")
        topic = options.assignment or tree.exercises[0].stem
        with tempfile.TemporaryDirectory() as folder:
            what = open_class(topic, tree, Path(folder).resolve() / "course")
            hand_in(what, sample_class(topic, tree, bank.SAMPLES))
            print(f"A class of {len(what.students)} hands in {topic}.", flush=True)
            results = grade.grade(what)
            names = grade.titles(nbformat.read(what.notebook("release"), as_version=4))
            shutil.rmtree(shown, ignore_errors=True)
            shutil.copytree(what.root / "feedback", shown / "feedback")
            for name in ("grades.csv", "canvas.csv"):
                shutil.copy(what.root / name, shown / name)
    except SourceError as error:
        print(error, file=sys.stderr)
        return 1
    print(grade.table(results), grade.by_exercise(results, names), sep="\n\n")
    print(f"\nFeedback: _build/demo/feedback/<student>/{topic}/{NOTEBOOK}.html; grades: _build/demo/grades.csv "
          f"({time.monotonic() - began:.0f} s).")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
