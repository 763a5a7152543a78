"""Every live figure of the book is small, and has its first result when its page is there."""

import pytest

from .firsts import limit, main, names, table
from .standalone import ROOT, films


@pytest.mark.slow
def test_every_figure_is_small_and_starts_by_itself(browser):
    found = table(browser, runs=1)
    assert list(found) == names()
    assert {n: weight for n, (weight, _) in found.items() if weight > limit(n)} == {}


def test_every_figure_stands_on_a_page():
    own = {p.stem.replace("_", "-") for p in (ROOT / "book/figures").glob("*.py")} - {"films"}
    assert set(names()) == own | set(films())


def test_it_says_how_it_is_called(capsys):
    assert main(["many"]) == 2 and main(["1", "2"]) == 2
    assert "usage" in capsys.readouterr().out
