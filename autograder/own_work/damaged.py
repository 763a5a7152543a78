"""Notebooks out of a file that git has written its marks of a conflict into, or that is broken in another way."""

import json
import re
import uuid
from contextlib import suppress
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
    with suppress(*BROKEN):
        nb = _read(data)
        nb.cells = [_whole(c) for c in nb.cells]
        return nb
    return None


def _read(data: bytes) -> NotebookNode:
    """What a file holds, as a notebook of today's format whose cells are not yet looked at."""
    nb = from_dict(json.loads(data.decode("utf-8-sig")))
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

    with suppress(ValidationError, TypeError, AttributeError):
        validate(output, ref="output", version=4)
        return True
    return False


def recovered(data: bytes) -> list[NotebookNode]:
    """Every notebook that a file holds: itself, or of a damaged one both sides of a conflict, or the cells that can still be read."""
    if nb := parsed(data):
        return [nb]
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    found = (parsed(side.encode()) or in_pieces(side) for side in sides(text))
    return [nb for nb in found if nb.cells]


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
    nb = new_notebook()  # its cells come later: `new_notebook` refuses all for one that is odd
    with suppress(
        *BROKEN
    ):  # else the file is no JSON, or has no cells: they are looked for by the lines that begin them
        nb.cells = [cell for c in _read(text.encode()).cells if (cell := _cell(c))]
        return nb
    starts = [*(m.start() for m in CELL.finditer(text)), len(text)]
    for start, end in pairwise(starts):
        try:
            nb.cells.append(_whole(from_dict(json.JSONDecoder().raw_decode(text[start + 2 : end])[0])))
        except BROKEN:
            lines = (STRING.match(line) for line in text[start:end].partition('"source": [')[2].split("\n"))
            if found := "".join(json.loads(m[1], strict=False) for m in lines if m).rstrip():
                nb.cells.append(_as_text(found))
    return nb


def _cell(cell: object) -> NotebookNode | None:
    """One of the cells of a notebook; of what is none the text, if there is any."""
    with suppress(*BROKEN):
        return _whole(cell)
    source = cell.get("source") if isinstance(cell, dict) else cell
    lines = "".join(line for line in source if isinstance(line, str)) if isinstance(source, list | str) else ""
    return _as_text(lines) if lines.strip() else None


def _as_text(lines: str) -> NotebookNode:
    return new_markdown_cell(f"*From a cell that was damaged:*\n\n```\n{lines}\n```")
