"""Collectives in two tiers: what each chip holds after each stage of a hierarchical AllReduce, messages along rails, HSDP's shards."""

from collections.abc import Iterator
from itertools import pairwise

from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path

from helpers.costs.sharding.collective_steps import Step, hierarchical_steps
from helpers.costs.sharding.sharded_array import Mesh, parse
from helpers.plot.picture import COLOURS, INK, Picture, bare, box, canvas, panes, styled, write

BLUE, ORANGE = COLOURS[0], COLOURS[1]
Chip = tuple[int, int]
Held = dict[Chip, tuple[int, ...]]
"""For each chip and piece, of how many chips' numbers the chip's piece is the sum."""


def sums(g: int, m: int) -> Iterator[tuple[Step | None, Held]]:
    """Before the first step (None) and after each one: what every chip holds.

    A chip that passes a partial sum on does not need it any more: 0.

    >>> [max(held[0, 0]) for _, held in sums(2, 2)], [sum(held[0, 0]) for _, held in sums(2, 2)]
    ([1, 2, 4, 4, 4], [4, 4, 4, 8, 16])
    """
    n = g * m
    of = {(d, i): [{(d, i)} for _ in range(n)] for d in range(m) for i in range(g)}
    yield None, {chip: (1,) * n for chip in of}
    for step in hierarchical_steps(g, m):
        sent = [(x, [set(of[x.source][p]) for p in x.pieces]) for x in step.messages]
        for x, parts in sent:
            for p, part in zip(x.pieces, parts):
                if x.adds and part & of[x.target][p]:
                    raise AssertionError("a part is added twice")
                of[x.target][p] = of[x.target][p] | part if x.adds else part
                if x.adds:
                    of[x.source][p] = set()
        yield step, {chip: tuple(len(x) for x in pieces) for chip, pieces in of.items()}


@styled
def two_tier_steps(g: int, m: int, alt: str, *, caption: str = "") -> Picture:
    """A panel for the start and for the end of each stage: a column of pieces for each chip, the darker the more it sums."""
    moments, n = {}, g * m
    for step, held in sums(g, m):
        moments[step.stage if step else "start"] = held
    figure, axes = panes(len(moments), 5.2, 0.85 * len(moments) + 0.3)
    for ax, (stage, held) in zip(axes, moments.items()):
        for d, i in held:
            x = 0.2 + d * (g * 1.25 + 0.8) + i * 1.25
            for p, many in enumerate(held[d, i]):
                fill, alpha = (INK, 1) if many == n else (BLUE, 0.85 * many / n)
                box(ax, x, n - 1 - p, 1, 1, fill=fill, alpha=alpha, edgecolor="none")
                box(ax, x, n - 1 - p, 1, 1, fill=None, edgecolor="#777", linewidth=0.6)
        for d in range(m):
            left = d * (g * 1.25 + 0.8) - 0.05
            box(ax, left, -0.4, g * 1.25 + 0.25, n + 0.8, fill=None, edgecolor="#888", linestyle="--")
        ax.text(m * (g * 1.25 + 0.8) + 0.3, n / 2, stage.replace(" ", "\n", 1), va="center", fontsize=8)
        bare(ax, xlim=(-0.3, m * (g * 1.25 + 0.8) + 5.2), ylim=(-0.6, n + 0.6))
    return Picture(figure, alt, caption)


@styled
def rails(g: int, m: int, alt: str, *, caption: str = "") -> Picture:
    """Messages of chip 0 in an AllToAll over m hosts of g chips: straight to every chip, and by way of the rails."""
    figure, axes = canvas(5.2, 4.6, 2)
    for ax, (title, aligned) in zip(axes, (("directly", False), ("along rails", True))):
        across = 0
        for a, b, link in messages(g, m, aligned):
            across += link == "dcn"
            _arrow(ax, _at(a), _at(b), ORANGE if link == "dcn" else BLUE, "-" if link == "dcn" else "--")
        for d in range(m):
            box(ax, -0.6 + 2.6 * d, -0.65, 1.2, g - 1 + 1.3, fill=None, edgecolor="#888", linestyle="--")
            ax.text(2.6 * d, g + 0.0, f"host {d}", ha="center", fontsize=8)
            for i in range(g):
                x, y = _at((d, i))
                own = (d, i) == (0, 0)
                box(ax, x - 0.28, y - 0.28, 0.56, 0.56, fill=BLUE if own else "#fff", zorder=3)
                write(ax, x, y, f"{i}", color="#fff" if own else INK, zorder=4)
        title = f"{title}: {across} messages of chip 0 over its card"
        bare(ax, title=title, xlim=(-1.2, 2.6 * m - 1.2), ylim=(g + 0.2, -0.8))
    return Picture(figure, alt, caption)


def messages(g: int, m: int, aligned: bool) -> list[tuple[Chip, Chip, str]]:
    """(from, to, link) of the messages of chip 0 of host 0: along rails one to each other host, after those inside the own one."""
    inside = [((0, 0), (0, i), "ici") for i in range(1, g)]
    away = [((0, 0), (d, i), "dcn") for d in range(1, m) for i in range(g) if i == 0 or not aligned]
    return inside + away


def _at(chip: Chip) -> tuple[float, float]:
    return 2.6 * chip[0], 1.0 * chip[1]


def _arrow(ax, a, b, colour: str, dash: str) -> None:
    look = {"arrowstyle": "-|>", "mutation_scale": 8, "color": colour, "linewidth": 1.2, "zorder": 2}
    if b[0] - a[0] > 2.6:
        ax.add_patch(FancyArrowPatch(path=_between(a, b), **look))
        return
    bend = 0.35 if a[0] == b[0] else 0.0 if a[1] == b[1] else 0.12
    bow = f"arc3,rad={bend}"
    ax.add_patch(FancyArrowPatch(a, b, linestyle=dash, shrinkA=9, shrinkB=9, connectionstyle=bow, **look))


def _between(a, b) -> Path:
    """A line to a chip of a host farther off, which passes between the chips of the hosts on its way."""
    stops = [(a[0] + 0.28, a[1]), *((2.6 * d, b[1] - 0.5) for d in range(1, round(b[0] / 2.6))), (b[0] - 0.28, b[1])]
    points = [stops[0]]
    for (x, y), (to, end) in pairwise(stops):
        points += [(x + 0.7, y), (to - 0.7, end), (to, end)]
    return Path(points, [Path.MOVETO] + [Path.CURVE4] * (len(points) - 1))


@styled
def shards(ways: dict[str, str], X: int, Y: int, alt: str, *, caption: str = "") -> Picture:
    """Of one matrix, the block that each chip holds: a panel for each way, a row of chips for each host.

    ways  {title: sharding in the notation, such as "W_in[D_Y, F]"}; hosts are along X, the chips of a host along Y
    """
    figure, axes = panes(len(ways), 5.2, 1.15 * len(ways) * X / 2 + 0.3)
    for ax, (title, how) in zip(axes, ways.items()):
        for x in range(X):
            for y in range(Y):
                lo, hi = blocks(how, X, Y)[x, y]
                left, bottom = 1.5 * y, 1.6 * (X - 1 - x)
                box(ax, left, bottom, 1.1, 1.2, fill="#fff", edgecolor="#999", linewidth=0.8)
                box(ax, left, bottom + 1.2 * (1 - hi), 1.1, 1.2 * (hi - lo), fill=BLUE + "b0", linewidth=0.8)
            ax.text(-0.3, 1.6 * (X - 1 - x) + 0.6, f"host {x}", ha="right", va="center", fontsize=8)
        ax.text(1.5 * Y + 0.1, 0.8 * X - 0.2, f"{title}\n{how}", va="center", fontsize=8)
        bare(ax, xlim=(-1.8, 1.5 * Y + 4.6), ylim=(-0.2, 1.6 * X))
    return Picture(figure, alt, caption)


def blocks(how: str, X: int, Y: int) -> dict[Chip, tuple[float, float]]:
    """From where to where in the first dimension each chip's block reaches, as shares.

    >>> blocks("W_in[D_XY, F]", 2, 2)[1, 0], blocks("W_in[D_Y, F]", 2, 2)[1, 0]
    ((0.5, 0.75), (0.0, 0.5))
    """
    array, grid = parse(how), Mesh({"X": X, "Y": Y})
    sizes = {array.dims[0]: X * Y, array.dims[1]: 1}
    out = {}
    for x in range(X):
        for y in range(Y):
            start, stop = array.slices({"X": x, "Y": y}, sizes, grid)[0][:2]
            out[x, y] = start / (X * Y), stop / (X * Y)
    return out
