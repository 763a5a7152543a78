"""A host with its chips and the three ways to the outside; and how often a number is used once it is on the chip."""

from functools import partial

from helpers import show
from helpers.costs.rooflines.hardware import Chip
from helpers.plot.picture import COLOURS, INK, Picture, arrow, bare, box, canvas, styled, write

GREY = "#bbbbbb"


_box = partial(box, linewidth=1.2)
_way = partial(arrow, style="<|-|>", head=7, width=1.2)


@styled
def host(c: Chip, alt: str, *, caption: str = "") -> Picture:
    """The chips that share a host: PCIe to its processor, a network to other hosts, and their own links below.

    The links join the chips themselves where they make a torus, and lead on to chips of other hosts; a switch joins a domain.
    """
    n = c.chips_per_host
    width = 9.6 / n
    figure, ax = canvas(5.2, 3.7)
    _box(ax, 0.6, 4.2, 4.9, 0.9, "host: processors, memory", GREY + "50")
    _box(ax, 6.2, 4.2, 1.9, 0.9, "network\ncards", GREY + "50")
    _way(ax, (5.5, 4.65), (6.2, 4.65))
    _way(ax, (7.15, 5.1), (7.15, 5.9))
    ax.text(7.3, 5.55, f"to other hosts (DCN): {show.rate(c.dcn_bandwidth)}\nfor each chip", fontsize=8, va="center")
    for i in range(n):
        x = 0.2 + width * i
        _box(ax, x, 2.0, 0.82 * width, 1.0, f"{c.name}" if n <= 4 else f"{i}", COLOURS[0] + "50")
        _way(ax, (x + 0.41 * width, 3.0), (1.6 + 3.4 * i / max(n - 1, 1), 4.2))
        if c.axes == 0:
            _way(ax, (x + 0.41 * width, 1.1), (x + 0.41 * width, 2.0), color=COLOURS[1])
    told = f"PCIe:\n{show.rate(c.pcie_bandwidth)}\neach" if c.pcie_bandwidth else "PCIe:\nnot\npublished"
    ax.text(-0.8, 3.6, told, fontsize=8, va="center")
    _links(ax, c, n, width)
    bare(ax, xlim=(-0.9, 10.9), ylim=(-0.2, 6.2))
    return Picture(figure, alt, caption)


def _links(ax, c: Chip, n: int, width: float) -> None:
    rate = f"{c.names[1]}: {show.rate(c.link_bandwidth)} one way"
    if c.axes == 0:
        more = f", {c.pod[0]} chips on it" if c.pod[0] > n else ""
        _box(ax, 0.2, 0.5, 9.6 - 0.18 * width, 0.6, f"switch{more}", COLOURS[1] + "50")
        write(ax, 5.0, 0.1, f"{rate} for each chip")
        return
    for i in range(n + 1):
        start = 0.2 + width * (i - 1) + 0.82 * width if i else -0.7
        end = 0.2 + width * i if i < n else 10.6
        _way(ax, (start, 2.5), (end, 2.5), color=COLOURS[1])
    for i in range(n):
        x = 0.2 + width * i + 0.41 * width
        _way(ax, (x, 1.2), (x, 2.0), color=COLOURS[1])
    write(ax, 5.0, 0.7, f"to chips of other hosts\n{rate} on each link, {2 * c.axes} links a chip")


PLAIN, MARK, REACHED = "#ffffff", COLOURS[1], "#9ecae1"
B, D = 4, 3  # rows of X, rows and columns of W


@styled
def reuse(alt: str, *, caption: str = "") -> Picture:
    """Three operations in which one number is marked, and what becomes of it: how many results it is used for."""
    figure, axes = canvas(5.2, 2.1, 1, 3)
    for ax, (title, draw) in zip(axes, (("ReLU", _relu), ("dot product", _dot), ("product with weights", _product))):
        used = draw(ax)
        bare(ax, title=title, xlim=(-0.6, 8.2), ylim=(-1.6, 6.2), aspect="equal")
        ax.text(3.8, -1.2, f"used {'once' if used == 1 else '$B$ times'}", ha="center", fontsize=8)
    return Picture(figure, alt, caption)


def _relu(ax) -> int:
    _grid(ax, 1.0, 4, 1, "x", {(1, 0): MARK})
    ax.annotate("", (4.8, 3.0), (2.4, 3.0), arrowprops={"arrowstyle": "-|>", "color": INK})
    return _grid(ax, 5.2, 4, 1, "y", {(1, 0): REACHED})


def _dot(ax) -> int:
    _grid(ax, 0.4, 4, 1, "x", {(1, 0): MARK})
    write(ax, 2.2, 3.0, "·", 10)
    _grid(ax, 3.0, 4, 1, "y")
    write(ax, 5.0, 3.0, "=", 10)
    return _grid(ax, 6.0, 1, 1, "", {(0, 0): REACHED})


def _product(ax) -> int:
    _grid(ax, -0.4, B, D, "$X[B, D]$", width=0.8)
    _grid(ax, 2.6, D, D, "$W_{in}$", {(1, 1): MARK}, width=0.8)
    write(ax, 5.3, 3.0, "=", 10)
    return _grid(ax, 5.7, B, D, "", {(b, 1): REACHED for b in range(B)}, width=0.8)


def _grid(ax, x: float, rows: int, columns: int, name: str, filled=(), width: float = 1.0) -> int:
    """An array of cells centred at 3; how many of them are marked as results."""
    top = 3.0 + rows * width / 2
    for i in range(rows):
        for j in range(columns):
            fill = dict(filled).get((i, j), PLAIN)
            box(ax, x + j * width, top - (i + 1) * width, width, width, fill=fill, linewidth=0.8)
    ax.text(x + columns * width / 2, top + 0.25, name, ha="center", va="bottom", fontsize=8)
    return sum(fill == REACHED for fill in dict(filled).values())
