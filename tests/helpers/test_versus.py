"""The table of predicted, measured, ratio: its last line is of the ratios that stand above it."""

import random
import re

import pytest

from helpers.versus import Versus

FOOT = re.compile(r"median ratio ([\d.]+), from ([\d.]+) to ([\d.]+)")


def table(ratios):
    t = Versus("t", "row")
    for i, r in enumerate(ratios):
        t.add(i, 1.0, r)
    return t


@pytest.mark.parametrize("ratios", [(0.34, 0.41, 0.5, 1.0), (0.5, 2.0), (3, 1, 2), (0.01, 100.0, 1.0, 7.0)])
def test_the_middle_lies_within_the_range_and_is_that_of_the_column(ratios):
    """A mean of ratios turned to be above 1 gave "2.12, from 0.34 to 1.00" here."""
    shown = str(table(ratios))
    middle, least, most = map(float, FOOT.search(shown).groups())
    column = [float(line.split()[-1]) for line in shown.splitlines()[2:-1]]
    assert column == [float(f"{r:.2f}") for r in ratios]
    assert (least, most) == (min(column), max(column)) and least <= middle <= most
    below, above = (sum(c < middle for c in column), sum(c > middle for c in column))
    assert max(below, above) <= len(column) / 2


def test_the_middle_of_random_ratios_is_found_by_counting():
    draw = random.Random(0)
    for n in range(1, 12):
        t = table([draw.uniform(0.1, 10) for _ in range(n)])
        assert sum(r <= t.median for r in t.ratios) >= n / 2 <= sum(r >= t.median for r in t.ratios)


def test_html_says_the_same_and_equal_rows_say_nothing():
    assert FOOT.search(table((0.5, 0.7))._repr_html_())[1] == "0.60"
    assert "median" not in str(table((1.0, 1.0))) + table((1.0, 1.0))._repr_html_()
    assert str(Versus("empty", "row")).startswith("empty")


def test_a_ratio_needs_two_values():
    with pytest.raises(ValueError, match="two values above 0, got predicted 0"):
        Versus("t", "x").add("a", 0, 1)
