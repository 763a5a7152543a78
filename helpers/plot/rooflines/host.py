"""A host: the computer that chips are plugged into, with the three ways from one of them to the outside."""

from functools import partial

from matplotlib import rc_context

from helpers import show
from helpers.costs.rooflines.hardware import Chip
from helpers.plot.marks import arrow, box
from helpers.plot.picture import COLOURS, STYLE, Picture, canvas

GREY = "#bbbbbb"


_box = partial(box, linewidth=1.2)
_way = partial(arrow, style="<|-|>", head=7, width=1.2)


def host(c: Chip, alt: str, *, caption: str = "") -> Picture:
    """The chips that share a host: PCIe to its processor, a network to other hosts, and their own links below.

    The links join the chips themselves where they make a torus, and lead on to chips of other hosts; a switch joins a domain.
    """
    n = c.chips_per_host
    width = 9.6 / n
    with rc_context(STYLE):
        figure, ax = canvas(5.2, 3.7)
        _box(ax, 0.6, 4.2, 4.9, 0.9, "host: processors, memory", GREY + "50")
        _box(ax, 6.2, 4.2, 1.9, 0.9, "network\ncards", GREY + "50")
        _way(ax, (5.5, 4.65), (6.2, 4.65))
        _way(ax, (7.15, 5.1), (7.15, 5.9))
        ax.text(
            7.3, 5.55, f"to other hosts (DCN): {show.rate(c.dcn_bandwidth)}\nfor each chip", fontsize=8, va="center"
        )
        for i in range(n):
            x = 0.2 + width * i
            _box(ax, x, 2.0, 0.82 * width, 1.0, f"{c.name}" if n <= 4 else f"{i}", COLOURS[0] + "50")
            _way(ax, (x + 0.41 * width, 3.0), (1.6 + 3.4 * i / max(n - 1, 1), 4.2))
            if c.axes == 0:
                _way(ax, (x + 0.41 * width, 1.1), (x + 0.41 * width, 2.0), color=COLOURS[1])
        told = f"PCIe:\n{show.rate(c.pcie_bandwidth)}\neach" if c.pcie_bandwidth else "PCIe:\nnot\npublished"
        ax.text(-0.8, 3.6, told, fontsize=8, va="center")
        _links(ax, c, n, width)
        ax.set(xlim=(-0.9, 10.9), ylim=(-0.2, 6.2))
        ax.set_axis_off()
    return Picture(figure, alt, caption)


def _links(ax, c: Chip, n: int, width: float) -> None:
    rate = f"{c.names[1]}: {show.rate(c.link_bandwidth)} one way"
    if c.axes == 0:
        more = f", {c.pod[0]} chips on it" if c.pod[0] > n else ""
        _box(ax, 0.2, 0.5, 9.6 - 0.18 * width, 0.6, f"switch{more}", COLOURS[1] + "50")
        ax.text(5.0, 0.1, f"{rate} for each chip", fontsize=8, ha="center", va="center")
        return
    for i in range(n + 1):
        start = 0.2 + width * (i - 1) + 0.82 * width if i else -0.7
        end = 0.2 + width * i if i < n else 10.6
        _way(ax, (start, 2.5), (end, 2.5), color=COLOURS[1])
    for i in range(n):
        x = 0.2 + width * i + 0.41 * width
        _way(ax, (x, 1.2), (x, 2.0), color=COLOURS[1])
    ax.text(
        5.0,
        0.7,
        f"to chips of other hosts\n{rate} on each link, {2 * c.axes} links a chip",
        fontsize=8,
        ha="center",
        va="center",
    )
