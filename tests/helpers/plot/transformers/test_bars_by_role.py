"""Bars cut by role: each in the right places, shares to the whole, amounts from zero."""

from helpers import plot

SHARES = {
    "parameters": {"a": {"mlp": 3, "attention": 1}, "b": {"mlp": 1, "experts": 9}},
    "FLOPs": {"a": {"mlp": 2, "attention": 2}, "b": {"mlp": 5, "experts": 5}},
}


def test_bars_are_shares_of_the_whole():
    left, right = plot.shares(SHARES, "two panels with two bars each").figure.axes
    widths = lambda ax: {c.get_label(): [round(p.get_width(), 6) for p in c] for c in ax.containers}  # noqa: E731
    assert widths(left) == {"mlp": [75, 10], "attention": [25, 0], "experts": [0, 90]}
    assert widths(right) == {"mlp": [50, 50], "attention": [50, 0], "experts": [0, 50]}
    assert [[p.get_x() for p in c] for c in left.containers] == [[0, 0], [75, 10], [100, 10]]


def test_amounts_lie_end_to_end_from_zero():
    bars = {"a": {"weights": 2, "optimizer": 8}, "b": {"weights": 2, "logits": 1}}
    (ax,) = plot.stacked(bars, "GB", "one panel with two bars", marks={"a chip": 9}).figure.axes
    drawn = {c.get_label(): [(p.get_x(), p.get_width()) for p in c] for c in ax.containers}
    assert drawn == {"weights": [(0, 2), (0, 2)], "optimizer": [(2, 8), (2, 0)], "logits": [(10, 0), (2, 1)]}
    assert ax.get_xlim()[0] == 0 and [line.get_xdata()[0] for line in ax.lines] == [9]
    (wide,) = plot.stacked(bars, "GB", "one panel with two bars", marks={"two chips": 18}).figure.axes
    assert wide.get_xlim()[1] > 18
