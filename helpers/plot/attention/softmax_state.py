"""What a softmax keeps of the scores that it has seen, one score after another or in a tree; and keys that lie on many devices."""

import math
from collections.abc import Sequence

from matplotlib.patches import FancyArrowPatch

from helpers import show
from helpers.costs.attention.flops_and_bytes import Attention
from helpers.costs.attention.ring_attention import CUTS, hop_bytes, rounds, tree
from helpers.plot.picture import COLOURS, HATCHES, INK, Picture, arrow, bare, box, canvas, legend, styled, write


def states(scores: Sequence[float]) -> list[tuple[float, float, float]]:
    """(m, factor, ℓ) after each score: the largest so far, what the old sum is multiplied by, the new sum.

    >>> [tuple(round(x, 2) for x in s) for s in states([1, 3, 2])]
    [(1, 0.0, 1.0), (3, 0.14, 1.14), (3, 1.0, 1.5)]
    """
    m, total, out = -math.inf, 0.0, []
    for x in scores:
        larger = max(m, x)
        factor = math.exp(m - larger) if m > -math.inf else 0.0
        m, total = larger, total * factor + math.exp(x - larger)
        out.append((m, factor, total))
    return out


@styled
def online_softmax(scores: Sequence[float], alt: str, *, caption: str = "") -> Picture:
    """The scores of a row as bars, m as a line over them, and under each what the program holds once it has read it.

    The factor e^(m - m') is framed where it is not 1: there the old sum was rescaled.
    """
    lowest = min(0.0, *scores)
    figure, ax = canvas(5.2, 3.4)
    for i, (x, (m, factor, total)) in enumerate(zip(scores, states(scores))):
        box(ax, i - 0.3, 0, 0.6, x, fill=COLOURS[4])
        ax.text(i, x + 0.12, f"{x:g}", ha="center", va="bottom", fontsize=9)
        ax.plot([i - 0.5, i + 0.5], [m + 0.62, m + 0.62], color=COLOURS[1], linewidth=2.5)
        frame = {"facecolor": "#fff", "edgecolor": COLOURS[1], "pad": 2.5} if factor != 1 and i else None
        for row, text in enumerate((f"{m:g}", f"{factor:.2f}" if i else "–", f"{total:.2f}")):
            write(ax, i, lowest - 0.75 - 0.85 * row, text, 9, bbox=frame if row == 1 else None)
    for row, name in enumerate(("$m$′", "$e^{m-m′}$", "$\\ell$′")):
        ax.text(-0.85, lowest - 0.75 - 0.85 * row, name, ha="right", va="center", fontsize=10)
    ax.text(-0.85, max(scores) / 2, "scores\n$x_i$", ha="right", va="center", fontsize=9)
    ax.text(len(scores) - 0.4, max(scores) + 0.62, "$m$", ha="left", va="center", fontsize=10, color=COLOURS[1])
    ax.plot([-0.6, len(scores) - 0.4], [0, 0], color=INK, linewidth=1)
    bare(ax, xlim=(-1.9, len(scores)), ylim=(lowest - 3.0, max(scores) + 1.1))
    return Picture(figure, alt, caption)


def combined(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    """(m, ℓ) of two sets of scores together.

    >>> combined((3.0, 1.0), (1.0, 2.0)) == (3.0, 1 + 2 * math.exp(-2))
    True
    """
    m = max(a[0], b[0])
    return m, a[1] * math.exp(a[0] - m) + b[1] * math.exp(b[0] - m)


@styled
def combine_tree(parts: Sequence[Sequence[float]], alt: str, *, caption: str = "") -> Picture:
    """Parts of a row of scores, each with its (m, ℓ), combined two by two until one (m, ℓ) of the whole row is left.

    parts  as many as a power of two
    """
    level = [(states(p)[-1][0], states(p)[-1][2]) for p in parts]
    figure, ax = canvas(5.2, 3.3)
    width, y = 2.4, 0.0
    at = [i * width for i in range(len(parts))]
    for x, part in zip(at, parts):
        for k, score in enumerate(part):
            box(ax, x + (k - len(part) / 2) * 0.8, 1.35, 0.8, 0.7, f"{score:g}", COLOURS[4] + "60", 9)
        arrow(ax, (x, 1.35), (x, 0.72), width=1.1)
    _boxes(ax, at, level, y)
    while len(level) > 1:
        level = [combined(a, b) for a, b in zip(level[::2], level[1::2])]
        above, at, y = at, [(a + b) / 2 for a, b in zip(at[::2], at[1::2])], y - 2.3
        for i, x in enumerate(at):
            for parent in above[2 * i : 2 * i + 2]:
                arrow(ax, (parent, y + 1.6), (x + 0.25 * (parent - x) / width, y + 0.72), width=1.1)
            write(ax, x, y + 1.42, "$\\oplus$", 13)
        _boxes(ax, at, level, y)
    bare(ax, xlim=(-1.15, (len(parts) - 1) * width + 1.15), ylim=(y - 0.8, 2.15))
    return Picture(figure, alt, caption)


def _boxes(ax, centres: Sequence[float], level: Sequence[tuple[float, float]], y: float) -> None:
    for x, (m, total) in zip(centres, level):
        box(ax, x - 1.02, y - 0.7, 2.04, 1.4, f"$m$ = {m:g}\n$\\ell$ = {total:.2f}", "#eeeeee", 9)


@styled
def passing_keys(count: int, alt: str, *, caption: str = "") -> Picture:
    """A query beside whose state, m, ℓ and O, keys and values pass one by one; the division comes after the last one."""
    wide = 1.9
    figure, ax = canvas(5.2, 1.9)
    for s in range(count):
        x = s * wide
        box(ax, x, 1.7, 1.35, 0.8, fill=COLOURS[4] + "60")
        write(ax, x + 0.67, 2.1, f"$k_{s}, v_{s}$", 9)
        arrow(ax, (x + 0.67, 1.7), (x + 0.67, 0.8), width=1.1)
        box(ax, x, 0, 1.35, 0.8, fill=COLOURS[5] + "80")
        write(ax, x + 0.67, 0.4, "$m, \\ell, O$", 9)
        arrow(ax, (x + 1.35, 0.4), (x + wide, 0.4), width=1.1)
    end = count * wide
    box(ax, end, 0, 1.7, 0.8, "$o = O / \\ell$", "#fff", 9)
    ax.text(0, -0.3, "1, 1 and $H$ numbers", ha="left", va="center", fontsize=8.5)
    bare(ax, xlim=(-0.1, end + 1.8), ylim=(-0.5, 2.6))
    return Picture(figure, alt, caption)


def owner(token: int, n: int, C: int, cut: str) -> int:
    """The device of n that has a token, C tokens on each.

    >>> [owner(t, 2, 3, "contiguous") for t in range(6)], [owner(t, 2, 3, "striped") for t in range(6)]
    ([0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1])
    """
    if cut not in CUTS:
        raise ValueError(f"a sequence is cut {' or '.join(CUTS)}, not {cut!r}")
    return token // C if cut == "contiguous" else token % n


@styled
def cuts(n: int, C: int, alt: str, *, caption: str = "") -> Picture:
    """The tokens of a sequence, numbered, coloured by the device that has them: contiguous and striped."""
    figure, axes = canvas(5.2, 1.75, len(CUTS))
    for ax, cut in zip(axes, CUTS):
        for t in range(n * C):
            d = owner(t, n, C, cut)
            box(ax, t, 0, 1, 1, f"{t}", COLOURS[d % 6] + "60", hatch=HATCHES[d % 4])
        bare(ax, title=cut, xlim=(-0.1, n * C + 0.1), ylim=(-0.1, 1.1), aspect="equal")
    legend(figure, {f"device {d}": (COLOURS[d % 6] + "60", HATCHES[d % 4]) for d in range(n)}, n)
    return Picture(figure, alt, caption)


def sends(n: int, way: str) -> list[list[tuple[int, int]]]:
    """(from, to) in each round: keys round a ring, or partial results by doubling.

    >>> len(sends(8, "ring")), sends(4, "doubling")
    (7, [[(0, 1), (1, 2), (2, 3), (3, 0)], [(0, 2), (1, 3), (2, 0), (3, 1)]])
    """
    if way == "ring":
        return [[(i, (i + 1) % n) for i in range(n)] for _ in range(n - 1)]
    return [[(i, (i + 2**r) % n) for i in range(n)] for r in range(rounds(n))]


@styled
def ring_or_tree(a: Attention, n: int, alt: str, *, caption: str = "") -> Picture:
    """One new token whose keys lie on n devices: keys sent round a ring, or the query to all and its partial results in a tree.

    Rows are devices, columns rounds; a line leads from a device to the one that hears from it. n is a power of two.
    """
    if n != 2 ** rounds(n):
        raise ValueError(f"the drawing is of a power of two of devices, not of {n}")
    sent = {"ring": (n - 1) * hop_bytes(a, n), "doubling": tree(a, n).sent}
    said = {"ring": "keys and values round a ring", "doubling": "partial results, doubling"}
    figure, axes = canvas(5.2, 5.6, 2)
    for ax, way in zip(axes, ("ring", "doubling")):
        columns = sends(n, way)
        for r, pairs in enumerate(columns):
            for i, j in pairs:
                if way == "doubling" or j:
                    ax.add_patch(_arrow((r, -i), (r + 1, -j), way))
                else:  # from the last device to the first one: out below, in above
                    ax.add_patch(_arrow((r, -i), (r + 0.5, -i - 0.5), way))
                    ax.add_patch(_arrow((r + 0.5, 0.5), (r + 1, 0), way))
        for r in range(len(columns) + 1):
            ax.plot([r] * n, [-i for i in range(n)], "o", color=INK, markersize=4, zorder=3)
        for i in range(n):
            ax.text(-0.2, -i, f"device {i}", ha="right", va="center", fontsize=8)
        title = f"{said[way]}: {len(columns)} rounds, {show.bytes(sent[way])} per device"
        bare(ax, title=title, xlim=(-1.6, n - 0.8), ylim=(-n + 0.3, 0.7))
    return Picture(figure, alt, caption)


def _arrow(start, end, way: str) -> FancyArrowPatch:
    wide = 2.6 if way == "ring" else 0.9
    colour = COLOURS[1] if way == "ring" else COLOURS[0]
    return FancyArrowPatch(
        start, end, arrowstyle="-|>", mutation_scale=8, color=colour, linewidth=wide, shrinkA=3, shrinkB=3
    )
