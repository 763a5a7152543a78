"""Which cases run when: a few in `make test`, a drawn sample of every kind of long test in `.ci/run`, all with FULL=1.

`@pytest.mark.sample(quick=3, slow=9, kind="policy")` above a parametrised test: of each kind (a value of the parameter
`policy`; one kind for all without it) 3 cases run in `make test`, 9 others with the long tests of the area, the rest with
FULL=1 only. They lie evenly in the list, so the same ones are taken every time. `.ci/run` draws one case of each long test
by the commit, and `draw=2` of each kind where it says so. `repeats(40, 400)` is how many draws a loop makes, `some(things, 5)`
which of the things a test walks through.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import pytest

from tests import areas

FULL = os.environ.get("FULL", "") not in ("", "0")
LAST = pytest.StashKey[bool]()  # of a test that does not begin where time is up
FOR_OTHERS = 300  # seconds: xdist begins with the largest groups, and a test of each other file has to follow in time
GRACE = 150  # seconds for one test of each file after the time is up; on a slow machine not all of them begin


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


def tiers(kinds: Sequence, quick: int, slow: int | None = None, long: Sequence[int] = ()) -> list[str]:
    """For each case, given the kinds of all: "quick", "slow" or "full".

    slow  how many of each kind are long tests, those of `make test` not counted; all by default
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


def family(item: pytest.Item) -> tuple:
    """What the cases of one parametrised test have in common."""
    return (str(item.path), getattr(item, "cls", None), getattr(item, "originalname", item.name))


def assign(items: list[pytest.Item]) -> None:
    """Give the cases of tests that are marked with `sample` the marks of their tiers."""
    families: dict[tuple, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sample"):
            families.setdefault(family(item), []).append(item)
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


def long_sample(items: Sequence[pytest.Item], seed: str, whole: Iterable[str]) -> list[pytest.Item]:
    """The long tests of a change: of every file one test, drawn, then the others of a sample of every kind, then the rest of areas
    that it touches. Where time is up, the first of these go on, and no others begin.

    Cases that otherwise run with FULL=1 only are drawn as well, so that in time all of them have been.
    """

    def case_of_sample(item: pytest.Item) -> bool:
        return bool(item.get_closest_marker("sample") and item.get_closest_marker("full"))

    long = [item for item in items if item.get_closest_marker("slow") or case_of_sample(item)]
    families, counts = [], []
    for item in long:
        mark = item.get_closest_marker("sample")
        draw = mark.kwargs.get("draw") if mark else None
        families.append((*family(item), kind_of(item, mark.kwargs.get("kind")) if draw else None))
        counts.append(draw or 1)
    taken = areas.drawn([item.nodeid for item in long], families, counts, seed)
    sample = [item for item, drawn in zip(long, taken, strict=True) if drawn]
    one = areas.drawn([item.nodeid for item in sample], [item.path for item in sample], [1] * len(sample), seed)
    goes_on = [item for item, drawn in zip(sample, one, strict=True) if drawn]
    # A group shares a server or a class, which its later tests change: they run in the order in which they were written.
    sample.sort(key=lambda item: item not in goes_on and not item.get_closest_marker("xdist_group"))
    rest = [
        item
        for item, drawn in zip(long, taken, strict=True)
        if not drawn and not case_of_sample(item) and areas.area(item.nodeid) in whole
    ]
    for item in sample + rest:
        item.stash[LAST] = item not in goes_on
    report(long, sample, rest, seed)
    return sample + rest


def report(long: list[pytest.Item], sample: list[pytest.Item], rest: list[pytest.Item], seed: str) -> None:
    """One of the processes says what is left out, in the file PLAN."""
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0" or not os.environ.get("PLAN"):
        return
    count = lambda cases: Counter(areas.area(item.nodeid) for item in cases)  # noqa: E731
    drawn, more = count(sample), count(rest)
    with open(os.environ["PLAN"], "w", encoding="utf-8") as file:
        for name, n in sorted(count(long).items()):
            file.write(
                f"{name}: of {n} long cases {drawn[name]} drawn (SEED={seed}), {more[name]} more since it has changed\n"
            )


def in_time(item: pytest.Item) -> None:
    """Leave out all but one test of each file once TESTS_END (seconds since 1970) has passed, of groups some minutes before.

    After some more minutes no long test begins.
    """
    more = -FOR_OTHERS * bool(item.get_closest_marker("xdist_group")) if item.stash.get(LAST, False) else GRACE
    if LAST in item.stash and time.time() > float(os.environ.get("TESTS_END", "inf")) + more:
        pytest.skip("left out: the time of CI is up")
