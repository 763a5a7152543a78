"""Tries per exercise, our solution for those who passed or tried three times, and a learner's own for an ungraded cell of a later chapter.

What is read of a learner's is the notebook as it was saved, in work/ or beside the chapter, and only where somebody sits before the
page: while a page is built or work is graded nothing of anybody's is run, and `own` gives None.
"""

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path

from helpers.prose import render

from . import notebook_cells, progress

# Failed ones after which our answer opens: `making.exercises` and the message below a check say three as well.
TRIES = 3
_tries: dict[tuple[str, str], int] = {}
_passed: set[tuple[str, str]] = set()
_recalled: set[Path] = set()


def recall() -> None:
    """Remember what was tried and passed before this session."""
    if progress.attended() and (path := progress.place()) not in _recalled:
        _recalled.add(path)
        for exercise, parts in progress.kept(path).items():
            for part, record in parts.items():
                _tries[exercise, part] = max(record["tries"], _tries.get((exercise, part), 0))
                if record["won"] >= record["of"]:
                    _passed.add((exercise, part))


def tried(exercise: str, passed: bool, is_counted=True, part="", won: float = 0, worth: float = 0) -> int:
    """Note a try at one part of an exercise; the number of failed ones.

    A cell that nobody has filled in does not count.

    won, worth  points
    """
    recall()
    if passed:
        _passed.add((exercise, part))
    elif is_counted:
        _tries[exercise, part] = _tries.get((exercise, part), 0) + 1
    tries = _tries.get((exercise, part), 0)
    if passed or is_counted:
        progress.note(exercise, part, won, worth, tries)
    return tries


def passed(exercise: str) -> bool:
    """Whether the exercise has passed, today or before: for a cell that shows what an answer draws.

    >>> passed("0.2")
    False
    """
    recall()
    exercise = progress.current_number(exercise)
    if shell := notebook_cells.notebook():  # that cell may be the first of its kernel
        check = "ch{:02}_q{:02}_".format(*map(int, exercise.split(".")))
        notebook_cells.bring(notebook_cells.given(check)[0], shell.user_ns)
    return any(e == exercise for e, _ in _passed)


def solution(exercise: str) -> None:
    """Print our answer to an exercise, after a pass or three tries; a text that a person grades, at once."""
    if not isinstance(exercise, str) or not re.fullmatch(r"\d+\.\d+", exercise):
        print(
            f'An exercise is a text, as in check.solution("1.10"), for 1.1 and 1.10 are one number; this is {exercise!r}.'
        )
        return
    if exercise in progress.REPLACED_BY:
        print(f"Exercise {exercise} is gone; exercise {progress.current_number(exercise)} replaces it.")
        exercise = progress.current_number(exercise)
    chapter, number = map(int, exercise.split("."))
    source = _carried(f"solutions/ch{chapter:02d}_*.md")
    if source is None:
        absent = f"There is no exercise {exercise}."
        print(absent if carries(exercise) else "This copy of the course carries no solutions.")
        return
    recall()
    code, text = _answers(render(source.read_text(encoding="utf8")), f"ch{chapter:02d}-q{number:02d}")
    left = TRIES - max((n for (e, _), n in _tries.items() if e == exercise), default=0)
    parts = max(1, source.read_text(encoding="utf8").count(f'check.report("{exercise}"'))
    own = {part for e, part in _passed if e == exercise}
    done = len(own) >= parts or own & progress.REPLACED_BY.keys()
    if not code and not text:
        print(f"There is no exercise {exercise}.")
    elif code and not done and left > 0:
        print(
            f"Exercise {exercise} opens after a pass{' of every part' * (parts > 1)} "
            f"or {left} more {'try' if left == 1 else 'tries'}: run its check cell."
        )
    else:
        print("\n\n".join(code + text))


def carries(exercise: str) -> bool:
    """Whether our answers to a chapter are in this copy of the course: an edition may keep them back."""
    chapter = f"ch{int(exercise.partition('.')[0]):02d}_*"
    return bool(_carried("solutions") and (_carried(f"solutions/{chapter}.md") or not _carried(f"notebooks/{chapter}")))


def _carried(pattern: str) -> Path | None:
    """The first file or folder of this name in the course's folder, which is above this one or that of the package."""
    roots = (Path.cwd(), *Path.cwd().parents, Path(__file__).resolve().parents[2])
    return next((path for root in roots for path in sorted(root.glob(pattern))), None)


def _answers(source: str, grade_id: str) -> tuple[list[str], list[str]]:
    """Our code and our texts for an exercise, which may have several parts."""
    cells = re.findall(r"```\{code-cell\}[^`]*?grade_id: (" + grade_id + r"[\w-]*),.*?---\n(.*?)```", source, re.S)
    marks = r"^[ \t]*### (BEGIN|END) SOLUTION\n"
    code = [re.sub(marks, "", c, flags=re.M).strip() for i, c in cells if "check" not in i]
    head = r'^\+\+\+ \{"nbgrader": [^\n]*"grade_id": "' + grade_id + r'"[^\n]*\n'
    return code, [text.strip() for text in re.findall(head + r"(.*?)^\+\+\+", source, re.S | re.M)]


def own(exercise: str, name: str, is_valid: Callable[[Callable], bool] = callable) -> Callable | None:
    """The learner's function `name` if its exercise has passed and the function still does what was asked; else None.

    exercise  such as "3.19"
    is_valid  a short trial: what has passed may have been edited since

    A sentence says whose function is used. None on a page that is built.

    >>> own("3.19", "decoder_layer")
    """
    if not progress.attended():
        return None
    exercise = progress.current_number(exercise)
    if not passed(exercise):
        print(f"Ours: once Exercise {exercise} has passed, this cell uses your `{name}`.")
        return None
    try:
        found = _own_function(exercise, name, Path.cwd())
        if is_valid(found):
            print(f"Yours: `{name}` of Exercise {exercise}.")
            return found
        why = "it gives other results than when it passed"
    except Exception as error:
        why = f"{type(error).__name__}: {error}".rstrip(".")
    print(f"Ours: your `{name}` of Exercise {exercise} cannot be used ({why}).")
    return None


def _own_function(exercise: str, name: str, folder: Path) -> Callable:
    chapter, number = map(int, exercise.split("."))
    found = sorted(folder.parent.glob(f"ch{chapter:02d}_*/exercises.ipynb"))
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
