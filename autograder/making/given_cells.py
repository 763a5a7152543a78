"""What a notebook gives to its checks, for `helpers.check.notebook_cells`: its set-up, and the cells that an exercise gives."""

import ast

from nbformat import NotebookNode

from ..engine.cell_names import defined, free_names
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
    """{"ch01": statements of the cells before the first exercise, "ch01-q17": of the locked cells of this exercise}.

    If an answer needs a statement of an earlier exercise, its own exercise has that statement as well.
    """
    found, under, earlier = {}, "", {}  # earlier: name -> the statement that defines it
    for cell in nb.cells:
        data = meta(cell)
        exercise = "-".join(data.get("grade_id", "").split("-")[:2])
        if cell.cell_type == "markdown" and '<a id="ex-' in cell.source:
            under = "exercises"
        elif exercise.endswith("-setup"):
            under = exercise.removesuffix("-setup")
        elif cell.cell_type == "code" and not data and under != "exercises":
            found.setdefault(under, []).extend(statements(cell.source))
        elif cell.cell_type == "code" and data.get("solution"):
            for name in sorted(free_names(cell.source) & earlier.keys()):
                if earlier[name] not in found.get(exercise, ()):
                    found.setdefault(exercise, []).append(earlier[name])
        elif cell.cell_type == "code" and not data.get("grade") and exercise:
            found.setdefault(exercise, []).extend(statements(cell.source))
            earlier |= {name: line for line in statements(cell.source) for name in defined(line)}
    return found
