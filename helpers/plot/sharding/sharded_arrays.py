"""Sharded arrays: which device holds which block, how collectives move them, and the four cases of a product."""

from collections.abc import Iterable, Mapping

from matplotlib.patches import Rectangle

from helpers.costs.sharding.collective_steps import CollectiveFilm
from helpers.costs.sharding.sharded_array import Mesh, Sharding, parse
from helpers.plot.picture import COLOURS, INK, Picture, panes, styled, write
from helpers.plot.rooflines.chip_and_products import Matrix, products
from helpers.plot.sharding import collective_steps


@styled
def layout(
    shardings: str | Sharding | Iterable, mesh: Mesh | Mapping, sizes: Mapping | None = None, *, caption=""
) -> Picture:
    """Arrays cut into their blocks, side by side; in each block the numbers of the devices that hold it.

    shardings  one or several, in the notation: "A[I_X, J_Y]"
    mesh       a Mesh, or its sizes {"X": 2, "Y": 2}
    sizes      of the dimensions; with them the shape of a block is written under the array

    Rows are blocks of the first dimension, columns of the second. Copies are hatched and listed "0, 1",
    partial sums are dotted and listed "0 + 1". The alt text says all of it.
    """
    several = [shardings] if isinstance(shardings, str | Sharding) else list(shardings)
    arrays = [parse(s) for s in several]
    mesh = mesh if isinstance(mesh, Mesh) else Mesh(mesh)
    for a in arrays:
        a.check(mesh, sizes)
        if len(a.dims) > 2:
            raise ValueError(f"a layout is drawn of arrays with one or two dimensions, and {a} has {len(a.dims)}")
    columns = min(len(arrays), 2)  # legible on a phone
    down = -(-len(arrays) // columns)
    figure, axes = panes(len(arrays), 2.5 * columns, 2.85 * down, columns)
    figure.get_layout_engine().set(h_pad=0.12)
    for ax, array in zip(axes, arrays):
        _array(ax, array, mesh, sizes)
    names = ", ".join(f"{n} = {s}" for n, s in mesh.sizes.items())
    alt = f"On a mesh of {mesh.devices} devices, {names}. " + " ".join(_words(a, mesh) for a in arrays)
    return Picture(figure, alt, caption)


def frames(run: CollectiveFilm, *, caption: str = "") -> Picture:
    """A collective as small multiples, one for each step: the drawings that the site steps through.

    run  from `helpers.costs.sharding.collective_steps`: `plot.frames(collective_steps.all_gather(Axis(4)))`
    """
    return Picture(collective_steps.strip(run), run.alt, caption)


def holders(array: Sharding, mesh: Mesh) -> dict[tuple[int, ...], list[list[int]]]:
    """For each block the devices that hold it: one list for each partial sum, devices in a list hold copies of each other.

    >>> holders(parse("A[I_X, J]"), Mesh({"X": 2, "Y": 2}))
    {(0, 0): [[0, 1]], (1, 0): [[2, 3]]}
    >>> holders(parse("A[I_X, J] {U_Y}"), Mesh({"X": 2, "Y": 2}))
    {(0, 0): [[0], [1]], (1, 0): [[2], [3]]}
    """
    found: dict[tuple, dict[tuple, list[int]]] = {}
    for device, at in enumerate(mesh.coordinates()):
        summand = tuple(at[a] for a in array.unreduced)
        found.setdefault(array.block(at, mesh), {}).setdefault(summand, []).append(device)
    return {block: list(found[block].values()) for block in sorted(found)}


def _listed(groups: list[list[int]]) -> str:
    """
    >>> _listed([[0, 1]]), _listed([[0], [1]]), _listed([[0, 2], [1, 3]]), _listed([list(range(16))])
    ('0, 1', '0 + 1', '(0, 2) + (1, 3)', '0, 1, … 15')
    """
    short = [", ".join(map(str, g)) if len(g) < 6 else f"{g[0]}, {g[1]}, … {g[-1]}" for g in groups]
    if len(short) > 1 and len(groups[0]) > 1:
        short = [f"({s})" for s in short]
    return " + ".join(short) if len(short) < 6 else f"{short[0]} + {short[1]} + … {short[-1]}"


def _words(array: Sharding, mesh: Mesh) -> str:
    """The picture of one array as a sentence."""
    held = holders(array, mesh)
    each = "; ".join(f"block {', '.join(map(str, b))} on {_listed(g)}" for b, g in held.items())
    return f"{array}: {len(held)} block{'s' * (len(held) > 1)}: {each}."


def _array(ax, array: Sharding, mesh: Mesh, sizes) -> None:
    """One array as a square cut into blocks."""
    held = holders(array, mesh)
    rows, columns = ([mesh.size(axes) for axes in array.axes] + [1])[:2]
    height, width = 1 / rows, 1 / columns
    for n, (block, groups) in enumerate(held.items()):
        r, c = (*block, 0)[:2]
        hatch = "..." if len(groups) > 1 else "//" if len(groups[0]) > 1 else ""
        at = (c * width, r * height), width, height
        ax.add_patch(Rectangle(*at, facecolor=COLOURS[n % 6] + "40", edgecolor=INK, linewidth=1.2))
        if hatch:  # apart from the fill, whose transparency it would take
            ax.add_patch(Rectangle(*at, fill=False, edgecolor="#999", hatch=hatch, linewidth=0))
        text = _listed(groups)
        size = min(11, 120 * width / max(3, len(text)) + 2, 105 * height)
        box = {"facecolor": "#fff", "edgecolor": "none", "pad": 1.5, "alpha": 0.85}
        write(ax, (c + 0.5) * width, (r + 0.5) * height, text, size, bbox=box)
    ax.set_yticks([(r + 0.5) * height for r in range(rows)], _coordinates(array.axes[0], mesh, array.dims[0]))
    second = _coordinates(array.axes[1], mesh, array.dims[1]) if len(array.dims) > 1 else [""]
    ax.set_xticks([(c + 0.5) * width for c in range(columns)], second, rotation=90 if columns > 4 else 0)
    ax.xaxis.tick_top()
    ax.set(title=str(array), xlabel=_under(array, mesh, sizes), xlim=(-0.01, 1.01), ylim=(1.01, -0.01), aspect="equal")
    ax.tick_params(length=0)
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)


def _coordinates(axes: tuple[str, ...], mesh: Mesh, dim: str) -> list[str]:
    """Where the devices of each block stand: 'x0 y1', the major axis first; the dimension's name if it is whole.

    >>> _coordinates(("X", "Y"), Mesh({"X": 2, "Y": 2}), "I")
    ['x0 y0', 'x0 y1', 'x1 y0', 'x1 y1']
    """
    out = [""]
    for a in axes:
        out = [f"{text} {a.lower()}{i}".strip() for text in out for i in range(mesh[a])]
    return out if axes else [dim]


def _under(array: Sharding, mesh: Mesh, sizes) -> str:
    """What stands under the array: the shape of a block, and what hatching means."""
    said = []
    if sizes is not None:
        said.append(f"each device {list(array.local(sizes, mesh))}")
    if (copies := array.copies(mesh)) > 1:
        said.append(f"{copies} copies of each {'partial sum' if array.unreduced else 'block'}")
    if array.unreduced:
        said.append(f"{mesh.size(array.unreduced)} partial sums")
    return "\n".join(said)


TWO = (0, 1)
ROWS, COLUMNS = (2, 1), (1, 2)
CASES = (
    ("Case 1: $D$ is whole",
     [Matrix("In[B_X, D]", "$B_X$", "$D$", ROWS, TWO), "×", Matrix("W_in[D, F]", "$D$", "$F$"), "=",
      Matrix("Tmp[B_X, F]", "$B_X$", "$F$", ROWS, TWO)],
     "multiply: nothing is sent"),
    ("Case 2: $D$ is sharded in one operand",
     [Matrix("In[B, D_X]", "$B$", "$D_X$", COLUMNS, TWO), "×", Matrix("W_in[D, F]", "$D$", "$F$"), "=",
      Matrix("Tmp[B, F]", "$B$", "$F$")],
     "AllGather that operand, then multiply"),
    ("Case 3: $D$ is sharded in both",
     [Matrix("In[B, D_X]", "$B$", "$D_X$", COLUMNS, TWO), "×", Matrix("W_in[D_X, F]", "$D_X$", "$F$", ROWS, TWO), "=",
      Matrix("Tmp[B, F] {U_X}", "$B$", "$F$", partial=True)],
     "multiply, then add up the partial sums: AllReduce or ReduceScatter"),
    ("Case 4: $B$ and $F$ are sharded over one axis",
     [Matrix("In[B_X, D]", "$B_X$", "$D$", ROWS, TWO), "×", Matrix("W_in[D, F_X]", "$D$", "$F_X$", COLUMNS, TWO), "=",
      Matrix("Tmp", "$B_X$", "$F_X$", (2, 2), (0, None, None, 1))],
     "no device can make the white blocks: AllGather one operand first"),
)  # fmt: skip


def four_cases(alt: str, *, caption: str = "") -> Picture:
    """Tmp[B, F] = In[B, D] · W_in[D, F] on two devices along X, by which of the dimensions X shards."""
    return products(CASES, alt, devices=("device 0", "device 1"), caption=caption)
