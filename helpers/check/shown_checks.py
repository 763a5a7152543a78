"""A check by its exercise's number: a notebook's check cell is one call, and what it judges lies beside the notebook, in checks.json.

`make release` writes there what a learner sees of each check: cases, what mistakes give, sentences, laws. Where a class is graded
the cell itself holds the whole check, hidden part included, and hands it in by `in_full`; then nothing is read.
"""

import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from . import in_words
from .answer_checks import run
from .notebook_cells import Points
from .progress import attended
from .raised import NOT_JUDGED

NAME = "checks.json"
COURSE = Path(__file__).resolve().parents[2] / "notebooks"

_whole: dict[str, Callable] = {}


def in_full(cell: Callable) -> Callable:
    """Keep a check, hidden part included, for the call of `exercise` that follows."""
    _whole[cell.__name__] = cell
    return cell


def exercise(number: str, part: str = "") -> Points | None:
    """The points of an exercise, or of a part of it, for grading to read: the last line of a check cell. Who sits here was told."""
    name = function_name(number, part)
    try:
        cell = _whole.pop(name, None) or shown(name, sys._getframe(1).f_globals)
    except (OSError, ValueError, KeyError) as error:
        print(f"{_absent(number, error)} {NOT_JUDGED}", file=sys.stderr)
        return Points(0)
    points = run(cell)
    return None if attended() else points


def judges(number: str, part: str = "") -> None:
    """Print in words what a check asks of an answer; a class is asked more, with other numbers."""
    try:
        print(in_words.told(shown(function_name(number, part), sys._getframe(1).f_globals)))
    except (OSError, ValueError, KeyError) as error:
        print(_absent(number, error))


def function_name(number: str, part: str = "") -> str:
    """What the check of a part is called.

    >>> function_name("5.1"), function_name("2.24", "b")
    ('ch05_q01_check', 'ch02_q24_b_check')
    """
    chapter, _, exercise = number.partition(".")
    return "_".join([f"ch{int(chapter):02}", f"q{int(exercise):02}", *part.replace("-", "_").split(), "check"])


def shown(name: str, scope: dict) -> Callable:
    """What a learner sees of a check, as a function whose global names are `scope`: in a clone the course's, which an update brings,
    else what came with the notebook.

    KeyError if no file has it, OSError or ValueError if one cannot be read.
    """
    places = [Path(NAME).resolve(), *sorted(COURSE.glob(f"{name[:4]}_*/{NAME}"))]
    if (COURSE / "README.md").is_file():
        places.reverse()
    lines = next(
        (found[name] for p in places if p.is_file() and name in (found := _read(p, p.stat().st_mtime_ns))), None
    )
    if lines is None:
        raise KeyError(name)
    made: dict[str, Callable] = {}
    exec(compile("\n".join(lines), f"<{name}>", "exec"), scope, made)
    return made[name]


@cache
def _read(path: Path, _changed: int) -> dict[str, list[str]]:
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ValueError(f"{path} does not hold checks")
    return found


def _absent(number: str, error: Exception) -> str:
    """Why there is no check, and what to do."""
    if isinstance(error, KeyError):
        return (
            f"The check of {number} is in no {NAME}: this notebook and the course are of different days. "
            "Update the course's folder, or put the file that came with this notebook beside it."
        )
    return f"{NAME} cannot be read ({error}): copy it anew from the course."
