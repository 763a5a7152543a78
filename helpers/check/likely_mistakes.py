"""The mistakes that are known to lead to a value: those that an exercise names, and factors that hint at units."""

import numbers

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
        return either(found) or self._factor(got, expected)

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

    def _factor(self, got, expected) -> str | None:
        if not isinstance(got, numbers.Real) or not isinstance(expected, numbers.Real) or isinstance(expected, bool):
            return None
        twice = f": {self.twice}?" if self.twice else ""
        factors = ((2, f"that is exactly 2 times too much{twice}"), (1 / 2, f"that is exactly half{twice}"), *FACTORS)
        near = (m for by, m in factors if expected and compare.same(got, expected * by, min(self.rtol, 0.01)) is None)
        return next(near, None)


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
