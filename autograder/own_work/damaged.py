"""Notebooks out of a file that git has written its marks of a conflict into, or that is broken in another way."""

import json
import re
import uuid
import warnings
from itertools import pairwise

from nbformat import NotebookNode, from_dict
from nbformat.v4 import new_markdown_cell, new_notebook

MARK = re.compile(r"^(<{7}|\|{7}|={7}|>{7})(?: .*)?$")
CELL = re.compile(r"^ {2}\{$", re.M)  # where a cell begins in a notebook as Jupyter writes it
STRING = re.compile(r'^\s*("(?:[^"\\]|\\.)*"),?\s*$')


BROKEN = (ValueError, RecursionError, KeyError, TypeError, AttributeError)
"""What reading raises where something else stands than a notebook has there."""


def parsed(data: bytes) -> NotebookNode | None:
    """A notebook with lines joined and an id in each cell; None if it, or one of its cells, is none."""
    try:
        nb = _read(data)
        nb.cells = [_whole(c) for c in nb.cells]
    except BROKEN:
        return None
    return nb


def _read(data: bytes) -> NotebookNode:
    """What a file holds, as a notebook of today's format whose cells are not yet looked at."""
    import nbformat

    found = json.loads(data.decode("utf-8-sig"))
    if found["nbformat"] != 4:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = nbformat.convert(from_dict(found), 4)
            except Exception as error:  # nbformat's own, of many kinds: it expects a whole notebook
                raise ValueError("This is no notebook of an older format.") from error
    nb = from_dict(found)
    nb.metadata, nb.nbformat, nb.nbformat_minor = _own(nb, "metadata", NotebookNode()), 4, 5
    return nb


def _own(node: NotebookNode, key: str, empty):
    """What stands under a key, if it is of the same kind as its empty value."""
    return node[key] if isinstance(node.get(key), type(empty)) else empty


def _whole(cell: NotebookNode) -> NotebookNode:
    """A cell with everything that one has; TypeError for what is none."""
    source = cell.get("source", "")
    cell.source = "".join(source) if isinstance(source, list) else source
    if not isinstance(cell.source, str) or cell.get("cell_type") not in ("code", "markdown", "raw"):
        raise TypeError("This is no cell.")
    cell.metadata = _own(cell, "metadata", NotebookNode())
    if not isinstance(cell.metadata.get("nbgrader", NotebookNode()), dict):
        del cell.metadata["nbgrader"]
    cell.id = _own(cell, "id", "") or uuid.uuid4().hex[:8]
    if not isinstance(cell.get("attachments", NotebookNode()), dict):
        del cell["attachments"]
    if cell.cell_type == "code":
        cell.outputs = [o for o in _own(cell, "outputs", []) if _writable(o)]
        cell.execution_count = cell.get("execution_count")
    return cell


def _writable(output: object) -> bool:
    """Whether an output has what nbformat asks for, without which it cannot write the notebook."""
    from nbformat import ValidationError, validate

    try:
        validate(output, ref="output", version=4)
    except (ValidationError, TypeError, AttributeError):
        return False
    return True


def recovered(data: bytes) -> list[NotebookNode]:
    """Every notebook that a damaged file holds: both sides of a conflict, or the cells that can still be read."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    found = []
    for side in sides(text):
        nb = parsed(side.encode()) or in_pieces(side)
        if nb.cells:
            found.append(nb)
    return found


def sides(text: str) -> list[str]:
    r"""A text with git's marks of a conflict as each of the two would have it; itself if there are none.

    >>> sides("a\n<<<<<<< HEAD\nb\n||||||| base\nc\n=======\nd\n>>>>>>> stash\ne")
    ['a\nb\ne', 'a\nd\ne']
    """
    both: tuple[list[str], list[str]] = [], []
    within = None
    for line in text.split("\n"):
        mark = MARK.match(line)
        if mark and (within or mark[1] == "<" * 7):
            within = None if mark[1] == ">" * 7 else mark[1][0]
            continue
        for side, marks in zip(both, "<=", strict=True):
            if within in (None, marks):
                side.append(line)
    one, other = map("\n".join, both)
    return [one] if one == other else [one, other]


def in_pieces(text: str) -> NotebookNode:
    """The cells of a broken notebook one by one; of one that is broken itself the text, as text."""
    try:
        return _notebook([cell for c in _read(text.encode()).cells if (cell := _cell(c))])
    except BROKEN:
        pass  # the file is no JSON, or has no cells: they are looked for by the lines that begin them
    starts = [*(m.start() for m in CELL.finditer(text)), len(text)]
    cells = []
    for start, end in pairwise(starts):
        try:
            cells.append(_whole(from_dict(json.JSONDecoder().raw_decode(text[start + 2 : end])[0])))
        except BROKEN:
            if lines := _lines(text[start:end]):
                cells.append(_as_text(lines))
    return _notebook(cells)


def _notebook(cells: list[NotebookNode]) -> NotebookNode:
    """A notebook of these cells as they are: `new_notebook` refuses all for one that is odd."""
    nb = new_notebook()
    nb.cells = cells
    return nb


def _cell(cell: object) -> NotebookNode | None:
    """One of the cells of a notebook; of what is none the text, if there is any."""
    try:
        return _whole(cell)
    except BROKEN:
        source = cell.get("source") if isinstance(cell, dict) else cell
        lines = "".join(line for line in source if isinstance(line, str)) if isinstance(source, list | str) else ""
        return _as_text(lines) if lines.strip() else None


def _as_text(lines: str) -> NotebookNode:
    return new_markdown_cell(f"*From a cell that was damaged:*\n\n```\n{lines}\n```")


def _lines(text: str) -> str:
    """The lines of a cell's source, as far as they are there."""
    _, _, source = text.partition('"source": [')
    found = (STRING.match(line) for line in source.split("\n"))
    return "".join(json.loads(m[1], strict=False) for m in found if m).rstrip()
