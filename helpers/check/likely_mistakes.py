"""The mistakes that are known to lead to a value: those that an exercise names, and factors that hint at units."""

import numbers
from collections.abc import Callable, Mapping

import numpy as np

from . import compare

CAUSES = "an add counted as well as a multiply-add, or 2 bytes for 1"
FACTORS = (
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


def either(messages: list[str]) -> str | None:
    """The first two known mistakes that lead to what was found, in one sentence; None if there is none.

    >>> either(["a term is missing.", "a factor of 2", "a factor of 2", "a third one"])
    'a term is missing — or: a factor of 2'
    """
    *others, last = list(dict.fromkeys(messages))[:2] or [None]
    return last and " — or: ".join([*(m.rstrip(".") for m in others), last])


class Mistakes:
    """Named ones, each by the value that it leads to.

    twice  what may have been counted twice, or once too few, where a value is off by exactly 2; "" if nothing can
    """

    def __init__(self, rtol: float, twice: str):
        self.rtol, self.twice, self.named = rtol, twice, []

    def add(self, message: str, mistake, case: tuple) -> None:
        """A function of the arguments, or a value: of the visible case with these arguments, or of any that is seen."""
        self.named.append((message, mistake, case))

    def leading(self, got, expected, args: tuple, kwargs: dict, unseen: bool, others: Callable) -> list[str]:
        """The messages of mistakes that lead to this value: those first that lead to the answer's other values as well, and then
        those that state most entries.

        others  gives (what was given, arguments) of other cases
        """
        found = [of for of in self.named if self._leads(got, expected, self._value(of, args, kwargs, unseen))]
        if len({message for message, *_ in found}) > 1:
            value = lambda of, args: self._value(of, args, {}, not of[2])  # noqa: E731
            agrees = lambda got, value: value is None or compare.same(got, value, self.rtol) is None  # noqa: E731
            elsewhere = lambda of: all(agrees(got, value(of, args)) for got, args in others())  # noqa: E731
            found.sort(key=lambda of: (not elsewhere(of), -_entries(self._value(of, args, kwargs, unseen))))
        return list(dict.fromkeys(message for message, *_ in found))

    def factor(self, got, expected, within: bool = False) -> str | None:
        """A factor that hints at a unit, or at what was counted twice, by which a number is off, or all numbers of an array.

        within  it is one of several values: which quantity may have been counted twice, an exercise says then
        """
        if getattr(expected, "ndim", 0):
            return _common_factor(got, expected, self.rtol)
        if not isinstance(got, numbers.Real) or not isinstance(expected, numbers.Real) or isinstance(expected, bool):
            return None
        twice = self.twice if not within or self.twice != CAUSES else ""
        twice = f": {twice}?" if twice else ""
        factors = ((2, f"that is exactly 2 times too much{twice}"), (1 / 2, f"that is exactly half{twice}"))
        if not (within and isinstance(expected, numbers.Integral)):  # a count among others has no unit
            factors += FACTORS
        near = (m for by, m in factors if expected and compare.same(got, expected * by, min(self.rtol, 0.01)) is None)
        return next(near, None)

    def found(self, expected, args: tuple) -> tuple[bool, ...]:
        """Of each function of the arguments whether it gives another value than the expected one."""
        return tuple(self._differs(mistake, expected, args) for _, mistake, _ in self.named if callable(mistake))

    def _differs(self, mistake, expected, args: tuple) -> bool:
        try:
            value = mistake(*args)
        except Exception:  # a mistake need not make sense for every input
            return False
        return value is not None and compare.same(expected, value, self.rtol) is not None

    def _value(self, named: tuple, args: tuple, kwargs: dict, unseen: bool):
        """What a mistake leads to with these arguments; None if that is not known."""
        _, mistake, case = named
        if not callable(mistake):
            return None if unseen or (case and not _alike(args, case)) else mistake
        try:
            return mistake(*args, **kwargs)
        except Exception:  # a mistake need not make sense for every input
            return None

    def _leads(self, got, expected, value) -> bool:
        return value is not None and compare.same(got, value, self.rtol) is None and self._first(got, expected, value)

    def _first(self, got, expected, value) -> bool:
        """Whether a mistake explains the first entry that is wrong: one that comes before those that it states has another cause.

        An entry that is stated as `...` may be wrong by the same mistake.
        """
        if isinstance(expected, Mapping) and isinstance(value, Mapping) and value.keys() <= expected.keys():
            entries = [(got.get(k), e, value.get(k, e)) for k, e in expected.items()]
        elif isinstance(expected, tuple | list) and isinstance(value, tuple | list) and len(value) == len(expected):
            entries = list(zip(got, expected, value))
        else:
            return compare.same(expected, value, self.rtol) is not None
        wrong = [(e, v) for g, e, v in entries if v is not ... and compare.same(g, e, self.rtol) is not None]
        return bool(wrong) and compare.same(*wrong[0], self.rtol) is not None


def _entries(value) -> int:
    """How many entries a mistake states."""
    if isinstance(value, Mapping | tuple | list):
        return sum(map(_entries, value.values() if isinstance(value, Mapping) else value))
    return value is not ...


def _common_factor(got, expected, rtol: float) -> str | None:
    """What all numbers of an array are multiplied by, if it is one factor."""
    try:
        g, e = np.ravel(np.asarray(got, float)), np.ravel(np.asarray(expected, float))
    except (TypeError, ValueError, OverflowError):
        return None
    if np.shape(got) != np.shape(expected) or np.count_nonzero(e) < 2 or not np.isfinite([g, e]).all():
        return None
    by = float(g @ e / (e @ e))
    if not by or compare.same(g, by * e, rtol) is not None:
        return None
    return (
        "the sign is wrong"
        if compare.same(by, -1, rtol) is None
        else f"every number is {by:.4g} times what it should be"
    )


def _alike(args: tuple, case: tuple) -> bool:
    """Whether these are the arguments of that case."""
    return len(args) == len(case) and all(
        a is c or compare.same(a, c, 0) is None or _equal(a, c) for a, c in zip(args, case)
    )


def _equal(a, c) -> bool:
    try:
        return type(a) is type(c) and bool(a == c)
    except Exception:  # arrays, and what does not compare
        return False
