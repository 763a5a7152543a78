"""Attention: who sees whom, blocks of a score matrix in the order in which they are computed, work of devices hop by hop."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.patches import Patch, Rectangle

from helpers.plot.picture import COLOURS, INK, STYLE, Picture, canvas

# Fill, ink and hatch of a block of scores: three greys apart, and a hatch where nothing is computed.
BLOCKS = {
    "whole": (COLOURS[0], "#fff", ""),
    "cut by the mask": (COLOURS[4], INK, ""),
    "not visited": ("#fff", "#777", "///"),
}


def masks(panels: Mapping, alt: str, *, caption: str = "") -> Picture:
    """Masks side by side: queries downwards, keys to the right, a filled square where a query sees a key.

    panels  {title: bool[T, S]}, True where a key is seen
    """
    with rc_context(STYLE):
        figure, axes = _panels(len(panels), 2.0, 2.3)
        for ax, (title, seen) in zip(axes, panels.items()):
            seen = np.asarray(seen)
            if seen.ndim != 2 or seen.dtype != bool:
                raise ValueError(f"{title}: a mask is bool[T, S], not {seen.dtype}{list(seen.shape)}")
            for (t, s), one in np.ndenumerate(seen):
                _square(ax, s, t, "", COLOURS[0] if one else "#fff", INK, "")
            _grid(ax, seen.shape, title)
        axes[0].set_ylabel("queries", fontsize=8)
        axes[0].set_xlabel("keys", fontsize=8)
    return Picture(figure, alt, caption)


def blocks(panels: Mapping, alt: str, *, caption: str = "") -> Picture:
    """The blocks of a score matrix, each with its number in the order of computation; those left out are hatched.

    panels  {title: ((rows, columns) of blocks, [Block, …])}, blocks of `kernels.attention.masks` in the order of computation
    """
    with rc_context(STYLE):
        widest = max(shape[1] for shape, _ in panels.values())
        tallest = max(shape[0] for shape, _ in panels.values())
        figure, axes = _panels(len(panels), 0.36 * widest + 0.5, 0.36 * tallest + 0.6, 0.4)
        met = set()
        for ax, (title, (shape, order)) in zip(axes, panels.items()):
            number = {(b.i, b.j): (n, b.whole) for n, b in enumerate(order)}
            for i, j in np.ndindex(*shape):
                n, whole = number.get((i, j), ("", None))
                kind = "not visited" if whole is None else "whole" if whole else "cut by the mask"
                fill, ink, hatch = BLOCKS[kind]
                met.add(kind)
                _square(ax, j, i, str(n), fill, ink, hatch)
            _grid(ax, shape, title)
        axes[0].set_ylabel("blocks of queries", fontsize=8)
        axes[0].set_xlabel("blocks of keys", fontsize=8)
        shown = [
            Patch(facecolor=fill, edgecolor="#777", hatch=hatch, label=kind)
            for kind, (fill, _, hatch) in BLOCKS.items()
            if kind in met
        ]
        figure.legend(handles=shown, loc="outside lower center", ncols=3, fontsize=8)
    return Picture(figure, alt, caption)


def work(panels: Mapping[str, Sequence], alt: str, *, caption: str = "") -> Picture:
    """Maps of work: hops downwards, devices to the right, in each square its work, the darker the more.

    panels  {title: [[work of device 0, 1, …] of each hop]}; a thick frame marks devices that a hop waits for, where it is not
            all of them, and what the hops wait for together stands under the map
    """
    with rc_context(STYLE):
        most = max(np.max(rows) for rows in panels.values())
        n = max(np.shape(rows)[1] for rows in panels.values())
        figure, axes = _panels(len(panels), 0.5 * n + 0.7, 0.42 * n + 1.4)
        for ax, (title, rows) in zip(axes, panels.items()):
            rows = np.asarray(rows)
            for (r, i), w in np.ndenumerate(rows):
                share = w / most
                grey = 1 - 0.72 * share
                _square(ax, i, r, f"{w:,}", (grey, grey, 1 - 0.5 * share), "#fff" if share > 0.6 else INK, "")
            for r, row in enumerate(rows):
                for i in np.flatnonzero(row == row.max()) if row.min() < row.max() else ():
                    ax.add_patch(Rectangle((i, r), 1, 1, facecolor="none", edgecolor=INK, linewidth=2.2, zorder=3))
            _grid(ax, rows.shape, title)
            for axis, count in ((ax.xaxis, rows.shape[1]), (ax.yaxis, rows.shape[0])):
                axis.set_ticks(np.arange(count) + 0.5, range(count), fontsize=8)
            ax.tick_params(length=0)
            ax.set_xlabel(f"devices; waited for: {rows.max(1).sum():,}", fontsize=8)
        axes[0].set_ylabel("hops", fontsize=8)
    return Picture(figure, alt, caption)


def _panels(count: int, width: float, height: float, legend: float = 0.0):
    """A figure, and as many axes of that size in inches: two side by side at most, so that a phone shows letters as letters."""
    columns = min(count, 2)
    rows = -(-count // columns)
    figure, axes = canvas(width * columns, height * rows + legend, rows, columns)
    axes = np.ravel(axes)
    for ax in axes[count:]:
        ax.remove()
    return figure, axes[:count]


def _square(ax, x: int, y: int, text: str, fill, ink: str, hatch: str) -> None:
    ax.add_patch(Rectangle((x, y), 1, 1, facecolor=fill, edgecolor="#999", linewidth=0.5, hatch=hatch))
    if text:
        ax.text(x + 0.5, y + 0.5, text, ha="center", va="center", fontsize=7, color=ink)


def _grid(ax, shape: tuple[int, int], title: str) -> None:
    """Row 0 on top, squares square, no ticks."""
    ax.set(xlim=(0, shape[1]), ylim=(shape[0], 0), xticks=[], yticks=[], aspect="equal")
    ax.set_title(title, fontsize=9, loc="left")
    ax.grid(visible=False)
    for side in ax.spines.values():
        side.set_visible(False)
