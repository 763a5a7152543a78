"""A product with few rows and with many, drawn to scale, and what it waits for."""

from collections.abc import Sequence

from matplotlib import rc_context
from matplotlib.patches import Rectangle

from helpers import show
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.rooflines.roofline import matmul, on_chip
from helpers.plot.picture import COLOURS, INK, STYLE, Picture, canvas

THIN = 0.02  # of a matrix's side: what is thinner is drawn as thick as its line


def rows_and_times(rows: Sequence[int], D: int, F: int, c: Chip, alt: str, *, caption: str = "") -> Picture:
    """X[B, D] · W_in[D, F] = Out[B, F] for each B, its sides to scale, over the time for its bytes and for its FLOPs."""
    times = [on_chip(matmul(B, D, F), c) for B in rows]
    longest = max(max(t.parts.values()) for t in times)
    with rc_context(STYLE):
        figure, axes = canvas(6.9, 2.3, 2, len(rows))
        for above, below, B, t in zip(*axes, rows, times):
            _product(above, B / D, F / D)
            above.set_title("1 row" if B == 1 else f"{B:,} rows", fontsize=10, weight="bold")
            _bars(below, t.parts, longest)
    return Picture(figure, alt, caption)


def _product(ax, height: float, width: float) -> None:
    """X · W_in = Out, in units of D, each around the height of the signs between them."""
    tall = max(height, THIN)
    for x, wide, high, colour, name in (
        (0, 1, tall, COLOURS[5], "X"),
        (1.3, width, 1, COLOURS[0], "W_in"),
        (1.6 + width, width, tall, COLOURS[5], "Out"),
    ):
        ax.add_patch(Rectangle((x, -high / 2), wide, high, facecolor=colour + "a0", edgecolor=INK, linewidth=0.8))
        ax.text(x + wide / 2, -0.6, name, ha="center", va="top", fontsize=9, family="monospace")
    ax.text(1.15, 0, "·", ha="center", va="center", fontsize=13)
    ax.text(1.45 + width, 0, "=", ha="center", va="center", fontsize=12)
    ax.set(xlim=(-0.05, 1.65 + 2 * width), ylim=(-0.85, 0.55), aspect="equal")
    ax.set_axis_off()


def _bars(ax, parts: dict[str, float], longest: float) -> None:
    """Bytes above, FLOPs below, all panels to one scale."""
    for y, (part, colour, name) in enumerate((("hbm", COLOURS[0], "bytes"), ("math", COLOURS[1], "FLOPs"))):
        ax.barh(y, parts[part], color=colour, edgecolor=INK, height=0.55, alpha=0.75)
        ax.text(parts[part] + longest / 40, y, show.seconds(parts[part]), va="center", fontsize=9)
        ax.text(-longest / 40, y, name, va="center", ha="right", fontsize=9)
    ax.set(xlim=(-0.3 * longest, 1.45 * longest), ylim=(1.8, -0.8))
    ax.set_axis_off()
