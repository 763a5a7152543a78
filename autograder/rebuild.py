"""A submission, built anew: the released notebook with the learner's answers and own cells in it.

So nothing that can happen to a notebook's tests, tags, points, order or metadata changes a grade,
by accident or otherwise; a deleted cell is back, a doubled one counts once.
"""

from copy import deepcopy

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell


def role(cell: NotebookNode) -> str | None:
    """What a cell of a release is to nbgrader: "answer", "locked" or nothing."""
    m = cell.get("metadata", {}).get("nbgrader") or {}
    if m.get("solution"):
        return "answer"
    return "locked" if m.get("grade") or m.get("locked") else None


def name_of(cell: NotebookNode, release: dict[str, NotebookNode], by_id: dict[str, str]) -> str | None:
    """The released cell that a submitted one is a copy of: by grade_id, else by cell id."""
    metadata = cell.get("metadata") or {}
    marked = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = marked.get("grade_id") if isinstance(marked, dict) else None
    if isinstance(grade_id, str) and grade_id in release:
        return grade_id
    return by_id.get(str(cell.get("id")))


def rebuild(submitted: NotebookNode, released: NotebookNode) -> tuple[NotebookNode, list[str]]:
    """The released notebook with what the learner wrote, and a sentence for each thing put right.

    Taken from the submission: the text of answer cells (of doubles the last one, the others become plain cells),
    the text of cells that nobody graded or locked, and own cells, behind the cell that they stood behind.
    """
    nb, notes = deepcopy(released), []
    keys = [c.metadata.get("nbgrader", {}).get("grade_id") or c.id for c in nb.cells]
    cells = dict(zip(keys, nb.cells, strict=True))
    for cell in nb.cells:
        cell.metadata.released = True  # the course's text, as far as the learner did not change it
    by_id = {c.id: k for k, c in cells.items()}
    names = [name_of(c, cells, by_id) for c in submitted.cells]
    last = {name: i for i, name in enumerate(names) if name}
    own: dict[str | None, list[NotebookNode]] = {}  # released cell -> the learner's cells behind it
    anchor = None
    for i, (cell, name) in enumerate(zip(submitted.cells, names, strict=True)):
        text = "".join(cell.get("source") or "")
        if name and last[name] == i:
            anchor = name
            if role(cells[name]) != "locked":
                cells[name].metadata.released = cells[name].source == text
                cells[name].source = text
            elif text != cells[name].source:
                notes.append(f"The cell {name} was changed; the released one was used.")
        elif name and role(cells[name]) == "locked":
            notes.append(f"The cell {name} stood there twice; the released one was used once.")
        else:
            if name and role(cells[name]):
                notes.append(f"The answer {name} stood there twice; the last one counts.")
            new = new_code_cell if cell.get("cell_type") == "code" else new_markdown_cell
            own.setdefault(anchor, []).append(new(text, id=f"own-{i}"))
    notes += [f"The cell {k} was missing; it was put back." for k in keys if k not in last and role(cells[k])]
    nb.cells = own.get(None, []) + [c for k in keys for c in (cells[k], *own.get(k, []))]
    return nb, notes
