"""A learner's own function of an earlier exercise, for an ungraded cell of a later chapter.

What is read is the learner's notebook as it was saved, in work/ or beside the chapter, and only where somebody sits before the
page: while a page is built or work is graded nothing of anybody's is run, and `own` gives None.
"""

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path

from . import progress, replaced
from .solutions import passed

NOTEBOOK = "exercises.ipynb"


def own(exercise: str, name: str, agrees: Callable[[Callable], bool] = callable) -> Callable | None:
    """The learner's function `name` if its exercise has passed and the function still does what was asked; else None.

    exercise  such as "3.19"
    agrees    a short trial: what has passed may have been edited since

    A sentence says whose function is used. None on a page that is built.

    >>> own("3.19", "decoder_layer")
    """
    if not progress.attended():
        return None
    exercise = replaced.current(exercise)
    if not passed(exercise):
        print(f"Ours: once Exercise {exercise} has passed, this cell uses your `{name}`.")
        return None
    try:
        found = _function(exercise, name, Path.cwd())
        if agrees(found):
            print(f"Yours: `{name}` of Exercise {exercise}.")
            return found
        why = "it gives other results than when it passed"
    except Exception as error:
        why = f"{type(error).__name__}: {error}".rstrip(".")
    print(f"Ours: your `{name}` of Exercise {exercise} cannot be used ({why}).")
    return None


def _function(exercise: str, name: str, here: Path) -> Callable:
    chapter, number = map(int, exercise.split("."))
    found = sorted(here.parent.glob(f"ch{chapter:02d}_*/{NOTEBOOK}"))
    if not found:
        raise FileNotFoundError(f"there is no notebook of chapter {chapter} beside this one")
    space = {"__name__": "__main__"}
    exec(compile(source(json.loads(found[0].read_text(encoding="utf-8")), f"ch{chapter:02d}-q{number:02d}"),
                 f"<exercise {exercise}>", "exec"), space)  # fmt: skip
    if name not in space:
        raise NameError(f"its cell does not define {name}")
    return space[name]


def source(notebook: dict, grade_id: str) -> str:
    """The cells that answer an exercise, after what stands before them in cells without an id: imports, functions, classes.

    What else those cells do, such as making devices or drawing, is left out.
    """
    before, answer = [], []
    for cell in notebook["cells"]:
        text, of = "".join(cell["source"]), cell["metadata"].get("nbgrader", {})
        if cell["cell_type"] != "code":
            continue
        if not of and not answer:
            before += _definitions(text)
        elif of.get("solution") and re.fullmatch(re.escape(grade_id) + r"(?!\d)[\w-]*", of["grade_id"]):
            answer.append(text)
    return "\n".join(before + answer)


def _definitions(text: str) -> list[str]:
    try:
        body = ast.parse(text).body
    except SyntaxError:  # a magic, or a cell half written
        return []
    kinds = ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef
    return [ast.get_source_segment(text, node) for node in body if isinstance(node, kinds)]
