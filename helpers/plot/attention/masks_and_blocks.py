"""Attention: who sees whom, heads that share keys, blocks in the order in which they are computed, and linear attention's three forms."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.patches import Polygon

from helpers.plot.picture import COLOURS, INK, Picture, arrow, bare, box, canvas, legend, panes, styled, write

# Fill, ink and hatch of a block of scores: three greys apart, and a hatch where nothing is computed.
BLOCKS = {
    "whole": (COLOURS[0], "#fff", ""),
    "cut by the mask": (COLOURS[4], INK, ""),
    "not visited": ("#fff", "#777", "///"),
}


@styled
def masks(panels: Mapping, alt: str, *, caption: str = "") -> Picture:
    """Masks side by side: queries downwards, keys to the right, a filled square where a query sees a key.

    panels  {title: bool[T, S]}, True where a key is seen
    """
    figure, axes = _panels(len(panels), 2.0, 2.3)
    for ax, (title, seen) in zip(axes, panels.items()):
        seen = np.asarray(seen)
        for (t, s), one in np.ndenumerate(seen):
            _square(ax, s, t, "", COLOURS[0] if one else "#fff", INK, "")
        _grid(ax, seen.shape, title)
    axes[0].set(ylabel="queries", xlabel="keys")
    return Picture(figure, alt, caption)


@styled
def blocks(panels: Mapping, alt: str, *, caption: str = "") -> Picture:
    """The blocks of a score matrix, each with its number in the order of computation; those left out are hatched.

    panels  {title: ((rows, columns) of blocks, [Block, …])}, blocks of `kernels.attention.masks` in the order of computation
    """
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
    axes[0].set(ylabel="blocks of queries", xlabel="blocks of keys")
    there = {kind: look for kind, look in BLOCKS.items() if kind in met}
    legend(figure, {k: {"facecolor": f, "hatch": h, "edgecolor": "#777"} for k, (f, _, h) in there.items()}, 3)
    return Picture(figure, alt, caption)


@styled
def work(panels: Mapping[str, Sequence], alt: str, *, caption: str = "") -> Picture:
    """Maps of work: hops downwards, devices to the right, in each square its work, the darker the more.

    panels  {title: [[work of device 0, 1, …] of each hop]}; a thick frame marks devices that a hop waits for, where it is not
            all of them, and what the hops wait for together stands under the map
    """
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
                box(ax, i, r, 1, 1, fill="none", linewidth=2.2, zorder=3)
        _grid(ax, rows.shape, title)
        for axis, count in ((ax.xaxis, rows.shape[1]), (ax.yaxis, rows.shape[0])):
            axis.set_ticks(np.arange(count) + 0.5, range(count), fontsize=8)
        ax.tick_params(length=0)
        ax.set_xlabel(f"devices; waited for: {rows.max(1).sum():,}")
    axes[0].set_ylabel("hops")
    return Picture(figure, alt, caption)


def _panels(count: int, width: float, height: float, legend: float = 0.0):
    """A figure, and as many axes of that size in inches: two side by side at most, so that a phone shows letters as letters."""
    columns = min(count, 2)
    return panes(count, width * columns, height * -(-count // columns) + legend, columns)


def _square(ax, x: int, y: int, text: str, fill, ink: str, hatch: str) -> None:
    box(ax, x, y, 1, 1, fill=fill, edgecolor="#999", linewidth=0.5, hatch=hatch)
    if text:
        write(ax, x + 0.5, y + 0.5, text, 7, color=ink)


def _grid(ax, shape: tuple[int, int], title: str) -> None:
    """Row 0 on top, squares square, no ticks."""
    ax.set(title=title, xlim=(0, shape[1]), ylim=(shape[0], 0), xticks=[], yticks=[], aspect="equal")
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)


FORMS = ("parallel", "chunked", "recurrent")


def tables(form: str, T: int, C: int) -> list[int]:
    """Sides of the tables of weights that a form makes, of T tokens in chunks of C.

    >>> tables("parallel", 8, 2), tables("chunked", 8, 2), tables("recurrent", 8, 2)
    ([8], [2, 2, 2, 2], [])
    """
    if form not in FORMS:
        raise ValueError(f"linear attention is {', '.join(FORMS)}, not {form!r}")
    return {"parallel": [T], "chunked": [C] * (T // C), "recurrent": []}[form]


@styled
def linear_forms(T: int, C: int, alt: str, *, caption: str = "") -> Picture:
    """Queries downwards, keys to the right: which weights are made (filled), and where the state (U, Z) is handed on (arrows)."""
    figure, axes = canvas(5.2, 2.3, 1, len(FORMS))
    for ax, form in zip(axes, FORMS):
        at = 0
        for side in tables(form, T, C):
            corners = (at, at), (at, at + side), (at + side, at + side)
            ax.add_patch(Polygon(corners, facecolor=COLOURS[4], edgecolor=INK))
            at += side
        step = {"parallel": T, "chunked": C, "recurrent": 1}[form]
        for k in range(step, T, step):
            start, end = (k - step / 2, k - step * 0.25), (k + step * 0.12, k + step * 0.3)
            arrow(ax, start, end, width=1.6, color=COLOURS[1])
        box(ax, 0, 0, T, T, fill=None, edgecolor="#999", linestyle="--")
        bare(ax, title=form, xlim=(-0.2, T + 0.2), ylim=(T + 0.2, -0.2), aspect="equal")
    return Picture(figure, alt, caption)
