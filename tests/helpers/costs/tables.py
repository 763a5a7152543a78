"""Tests over tables: each is one test that walks its table to the end, and tells every row that fails."""

import inspect
import re
from collections.abc import Iterable
from itertools import chain, product


def by_name(*rows) -> dict:
    """Rows of (function, settings) under the functions' names."""
    return {row[0].__name__: row for row in rows}


def refused(*cases) -> None:
    """Every call of (call, text or pattern) raises a ValueError of one line in which that is found; all that do not are told.

    >>> refused((lambda: int("x"), "invalid literal"), (lambda: int("7"), "digit"), (lambda: int("y"), "digit"))
    Traceback (most recent call last):
    AssertionError: 'digit': returned 7
    'digit': invalid literal for int() with base 10: 'y'
    """
    wrong = []
    for call, said in cases:
        try:
            wrong.append(f"{said!r}: returned {call()!r}")
        except ValueError as e:
            if "\n" in str(e) or not (said in str(e) or re.search(said, str(e))):
                wrong.append(f"{said!r}: {e}")
    if wrong:
        raise AssertionError("\n".join(wrong))


def walks(*tables: Iterable):
    """Make of a test of one row a test of all rows, and of several tables all combinations.

    A row is given as one argument, and as several where the test has more arguments than there are tables and it is a tuple.

    >>> walks([1, 0, 2, 0])(lambda n: 1 / n)()
    Traceback (most recent call last):
    AssertionError: 2 of 4 fail
    (0,): ZeroDivisionError: division by zero
    (0,): ZeroDivisionError: division by zero
    """

    def over(check):
        several = len(inspect.signature(check).parameters) > len(tables)

        def test():
            failed, every = [], list(product(*tables))
            for rows in every:
                given = chain(*(row if isinstance(row, tuple) else (row,) for row in rows)) if several else rows
                try:
                    check(*given)
                except Exception as e:
                    failed.append((rows, e))
            told = "".join(f"\n{rows}: {type(e).__name__}: {e}" for rows, e in failed)
            assert every, "a table without rows"
            if failed:
                raise AssertionError(f"{len(failed)} of {len(every)} fail{told}") from failed[0][1]

        test.__name__, test.__qualname__, test.__doc__ = check.__name__, check.__qualname__, check.__doc__
        test.__module__ = check.__module__
        return test

    return over
