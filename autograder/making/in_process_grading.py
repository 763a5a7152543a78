"""Quick judging in this process, for tests and authors: same scores as nbgrader, no kernel.

>>> from . import in_process_grading as trial
>>> nb = trial.solved("ch01_rooflines")        # doctest: +SKIP
>>> trial.judge(nb)["ch01-q04-check"]          # doctest: +SKIP
Verdict(score=3.0, points=3.0, message='Exercise 1.4: 3 of 3 points')
"""

import ast
import contextlib
import io
import linecache
import traceback
from copy import deepcopy
from dataclasses import dataclass

from nbformat import NotebookNode

from autograder.engine.cell_names import key_of
from autograder.places import SourceError, Tree

from . import cells
from .exercises import HEADING, meta, source_notebook
from .links import Links


@dataclass(frozen=True)
class Verdict:
    """What a check cell gave."""

    score: float
    points: float
    message: str


_made: dict[tuple, NotebookNode] = {}  # half a second each, and tests ask for each many times


def solved(topic: str, tree: Tree | None = None) -> NotebookNode:
    """A chapter's source notebook: solutions and hidden tests in it."""
    tree = tree or Tree()
    path = next((p for p in tree.exercises if p.stem == topic), None)
    if path is None:
        known = ", ".join(p.stem for p in tree.exercises) or "none"
        raise SourceError(f'There is no assignment "{topic}"; known: {known}.')
    texts = cells.sources(tree, path)
    links = Links.of(tree, texts)
    key = (path, texts[path], repr(links))
    if key not in _made:
        _made[key] = source_notebook(path, texts[path], links, tree.root)[0]
    return deepcopy(_made[key])


def blank(nb: NotebookNode) -> NotebookNode:
    """A source notebook with nbgrader's stubs for answers and the hidden tests still in it."""
    from nbgrader.preprocessors import ClearSolutions

    return ClearSolutions().preprocess(deepcopy(nb), {})[0]


def names(topic: str, wanted=lambda cell: True) -> dict:
    """What the answers of a solved chapter define; `wanted` may leave cells out, checks never run. AssertionError if a cell fails."""
    scope = {"__name__": "__main__", "display": lambda *things, **_: None}
    for cell in solved(topic).cells:
        if cell.cell_type == "code" and not meta(cell).get("grade") and wanted(cell):
            _, _, fault = execute(cell.source, "<answers>", scope)
            assert not fault, fault
    return scope


def exercise_of(grade_id: str) -> str:
    """`ch01-q04-check` -> `ch01-q04`."""
    return "-".join(grade_id.split("-")[:2])


def judge(nb: NotebookNode, *only: str) -> dict[str, Verdict]:
    """Run every code cell from the top in one fresh namespace; what each check cell gave.

    only   grade_ids: of other exercises just answers and what is given run, which later ones may build on
    """
    scope = {"__name__": "__main__", "display": lambda *things: None}
    found = {}
    for cell in cells_of(nb, {exercise_of(g) for g in only}) if only else nb.cells:
        m = meta(cell)
        if cell.cell_type != "code":
            continue
        value, said, fault = execute(cell.source, f"<{key_of(cell)}>", scope)
        if m.get("grade"):
            score, message = grade(value, said, fault, float(m["points"]))
            found[m["grade_id"]] = Verdict(score, float(m["points"]), message)
    return found


def cells_of(nb: NotebookNode, exercises: set[str]) -> list[NotebookNode]:
    """The cells of these exercises, those in front of the first, all answers and what is given for them."""
    under, found = None, []
    for cell in nb.cells:
        if cell.cell_type == "markdown" and (heading := HEADING.search(cell.source)):
            under = "ch{:02}-q{:02}".format(*map(int, heading.groups()[:2]))
        shared = meta(cell).get("solution") or meta(cell).get("grade_id", "").endswith("-given")
        if under is None or under in exercises or shared:
            found.append(cell)
    return found


def execute(source: str, name: str, scope: dict) -> tuple[object, str, str]:
    """Run a cell: value of its last expression, what it printed, and what nbgrader would hold against it."""
    out, err = io.StringIO(), io.StringIO()
    value = None
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            body = ast.parse(source, name).body
            last = body.pop() if body and isinstance(body[-1], ast.Expr) and not source.rstrip().endswith(";") else None
            exec(compile(ast.Module(body, []), name, "exec"), scope)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), name, "eval"), scope)
        except (Exception, SystemExit):
            err.write(traceback.format_exc(limit=-1))
    return value, out.getvalue(), err.getvalue()


def grade(value: object, said: str, fault: str, points: float) -> tuple[float, str]:
    """nbgrader's rule: nothing for an error or anything on stderr, else the number that the cell ends in."""
    if fault:
        return 0.0, (said + fault).strip()
    try:
        score = float(repr(value))
    except ValueError:
        raise SourceError(f"A check must end in a number of points, this one ended in {value!r}.") from None
    if not 0 <= score <= points:
        raise SourceError(f"A check worth {points:g} points gave {score:g}.")
    return score, said.strip()
