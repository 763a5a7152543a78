"""Chips and what is in them: the systolic array, the torus."""

import numpy as np
from matplotlib.patches import FancyArrowPatch

from helpers.plot.picture import COLOURS, DASHES, INK, Picture, bare, box, canvas, panes, styled, write


@styled
def systolic(frames, alt: str, *, columns: int = 4, caption: str = "") -> Picture:
    """Frames of a systolic array: each square is one PE, with the row of X that it works on; idle ones are blank.

    frames  `helpers.kernels.rooflines.systolic_array.Frame`s, one picture for each
    """
    frames = list(frames)
    K, N = frames[0].row.shape
    down = -(-len(frames) // columns)
    figure, axes = panes(len(frames), 1.65 * columns, (1.65 * K / N + 0.35) * down, columns)
    for ax, frame in zip(axes, frames):
        _array(ax, frame)
    return Picture(figure, alt, caption)


def _array(ax, frame) -> None:
    """One frame: a square for each PE; what leaves at the bottom is written under its column."""
    K, N = frame.row.shape
    for k in range(K):
        for n in range(N):
            b = int(frame.row[k, n])
            colour = "#fff" if b < 0 else COLOURS[b % 6]
            box(ax, n, k, 1, 1, "" if b < 0 else str(b), colour, 9, edgecolor="#555", linewidth=0.8, alpha=0.6)
    for (b, n), _ in frame.finished:
        look = {"ha": "center", "va": "center", "fontsize": 8, "arrowprops": {"arrowstyle": "<-"}}
        ax.annotate(str(b), (n + 0.5, K), xytext=(n + 0.5, K + 0.7), **look)
    bare(ax, title=f"cycle {frame.cycle}", xlim=(-0.1, N + 0.1), ylim=(K + 1, -0.1), aspect="equal")


@styled
def torus(s, src, dst, alt: str, *, caption: str = "") -> Picture:
    """The chips of a two-axis slice and its links; those that wrap are bent. Every chip carries its hops from src.

    Two paths from src to dst are drawn, one axis first; they share no link if the chips differ along both axes.
    """
    from helpers.costs.rooflines.torus import distance

    figure, ax = canvas(1.1 * s.shape[1] + 1, 1.1 * s.shape[0] + 0.6)
    for a, b in np.ndindex(*s.shape):
        for axis in (0, 1):
            _link(ax, s, (a, b), axis)
    for i, first in enumerate((0, 1)):
        corner = (dst[0], src[1]) if first == 0 else (src[0], dst[1])
        xs, ys = zip(*((b, a) for a, b in (src, corner, dst)))
        ax.plot(xs, ys, color=COLOURS[i], linestyle=DASHES[i], linewidth=4, alpha=0.6, zorder=2)
    for a, b in np.ndindex(*s.shape):
        end = (a, b) in (tuple(src), tuple(dst))
        ax.plot([b], [a], "s", markersize=18, color=INK if end else "#fff", markeredgecolor=INK, zorder=3)
        write(ax, b, a, str(distance(src, (a, b), s)), 9, color="#fff" if end else INK, zorder=4)
    bare(ax, xlim=(-0.6, s.shape[1] - 0.4), ylim=(s.shape[0] - 0.4, -0.6), aspect="equal")
    return Picture(figure, alt, caption)


def _link(ax, s, chip, axis: int) -> None:
    """The link from one chip to the next along an axis; the one that closes a ring is drawn as an arc."""
    to = list(chip)
    to[axis] = (chip[axis] + 1) % s.shape[axis]
    closes = to[axis] == 0
    if s.shape[axis] < 2 or (closes and not s.wraps[axis]):
        return
    look = {"color": "#888", "linewidth": 1.2, "zorder": 1, "connectionstyle": f"arc3,rad={0.25 if closes else 0}"}
    ax.add_patch(FancyArrowPatch(chip[::-1], to[::-1], arrowstyle="-", **look))
