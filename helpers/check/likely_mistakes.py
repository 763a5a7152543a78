"""The mistakes that an exercise names, by the values to which they lead."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from . import compare


def either(messages: list[str]) -> str | None:
    """The first two known mistakes that lead to what was found, in one sentence; None if there is none.

    >>> either(["a term is missing.", "a factor of 2", "a factor of 2", "a third one"])
    'a term is missing — or: a factor of 2'
    """
    *others, last = list(dict.fromkeys(messages))[:2] or [None]
    return last and " — or: ".join([*(m.rstrip(".") for m in others), last])


@dataclass(frozen=True)
class Mistake:
    """A named one.

    leads_to  the value that it leads to, or a function of the arguments
    case      the arguments of the visible case that a value is for; of any that is seen, if there are none
    """

    message: str
    leads_to: object
    case: tuple

    def value(self, args: tuple, kwargs: dict, is_hidden: bool):
        """What it leads to with these arguments; None if that is not known."""
        if not callable(self.leads_to):
            return None if is_hidden or (self.case and not _alike(args, self.case)) else self.leads_to
        try:
            return self.leads_to(*args, **kwargs)
        except Exception:  # a mistake need not make sense for every input
            return None


class Mistakes:
    """Named ones, each by the value that it leads to."""

    def __init__(self, rtol: float):
        self.rtol = rtol
        self.named: list[Mistake] = []
        self._same = lambda value, expected: compare.alike(value, expected, rtol)

    @property
    def functions(self) -> list[Callable]:
        """Those of the arguments, which lead to a value in every case."""
        return [mistake.leads_to for mistake in self.named if callable(mistake.leads_to)]

    def leading(self, wrong_value, expected, args, kwargs, is_hidden: bool, other_cases: Callable) -> list[str]:
        """The messages of mistakes that lead to this value: those first that lead to the answer's other values as well, and then
        those that state most entries.

        other_cases  gives (what was given, arguments) of other cases
        """
        values = ((mistake, mistake.value(args, kwargs, is_hidden)) for mistake in self.named)
        leading = [
            (mistake, value)
            for mistake, value in values
            if value is not None and self._same(wrong_value, value) and self._first(wrong_value, expected, value)
        ]
        if len({mistake.message for mistake, _ in leading}) > 1:
            known = list(other_cases())
            leading.sort(key=lambda pair: (not self._agrees(pair[0], known), -_entries(pair[1])))
        return list(dict.fromkeys(mistake.message for mistake, _ in leading))

    def _agrees(self, mistake: Mistake, other_cases: Sequence[tuple]) -> bool:
        """Whether a mistake leads to what the answer gives in other cases, as far as it says anything of them."""
        values = ((got, mistake.value(args, {}, is_hidden=not mistake.case)) for got, args in other_cases)
        return all(value is None or self._same(got, value) for got, value in values)

    def found(self, expected, args: tuple) -> tuple[bool, ...]:
        """Of each function of the arguments whether it gives another value than the expected one."""
        values = [m.value(args, {}, is_hidden=True) for m in self.named if callable(m.leads_to)]
        return tuple(value is not None and not self._same(expected, value) for value in values)

    def _first(self, wrong_value, expected, value) -> bool:
        """Whether a mistake explains the first entry that is wrong: one that comes before those that it states has another cause.

        An entry that is stated as `...` may be wrong by the same mistake; one that the case leaves open comes before all others.
        """
        if isinstance(expected, Mapping) and isinstance(value, Mapping) and value.keys() <= expected.keys():
            if any(expected[k] is ... and v is not ... for k, v in value.items()):
                return True
            entries = [(wrong_value.get(k), e, value.get(k, e)) for k, e in expected.items()]
        elif isinstance(expected, tuple | list) and isinstance(value, tuple | list) and len(value) == len(expected):
            entries = list(zip(wrong_value, expected, value))
        else:
            return not self._same(expected, value)
        wrong = [(e, v) for g, e, v in entries if v is not ... and not self._same(g, e)]
        return bool(wrong) and not self._same(*wrong[0])


def _entries(value) -> int:
    """How many entries a mistake states."""
    if isinstance(value, Mapping | tuple | list):
        return sum(map(_entries, value.values() if isinstance(value, Mapping) else value))
    return value is not ...


def _alike(args: tuple, case: tuple) -> bool:
    """Whether these are the arguments of that case."""

    def alike(a, c) -> bool:
        try:
            return a is c or compare.alike(a, c, 0) or type(a) is type(c) and bool(a == c)
        except Exception:  # arrays, and what does not compare
            return False

    return len(args) == len(case) and all(map(alike, args, case))
