"""Blocks of scores given to cores: whole rows forward, whole columns backward, and which sums then lie on one core."""

from matplotlib import rc_context
from matplotlib.patches import Patch, Rectangle

from helpers.plot.marks import HATCHES
from helpers.plot.picture import COLOURS, INK, STYLE, Picture, canvas

SUMS = {"forward": {"rows": ("O",), "columns": ()}, "backward": {"rows": ("dQ",), "columns": ("dK\ndV",)}}
"""What is summed over a row of blocks, and what over a column."""


def core(way: str, i: int, j: int) -> int:
    """The core that computes block (i, j): that of its row forward, that of its column backward."""
    return i if way == "forward" else j


def summed_by(way: str, side: str, k: int, n: int) -> set[int]:
    """The cores that add to the sum over row (or column) k of n by n causal blocks.

    >>> summed_by("forward", "rows", 2, 3), summed_by("backward", "rows", 2, 3), summed_by("backward", "columns", 1, 3)
    ({2}, {0, 1, 2}, {1})
    """
    of = [(k, j) for j in range(k + 1)] if side == "rows" else [(i, k) for i in range(k, n)]
    return {core(way, i, j) for i, j in of}


def blocks_on_cores(n: int, alt: str, *, caption: str = "") -> Picture:
    """Causal blocks in the colour of the core that computes them; sums in it too, if one core makes them, else grey."""
    with rc_context(STYLE):
        figure, axes = canvas(5.2, 3.2, 1, len(SUMS))
        for ax, (way, sums) in zip(axes, SUMS.items()):
            for i in range(n):
                for j in range(i + 1):
                    _box(ax, j, i, {core(way, i, j)}, "")
            for side, names in sums.items():
                for name in names:
                    for k in range(n):
                        at = (n + 0.5, k) if side == "rows" else (k, n + 0.5)
                        _box(ax, *at, summed_by(way, side, k, n), name)
            ax.set(xlim=(-0.1, n + 1.6), ylim=(n + 1.6, -0.1), aspect="equal")
            ax.set_title(way, loc="left", fontsize=10, weight="bold")
            ax.set_axis_off()
        shown = [
            Patch(facecolor=COLOURS[c] + "90", edgecolor=INK, hatch=HATCHES[c], label=f"core {c}") for c in range(n)
        ]
        shown.append(Patch(facecolor="#dddddd", edgecolor=INK, label="summed across cores"))
        figure.legend(handles=shown, loc="outside lower center", ncols=len(shown), fontsize=7.5)
    return Picture(figure, alt, caption)


def _box(ax, x: float, y: float, cores: set[int], text: str) -> None:
    alone = next(iter(cores)) if len(cores) == 1 else None
    fill, hatch = ("#dddddd", "") if alone is None else (COLOURS[alone % 6] + "90", HATCHES[alone % 4])
    ax.add_patch(Rectangle((x, y), 0.95, 0.95, facecolor=fill, edgecolor=INK, hatch=hatch))
    pad = {"facecolor": "#fff", "edgecolor": "none", "pad": 0.6, "alpha": 0.85}
    if text:
        ax.text(x + 0.47, y + 0.47, text, ha="center", va="center", fontsize=7, bbox=pad)
