"""Which cases run when: a few in `make test`, a sample of every kind in `make test-all`, all with FULL=1.

`@pytest.mark.sample(quick=3, slow=9, kind="policy")` above a parametrised test: of each kind (a value of the parameter
`policy`; one kind for all without it) 3 cases run in `make test`, 9 others in `make test-all`, the rest with FULL=1 only.
They lie evenly in the list, so the same ones are taken every time. `repeats(40, 400)` is how many draws a loop makes,
`some(things, 5)` which of the things a test walks through.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import count

import pytest

FULL = os.environ.get("FULL", "") not in ("", "0")


def repeats(sample: int, full: int) -> int:
    """How often a test repeats itself: `sample` times, `full` times with FULL=1."""
    return full if FULL else sample


def spread(n: int, k: int) -> list[int]:
    """k of the numbers below n, evenly: the first one always.

    >>> spread(10, 3), spread(2, 5), spread(4, 0)
    ([0, 3, 6], [0, 1], [])
    """
    return [i * n // k for i in range(k)] if k < n else list(range(n))


def some(things: Iterable, k: int) -> list:
    """k of the things, evenly; all of them with FULL=1."""
    things = list(things)
    return things if FULL else [things[i] for i in spread(len(things), k)]


def thinned(items: Sequence, names: Sequence[str], n: int) -> list:
    """All but most tests of programs, which compile: of these every n-th stays, where another Python runs them all.

    >>> thinned("abcde", ["tests/helpers/kernels/a.py", "b.py", *(f"tests/helpers/kernels/{x}.py" for x in "cde")], n=2)
    ['a', 'b', 'd']
    """
    programs = count()
    return [i for i, name in zip(items, names) if "helpers/kernels/" not in name or next(programs) % n == 0]


def tiers(kinds: Sequence, quick: int, slow: int | None = None, long: Sequence[int] = ()) -> list[str]:
    """For each case, given the kinds of all: "quick", "slow" or "full".

    slow  how many of each kind are in the sample of `make test-all`, those of `make test` not counted; all by default
    long  numbers of cases that `make test` never takes

    >>> tiers(["a", "b", "a", "a", "a", "b"], quick=1, slow=1)
    ['quick', 'quick', 'slow', 'full', 'full', 'slow']
    """
    found = ["full"] * len(kinds)
    for kind in dict.fromkeys(kinds):
        mine = [i for i, k in enumerate(kinds) if k == kind]
        short = [i for i in mine if i not in long]
        first = [short[i] for i in spread(len(short), quick)]
        rest = [i for i in mine if i not in first]
        for i in first:
            found[i] = "quick"
        for i in spread(len(rest), len(rest) if slow is None else slow):
            found[rest[i]] = "slow"
    return found


def assign(items: list[pytest.Item]) -> None:
    """Give the cases of tests that are marked with `sample` the marks of their tiers."""
    families: dict[tuple, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sample"):
            families.setdefault((item.path, getattr(item, "cls", None), item.originalname), []).append(item)
    for cases in families.values():
        mark = cases[0].get_closest_marker("sample")
        kinds = [kind_of(case, mark.kwargs.get("kind")) for case in cases]
        long = [i for i, case in enumerate(cases) if case.get_closest_marker("slow")]
        chosen = tiers(kinds, mark.kwargs["quick"], mark.kwargs.get("slow"), long)
        for case, tier in zip(cases, chosen, strict=True):
            if tier != "quick":
                case.add_marker(tier)


def kind_of(case: pytest.Item, kind: str | Callable | None):
    params = case.callspec.params if hasattr(case, "callspec") else {}
    return None if kind is None else kind(params) if callable(kind) else repr(params[kind])
