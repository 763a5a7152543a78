"""Attention over devices: who has which tokens, and a decode step whose keys lie on all of them."""

from matplotlib import rc_context
from matplotlib.patches import FancyArrowPatch, Rectangle

from helpers import show
from helpers.costs.attention.flops_and_bytes import Attention
from helpers.costs.attention.ring_attention import CUTS, ring_decode_bytes, rounds, tree
from helpers.plot.marks import HATCHES
from helpers.plot.picture import COLOURS, INK, STYLE, Picture, canvas


def owner(token: int, n: int, C: int, cut: str) -> int:
    """The device of n that has a token, C tokens on each.

    >>> [owner(t, 2, 3, "contiguous") for t in range(6)], [owner(t, 2, 3, "striped") for t in range(6)]
    ([0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1])
    """
    if cut not in CUTS:
        raise ValueError(f"a sequence is cut {' or '.join(CUTS)}, not {cut!r}")
    return token // C if cut == "contiguous" else token % n


def cuts(n: int, C: int, alt: str, *, caption: str = "") -> Picture:
    """The tokens of a sequence, numbered, coloured by the device that has them: contiguous and striped."""
    with rc_context(STYLE):
        figure, axes = canvas(5.2, 1.75, len(CUTS))
        for ax, cut in zip(axes, CUTS):
            for t in range(n * C):
                d = owner(t, n, C, cut)
                ax.add_patch(
                    Rectangle((t, 0), 1, 1, facecolor=COLOURS[d % 6] + "60", edgecolor=INK, hatch=HATCHES[d % 4])
                )
                pad = {"facecolor": "#fff", "edgecolor": "none", "pad": 0.6, "alpha": 0.85}
                ax.text(t + 0.5, 0.5, f"{t}", ha="center", va="center", fontsize=8, bbox=pad)
            ax.set(xlim=(-0.1, n * C + 0.1), ylim=(-0.1, 1.1), aspect="equal")
            ax.set_title(cut, loc="left", fontsize=10)
            ax.set_axis_off()
        shown = [
            Rectangle(
                (0, 0), 1, 1, facecolor=COLOURS[d % 6] + "60", edgecolor=INK, hatch=HATCHES[d % 4], label=f"device {d}"
            )
            for d in range(n)
        ]
        figure.legend(handles=shown, loc="outside lower center", ncols=n, fontsize=8)
    return Picture(figure, alt, caption)


def sends(n: int, way: str) -> list[list[tuple[int, int]]]:
    """(from, to) in each round: keys round a ring, or partial results by doubling.

    >>> len(sends(8, "ring")), sends(4, "doubling")
    (7, [[(0, 1), (1, 2), (2, 3), (3, 0)], [(0, 2), (1, 3), (2, 0), (3, 1)]])
    """
    if way == "ring":
        return [[(i, (i + 1) % n) for i in range(n)] for _ in range(n - 1)]
    return [[(i, (i + 2**r) % n) for i in range(n)] for r in range(rounds(n))]


def ring_or_tree(a: Attention, n: int, alt: str, *, caption: str = "") -> Picture:
    """One new token whose keys lie on n devices: keys sent round a ring, or the query to all and its partial results in a tree.

    Rows are devices, columns rounds; a line leads from a device to the one that hears from it. n is a power of two.
    """
    if n != 2 ** rounds(n):
        raise ValueError(f"the drawing is of a power of two of devices, not of {n}")
    sent = {"ring": ring_decode_bytes(a, n)[0], "doubling": tree(a, n).sent}
    said = {"ring": "keys and values round a ring", "doubling": "partial results, doubling"}
    with rc_context(STYLE):
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
            ax.set(xlim=(-1.6, n - 0.8), ylim=(-n + 0.3, 0.7))
            ax.set_title(
                f"{said[way]}: {len(columns)} rounds, {show.bytes(sent[way])} per device",
                loc="left", fontsize=10, weight="bold",
            )  # fmt: skip
            ax.set_axis_off()
    return Picture(figure, alt, caption)


def _arrow(start, end, way: str) -> FancyArrowPatch:
    wide = 2.6 if way == "ring" else 0.9
    colour = COLOURS[1] if way == "ring" else COLOURS[0]
    return FancyArrowPatch(
        start, end, arrowstyle="-|>", mutation_scale=8, color=colour, linewidth=wide, shrinkA=3, shrinkB=3
    )
