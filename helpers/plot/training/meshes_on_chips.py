"""What a mesh or a run lies on: the torus of a pod, hosts with NVLink inside and a network between, several pods."""

from functools import partial
from math import ceil

from matplotlib.patches import FancyArrowPatch

from helpers import show
from helpers.costs.rooflines.hardware import Chip
from helpers.plot.picture import COLOURS, INK, Picture, arrow, bare, box, canvas, legend, styled, write

X, Y = COLOURS[4], COLOURS[1]
_both = partial(arrow, style="<|-|>", head=10, width=1.4)


def cube_groups(n: int, chip: tuple[int, int, int]) -> tuple[set, set]:
    """On a cube of n·n·n chips, X over the first two axes and Y over the third: the chips that one shares X and Y with.

    >>> [len(group) for group in cube_groups(4, (0, 0, 0))]
    [16, 4]
    """
    a, b, c = chip
    return {(i, j, c) for i in range(n) for j in range(n)}, {(a, b, k) for k in range(n)}


@styled
def cube(alt: str, *, n: int = 4, at: tuple[int, int, int] = (1, 1, 1), caption: str = "") -> Picture:
    """A cube of n·n·n chips in which one chip's neighbours along X, a layer of the cube, and along Y, a column, stand out."""
    plane, column = cube_groups(n, at)
    figure, ax = canvas(4.6, 4.4)
    for c in range(n):
        for b in reversed(range(n)):
            for a in range(n):
                here = (a, b, c)
                both, mark = here == at, "s" if here in column else "o"
                fill = INK if both else Y if here in column else X if here in plane else "#fff"
                x, y = _place(here)
                for step in ((1, 0, 0), (0, 1, 0), (0, 0, 1)):
                    there = tuple(p + q for p, q in zip(here, step))
                    if max(there) < n:
                        inside = {here, there} <= plane or {here, there} <= column
                        x1, y1 = _place(there)
                        look = {"color": INK, "linewidth": 1.8} if inside else {"color": "#bbb", "linewidth": 0.6}
                        ax.plot([x, x1], [y, y1], zorder=1, **look)
                ax.plot([x], [y], mark, color=fill, markeredgecolor=INK, markersize=10, zorder=2)
    shown = [
        ax.plot([], [], "s", color=INK, markersize=8, label="this chip"),
        ax.plot([], [], "o", color=X, markeredgecolor=INK, markersize=8, label=f"its X: {n * n} chips, weights travel"),
        ax.plot([], [], "s", color=Y, markeredgecolor=INK, markersize=8, label=f"its Y: {n} chips, activations travel"),
    ]
    figure.legend(handles=[h for (h,) in shown], loc="outside lower center", ncols=1, fontsize=9)
    bare(ax, aspect="equal")
    return Picture(figure, alt, caption)


def _place(chip) -> tuple[float, float]:
    """Where a chip stands on paper: across, into the paper, up."""
    a, b, c = chip
    return a + 0.45 * b, 1.25 * c + 0.36 * b


@styled
def hosts(count: int, chip: Chip, inside: str, between: str, alt: str, *, caption: str = "") -> Picture:
    """A host with its GPUs, NVSwitch and network cards, and beside it all hosts of a run on their network.

    inside, between  what is said of the NVSwitch, and of the network
    """
    side, size = ceil(count**0.5), chip.pod[0]
    figure, ax = canvas(6.8, 2.7)
    box(ax, 0, 0, 5, 3.1, fill="#f4f4f4", linewidth=1.2)
    box(ax, 0.2, 2.45, 4.6, 0.42, fill=X + "60", linewidth=0.8)
    write(ax, 2.5, 2.66, "NVSwitch", 8.5)
    for gpu in range(size):
        x = 0.2 + (gpu + 0.5) * 4.6 / size
        for low, high in ((1.9, 2.45), (0.75, 1.4), (-0.35, 0.4)):
            ax.plot([x, x], [low, high], color=INK, linewidth=1, zorder=1.5)
        box(ax, x - 0.22, 1.4, 0.44, 0.5, fill=Y, linewidth=0.8, zorder=2)
        write(ax, x, 1.65, str(gpu), color="#fff", weight="bold")
        box(ax, x - 0.16, 0.4, 0.32, 0.35, fill="#fff", linewidth=0.8, zorder=2)
    for host in range(count):
        x, y = 7 + 0.42 * (host % side), 3.1 - 0.42 * (host // side + 1)
        fill = INK if host == 0 else "#f4f4f4"
        box(ax, x, y + 0.04, 0.36, 0.34, fill=fill, linewidth=0.8)
    middle, lowest = 7 + 0.21 * side, 3.14 - 0.42 * ceil(count / side)
    ax.plot([0.2, middle, middle], [-0.35, -0.35, lowest], color=INK, linewidth=1.6, zorder=0)
    ax.text(6, -0.27, "network", ha="center", va="bottom", fontsize=8.5)
    ax.text(2.5, 3.25, "a host", ha="center", fontsize=9, weight="bold")
    ax.text(middle, 3.25, f"{count} hosts", ha="center", fontsize=9, weight="bold")
    ax.text(0, -0.75, f"Each GPU over {inside}\nand over {between}", va="top", fontsize=9)
    bare(ax, xlim=(-0.1, 7.1 + 0.42 * side), ylim=(-1.9, 3.6), aspect="equal")
    return Picture(figure, alt, caption)


@styled
def pods(chip: Chip, alt: str, *, count: int = 2, caption: str = "") -> Picture:
    """Pods of chips with ICI inside and the data-centre network between: each chip meets its like in the other pods."""
    n, wide = 4, 2.2
    figure, ax = canvas(5.6, 2.2)
    for p in range(count):
        left = p * (wide + 2.9)
        box(ax, left - 0.4, -0.4, wide + 0.8, wide + 0.8, fill=None, linestyle="--")
        ax.text(left + wide / 2, wide + 0.55, f"pod {p}", ha="center", fontsize=10, weight="bold")
        step = wide / (n - 1)
        for i in range(n):
            ax.plot([left, left + wide], [i * step] * 2, color="#bbb", linewidth=1, zorder=1)
            ax.plot([left + i * step] * 2, [0, wide], color="#bbb", linewidth=1, zorder=1)
            for j in range(n):
                ax.plot([left + i * step], [j * step], "o", color=X, markeredgecolor=INK, markersize=9, zorder=2)
        write(ax, left + wide / 2, -0.55, f"ICI, {show.rate(chip.link_bandwidth)} a link", 8.5, va="top")
        if p:
            _both(ax, (left - 2.5, wide / 2), (left - 0.4, wide / 2))
            write(ax, left - 1.45, wide / 2 + 0.15, "gradients,\nonce a step", 9, va="bottom")
            write(ax, left - 1.45, wide / 2 - 0.15, f"{show.rate(chip.dcn_bandwidth)}\na chip", 9, va="top")
    bare(ax, xlim=(-0.5, count * (wide + 2.9) - 2.4), ylim=(-1.1, wide + 1.0), aspect="equal")
    return Picture(figure, alt, caption)


@styled
def tokens_to_experts(meets, alt: str, *, caption: str = "") -> Picture:
    """Tokens of some devices on their way to experts, one on each device: for each device the experts that its tokens meet.

    meets  [[expert, …] for each device]; the AllToAll sends each token that is not at home
    """
    n = len(meets)
    counts = [0] * n
    figure, ax = canvas(5.4, 3.0)
    slots = [sum(e == d for some in meets for e in some) for d in range(n)]
    for d, some in enumerate(meets):
        ax.text(3 * d, 4.55, f"device {d}", ha="center", va="bottom", fontsize=9)
        box(ax, 3 * d - 1.2, 0, 2.4, 0.9, f"expert {d}", "#f4f4f4", 9)
        for k, e in enumerate(some):
            x, y = 3 * d + 0.8 * (k - (len(some) - 1) / 2), 4.1
            to = 3 * e + 0.7 * (counts[e] - (slots[e] - 1) / 2)
            counts[e] += 1
            colour = COLOURS[e % 6]
            ax.add_patch(FancyArrowPatch((x, y - 0.3), (to, 1.65), arrowstyle="-|>", mutation_scale=8, color=colour, linewidth=1.5,
                                         linestyle="--" if e == d else "-"))  # fmt: skip
            for place in ((x, y), (to, 1.35)):
                ax.plot(*place, "s", color=colour, markeredgecolor=INK, markersize=13)
                write(ax, *place, str(e), color="#fff", weight="bold")
    bare(ax, xlim=(-1.4, 3 * n - 1.6), ylim=(-0.1, 5.0))
    legend(figure, {"a token, with its expert's number": "#999"}, 1)
    return Picture(figure, alt, caption)
