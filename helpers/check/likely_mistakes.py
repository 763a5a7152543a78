"""The mistakes that are known to lead to a value: those that an exercise names, and factors that hint at units."""

import numbers
from collections.abc import Mapping

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
    """All known mistakes that lead to what was found, in one sentence; None if there is none.

    >>> either(["a term is missing.", "a factor of 2", "a factor of 2"])
    'a term is missing — or: a factor of 2'
    """
    *others, last = list(dict.fromkeys(messages)) or [None]
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

    def why(self, got, expected, args: tuple, kwargs: dict, unseen: bool) -> str | None:
        """All named mistakes that lead to this value; if there is none, a factor."""
        found = [
            m for m, mistake, case in self.named if self._leads(mistake, case, got, expected, args, kwargs, unseen)
        ]
        return either(found) or self._factor(got, expected, self.twice)

    def found(self, expected, args: tuple) -> tuple[bool, ...]:
        """Of each function of the arguments whether it gives another value than the expected one."""
        return tuple(self._differs(mistake, expected, args) for _, mistake, _ in self.named if callable(mistake))

    def _differs(self, mistake, expected, args: tuple) -> bool:
        try:
            value = mistake(*args)
        except Exception:  # a mistake need not make sense for every input
            return False
        return value is not None and compare.same(expected, value, self.rtol) is not None

    def _leads(self, mistake, case, got, expected, args, kwargs, unseen) -> bool:
        if callable(mistake):
            try:
                value = mistake(*args, **kwargs)
            except Exception:  # a mistake need not make sense for every input
                return False
        else:
            value = None if unseen or (case and not _alike(args, case)) else mistake
        if value is None:  # the mistake leads nowhere with these arguments
            return False
        return compare.same(got, value, self.rtol) is None and compare.same(expected, value, self.rtol) is not None

    def _factor(self, got, expected, twice: str, within: bool = False) -> str | None:
        """A factor by which a number is off, the first wrong one of several, or all numbers of an array."""
        if isinstance(expected, Mapping | tuple | list):
            return self._factor_within(got, expected)
        if getattr(expected, "ndim", 0):
            return _common_factor(got, expected, self.rtol)
        if not isinstance(got, numbers.Real) or not isinstance(expected, numbers.Real) or isinstance(expected, bool):
            return None
        twice = f": {twice}?" if twice else ""
        factors = ((2, f"that is exactly 2 times too much{twice}"), (1 / 2, f"that is exactly half{twice}"))
        if not (within and isinstance(expected, numbers.Integral)):  # a count among others has no unit
            factors += FACTORS
        near = (m for by, m in factors if expected and compare.same(got, expected * by, min(self.rtol, 0.01)) is None)
        return next(near, None)

    def _factor_within(self, got, expected) -> str | None:
        """Of the first entry that is off; which of several quantities may have been counted twice, an exercise says."""
        if compare.same(got, expected, float("inf")) is not None:  # another form: there are no pairs to compare
            return None
        twice = self.twice if self.twice != CAUSES else ""
        places = expected if isinstance(expected, Mapping) else range(len(expected))
        at = next(k for k in places if compare.same(got[k], expected[k], self.rtol) is not None)
        found = self._factor(got[at], expected[at], twice, within=True)
        where = f"in entry {at!r}," if isinstance(expected, Mapping) else f"value {at + 1} of {len(expected)}:"
        return found and f"{where} {found}"


def _common_factor(got, expected, rtol: float) -> str | None:
    """What all numbers of an array are multiplied by, if it is one factor."""
    try:
        g, e = np.ravel(np.asarray(got, float)), np.ravel(np.asarray(expected, float))
    except (TypeError, ValueError):
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
