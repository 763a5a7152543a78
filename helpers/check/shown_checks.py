"""A check by its exercise's number: a notebook's check cell is one call, and what it judges lies beside the notebook, in checks.json.

`make release` writes there what a learner sees of each check: cases, what mistakes give, sentences, laws. Where a class is graded
the cell itself holds the whole check, hidden part included, and hands it in by `in_full`; then nothing is read.
"""

import builtins
import json
import sys
import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType, SimpleNamespace

from . import compare, random_inputs  # where a class is graded, compare is another, without these names
from .answer_checks import run
from .notebook_cells import Points, given, read_by
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
        print(told(shown(function_name(number, part), sys._getframe(1).f_globals)))
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
    files = (_read(path, path.stat().st_mtime_ns) for path in places if path.is_file())
    lines = next((found[name] for found in files if name in found), None)
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


class Asked:
    """In place of an answer's or a program's check: keeps its statements as sentences."""

    def __init__(self, answer, *_, **__):
        self.name, self.said, self.known = getattr(answer, "__name__", "your answer"), [], 0

    def gives(self, expected, *args, **kwargs) -> None:
        listed = [compare.shown(a) for a in args] + [f"{k}={compare.shown(v)}" for k, v in kwargs.items()]
        self.said.append(f"{self.name}({', '.join(listed)}) gives {compare.shown(expected)}")

    def refuses(self, *args, **__) -> None:
        self.said.append(f"{self.name}({', '.join(map(compare.shown, args))}) raises ValueError")

    def law(self, sentence: str, *_) -> None:
        self.said.append(sentence)

    def equals(self, *_, **draws) -> None:
        self.said.append(f"for drawn {', '.join(draws) or 'arrays'} it gives what ours gives")

    def carries(self, *_) -> None:
        self.said.append("the state that is handed in counts, and none is kept between calls")

    def wrong(self, *_, **__) -> None:
        self.known += 1

    def __getattr__(self, name: str) -> Callable:
        """A rule for programs: its name says it, with its numbers and words."""

        def rule(*args, **named):
            listed = [compare.shown(x) for x in args if isinstance(x, int | float | str)]
            listed += [f"{k} {compare.shown(v)}" for k, v in named.items() if isinstance(v, int | float | str)]
            self.said.append(f"{name.replace('_', ' ')} {', '.join(listed)}".strip())

        return rule


def told(check: Callable) -> str:
    """The statements of a check, one in a line; it may read answers that nobody has written."""
    made: list[Asked] = []

    def asked(*args, **kwargs) -> Asked:
        made.append(Asked(*args, **kwargs))
        return made[-1]

    ours, _ = given(check.__name__)
    course = {n: getattr(random_inputs, n) for n in ("anew", "choice", "floats", "ints", "moved")}
    course |= {"report": lambda *_, **__: None, "inputs": lambda *_, **__: iter(())}
    stand_in = SimpleNamespace(**course, Answer=asked, Program=asked)
    names = read_by(check.__code__) - ours.keys() - vars(builtins).keys()
    answers = {name: SimpleNamespace(__name__=name) for name in names}
    FunctionType(check.__code__, {**answers, **ours, "__builtins__": builtins, "check": stand_in}, check.__name__)()
    lines = ["What is asked of an answer, in a class of other numbers as well:"]
    lines += [f"- {line}" for line in dict.fromkeys(line for a in made for line in a.said)]
    if known := sum(a.known for a in made):
        lines.append(f"It knows {known} likely mistake{'s' * (known > 1)}.")
    return "\n".join(textwrap.fill(line, 100, subsequent_indent="  ", break_long_words=False) for line in lines)
