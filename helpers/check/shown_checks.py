"""A check by its exercise's number: a notebook's check cell is one call, and what it judges lies beside the notebook, in checks.json.

`make release` writes there what a learner sees of each check: cases, what mistakes give, sentences, laws. Where a class is graded
the cell itself holds the whole check, hidden part included, and hands it in by `in_full`; then nothing is read.
"""

import builtins
import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import NamedTuple

from helpers.numeric import threshold

from . import compare  # where a class is graded, it is another, without these names
from .answer_checks import Answer, run
from .notebook_cells import Points, given, read_by
from .progress import attended
from .raised import NOT_JUDGED
from .random_inputs import anew, choice, floats, ints, moved

NAME = "checks.json"
COURSE = Path(__file__).resolve().parents[2] / "notebooks"

UNREADABLE = (OSError, ValueError, KeyError, SyntaxError)

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
    except UNREADABLE as error:
        print(f"{_absent(number, error)} {NOT_JUDGED}", file=sys.stderr)
        return Points(0)
    points = run(cell)
    return None if attended() else points


def judges(number: str, part: str = "") -> None:
    """Print in words what a check asks of an answer; a class is asked more, with other numbers."""
    try:
        print(told(shown(function_name(number, part), sys._getframe(1).f_globals)))
    except UNREADABLE as error:
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

    KeyError if no file has it, another of UNREADABLE if one cannot be read.
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
    """Name of a check -> its lines."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        bodies = {name: [line for line in lines[1:] if line] for name, lines in found.items()}
        whole = all(lines[0] == f"def {name}():" for name, lines in found.items())
        whole = whole and all(line[0] == " " for lines in bodies.values() for line in lines)
    except (AttributeError, TypeError, LookupError, RecursionError):
        whole = False
    if not whole:
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


class Statement(NamedTuple):
    """What a check says of an answer: `a.gives(6, 3)` is of the kind "gives". Turns count over all answers of the check."""

    turn: int
    kind: str
    args: tuple
    kwargs: dict
    unseen: bool


class Stated:
    """In place of `check.Answer` and of `check.Program`: keeps what is stated, and judges nothing."""

    def __init__(self, recorder: "Recorder", answer, options: dict):
        self.recorder, self.answer, self.given, self.statements = recorder, answer, options, []

    unlike = Answer.unlike  # several laws

    def in_tiers(self, *args) -> None:
        from .sending_rules import SendingRules  # which needs JAX

        SendingRules.in_tiers(self, *args)

    def __getattr__(self, kind: str) -> Callable:
        def state(*args, **kwargs) -> None:
            said = Statement(next(self.recorder.turn), kind, args, kwargs, self.recorder.unseen)
            self.statements.append(said)

        return state

    def of_kind(self, kind: str) -> list[Statement]:
        return [said for said in self.statements if said.kind == kind]


class Recorder:
    """In place of `check`, for a check cell: what it states of each answer is kept in `made`; the rest of it does nothing.

    drawn  (n, name, draws) -> the settings over which the cell is to loop
    """

    anew, choice, floats, ints, moved, threshold = map(staticmethod, (anew, choice, floats, ints, moved, threshold))

    def __init__(self, draw: Callable = lambda *_: ()):
        self.made: list[Stated] = []
        self.drawn, self.turn, self.unseen = draw, count(), False

    def Answer(self, answer, *_, **options) -> Stated:
        self.made.append(Stated(self, answer, options))
        return self.made[-1]

    def Program(self, block, points, mesh, in_specs, out_specs, *_, **options) -> Stated:
        return self.Answer(block, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)

    def hidden(self) -> None:
        self.unseen = True

    def inputs(self, n, name, draws, **_) -> Iterator[dict]:
        return iter(self.drawn(n, name, draws))

    def with_edges(self, name, draws, reference=None) -> Iterator:
        return (((d, reference(**d)) if reference else d) for d in self.drawn(0, name, draws))

    def in_full(self, cell: Callable) -> None:
        cell()

    def __getattr__(self, name: str) -> Callable:
        return lambda *_, **__: None


def sentence(name: str, statement: Statement) -> str:
    """What a statement asks of an answer of this name, in words; "" for a mistake that it knows."""
    listed = list(map(compare.shown, statement.args)) + [f"{k}={compare.shown(v)}" for k, v in statement.kwargs.items()]
    match statement.kind:
        case "gives":
            return f"{name}({', '.join(listed[1:])}) gives {listed[0]}"
        case "refuses" if not (statement.args and callable(statement.args[-1])):
            return f"{name}({', '.join(listed)}) raises ValueError"
        case "law":
            return statement.args[0]
        case "equals":
            return f"for drawn {', '.join(statement.kwargs) or 'arrays'} it gives what ours gives"
        case "carries":
            return "the state that is handed in counts, and none is kept between calls"
        case "wrong":
            return ""
    # A rule for programs: its name says it, with its numbers and words.
    words = [compare.shown(x) for x in statement.args if isinstance(x, int | float | str)]
    words += [f"{k} {compare.shown(v)}" for k, v in statement.kwargs.items() if isinstance(v, int | float | str)]
    return f"{statement.kind.replace('_', ' ')} {', '.join(words)}".strip()


def told(check: Callable) -> str:
    """The statements of a check, one in a line; it may read answers that nobody has written."""
    recorder, (ours, _) = Recorder(), given(check.__name__)
    names = read_by(check.__code__) - ours.keys() - vars(builtins).keys()
    answers = {name: SimpleNamespace(__name__=name) for name in names}
    FunctionType(check.__code__, {**answers, **ours, "__builtins__": builtins, "check": recorder}, check.__name__)()
    said = [sentence(getattr(a.answer, "__name__", "your answer"), s) for a in recorder.made for s in a.statements]
    lines = ["What is asked of an answer, in a class of other numbers as well:"]
    lines += [f"- {line}" for line in dict.fromkeys(filter(None, said))]
    if known := said.count(""):
        lines.append(f"It knows {known} likely mistake{'s' * (known > 1)}.")
    return "\n".join(textwrap.fill(line, 100, subsequent_indent="  ", break_long_words=False) for line in lines)
