"""A chip with its memories and wires, a matrix product by its sizes, and how its seconds grow with rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from helpers import show
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.rooflines.roofline import matmul, on_chip
from helpers.plot.picture import COLOURS, INK, PAPER, Picture, arrow, bare, box, canvas, legend, panes, styled, write

NEAR = {"tpu": ("VMEM", "matrix units (MXU), vector unit (VPU)"), "gpu": ("shared memory", "Tensor Cores, CUDA cores")}


@styled
def chip(c: Chip, alt: str, *, caption: str = "") -> Picture:
    """What a byte passes on its way to the arithmetic of a TPU or a GPU, with the rate of each way and its FLOPs per byte.

    Nearest on top: arithmetic, the memory on the chip, HBM; the links to other chips beside HBM, the host's memory below.
    """
    fast, units = NEAR[c.kind]
    boxes = [
        (f"{units}\n{show.flops_rate(c.rate())} in bf16", 5.2, COLOURS[1]),
        (f"{fast}, {show.ibytes(c.fast_bytes)}", 3.6, COLOURS[4]),
        (f"HBM, {show.bytes(c.hbm_bytes)}", 2.0, COLOURS[0]),
        ("host's memory", 0.0, "#bbbbbb"),
    ]
    figure, ax = canvas(5.2, 4.6)
    box(ax, -0.2, 1.6, 4.4, 4.7, fill=None, linestyle="--")
    ax.text(-0.15, 6.4, f"one {c.name}", ha="left", va="bottom", fontsize=10, weight="bold")
    for text, y, fill in boxes:
        box(ax, 0, y, 4, 0.85, text, fill + "50", 9, linewidth=1.2)
    box(ax, 5.9, 2.0, 1.5, 0.85, "other\nchips", "#bbbbbb50", 9, linewidth=1.2)
    _way(ax, (2, 4.5), (2, 5.2), c.fast_bandwidth, c.rate())
    _way(ax, (2, 2.9), (2, 3.6), c.hbm_bandwidth, c.rate())
    _way(ax, (2, 0.85), (2, 2.0), c.pcie_bandwidth, c.rate(), "PCIe ")
    _way(ax, (5.9, 2.42), (4, 2.42), c.link_bandwidth, c.rate(), f"{c.names[1]} ")
    bare(ax, xlim=(-0.4, 7.6), ylim=(-0.15, 6.9))
    return Picture(figure, alt, caption)


def _way(ax, start, end, rate: float | None, C: float, name: str = "") -> None:
    """An arrow with its bytes per second, and the FLOPs that the chip does in the time of one of them."""
    arrow(ax, start, end, "<|-|>", 10, 1.4)
    told = f"{name}{show.rate(rate)}\nC/W = {C / rate:,.0f}" if rate else f"{name}rate not published"
    if start[0] == end[0]:
        ax.text(start[0] + 0.15, min(start[1], end[1]) + 0.3, told, ha="left", va="center", fontsize=8)
    else:
        ax.text(min(start[0], end[0]) + 0.35, start[1] + 0.1, told, ha="left", va="bottom", fontsize=8)


@dataclass(frozen=True)
class Matrix:
    """An array on paper: its name, the letters of its rows and columns, and how its blocks lie on devices.

    parts   blocks along rows and columns; one (1, 1) block is whole
    owner   for each block, row by row, the device that holds it; None: nobody, -1: every device
    inside  a letter for the whole array
    """

    name: str
    rows: str
    columns: str
    parts: tuple[int, int] = (1, 1)
    owner: tuple[int | None, ...] = (-1,)
    partial: bool = False
    inside: str = ""


SIZES = {"1": 0.4, "B": 1.0, "I": 1.6, "D": 2.0, "J": 2.0, "F": 2.8, "K": 2.4, "S": 2.6, "T": 2.6, "H": 1.0, "N": 2.8}
"""Lengths on paper by the letter of a dimension; what is not here is 2."""
WHOLE = "#d9d9d9"
HATCHES = ("", "//", "--", "xx")
"""Of devices: their colours are as dark as each other."""


@styled
def products(
    rows: Sequence[tuple[str, Sequence[Matrix | str], str]], alt: str, *, devices: Sequence[str] = (), caption: str = ""
) -> Picture:
    """Rows of a title, matrices with the signs between them, and what is said below: products of matrices in blocks.

    A block has the colour of the device that holds it, grey is on every device, white on none.
    The two partial sums lie behind each other.
    """
    heights = [max(_side(m.rows) for m in parts if isinstance(m, Matrix)) + 1.5 for _, parts, _ in rows]
    widths = [
        sum(_side(m.columns) + 0.75 if isinstance(m, Matrix) else 0.6 for m in parts) + 0.3 for _, parts, _ in rows
    ]
    figure, axes = panes(len(rows), 5.2, 0.53 * sum(heights) + 0.3 * len(rows) + 0.35 * bool(devices))
    for ax, (title, parts, below), height in zip(axes, rows, heights):
        _row(ax, parts, height - 1.5)
        bare(ax, title=title, xlim=(-0.6, max(widths)), ylim=(-height + 0.6, 0.7), aspect="equal", anchor="W")
        ax.text(-0.55, -height + 0.75, below, fontsize=9, va="center")
    if devices:
        looks: dict[str, object] = {d: (COLOURS[i] + "90", HATCHES[i]) for i, d in enumerate(devices)}
        matrices = [m for _, parts, _ in rows for m in parts if isinstance(m, Matrix)]
        if any(-1 in m.owner and not m.partial for m in matrices):
            looks["on every device"] = WHOLE
        legend(figure, looks, len(looks), "left")
    return Picture(figure, alt, caption)


def _side(dimension: str) -> float:
    return SIZES.get(dimension.strip("$")[0], 2.0)


def _row(ax, parts: Sequence[Matrix | str], height: float) -> None:
    x = 0.0
    for part in parts:
        if isinstance(part, str):
            write(ax, x - 0.25, -height / 2, part, 13)
            x += 0.6
            continue
        _matrix(ax, x, (_side(part.rows) - height) / 2, part)
        x += _side(part.columns) + 0.75


def _matrix(ax, x: float, top: float, m: Matrix) -> None:
    height, width = _side(m.rows), _side(m.columns)
    down, across = m.parts
    if m.partial:  # one full-size partial sum behind the other, on paper that hides it
        for shift, owner in ((0.16, 1), (0.0, 0)):
            for fill, hatch in (("#fff", ""), (COLOURS[owner] + "50", HATCHES[owner])):
                box(ax, x + shift, top - height + shift, width, height, fill=fill, hatch=hatch, linewidth=1.2)
    for i, owner in enumerate(() if m.partial else m.owner):
        r, c = divmod(i, across)
        at = (x + c * width / across, top - (r + 1) * height / down)
        fill = "#fff" if owner is None else WHOLE if owner < 0 else COLOURS[owner] + "90"
        hatch = HATCHES[owner] if owner is not None and owner >= 0 else ""
        box(ax, *at, width / across, height / down, fill=fill, hatch=hatch, linewidth=1.2)
    if m.inside:
        write(ax, x + width / 2, top - height / 2, m.inside, 12, weight="bold", bbox=PAPER)
    ax.text(x - 0.12, top - height / 2, m.rows, ha="right", va="center", fontsize=10)
    ax.text(x + width / 2, top + (0.24 if m.partial else 0.08), m.columns, ha="center", va="bottom", fontsize=10)
    ax.text(x + width / 2, top - height - 0.1, m.name, ha="center", va="top", fontsize=9, family="monospace")


THIN = 0.02  # of a matrix's side: what is thinner is drawn as thick as its line


@styled
def rows_and_times(rows: Sequence[int], D: int, F: int, c: Chip, alt: str, *, caption: str = "") -> Picture:
    """X[B, D] · W_in[D, F] = Out[B, F] for each B, its sides to scale, over the time for its bytes and for its FLOPs."""
    times = [on_chip(matmul(B, D, F), c) for B in rows]
    longest = max(max(t.parts.values()) for t in times)
    figure, axes = canvas(6.9, 2.3, 2, len(rows))
    for above, below, B, t in zip(*axes, rows, times):
        _product(above, B / D, F / D)
        above.set_title("1 row" if B == 1 else f"{B:,} rows")
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
        box(ax, x, -high / 2, wide, high, fill=colour + "a0", linewidth=0.8)
        ax.text(x + wide / 2, -0.6, name, ha="center", va="top", fontsize=9, family="monospace")
    write(ax, 1.15, 0, "·", 13)
    write(ax, 1.45 + width, 0, "=", 12)
    bare(ax, xlim=(-0.05, 1.65 + 2 * width), ylim=(-0.85, 0.55), aspect="equal")


def _bars(ax, parts: dict[str, float], longest: float) -> None:
    """Bytes above, FLOPs below, all panels to one scale."""
    for y, (part, colour, name) in enumerate((("hbm", COLOURS[0], "bytes"), ("math", COLOURS[1], "FLOPs"))):
        ax.barh(y, parts[part], color=colour, edgecolor=INK, height=0.55, alpha=0.75)
        ax.text(parts[part] + longest / 40, y, show.seconds(parts[part]), va="center", fontsize=9)
        ax.text(-longest / 40, y, name, va="center", ha="right", fontsize=9)
    bare(ax, xlim=(-0.3 * longest, 1.45 * longest), ylim=(1.8, -0.8))
