"""A test that takes over a second says why: `@pytest.mark.takes("compiles eight programs")`; `slow` and `full` take a reason too.

What is measured is time of processors, of the test and of the processes that it waited for, so that a busy machine plays no
part. The tests that took long before there was this rule are named in `durations.txt`; those with "long" there run with the
long tests. At the end of a run the others are printed; where CI=true, one that takes over five seconds fails the run.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

FROM, TOO_LONG = 1.0, 5.0  # seconds: of what is printed, of what fails
_LINES = [line.split() for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()]
OLD, LONG = (frozenset(name for name, *more in _LINES if more or every) for every in (True, False))


def processors() -> float:
    """Seconds that processors worked for this process and for those of its children that have ended."""
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


def name(nodeid: str) -> str:
    """A test without its parameters and its group, under the name that no move of its file changes.

    >>> name("tests/helpers/test_x.py::test_all[4-2]"), name("tests/test_y.py::test_one@site")
    ('test_x.py::test_all', 'test_y.py::test_one')
    """
    return nodeid.partition("[")[0].partition("@")[0].rpartition("/")[2]


def silent(took: Iterable[tuple[str, float, bool]]) -> dict[str, float]:
    """Of (test, seconds, whether it says why): those over a second that do not, longest first.

    >>> silent([("a.py::b[1]", 2.0, False), ("a.py::b[2]", 3.0, False), ("a.py::c", 9.0, True), ("a.py::d", 0.2, False)])
    {'a.py::b': 3.0}
    """
    found: dict[str, float] = {}
    for test, seconds, said in took:
        if seconds > FROM and not said and name(test) not in OLD:
            found[name(test)] = max(seconds, found.get(name(test), 0))
    return dict(sorted(found.items(), key=lambda one: -one[1]))


def longest(took: Iterable[tuple[str, float, bool]], n: int = 12) -> list[tuple[str, float]]:
    """The files that took longest, and how long all of their tests took.

    >>> longest([("a.py::b[1]", 2.0, False), ("a.py::c", 9.0, True), ("d.py::e", 0.2, False)], n=1)
    [('a.py', 11.0)]
    """
    files: dict[str, float] = {}
    for test, seconds, _ in took:
        file = test.partition("::")[0]
        files[file] = files.get(file, 0) + seconds
    return sorted(files.items(), key=lambda one: -one[1])[:n]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    began = processors()
    yield
    said = any(isinstance(a, str) for m in item.iter_markers() if m.name in ("takes", "slow", "full") for a in m.args)
    item.user_properties.append(("took", (processors() - began, said)))


class Report:
    """Looks at the results of all processes, where they come together."""

    def __init__(self):
        self.took: list[tuple[str, float, bool]] = []

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.passed:
            self.took += [(report.nodeid, *value) for key, value in report.user_properties if key == "took"]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        strict = os.environ.get("CI", "").lower() in {"1", "true"}
        if strict and not session.exitstatus and max(silent(self.took).values(), default=0) > TOO_LONG:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        if sum(seconds for _, seconds, _ in self.took) > 60:  # of a long run: where its time went
            files = "; ".join(f"{seconds:.0f} {file}" for file, seconds in longest(self.took))
            terminalreporter.write_line(f"seconds of a processor, by file: {files}")
        for test, seconds in silent(self.took).items():
            why = f"{'fails' if seconds > TOO_LONG else 'takes'}: {seconds:.1f} s of a processor, and no word why"
            terminalreporter.write_line(f"{test} {why} (@pytest.mark.takes, tests/durations.py)")
