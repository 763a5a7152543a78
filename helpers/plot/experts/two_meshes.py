"""The same chips as attention sees them and as the experts do: a row for each mesh, a column for each chip."""

from collections.abc import Mapping
from math import prod

from matplotlib import rc_context
from matplotlib.patches import FancyBboxPatch

from helpers.plot.marks import box
from helpers.plot.picture import COLOURS, INK, STYLE, Picture, canvas

FILLS = (*(colour + "50" for colour in COLOURS), "#dddddd", "#ffffff")
"""One for each place along an axis of eight at most."""
Axes = tuple[tuple[str, int], ...]


def coordinates(chip: int, axes: Axes) -> tuple[int, ...]:
    """Where a chip stands along each axis of a mesh, the last axis counting fastest.

    >>> coordinates(6, (("dp", 2), ("tp", 4))), coordinates(6, (("edp", 1), ("ep", 8)))
    ((1, 2), (0, 6))
    """
    found = []
    for _, n in reversed(axes):
        chip, place = divmod(chip, n)
        found.append(place)
    return tuple(reversed(found))


def two_meshes(meshes: Mapping[str, tuple[Axes, str]], alt: str, *, caption: str = "") -> Picture:
    """Rows of the same chips under several meshes; a dashed frame joins chips that exchange along the last axis.

    meshes  {title: ((axis, size), …) from the outermost axis to the innermost, and what the chips of a frame send}
    """
    if not meshes or len({prod(n for _, n in axes) for axes, _ in meshes.values()}) > 1:
        raise ValueError("meshes of the same chips are drawn: give at least one, and the same product of sizes in each")
    chips = prod(n for _, n in next(iter(meshes.values()))[0])
    with rc_context(STYLE):
        figure, ax = canvas(6.8, 0.5 + 1.05 * len(meshes))
        for row, (title, (axes, sent)) in enumerate(meshes.items()):
            y, inner = -1.95 * row, axes[-1][1]
            ax.text(-0.02, y + 1.22, f"{title}: {sent}", ha="left", va="bottom", fontsize=8.5)
            for chip in range(chips):
                at = coordinates(chip, axes)
                text = "\n".join(f"{name} {i}" for (name, n), i in zip(axes, at) if n > 1)
                box(ax, chip + 0.08, y + 0.16, 0.84, 0.84, text, FILLS[at[-1] % len(FILLS)])
            for start in range(0, chips, inner):
                ax.add_patch(
                    FancyBboxPatch((start + 0.05, y + 0.08), inner - 0.1, 1.0, boxstyle="round,pad=0.02", fill=False,
                                   edgecolor=INK, linestyle="--", linewidth=1.1)
                )  # fmt: skip
        for chip in range(chips):
            ax.text(chip + 0.5, -1.95 * (len(meshes) - 1) - 0.12, f"chip {chip}", ha="center", va="top", fontsize=8)
        ax.set(xlim=(-0.1, chips + 0.1), ylim=(-1.95 * (len(meshes) - 1) - 0.5, 1.65))
        ax.set_axis_off()
    return Picture(figure, alt, caption)
