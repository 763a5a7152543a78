"""Notebooks from sources: cells, ids that stay, metadata that never varies."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import chain, count
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder.places import SourceError, Tree
from helpers.check import progress
from helpers.check.questions import names as question_names

from . import questions
from .first_cell import setup
from .further_down import expanded
from .links import TITLE, Links, slug, target_of
from .myst_to_commonmark import FENCE, LABEL, closes, lint, translate

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}

FOLDING = {"hide-input", "hide-output", "hide-cell", "remove-input", "remove-cell"}
"""Tags that notebooks keep: they fold a cell on the site, or leave it to notebooks."""

AFRESH = "from helpers import check  # if the kernel is a new one"


def meta(cell: NotebookNode) -> dict:
    """nbgrader's part of a cell's metadata."""
    return cell.metadata.get("nbgrader", {})


def function_name(check: NotebookNode) -> str:
    """What the function of a check cell is called, as `helpers.check.shown_checks.function_name` finds it."""
    return meta(check)["grade_id"].replace("-", "_")


def rendered(path: Path) -> str:
    """Text of a source with its numbers evaluated, after a look at every directive and role."""
    return _rendered(expanded(path, path.read_text(encoding="utf-8"), notebook=True), f"{path.parent.name}/{path.name}")


@cache  # numbers of a chapter take up to a second, and tests ask for each many times
def _rendered(text: str, name: str) -> str:
    from helpers import prose

    lint(text, name)
    try:
        return prose.render(text, name)
    except ValueError as error:
        raise SourceError(str(error)) from error


def sources(tree: Tree, only: Path | None = None) -> dict[Path, str]:
    """Every source that becomes a notebook, with its rendered text.

    only  render this one; of the others links are wanted, and no heading has a number
    """
    return {
        path: labelled(path.read_text(encoding="utf-8") if only and path != only else rendered(path))
        for path in (*tree.readings, *tree.exercises)
    }


def labelled(text: str) -> str:
    """A source whose exercises also have the labels of those that they replace, so that old links lead to them."""

    def labels(m: re.Match) -> str:
        gone = [f"(ex-{number.replace('.', '-')})=\n" for number in progress.former_numbers(f"{m[1]}.{m[2]}")]
        return "".join([*gone, m[0]])

    return re.sub(r"^\(ex-(\d+)-(\d+)\)=$", labels, text, flags=re.M)


def read(text: str) -> list[NotebookNode]:
    """The raw cells of a MyST source, markdown cut at its headings."""
    import jupytext

    cells = []
    for cell in jupytext.reads(text, fmt="md:myst").cells:
        if cell.cell_type == "markdown" and "nbgrader" not in cell.metadata:
            cells += [new_markdown_cell(part, metadata=cell.metadata) for part in at_headings(cell.source)]
        elif cell.cell_type == "code":
            cells.append(new_code_cell(cell.source, metadata=cell.metadata))
        else:
            cells.append(cell)
    return cells


def at_headings(text: str) -> list[str]:
    r"""Markdown cut before each heading of level 1 to 3 (and the labels that belong to it).

    >>> at_headings("# A\n\nb\n\n(c)=\n### D")
    ['# A\n\nb', '(c)=\n### D']
    """
    parts: list[list[str]] = [[]]
    labels: list[str] = []
    fence = None
    for line in text.split("\n"):
        if fence:
            fence = None if closes(line, fence) else fence
        elif (m := FENCE.match(line)) or (m := re.match(r"^(:{3,})", line)):
            fence = m[1]
        elif LABEL.match(line):
            labels.append(line)
            continue
        elif re.match(r"^#{1,3} ", line):
            parts.append([])
        elif labels and not line.strip():
            continue
        parts[-1] += [*labels, line]
        labels = []
    parts[-1] += labels
    texts = ("\n".join(part).strip("\n") for part in parts)
    return [t for t in texts if t.strip()]


def tidy(cell: NotebookNode) -> NotebookNode:
    """Tags of the site are joined by what JupyterLab knows; nothing else but nbgrader's metadata stays."""
    tags = set(cell.metadata.get("tags", [])) & FOLDING
    inputs, outputs = tags & {"hide-input", "remove-input", "hide-cell"}, tags & {"hide-output", "hide-cell"}
    folded = ({"source_hidden": True} if inputs else {}) | ({"outputs_hidden": True} if outputs else {})
    kept = {k: cell.metadata[k] for k in ("nbgrader", "deletable", "editable", "course") if k in cell.metadata}
    site = ({"jupyter": folded} if folded else {}) | ({"tags": sorted(tags)} if tags else {})
    cell.metadata = nbformat.from_dict(kept | site)
    if cell.cell_type == "code":
        cell.outputs, cell.execution_count = [], None
    return cell


def identify(cells: list[NotebookNode]) -> None:
    """Give each cell an id that changes only if its own part of the source changes."""
    under, taken = "top", set()
    for cell in cells:
        own = cell.metadata.get("nbgrader", {}).get("grade_id")
        heading = re.search(r"^#{1,3} +(.+)$", cell.source, re.M) if cell.cell_type == "markdown" else None
        if heading and not own:
            under = slug(heading[1])[:48].strip("-") or "top"
        base = own or under
        numbered = (f"{base}-{n}" for n in count(2))
        cell.id = next(name for name in chain([base], numbered) if name not in taken)
        taken.add(cell.id)


def notebook(cells: list[NotebookNode], helpers: list[str] | None = None) -> NotebookNode:
    """A notebook of tidy, identified cells.

    helpers  modules that answers may use
    """
    cells = [tidy(cell) for cell in cells]
    identify(cells)
    course = {"course": {"helpers": helpers}} if helpers else {}
    return new_notebook(cells=cells, metadata=nbformat.from_dict(METADATA | course))


RUN = """\
**First press *Run > Run All Cells***, in Colab *Runtime > Run all*.
That draws the pictures and computes the numbers of this chapter while you read: the first come at once, the last in about a minute."""


def setup_cell(grade_id: str | None = None) -> NotebookNode:
    """The first code cell of every notebook; locked where nbgrader looks after it."""
    locked = dict(schema_version=3, grade_id=grade_id, grade=False, solution=False, locked=True, task=False)
    return new_code_cell(setup(), metadata={"tags": ["hide-input"]} | ({"nbgrader": locked} if grade_id else {}))


def translated(path: Path, text: str, links: Links, root: Path) -> list[NotebookNode]:
    """Cells of a source with its markdown in the notebooks' dialect; empty ones are dropped."""
    cells, target, names = [], target_of(path, root), iter(question_names(text))
    for cell in read(text):
        try:
            parts = _parts(cell, links, target, names)
        except SourceError as error:
            raise SourceError(f"{path.parent.name}/{path.name}: {error}") from error
        cells += [part for part in parts if part.source.strip()]
    return cells


def _parts(cell: NotebookNode, links: Links, target: str, names: Iterator[str]) -> list[NotebookNode]:
    """What becomes of a cell: markdown that asks something is several."""
    if cell.cell_type != "markdown":
        return [cell]
    if "{ask}" in cell.source:
        return questions.translated(cell.source, links, target, names)
    cell.source = translate(cell.source, links, target)
    return [cell]


def reading(path: Path, text: str, links: Links, root: Path) -> NotebookNode:
    """The reading notebook of a chapter's core or of a page further down."""
    cells = translated(path, text, links, root)
    cells[0].source = TITLE.sub(lambda title: f"{title[0]}\n\n{RUN}", cells[0].source, count=1)
    cells.insert(1, setup_cell())
    return notebook(cells)


def dumps(nb: NotebookNode) -> str:
    """A notebook as the same bytes everywhere."""
    nbformat.validate(nb)
    return nbformat.writes(nb, version=nbformat.NO_CONVERT) + "\n"


def normal(nb: NotebookNode) -> NotebookNode:
    """A notebook that a tool wrote, with the parts that vary put back."""
    nb.metadata = nbformat.from_dict(METADATA | {k: v for k, v in nb.metadata.items() if k == "course"})
    nb.nbformat, nb.nbformat_minor = 4, 5
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return nb
