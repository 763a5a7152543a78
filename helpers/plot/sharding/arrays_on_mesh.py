"""A mesh of a few devices, and beside it arrays in the colours of the devices that hold their blocks."""

from collections.abc import Sequence

from matplotlib.patches import Rectangle

from helpers.costs.sharding.sharded_array import Mesh, Sharding, parse
from helpers.plot.picture import COLOURS, INK, Picture, bare, box, canvas, styled, write
from helpers.plot.rooflines.chip_and_products import HATCHES, SIZES, WHOLE

from .sharded_arrays import holders

GAP = 1.3  # between the mesh and an array, and between two arrays
STRIPES = 8  # of a block that several devices hold


@styled
def on_mesh(
    arrays: Sequence[tuple[str, str]], mesh: Mesh, alt: str, *, title: str = "mesh", caption: str = ""
) -> Picture:
    """At most four devices, and arrays of two dimensions: (sharding, what stands below it) for each.

    A block has the colour of its device, stripes of several colours if several hold it, and is grey if all do.
    Devices along one axis are drawn as a ring.
    """
    parsed = [(parse(text), below) for text, below in arrays]
    widths = [SIZES.get(array.dims[1], 2.0) for array, _ in parsed]
    left = mesh.sizes[mesh.names[-1]] * 0.95 - 0.1
    figure, ax = canvas(6.9, 2.1)
    _devices(ax, mesh, title)
    x = left
    for (array, below), width in zip(parsed, widths):
        x += GAP
        _array(ax, array, mesh, x, width)
        ax.text(x + width / 2, -2.15, str(array), ha="center", va="top", fontsize=10, family="monospace")
        ax.text(x + width / 2, -2.55, below, ha="center", va="top", fontsize=9)
        x += width
    bare(ax, xlim=(-0.5, left + sum(widths) + GAP * len(widths) + 0.3), ylim=(-3.3, 0.6), aspect="equal")
    return Picture(figure, alt, caption)


def _devices(ax, mesh: Mesh, title: str) -> None:
    """The devices at their places: x downwards and y to the right, or a ring in one row."""
    side, step = 0.7, 0.95
    middle = -1.0 + (step if len(mesh.names) > 1 else 0) / 2
    places = [
        (at[mesh.names[-1]] * step, middle - (at[mesh.names[0]] * step if len(at) > 1 else 0))
        for at in mesh.coordinates()
    ]
    right, (x, y) = max(x for x, _ in places), places[0]
    if len(mesh.names) == 1:
        path = [
            (x, y),
            (right + side + 0.15, y),
            (right + side + 0.15, y - 0.6),
            (x - 0.15, y - 0.6),
            (x - 0.15, y),
            (x, y),
        ]
        ax.plot(*zip(*path), color=INK, linewidth=1, zorder=0)
    for device, ((x, y), at) in enumerate(zip(places, mesh.coordinates())):
        named = " ".join(f"{axis.lower()}{i}" for axis, i in at.items())
        _block(ax, x, y - side / 2, side, side, [device])
        write(
            ax,
            x + side / 2,
            y,
            named.replace(" ", "\n"),
            bbox={"facecolor": "#fff", "edgecolor": "none", "pad": 0.5, "alpha": 0.7},
        )
    ax.text((right + side) / 2, -2.15, title, ha="center", va="top", fontsize=9)


def _array(ax, array: Sharding, mesh: Mesh, x: float, width: float) -> None:
    """An array, two high, in its blocks, with its dimensions beside it."""
    down, across = (mesh.size(axes) for axes in array.axes)
    for (row, column), groups in holders(array, mesh).items():
        at = x + column * width / across, -2 * (row + 1) / down
        _block(ax, *at, width / across, 2 / down, [] if len(groups[0]) == mesh.devices else groups[0])
    rows, columns = (f"${d}_{{{''.join(axes)}}}$" if axes else f"${d}$" for d, axes in zip(array.dims, array.axes))
    ax.text(x - 0.12, -1, rows, ha="right", va="center", fontsize=11)
    ax.text(x + width / 2, 0.08, columns, ha="center", va="bottom", fontsize=11)


def _block(ax, x: float, y: float, width: float, height: float, owners: list[int]) -> None:
    """A block in stripes of its holders; without any it is grey, for it is everywhere."""
    ax.add_patch(Rectangle((x, y), width, height, facecolor="#fff" if owners else WHOLE, linewidth=0))
    stripes = STRIPES if len(owners) > 1 else len(owners)
    for i in range(stripes):
        owner, wide = owners[i % len(owners)], width / stripes
        box(ax, x + i * wide, y, wide, height, fill=COLOURS[owner] + "90", hatch=HATCHES[owner], linewidth=0)
    box(ax, x, y, width, height, fill="none", linewidth=1.2)
