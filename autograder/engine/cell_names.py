"""The name of a cell, names that it reads and names that it makes, found without running it."""

import ast
import functools
import re
import symtable


def key_of(cell) -> str:
    """The name of a released cell: its grade_id, else its cell id."""
    return cell.metadata.get("nbgrader", {}).get("grade_id") or cell.id


def exercise_number(grade_id: str) -> str:
    """The exercise of a cell, as the learner knows it; "" where the id names none.

    >>> exercise_number("ch01-q04-check"), exercise_number("ch12-q11"), exercise_number("extra")
    ('1.4', '12.11', '')
    """
    found = re.match(r"ch(\d+)-q(\d+)", grade_id)
    return f"{int(found[1])}.{int(found[2])}" if found else ""


@functools.lru_cache(4096)  # a class has the same checks
def free_names(source: str) -> frozenset[str]:
    """Global names that a cell reads, in its functions too.

    >>> sorted(free_names("def f(a):\\n    b = a + c\\n    return [g(x) for x in b]\\nf(d.e)"))
    ['c', 'd', 'f', 'g']
    """

    def of(table) -> set[str]:
        top = table.get_type() == "module"
        own = {s.get_name() for s in table.get_symbols() if s.is_referenced() and (top or s.is_global())}
        return own.union(*(of(t) for t in table.get_children()))

    return frozenset(of(symtable.symtable(source, "<check>", "exec")))


def parsed(source: str) -> ast.Module | None:
    """A learner's text as a program; None if it is none, or nested deeper than Python follows.

    >>> parsed("x = 1").body[0].targets[0].id, parsed("x = "), parsed("x = " + "-" * 100_000 + "1")
    ('x', None, None)
    """
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@functools.lru_cache(4096)
def defined(source: str) -> frozenset[str]:
    """Functions, classes, imports and variables that a cell makes at its top level, also if it is not yet Python.

    >>> sorted(defined("import a.b as c, d.e\\nx, (y, *z) = 1, (2, 3)\\ndef f(a):\\n    w = a"))
    ['c', 'd', 'f', 'x', 'y', 'z']
    >>> sorted(defined("def f(a):\\n    return (a"))
    ['f']
    """
    if (program := parsed(source)) is None:
        return frozenset(re.findall(r"^(?:async )?(?:def|class) (\w+)", source, re.M)[:50])
    found = set()
    for node in program.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(a.asname or a.name).split(".")[0] for a in node.names}
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {
                n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            }
    return frozenset(found)


@functools.lru_cache(4096)
def unfilled(source: str) -> bool:
    """Whether a cell only says that it is not done: nothing, or functions that raise NotImplementedError.

    >>> unfilled('def f(x):\\n    "Twice x."\\n    # YOUR CODE HERE\\n    raise NotImplementedError()'), unfilled("x = 1")
    (True, False)
    """
    program = parsed(source)
    return program is not None and all(_says_so(node) for node in program.body)


def _says_so(node: ast.stmt) -> bool:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        rest = [n for n in node.body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
        return bool(rest) and all(isinstance(n, ast.Raise) and _says_so(n) for n in rest)
    if not isinstance(node, ast.Raise):
        return False
    raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
