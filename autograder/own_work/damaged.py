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


def parsed(data: bytes) -> NotebookNode | None:
    """A notebook with lines joined and an id in each cell; None if it is none."""
    import nbformat

    try:
        found = json.loads(data.decode("utf-8-sig"))
        if found["nbformat"] != 4:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = nbformat.convert(from_dict(found), 4)
        nb = from_dict(found)
        nb.cells = [_whole(c) for c in nb.cells]
        nb.metadata, nb.nbformat, nb.nbformat_minor = nb.get("metadata", NotebookNode()), 4, 5
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None
    return nb


def _whole(cell: NotebookNode) -> NotebookNode:
    """A cell with everything that one has; TypeError for what is none."""
    source = cell.get("source", "")
    cell.source = "".join(source) if isinstance(source, list) else source
    if not isinstance(cell.source, str) or cell.get("cell_type") not in ("code", "markdown", "raw"):
        raise TypeError("This is no cell.")
    cell.metadata = cell.get("metadata") or NotebookNode()
    cell.id = cell.get("id") or uuid.uuid4().hex[:8]
    if cell.cell_type == "code":
        cell.outputs, cell.execution_count = cell.get("outputs", []), cell.get("execution_count")
    return cell


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
    starts = [*(m.start() for m in CELL.finditer(text)), len(text)]
    cells = []
    for start, end in pairwise(starts):
        try:
            cells.append(_whole(from_dict(json.JSONDecoder().raw_decode(text[start + 2 : end])[0])))
        except (ValueError, RecursionError, TypeError, AttributeError):
            if lines := _lines(text[start:end]):
                cells.append(new_markdown_cell(f"*From a cell that was damaged:*\n\n```\n{lines}\n```"))
    return new_notebook(cells=cells)


def _lines(text: str) -> str:
    """The lines of a cell's source, as far as they are there."""
    _, _, source = text.partition('"source": [')
    found = (STRING.match(line) for line in source.split("\n"))
    return "".join(json.loads(m[1], strict=False) for m in found if m).rstrip()
