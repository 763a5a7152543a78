"""Chapters become a core and pages further down: what learners wrote into a reading of one page, as released before, stays in it.

readings_of_one_page.json.xz has the readings of that release.
"""

import json
import lzma
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from autograder.own_work.copies import Work, replace_file
from autograder.own_work.start import update
from autograder.places import ROOT, Tree

BEFORE = json.loads(lzma.decompress((Path(__file__).parent / "readings_of_one_page.json.xz").read_bytes()))
PASSED = b'{"1.1": "2030-01-02"}\n'


def written(nb: nbformat.NotebookNode) -> list[str]:
    """Fill a reading: a note of one's own behind every fourth cell, every second guess, a change in every third cell of code."""
    mine, cells, guesses, code = [], [], 0, 0
    for n, cell in enumerate(nb.cells):
        cells.append(cell)
        if cell.cell_type == "code" and cell.source.startswith("guess = None"):
            guesses += 1
            if guesses % 2:
                cell.source = cell.source.replace("None", f"{240 + n}", 1)
                mine.append(cell.source)
        elif cell.cell_type == "code" and "check.question" not in cell.source and n > 3:
            code += 1
            if not code % 3:
                cell.source += f"\nprint('mine, {n}')"
                cell.outputs = [new_output("stream", text=f"mine, {n}\n")]
                mine.append(cell.source)
        if not n % 4:
            own = new_code_cell(f"x_{n} = {n}") if n % 8 else new_markdown_cell(f"A note of mine, {n}.")
            cells.append(own)
            mine.append(own.source)
    nb.cells = cells
    return mine


@pytest.mark.parametrize("name", [name for name in BEFORE if [*(ROOT / "notebooks" / name).parent.glob("further_*")]])
def test_what_a_learner_wrote_stays_and_what_moved_is_said(tmp_path, name):
    tree, old = Tree(tmp_path), nbformat.reads(json.dumps(BEFORE[name]), as_version=4)
    for path in (ROOT / "notebooks" / name).parent.glob("*.ipynb"):
        replace_file(tmp_path / "notebooks" / path.parent.name / path.name, path.read_bytes())
    work, released = Work(tree), (nbformat.writes(old, version=nbformat.NO_CONVERT) + "\n").encode()
    replace_file(work.base(name), released)
    replace_file(tmp_path / "work/progress.json", PASSED)
    mine = written(old)
    assert len(mine) > 30
    replace_file(work.copy(name), nbformat.writes(old).encode())
    update(work)
    made = nbformat.read(work.copy(name), as_version=4)
    there = [cell.source for cell in made.cells]
    assert [text for text in mine if there.count(text) != 1] == []
    new = nbformat.read(ROOT / "notebooks" / name, as_version=4)
    assert {c.source for c in new.cells} - set(there) <= {
        c.source for c in new.cells if c.cell_type == "code"
    }  # the learner's stand there
    said = "\n".join(work.said)
    assert "what you wrote there stays as a cell of your own" in said and "The notebook as it was: work/kept/" in said
    assert (tmp_path / "work/progress.json").read_bytes() == PASSED
    for page in (ROOT / "notebooks" / name).parent.glob("further_*.ipynb"):
        assert work.copy(f"{Path(name).parent}/{page.name}").read_bytes() == page.read_bytes()
