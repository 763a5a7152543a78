"""What one device of four holds of a layer under each kind of parallelism, and what is sent for it."""

from matplotlib import rc_context
from matplotlib.patches import Rectangle

from helpers.plot.picture import COLOURS, STYLE, Picture, canvas

INK, MINE, BORROWED = "#222", COLOURS[0], COLOURS[5]
LENGTH = {"B": 2.6, "T": 2.6, "D": 1.5, "F": 2.3, "E": 1.5, "L": 1.5}
DEVICES = 4
# Of each array: rows, columns, which of them is sharded over X (0, 1, None), whether its blocks are gathered while it is used.
WAYS = {
    "Data parallelism": (
        {"In": "B D 0", "W_in": "D F -", "W_out": "F D -", "Out": "B D 0"},
        "the gradients, by one AllReduce a step",
    ),
    "FSDP (ZeRO-3)": (
        {"In": "B D 0", "W_in": "D F 0+", "W_out": "F D 1+", "Out": "B D 0"},
        "weights before each use (AllGather), gradients (ReduceScatter)",
    ),
    "Tensor parallelism": (
        {"In": "B D 1+", "W_in": "D F 1", "W_out": "F D 0", "Out": "B D 1"},
        "activations in every layer (AllGather, ReduceScatter)",
    ),
    "Context parallelism": (
        {"In": "T D 0", "W_in": "D F -", "W_out": "F D -", "Out": "T D 0"},
        "keys and values round the ring, gradients (AllReduce)",
    ),
    "Expert parallelism": (
        {"In": "B D 0", "experts' W_in": "E F 0", "experts' W_out": "E D 0", "Out": "B D 0"},
        "tokens to their experts and back (AllToAll)",
    ),
    "Pipeline parallelism": (
        {"In": "B D -", "layers' W_in": "L F 0", "layers' W_out": "L D 0", "Out": "B D -"},
        "activations to the next stage, gradients back",
    ),
}


def held(ways, alt: str, *, caption: str = "") -> Picture:
    """Rows of arrays, one for each way of WAYS: blue is stored on device 0, hatched gathered while it is used, dashed elsewhere.

    ValueError for a way that is not known.
    """
    if unknown := [w for w in ways if w not in WAYS]:
        raise ValueError(f"no drawing of {', '.join(unknown)}; there are {', '.join(WAYS)}")
    with rc_context(STYLE):
        figure, axes = canvas(5.2, 2.15 * len(ways) + 0.35, len(ways))
        for ax, way in zip([axes] if len(ways) == 1 else axes, ways):
            arrays, sends = WAYS[way]
            x = 0.5
            for sign, (name, how) in zip(("", "×", "×", "="), arrays.items()):
                ax.text(x - 1.05, 1.3, sign, ha="center", va="center", fontsize=12)
                x = _array(ax, x, name, *how.split())
            ax.set(xlim=(-0.1, 13), ylim=(-1.3, 3.3), aspect="equal", anchor="W")
            ax.set_title(way, loc="left", fontsize=10, weight="bold")
            ax.text(0, -1.15, f"sends {sends}", fontsize=8)
            ax.set_axis_off()
        figure.legend(handles=_legend(), loc="outside lower left", ncols=3, fontsize=8)
    return Picture(figure, alt, caption)


def _array(ax, x: float, name: str, down: str, across: str, how: str) -> float:
    """One array from x on; where the next one begins."""
    height, width = LENGTH[down], LENGTH[across]
    axis = int(how[0]) if how[0] != "-" else None
    ax.add_patch(Rectangle((x, 2.6 - height), width, height, fill=False, edgecolor=INK, linestyle="--"))
    if how.endswith("+"):
        ax.add_patch(
            Rectangle(
                (x, 2.6 - height),
                width,
                height,
                facecolor=BORROWED,
                alpha=0.35,
                hatch="////",
                edgecolor=INK,
                linewidth=0,
            )
        )
    h, w = height / (DEVICES if axis == 0 else 1), width / (DEVICES if axis == 1 else 1)
    ax.add_patch(Rectangle((x, 2.6 - h), w, h, facecolor=MINE, edgecolor=INK))
    ax.text(
        x - 0.12, 2.6 - height / 2, f"${down}_X$" if axis == 0 else f"${down}$", ha="right", va="center", fontsize=9
    )
    ax.text(x + width / 2, 2.7, f"${across}_X$" if axis == 1 else f"${across}$", ha="center", va="bottom", fontsize=9)
    ax.text(x + width / 2, 2.45 - height, name, ha="center", va="top", fontsize=7.5, family="monospace")
    return x + width + 1.6


def _legend() -> list[Rectangle]:
    return [
        Rectangle((0, 0), 1, 1, facecolor=MINE, edgecolor=INK, label="stored on device 0"),
        Rectangle(
            (0, 0), 1, 1, facecolor=BORROWED, alpha=0.5, hatch="////", edgecolor=INK, label="gathered while used"
        ),
        Rectangle((0, 0), 1, 1, fill=False, linestyle="--", edgecolor=INK, label="on the other three"),
    ]
