"""The drawing of absorption: both ways multiply the same arrays, and only one makes something with a row for each token."""

from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from helpers import plot
from helpers.plot.inference.absorption import KINDS, ROW, R, S


def test_what_is_made_is_large_in_one_way_only():
    figure = plot.absorption("two rows of arrays that are multiplied").figure
    made = to_hex(KINDS["made in every step"][0])
    rows = [
        {(round(p.get_height(), 2), to_hex(p.get_facecolor())) for p in ax.patches if isinstance(p, Rectangle)}
        for ax in figure.axes
    ]
    assert [(S, made) in some for some in rows] == [True, False] and all((ROW, made) in some for some in rows)
    blue = to_hex(KINDS["in the cache"][0])
    boxes = [p for ax in figure.axes for p in ax.patches]
    cached = [(p.get_height(), p.get_width()) for p in boxes if to_hex(p.get_facecolor()) == blue]
    assert cached == [(S, R)] * 2
    assert [t.get_text() for t in figure.legends[0].get_texts()] == list(KINDS)
