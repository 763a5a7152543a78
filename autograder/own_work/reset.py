"""One exercise as it was given, in the learner's copy; what was written there is kept."""

import re

import nbformat

from autograder.engine.cell_names import exercise_number
from autograder.making.exercises import meta
from autograder.places import NOTEBOOK, SourceError

from . import damaged
from .copies import Work, replace_file
from .start import update


def reset(work: Work, *words: str) -> None:
    """Put the answer cells of one exercise back; the notebook as it was stands in work/kept/."""
    if len(words) != 1 or not re.fullmatch(r"\d+\.\d+", words[0]):
        raise SourceError("Name one exercise, as in  course reset 1.4")
    number = words[0]
    topics = [p.parent.name for p in work.tree.notebooks.glob(f"ch*/{NOTEBOOK}.ipynb")]  # a class may have no sources
    topic = next((t for t in topics if int(t[2:4]) == int(number.split(".")[0])), None)
    if not topic:
        raise SourceError(f"There is no chapter {number.split('.')[0]} here.")
    update(work)  # which makes the copy where there is none
    name = f"{topic}/{NOTEBOOK}.ipynb"
    given = nbformat.read(work.tree.notebooks / name, as_version=4)
    empty = {
        m["grade_id"]: c
        for c in given.cells
        if (m := meta(c)).get("solution") and exercise_number(m["grade_id"]) == number
    }
    if not empty:
        raise SourceError(f"There is no exercise {number} with an answer to write.")
    before = work.copy(name).read_bytes()
    copy = damaged.parsed(before)
    if copy is None:
        raise SourceError(f"work/{name} has cells that are none: move it away, and `course copies` makes it anew.")
    changed = False
    for cell in copy.cells:
        fresh = empty.get(meta(cell).get("grade_id"))
        if fresh is not None and cell.source != fresh.source:
            cell.source, changed = fresh.source, True
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
    if not changed:
        work.said.append(f"Exercise {number} is as it was given.")
        return
    kept = work.keep(name, before)
    replace_file(work.copy(name), nbformat.writes(copy).encode())
    work.said.append(
        f"Exercise {number} is as it was given; the notebook with your answer is {kept}. "
        "If it is open in JupyterLab, choose File > Reload Notebook from Disk."
    )
