"""Sphinx extension: code that drew or computed what one sees unfolds behind it, under a small word; MyST-NB puts a bar before it.

MyST-NB's bar stood above 269 drawings and tables and outweighed their captions; chapter 1 is a screen shorter without.  MyST-NB's node
stays; it goes behind the output and is written shorter.  It unfolds without JavaScript.  No theme matters to it.
"""

from html import escape

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.transforms.post_transforms import SphinxPostTransform


def move_behind(document: nodes.document) -> None:
    """Put each fold of code behind the outputs of its cell."""
    for cell in document.findall(
        lambda node: isinstance(node, nodes.container) and node.get("nb_element") == "cell_code"
    ):
        if len(cell) > 1 and isinstance(cell[0], HideCodeCellNode):
            cell.append(cell.pop(0))


def summary(fold: HideCodeCellNode) -> str:
    """What a reader unfolds it by: behind it, for a cell folded whole, the comment that its code begins with."""
    held = {child.get("nb_element") for child in fold}
    if len(held) < 2:
        return "output" if "cell_code_output" in held else "code"
    begins = fold.astext().partition("\n")[0]
    return f"code and output: {escape(begins[2:])}" if begins.startswith("# ") else "code and output"


class Folds(SphinxPostTransform):
    default_priority = 200  # MyST-NB makes them at 199
    formats = ("html",)

    def run(self, **kwargs) -> None:
        move_behind(self.document)


def visit(translator, fold: HideCodeCellNode) -> None:
    translator.body.append(f'<details class="code"><summary>{summary(fold)}</summary>')


def depart(translator, fold: HideCodeCellNode) -> None:
    translator.body.append("</details>\n")


def setup(app) -> dict:
    app.add_post_transform(Folds)
    app.add_node(HideCodeCellNode, override=True, html=(visit, depart))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
