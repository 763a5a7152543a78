"""What a notebook gives to its checks, for `helpers.check.notebook_cells`: its set-up, and the cells that an exercise gives."""

import ast

from nbformat import NotebookNode

from .exercises import meta


def statements(source: str) -> list[str]:
    r"""What a cell imports and defines, an import of one name at a time; what it prints and draws is left out.

    >>> statements("import math\nfrom helpers import check, plot as p\nn = 3\nprint(n)\ndef f(x):\n    return x")
    ['import math', 'from helpers import check', 'from helpers import plot as p', 'n = 3', 'def f(x):\n    return x']
    """
    found = []
    for node in ast.parse(source).body:
        match node:
            case ast.Import(names=names):
                found += [ast.unparse(ast.Import([name])) for name in names]
            case ast.ImportFrom(names=names):
                found += [ast.unparse(ast.ImportFrom(node.module, [name], node.level)) for name in names]
            case ast.Assign() | ast.AnnAssign() | ast.FunctionDef() | ast.ClassDef():
                found.append(ast.get_source_segment(source, node))
    return found


def given(nb: NotebookNode) -> dict[str, list[str]]:
    """{"ch01": statements of the cells before the first exercise, "ch01-q17": of the locked cells of this exercise}."""
    found, under = {}, ""
    for cell in nb.cells:
        grade_id = meta(cell).get("grade_id", "")
        if cell.cell_type == "markdown" and '<a id="ex-' in cell.source:
            under = "exercises"
        elif grade_id.endswith("-setup"):
            under = grade_id.removesuffix("-setup")
        elif cell.cell_type == "code" and not meta(cell) and under != "exercises":
            found.setdefault(under, []).extend(statements(cell.source))
        elif cell.cell_type == "code" and not (meta(cell).get("solution") or meta(cell).get("grade")) and grade_id:
            found.setdefault("-".join(grade_id.split("-")[:2]), []).extend(statements(cell.source))
    return found
