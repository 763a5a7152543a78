"""Tests over tables: each is one test that walks its table to the end, and tells every row that fails."""

import inspect
import re
from collections.abc import Iterable
from itertools import chain, product


def by_name(*rows) -> dict:
    """Rows of (function, settings) under the functions' names."""
    return {row[0].__name__: row for row in rows}


def refused(*cases) -> None:
    """Every call of (call, text or pattern) raises a ValueError of one line in which that is found; all that do not are told."""
    wrong = []
    for call, said in cases:
        try:
            wrong.append(f"{said!r}: returned {call()!r}")
        except ValueError as e:
            if "\n" in str(e) or not (said in str(e) or re.search(said, str(e))):
                wrong.append(f"{said!r}: {e}")
    assert not wrong, "\n".join(wrong)


def walks(*tables: Iterable):
    """Make of a test of one row a test of all rows, and of several tables all combinations.

    A row is given as one argument, and as several where the test has more arguments than there are tables and it is a tuple.
    """

    def over(check):
        several = len(inspect.signature(check).parameters) > len(tables)

        def test():
            failed = {}
            for rows in product(*tables):
                given = chain(*(row if isinstance(row, tuple) else (row,) for row in rows)) if several else rows
                try:
                    check(*given)
                except Exception as e:
                    failed[str(rows)] = e
            told = "".join(f"\n{rows}: {type(e).__name__}: {e}" for rows, e in failed.items())
            if failed:
                raise AssertionError(f"{len(failed)} fail{told}") from next(iter(failed.values()))

        test.__name__, test.__qualname__, test.__doc__ = check.__name__, check.__qualname__, check.__doc__
        test.__module__ = check.__module__
        return test

    return over
