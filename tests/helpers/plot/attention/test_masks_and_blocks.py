"""Masks as dark squares, blocks with their place in the order, work with who is waited for."""

import numpy as np
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import Rectangle

from helpers import plot
from helpers.costs.attention.ring_attention import work
from helpers.kernels.attention import flash_attention, masks
from helpers.plot.attention.masks_and_blocks import BLOCKS

SAID = "a figure with some squares in rows"


def squares(ax):
    """Filled squares by (row, column); frames have no fill."""
    found = [p for p in ax.patches if isinstance(p, Rectangle) and p.get_fill() and p.get_facecolor()[3] > 0]
    return {(int(p.get_y()), int(p.get_x())): p for p in found}


def test_a_mask_is_dark_where_a_query_sees_a_key():
    rules = {"causal": masks.CAUSAL, "sinks": masks.Mask(True, 2, 1)}
    shown = {name: rule.array(3, 5) for name, rule in rules.items()}
    for ax, seen in zip(plot.masks(shown, SAID).figure.axes, shown.values()):
        dark = {at for at, p in squares(ax).items() if to_hex(p.get_facecolor()) != "#ffffff"}
        assert dark == {tuple(at) for at in np.argwhere(seen)} and len(squares(ax)) == 15
        assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first query on top


def test_blocks_stand_in_order():
    """Rows forward, columns backward; the diagonal is cut by the mask, what lies above is not visited."""
    plan = masks.plan(6, 6, 2, 2, masks.CAUSAL)
    figure = plot.blocks(
        {"rows": (plan.shape, plan.blocks), "columns": (plan.shape, flash_attention.by_columns(plan.blocks))}, SAID
    ).figure
    for ax, order in zip(figure.axes, ([(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)],
                                       [(0, 0), (1, 0), (2, 0), (1, 1), (2, 1), (2, 2)])):  # fmt: skip
        at = {int(t.get_text()): (int(t.get_position()[1]), int(t.get_position()[0])) for t in ax.texts}
        assert [at[n] for n in range(6)] == order
        for (i, j), p in squares(ax).items():
            kind = "not visited" if j > i else "cut by the mask" if i == j else "whole"
            assert to_hex(p.get_facecolor()) == to_hex(BLOCKS[kind][0]) and (p.get_hatch() or "") == BLOCKS[kind][2]
    assert [t.get_text() for t in figure.legends[0].get_texts()] == list(BLOCKS)


def test_work_is_darker_where_there_is_more_and_framed_where_waited_for():
    """The largest of each hop, unless all have as much; their sum stands below."""
    for cut, total in (("contiguous", 10 + 16 + 16), ("striped", 10 + 10 + 10)):
        rows = work(3, 4, cut)
        (ax,) = plot.work({cut: rows}, SAID).figure.axes
        boxes, grey = squares(ax), lambda at: sum(to_rgb(boxes[at].get_facecolor()))  # noqa: B023
        assert {t.get_text() for t in ax.texts} == {str(w) for row in rows for w in row}
        cells = list(boxes)
        assert all(grey(a) > grey(b) for a in cells for b in cells if rows[a[0]][a[1]] < rows[b[0]][b[1]])
        frames = {(int(p.get_y()), int(p.get_x())) for p in ax.patches if p.get_facecolor()[3] == 0}
        assert (
            frames == {(r, i) for r, row in enumerate(rows) for i, w in enumerate(row) if w == max(row) > min(row)}
            and len(frames) > 1
        )
        assert ax.get_xlabel().endswith(f"waited for: {total}")
