"""The statements of a check cell about an answer, the likely mistakes by which a wrong one is told, and the report with its points."""

import codecs
import copy
import numbers
import sys
import textwrap
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np

from .compare import OffLimits, closed, same, shown
from .random_inputs import inputs, secret
from .solutions import tried

if TYPE_CHECKING:
    from .sharded_program import Program

GENERIC = (
    (
        2,
        "that is exactly 2 times too much: an add counted as well as a multiply-add, both directions of a link, or 2 bytes for 1?",
    ),
    (
        1 / 2,
        "that is exactly half: a multiply-add is 2 FLOPs, bf16 takes 2 bytes, a link counted one way or both ways?",
    ),
    (8, "that is exactly 8 times too much: bits where bytes are asked for?"),
    (1 / 8, "that is exactly 8 times too little: bytes where bits are asked for?"),
    (1e3, "that is 1000 times too much: which prefix?"),
    (1e-3, "that is 1000 times too little: which prefix, which unit of time?"),
    (1e6, "that is a million times too much: seconds are asked for, not microseconds?"),
    (1e-6, "that is a million times too little: which prefix?"),
    (1e9, "that is 1e9 times too much: which prefix?"),
    (1e-9, "that is 1e9 times too little: plain bytes and seconds are asked for, no prefix"),
    (2**30 / 1e9, "GiB for GB: here a GB is 1e9 bytes"),
    (1e9 / 2**30, "GB for GiB: here a GiB is 2**30 bytes"),
    (-1, "the sign is wrong"),
)


class Answer:
    """A learner's function (or value) and what must hold of it; all or nothing for its points.

    rtol  relative tolerance of every comparison
    """

    def __init__(self, answer, points: float, rtol: float = 1e-3):
        self.answer, self.points, self.rtol = answer, points, rtol
        self.name = getattr(answer, "__name__", "your answer")
        self.todo: list[Callable[[], str | None]] = []
        self.mistakes: list[tuple[str, Callable]] = []

    def gives(self, expected, *args, **kwargs) -> None:
        """For these arguments the value is `expected`, to within rtol; `...` in it matches anything."""
        unseen = _Hidden.now
        self.todo.append(self._stated(lambda: self._compare(expected, args, kwargs, unseen=unseen), unseen))

    def equals(self, reference: Callable, n: int = 20, **draws) -> None:
        """On n random settings of the draws the answer equals `reference`.

        Draws stand in the order of the answer's parameters, whose names are the learner's own affair.
        """

        def run():
            for named in inputs(n, self.name, draws):
                expected = reference(**named)
                if message := self._compare(expected, tuple(named.values()), {}, named, unseen=True):
                    return message

        self.todo.append(self._stated(run, unseen=True))

    def law(self, sentence: str, holds: Callable) -> None:
        """`holds(f)` is true; if not, or if f raises, the learner reads the sentence."""
        unseen = _Hidden.now

        def run():
            try:
                kept = holds(self._call)
            except Exception as e:
                if isinstance(e, (NotImplementedError, OffLimits)) or getattr(e, "ours", False):
                    raise
                if _raised_by_answer(e):
                    said = self._unseen(e) if unseen and secret() else _sentence(_raised(self.name, e))
                    return f"{said} It was asked for this: {_sentence(sentence)}"
                return f"{_sentence(sentence)} What {self.name} returns does not even allow to ask."
            return None if kept else f"{self.name} is not right yet: {_sentence(sentence)}"

        self.todo.append(self._stated(run, unseen))

    def refuses(self, *args, **kwargs) -> None:
        """For these arguments the answer raises ValueError."""

        unseen = _Hidden.now

        def run():
            try:
                got = self._call(*args, **kwargs)
            except ValueError:
                return None
            said = "" if unseen and secret() else f" ({self._said(args, kwargs, got)}.)"
            return f"This input makes no sense, so raise a ValueError that says why.{said}"

        self.todo.append(self._stated(run, unseen))

    def wrong(self, message: str, mistake: Callable) -> None:
        """A named mistake, by the value it leads to: tried whenever a value is off.

        `...` matches anything, and so does an entry that a dict leaves out: what is stated must differ from the right value.
        """
        self.mistakes.append((message, mistake))

    def evaluate(self) -> tuple[float, list[str]]:
        """Points earned and the first complaint."""
        for run in self.todo:
            message, fault = _attempt(run, self.name)
            if message or fault:
                return 0, [message or fault]
        return self.points, []

    def _call(self, *args, **kwargs):
        return _called(self.answer, *args, **kwargs)

    def _stated(self, run: Callable, unseen: bool) -> Callable:
        """The same; if nobody has seen its numbers, what an answer raises there gives its type only: its text may hold them."""

        def told():
            try:
                return run()
            except (NotImplementedError, OffLimits):
                raise
            except Exception as e:
                if not (unseen and secret()) or getattr(e, "ours", False):
                    raise
                return self._unseen(e)

        return told

    def _unseen(self, e: Exception) -> str:
        return f"{self.name} raised {type(e).__name__} for numbers that it has not seen."

    def _compare(self, expected, args, kwargs, named=None, unseen=False) -> str | None:
        got = self._call(*args, **kwargs)
        if got is Ellipsis or got is NotImplemented:
            raise NotImplementedError
        where = same(got, expected, self.rtol)
        if where is None:
            return None
        why = self._why(got, expected, args, kwargs, where)
        if unseen and secret():  # a hidden test gives its hint and no values
            return _sentence(why)
        return f"{_sentence(why)} ({self._said(*((), named) if named else (args, kwargs), got)}.)"

    def _said(self, args, kwargs, got) -> str:
        if not callable(self.answer):
            return f"your answer is {shown(got)}"
        listed = [shown(a) for a in args] + [f"{k}={shown(v)}" for k, v in kwargs.items()]
        return f"{self.name}({', '.join(listed)}) returned {shown(got)}"

    def _why(self, got, expected, args, kwargs, where) -> str:
        for message, mistake in self.mistakes:
            try:
                value = mistake(*args, **kwargs)
            except Exception:  # a mistake need not make sense for every input
                continue
            if value is None:  # the mistake leads nowhere with these arguments
                continue
            if same(got, value, self.rtol) is None and same(expected, value, self.rtol) is not None:
                return message
        if isinstance(got, numbers.Real) and isinstance(expected, numbers.Real) and not isinstance(expected, bool):
            for factor, message in GENERIC:
                if expected and same(got, expected * factor, min(self.rtol, 0.01)) is None:
                    return message
        return where


class Entries:
    """A learner's dict of values, each with an equal share of the points.

    answer  the dict, or a function without arguments that returns it
    wrong   {entry: {message: value}}, the named mistakes
    """

    def __init__(
        self, answer: Mapping | Callable, points: float, rtol: float = 1e-3, wrong: Mapping | None = None, **expected
    ):
        self.answer, self.points, self.rtol, self.mistakes, self.expected = answer, points, rtol, wrong or {}, expected

    def evaluate(self) -> tuple[float, list[str]]:
        """Points earned and a complaint for each entry that is off."""
        found, fault = _attempt(lambda: _called(self.answer), getattr(self.answer, "__name__", "your answer"))
        if fault:
            return 0, [fault]
        if not isinstance(found, Mapping):
            return 0, [
                f"the answer is a dict with the entries {', '.join(self.expected)}, not a {type(found).__name__}."
            ]
        complaints = [m for name in self.expected if (m := self._complaint(name, found.get(name)))]
        return self.points * (1 - len(complaints) / len(self.expected)), complaints

    def _complaint(self, name: str, got) -> str | None:
        expected = self.expected[name]
        if got is None or got is Ellipsis:
            return f"entry {name!r} is not done yet."
        if (where := same(got, expected, self.rtol)) is None:
            return None
        for message, value in self.mistakes.get(name, {}).items():
            if same(got, value, self.rtol) is None and same(expected, value, self.rtol) is not None:
                return _sentence(f"entry {name!r}: {message}")
        return f"entry {name!r} is {shown(got)}: {where}."


def report(exercise: str, *answers: "Answer | Entries | Program", insight: str = "") -> float:
    """Print what was found (on stderr if it earns nothing) and return the points earned: the last line of a check cell.

    insight  what to think about after passing, in rot13 so that nobody reads it by accident
    """
    results = [a.evaluate() for a in answers]
    earned, points = sum(e for e, _ in results), sum(a.points for a in answers)
    earned = round(earned * 4) // 1 / 4 if earned < points else points  # partial credit in quarters
    passed = all(not messages for _, messages in results)
    lines = [f"Exercise {exercise}: {earned:g} of {points:g} points"]
    lines += [
        textwrap.fill(m, 96, initial_indent="  ", subsequent_indent="    ", break_long_words=False)
        for m in dict.fromkeys(m for _, ms in results for m in ms)
    ]
    part = ", ".join(getattr(a, "name", "") for a in answers)
    tries = tried(exercise, passed, any(not m.endswith("not done yet.") for _, ms in results for m in ms), part)
    if passed and insight:
        lines += ["", *(textwrap.fill(line, 96) for line in codecs.decode(insight, "rot13").splitlines())]
    elif tries >= 3 and not passed:
        lines.append(f"  After three tries you may look: check.solution({exercise!r})")
    # nbgrader's Validate repeats what stands on stderr; there it also means no points, so partial credit stays on stdout.
    print("\n".join(lines), file=sys.stderr if earned == 0 and points else sys.stdout)
    return int(earned) if earned == int(earned) else earned


class _Hidden:
    now = False


def hidden() -> None:
    """What this check states from here on is hidden: to a class it gives its hint and no numbers. The generator writes this call."""
    _Hidden.now = True


def run(cell: Callable) -> float:
    """The points of a check cell, and a sentence instead of its lines if the answer above it was not run yet."""
    _Hidden.now = False
    try:
        return cell()
    except NameError as e:
        print(f"Run the cell above first: {_first_line(e)}.", file=sys.stderr)
        return 0


def _called(answer, *args, **kwargs):
    """The answer's value: that of a function for these arguments, with the formulas closed while it runs.

    Its warnings are not printed: NumPy warns of a NaN that the next line replaces, and nbgrader takes points for anything on stderr.
    """
    if not callable(answer):
        return answer
    own = [
        copy.deepcopy(a) if isinstance(a, (dict, list, np.ndarray)) else a for a in args
    ]  # what it changes is its own
    away = hasattr(type(answer), "exported_program")  # it runs in another process, where they are closed anyway
    try:
        with nullcontext() if away else closed(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on stderr they cost all points here, and none when a class is graded
            return answer(*own, **kwargs)
    except StopIteration:  # would end a `map` of the check, silently
        raise RuntimeError("StopIteration") from None


def _attempt(run: Callable, name: str) -> tuple:
    """(value, "") or (None, a sentence), whatever a learner's code may raise."""
    try:
        return run(), ""
    except NotImplementedError:
        return None, f"{name} is not done yet."
    except OffLimits as e:
        return None, f"{e}."
    except Exception as e:
        return None, _raised(name, e)


def _raised(name: str, e: Exception) -> str:
    return f"{name} raised {type(e).__name__}: {_first_line(e)}".rstrip(": ")


def _raised_by_answer(e: Exception) -> bool:
    """Whether an exception came out of the learner's code, rather than out of a rule that looked at its result."""
    frame = e.__traceback__
    while frame:
        if frame.tb_frame.f_code is _called.__code__:
            return True
        frame = frame.tb_next
    return False


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!", "…")) else f"{text}."


def _first_line(e: Exception) -> str:
    return textwrap.shorten((str(e).splitlines() or [""])[0], 200, placeholder=" …")
