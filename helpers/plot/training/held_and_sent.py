"""What one device of four holds of a layer under each kind of parallelism, what is sent for it, and what each kind divides."""

from functools import partial

from matplotlib import rc_context
from matplotlib.patches import Rectangle

from helpers.costs.sharding.sharded_array import Mesh, Sharding, parse
from helpers.plot.picture import COLOURS, INK, STYLE, Picture, box, canvas

MINE, BORROWED = COLOURS[0], COLOURS[5]
LENGTH = {"B": 2.6, "T": 2.6, "D": 1.5, "F": 2.3, "E": 2.3, "L": 2.3}
SHOWN = {"state": "moments, master copy", "W_in[E": "experts' W_in", "W_out[E": "experts' W_out", "W_in[L": "layers' W_in",
         "W_out[L": "layers' W_out"}  # fmt: skip
"""What stands under an array that is called otherwise in the notation."""

# Of each way the arrays, as device 0 stores them and, after ->, as it uses them, with the signs between; and what it sends.
WAYS = {
    "Data parallelism": (
        ("In[B_X, D]", "×", "W_in[D, F]", "×", "W_out[F, D]", "=", "Out[B_X, D]"),
        "the gradients (AllReduce), once a step",
    ),
    "ZeRO-1": (
        ("W_in[D, F]", "", "dW_in[D, F]", "", "state[D_X, F]"),
        "gradients (ReduceScatter), new weights (AllGather), once a step",
    ),
    "ZeRO-2": (
        ("W_in[D, F]", "", "dW_in[D_X, F]", "", "state[D_X, F]"),
        "the same; gradients of a layer as soon as they are there",
    ),
    "ZeRO-3, FSDP": (
        ("W_in[D_X, F] -> W_in[D, F]", "", "dW_in[D_X, F]", "", "state[D_X, F]"),
        "weights before each use (AllGather), gradients (ReduceScatter)",
    ),
    "FSDP": (
        ("In[B_X, D]", "×", "W_in[D_X, F] -> W_in[D, F]", "×", "W_out[F, D_X] -> W_out[F, D]", "=", "Out[B_X, D]"),
        "weights before each use (AllGather), gradients (ReduceScatter)",
    ),
    "Tensor parallelism": (
        ("In[B, D_Y] -> In[B, D]", "×", "W_in[D, F_Y]", "×", "W_out[F_Y, D]", "=", "Out[B, D_Y]"),
        "activations in every layer (AllGather, ReduceScatter)",
    ),
    "FSDP + TP": (
        ("In[B_X, D_Y] -> In[B_X, D]", "×", "W_in[D_X, F_Y] -> W_in[D, F_Y]", "×", "W_out[F_Y, D_X] -> W_out[F_Y, D]", "=",
         "Out[B_X, D_Y]"),
        "weights and gradients over X, activations over Y",
    ),
    "Sequence parallelism": (
        ("In[T_Y, D] -> In[T, D]", "×", "W_in[D, F_Y]", "×", "W_out[F_Y, D]", "=", "Out[T_Y, D]"),
        "what tensor parallelism sends, cut by tokens",
    ),
    "Context parallelism": (
        ("In[T_X, D]", "×", "W_in[D, F]", "×", "W_out[F, D]", "=", "Out[T_X, D]"),
        "keys and values round the ring; gradients",
    ),
    "Expert parallelism": (
        ("In[B_X, D]", "×", "W_in[E_X, D, F]", "×", "W_out[E_X, F, D]", "=", "Out[B_X, D]"),
        "tokens to their experts and back (AllToAll)",
    ),
    "Pipeline parallelism": (
        ("In[B, D]", "×", "W_in[L_Z, D, F]", "×", "W_out[L_Z, F, D]", "=", "Out[B, D]"),
        "activations to the next stage, gradients back",
    ),
}  # fmt: skip
TWO = Mesh({"X": 2, "Y": 2})


def mesh_of(way: str) -> Mesh:
    """The mesh of four devices that a way is drawn on: one axis of four, or two of two.

    >>> mesh_of("Tensor parallelism").sizes, mesh_of("FSDP + TP").sizes
    ({'Y': 4}, {'X': 2, 'Y': 2})
    """
    used = {axis for stored, _ in arrays(way) for axes in stored.axes for axis in axes}
    return TWO if len(used) == 2 else Mesh({used.pop(): 4})


def arrays(way: str) -> list[tuple[Sharding, Sharding]]:
    """How device 0 stores each array of a way, and how it uses it."""
    named = (part.split(" -> ") for part in WAYS[way][0] if "[" in part)
    return [(parse(some[0]), parse(some[-1])) for some in named]


def held(ways, alt: str, *, caption: str = "") -> Picture:
    """Rows of arrays, one for each way of WAYS: blue is stored on device 0, hatched gathered while it is used, dashed elsewhere.

    ValueError for a way that is not known.
    """
    if unknown := [w for w in ways if w not in WAYS]:
        raise ValueError(f"no drawing of {', '.join(unknown)}; there are {', '.join(WAYS)}")
    tallest = [max(LENGTH[stored.dims[0]] for stored, _ in arrays(way)) for way in ways]
    with rc_context(STYLE):
        figure, axes = canvas(5.2, sum(0.42 * tall + 0.95 for tall in tallest) + 0.4, len(ways))
        for ax, way, tall in zip([axes] if len(ways) == 1 else axes, ways, tallest):
            _way(ax, way)
            ax.set(xlim=(-0.1, 13), ylim=(1.3 - tall, 3.3), aspect="equal", anchor="W")
            ax.set_title(way, loc="left", fontsize=10, weight="bold")
            ax.text(0, 1.45 - tall, f"sends {WAYS[way][1]}", fontsize=8)
            ax.set_axis_off()
        figure.legend(handles=_legend(), loc="outside lower left", ncols=3, fontsize=8)
    return Picture(figure, alt, caption)


def _way(ax, way: str) -> None:
    x, pairs, mesh = 0.5, iter(arrays(way)), mesh_of(way)
    for part in WAYS[way][0]:
        if "[" in part:
            x = _array(ax, x, *next(pairs), mesh)
        else:
            ax.text(x - 1.05, 1.3, part, ha="center", va="center", fontsize=12)


def _share(a: Sharding, mesh: Mesh) -> tuple[float, float]:
    """Shares of the rows and of the columns that device 0 has; dimensions after the first one count as columns."""
    each = [1.0 / mesh.sizes[axes[0]] if axes else 1.0 for axes in a.axes]
    return each[0], min(each[1:])


def _array(ax, x: float, stored: Sharding, used: Sharding, mesh: Mesh) -> float:
    """One array from x on; where the next one begins."""
    rows, *columns = stored.dims
    height, width = LENGTH[rows], LENGTH[columns[-1]]
    whole = dict(facecolor="none", edgecolor=INK, linestyle="--")
    lent = dict(facecolor=BORROWED, alpha=0.35, hatch="////", edgecolor=INK, linewidth=0)
    for a, look in ((None, whole), (used, lent), (stored, dict(facecolor=MINE, edgecolor=INK))):
        if a is used and used == stored:
            continue
        h, w = (1.0, 1.0) if a is None else _share(a, mesh)
        ax.add_patch(Rectangle((x, 2.6 - h * height), w * width, h * height, **look))
    letters = [f"{d}_{''.join(axes)}" if axes else d for d, axes in zip(stored.dims, stored.axes)]
    below = next((SHOWN[k] for k in SHOWN if f"{stored.name}[{rows}".startswith(k)), stored.name)
    ax.text(x - 0.12, 2.6 - height / 2, f"${letters[0]}$", ha="right", va="center", fontsize=9)
    ax.text(x + width / 2, 2.7, f"${' '.join(letters[1:])}$", ha="center", va="bottom", fontsize=9)
    ax.text(x + width / 2, 2.45 - height, below, ha="center", va="top", fontsize=7.5, family="monospace")
    return x + width + 1.6


def _legend() -> list[Rectangle]:
    return [
        Rectangle((0, 0), 1, 1, facecolor=MINE, edgecolor=INK, label="stored on device 0"),
        Rectangle(
            (0, 0), 1, 1, facecolor=BORROWED, alpha=0.5, hatch="////", edgecolor=INK, label="gathered while used"
        ),
        Rectangle((0, 0), 1, 1, fill=False, linestyle="--", edgecolor=INK, label="on the other three"),
    ]


CUTS = {
    "DP, FSDP": "between sequences",
    "CP, SP": "between tokens",
    "PP": "between layers",
    "TP": "between heads, and columns of F",
    "EP": "between experts",
}
"""The ways to divide, and where each cuts."""


_box = partial(box, linewidth=0.7)


def divisions(alt: str, *, caption: str = "") -> Picture:
    """A batch and a model side by side, each way's cut as a dashed line with its name."""
    with rc_context(STYLE):
        figure, ax = canvas(5.4, 2.9)
        for row in range(4):
            for column in range(6):
                _box(ax, 0.5 * column, 0.55 * row, 0.5, 0.55, fill="#fff")
            _box(ax, 5.9, 0.6 * row, 1.9, 0.42, fill=COLOURS[4] + "60")
            ax.text(5.8, 0.6 * row + 0.21, f"layer {3 - row}", ha="right", va="center", fontsize=8)
            for expert in range(4):
                _box(ax, 8.4 + 0.55 * expert, 0.6 * row, 0.42, 0.42, fill=COLOURS[5] + "80")
        for x, text in ((1.5, "the batch"), (6.85, "the model"), (9.435, "its experts")):
            ax.text(x, 3.05, text, ha="center", fontsize=10, weight="bold")
        ax.text(1.5, -0.2, "tokens T", ha="center", va="top", fontsize=9)
        ax.text(-0.15, 1.1, "sequences", ha="right", va="center", rotation=90, fontsize=9)
        _cut(ax, (-0.1, 1.1), (3.15, 1.1), "DP, FSDP", (3.2, 1.1), "left", "center")
        _cut(ax, (1.5, -0.1), (1.5, 2.35), "CP, SP", (1.5, 2.4), "center", "bottom")
        _cut(ax, (5.8, 1.11), (10.6, 1.11), "PP", (10.65, 1.11), "left", "center")
        _cut(ax, (6.85, -0.1), (6.85, 2.35), "TP", (6.85, 2.4), "center", "bottom")
        _cut(ax, (9.435, -0.1), (9.435, 2.35), "EP", (9.435, 2.4), "center", "bottom")
        ax.text(6.85, -0.2, "heads, F", ha="center", va="top", fontsize=9)
        ax.set(xlim=(-0.5, 11.2), ylim=(-0.6, 3.4))
        ax.set_axis_off()
    return Picture(figure, alt, caption)


def _cut(ax, start, end, name: str, label, ha: str, va: str) -> None:
    ax.plot(*zip(start, end), color=COLOURS[1], linewidth=2.2, linestyle="--", zorder=3)
    ax.text(*label, name, ha=ha, va=va, fontsize=9.5, weight="bold", color="#9a3d00")
