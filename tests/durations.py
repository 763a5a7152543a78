"""Where the time of the tests goes: printed at the end, with quick tests that take so long that they belong among the `slow` ones.

What is measured is time of processors, of the test and of the processes that it waited for, so that a busy machine plays little
part. Nothing fails by it: a machine half as fast would.
"""

import os
from collections.abc import Iterable

import pytest

TOO_LONG = 5.0  # seconds of a processor; all quick tests have some 500 of them


def processors() -> float:
    """Seconds that processors worked for this process and for those of its children that have ended."""
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


def longest(took: Iterable[tuple[str, float]], n: int = 12) -> list[tuple[str, float]]:
    """The files that took longest, and how long all of their tests took.

    >>> longest([("a.py::b[1]", 2.0), ("a.py::c", 9.0), ("d.py::e", 0.2)], n=1)
    [('a.py', 11.0)]
    """
    files: dict[str, float] = {}
    for test, seconds in took:
        file = test.partition("::")[0]
        files[file] = files.get(file, 0) + seconds
    return sorted(files.items(), key=lambda file: -file[1])[:n]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    began = processors()
    yield
    long = any(item.get_closest_marker(name) for name in ("slow", "full"))
    item.user_properties.append(("took", (processors() - began, long)))


class Report:
    """Looks at the results of all processes, where they come together."""

    def __init__(self):
        self.took: list[tuple[str, float, bool]] = []

    def too_long(self) -> dict[str, float]:
        return {test: seconds for test, seconds, long in self.took if seconds > TOO_LONG and not long}

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.passed:
            self.took += [(report.nodeid, *value) for key, value in report.user_properties if key == "took"]

    def pytest_terminal_summary(self, terminalreporter):
        took = [(test, seconds) for test, seconds, _ in self.took]
        if sum(seconds for _, seconds in took) > 60:  # of a long run: where its time went
            files = "; ".join(f"{seconds:.0f} {file}" for file, seconds in longest(took))
            terminalreporter.write_line(f"seconds of a processor, by file: {files}")
        for test, seconds in self.too_long().items():
            terminalreporter.write_line(f"{test}: {seconds:.1f} s of a processor, so mark it slow (tests/durations.py)")
