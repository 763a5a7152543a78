"""Boxes in columns with arrows from one column to the next: what leads to what."""

from collections.abc import Sequence

from matplotlib import rc_context
from matplotlib.patches import Rectangle

from helpers.plot.marks import arrow
from helpers.plot.picture import COLOURS, INK, STYLE, Picture, canvas


def flow(
    columns: Sequence[Sequence[str]],
    arrows: Sequence[tuple[str, str]],
    alt: str,
    *,
    marked: Sequence[str] = (),
    caption: str = "",
) -> Picture:
    """Columns of boxes from left to right, the boxes of a column evenly spread; an arrow leads from one box to another by its text.

    marked  boxes in colour
    """
    tall = max(map(len, columns))
    place = {
        text: (1.35 * i * 2, tall * 1.5 * (1 - (j + 0.5) / len(boxes)))
        for i, boxes in enumerate(columns)
        for j, text in enumerate(boxes)
    }
    if unknown := [text for arrow in arrows for text in arrow if text not in place]:
        raise ValueError(f"an arrow names a box that is not there: {unknown[0]!r}")
    with rc_context(STYLE):
        figure, ax = canvas(5.2, 0.62 * tall + 0.25)
        for a, b in arrows:
            (x, y), (to, at) = place[a], place[b]
            arrow(ax, (x + 1.0, y), (to - 1.0, at))
        for text, (x, y) in place.items():
            fill = COLOURS[0] + "40" if text in marked else "#eeeeee"
            ax.add_patch(Rectangle((x - 1.0, y - 0.55), 2.0, 1.1, facecolor=fill, edgecolor=INK, linewidth=1))
            ax.text(x, y, text, ha="center", va="center", fontsize=8, linespacing=1.1)
        ax.set(xlim=(-1.1, 2.7 * (len(columns) - 1) + 1.1), ylim=(0, 1.5 * tall))
        ax.set_axis_off()
    return Picture(figure, alt, caption)
