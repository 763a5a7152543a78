"""A learner's term in a real chapter that changes twice under the work: every answer stays with its exercise (slow)."""

import json
import re
from copy import deepcopy

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_output
from nbgrader.preprocessors import ClearHiddenTests, ClearSolutions, ComputeChecksums, LockCells

from autograder.grading.rebuild import rebuild
from autograder.making import cells, in_process_grading
from autograder.making.exercises import HEADING, meta
from autograder.own_work.copies import Work, replace_file
from autograder.own_work.start import update
from autograder.places import Tree

CHAPTER = "ch01_rooflines"
GONE = "Between the bounds"  # the exercise that the last update leaves out
TITLES = ["The intensity of a dot product", GONE, "An int8 matrix multiplication", "The exact critical batch",
          "Quantised weights", "The roofline against the batch"]  # fmt: skip
NUMBERS = r"(\bch\d\d[-_]q)(\d\d)()", r"(Exercise \d\.)(\d+)( —)", r'(report\("\d\.)(\d+)(")', r"(exercise-\d-)(\d+)(-)"


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


def answer(nb: NotebookNode, title: str) -> NotebookNode:
    return next(c for c in blocks(nb)[title] if meta(c).get("solution"))


def shifted(nb: NotebookNode, first: int, by: int) -> NotebookNode:
    """A source in which all exercises from number `first` on have moved on, as if others stood before them."""

    def moved(m: re.Match) -> str:
        number = int(m[2])
        return f"{m[1]}{number + by if number >= first else number:0{len(m[2]) if m[1].endswith('q') else 0}}{m[3]}"

    nb = deepcopy(nb)
    for cell in nb.cells:
        for pattern in NUMBERS:
            cell.source, cell.id = re.sub(pattern, moved, cell.source), re.sub(pattern, moved, cell.id)
            if meta(cell):
                cell.metadata.nbgrader.grade_id = re.sub(pattern, moved, meta(cell)["grade_id"])
    return nb


def moved_on(source: NotebookNode) -> NotebookNode:
    """The first update: from the third on exercises are renumbered, one stands elsewhere, every second one says something else."""
    source = shifted(source, 3, 1)
    parts = blocks(source)
    for title in TITLES[::2]:
        parts[title][0].source += "\n\nRead this twice."
        for cell in parts[title]:
            cell.source = cell.source.replace('"""', '"""Said anew: ' if meta(cell).get("solution") else '"""', 1)
            if meta(cell).get("grade"):
                cell.source = cell.source.replace("\ndef ", "\n# An update of the course was here.\ndef ", 1)
    titles = list(parts)
    titles.insert(9, titles.pop(3))
    source.cells = [cell for title in titles for cell in parts[title]]
    return source


def fewer(source: NotebookNode) -> NotebookNode:
    """The second: an exercise leaves the course, and those behind it move up."""
    parts = blocks(source)
    gone = parts.pop(GONE)
    source.cells = [cell for part in parts.values() for cell in part]
    return shifted(source, int(re.search(r"Exercise \d+\.(\d+)", gone[0].source)[1]), -1)


@pytest.mark.slow("judges the answers of a chapter")
def test_a_term_of_work_loses_nothing_and_every_total_is_right(tmp_path):
    tree, source, mine, own = Tree(tmp_path), in_process_grading.solved(CHAPTER), {}, []
    path = tmp_path / f"work/{CHAPTER}/exercises.ipynb"
    for edition, change in enumerate((lambda source: source, moved_on, fewer)):
        source = change(source)
        new = released(source)
        replace_file(tree.released(CHAPTER), cells.dumps(new).encode())
        update(Work(tree))
        once = path.read_bytes()
        update(Work(tree))
        assert path.read_bytes() == once
        copy, course = nbformat.read(path, as_version=4), {c.id for c in new.cells}
        there = {c.id: c for c in copy.cells}
        assert [c.id for c in copy.cells if c.id in course] == [c.id for c in new.cells]
        for title, part in blocks(new).items():
            for cell in part:
                wrote = mine.get(title) if meta(cell).get("solution") else None
                assert there[cell.id].source == (wrote or cell.source) and there[cell.id].metadata == cell.metadata
                assert not wrote or there[cell.id].outputs[0].text == f"ran {title}\n"
        assert {*own, *mine.values()} <= {c.source for c in copy.cells}
        for title in TITLES[2 * edition :][:2]:
            lines = answer(source, title).source.split("\n")
            mine[title] = "\n".join(line for line in lines if not line.strip().startswith("### "))
            cell = answer(copy, title)
            cell.source, cell.outputs = mine[title], [new_output("stream", text=f"ran {title}\n")]
            own.append(f"tried = {title!r}")
            copy.cells.insert(copy.cells.index(cell) + 1, new_code_cell(own[-1]))
        nbformat.write(copy, path)
    assert GONE in mine and GONE not in blocks(source)
    checks = [meta(c)["grade_id"] for t in TITLES if t != GONE for c in blocks(source)[t] if meta(c).get("grade")]
    handed_in, _ = rebuild(json.loads(path.read_text()), in_process_grading.blank(source))
    found = in_process_grading.judge(handed_in, *checks)
    assert len(checks) >= 5 and all(found[k].score == found[k].points for k in checks), found
