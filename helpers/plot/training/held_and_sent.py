"""What one device of four holds of a layer under each kind of parallelism, what is sent for it, and what each kind divides."""

from functools import partial

from helpers.costs.sharding.sharded_array import Mesh, Sharding, parse
from helpers.plot.picture import COLOURS, Picture, bare, box, canvas, legend, panes, styled, write

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


@styled
def held(ways, alt: str, *, caption: str = "") -> Picture:
    """Rows of arrays, one for each way of WAYS: blue is stored on device 0, hatched gathered while it is used, dashed elsewhere."""
    tallest = [max(LENGTH[stored.dims[0]] for stored, _ in arrays(way)) for way in ways]
    figure, axes = panes(len(ways), 5.2, sum(0.42 * tall + 0.95 for tall in tallest) + 0.4)
    for ax, way, tall in zip(axes, ways, tallest):
        _way(ax, way)
        bare(ax, title=way, xlim=(-0.1, 13), ylim=(1.3 - tall, 3.3), aspect="equal", anchor="W")
        ax.text(0, 1.45 - tall, f"sends {WAYS[way][1]}", fontsize=8)
    lent = {"facecolor": BORROWED, "alpha": 0.5, "hatch": "////"}
    looks = {"stored on device 0": MINE, "gathered while used": lent}
    legend(figure, looks | {"on the other three": {"fill": False, "linestyle": "--"}}, 3, "left")
    return Picture(figure, alt, caption)


def _way(ax, way: str) -> None:
    x, pairs, mesh = 0.5, iter(arrays(way)), mesh_of(way)
    for part in WAYS[way][0]:
        if "[" in part:
            x = _array(ax, x, *next(pairs), mesh)
        else:
            write(ax, x - 1.05, 1.3, part, 12)


def _share(a: Sharding, mesh: Mesh) -> tuple[float, float]:
    """Shares of the rows and of the columns that device 0 has; dimensions after the first one count as columns."""
    each = [1.0 / mesh.sizes[axes[0]] if axes else 1.0 for axes in a.axes]
    return each[0], min(each[1:])


def _array(ax, x: float, stored: Sharding, used: Sharding, mesh: Mesh) -> float:
    """One array from x on; where the next one begins."""
    rows, *columns = stored.dims
    height, width = LENGTH[rows], LENGTH[columns[-1]]
    box(ax, x, 2.6 - height, width, height, fill="none", linestyle="--")
    lent = {"fill": BORROWED, "alpha": 0.35, "hatch": "////", "linewidth": 0}
    for a, look in ((used, lent), (stored, {"fill": MINE}))[used == stored :]:
        h, w = _share(a, mesh)
        box(ax, x, 2.6 - h * height, w * width, h * height, **look)
    letters = [f"{d}_{''.join(axes)}" if axes else d for d, axes in zip(stored.dims, stored.axes)]
    below = next((SHOWN[k] for k in SHOWN if f"{stored.name}[{rows}".startswith(k)), stored.name)
    ax.text(x - 0.12, 2.6 - height / 2, f"${letters[0]}$", ha="right", va="center", fontsize=9)
    ax.text(x + width / 2, 2.7, f"${' '.join(letters[1:])}$", ha="center", va="bottom", fontsize=9)
    ax.text(x + width / 2, 2.45 - height, below, ha="center", va="top", fontsize=7.5, family="monospace")
    return x + width + 1.6


_box = partial(box, linewidth=0.7)


@styled
def divisions(alt: str, *, caption: str = "") -> Picture:
    """A batch and a model side by side, each way's cut as a dashed line with its name."""
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
    for name, start, end in (("DP, FSDP", -0.1, 3.15), ("PP", 5.8, 10.6)):
        y = 1.1 if start < 0 else 1.11
        _cut(ax, (start, y), (end, y), name, (end + 0.05, y), ha="left")
    for name, x in (("CP, SP", 1.5), ("TP", 6.85), ("EP", 9.435)):
        _cut(ax, (x, -0.1), (x, 2.35), name, (x, 2.4), va="bottom")
    ax.text(6.85, -0.2, "heads, F", ha="center", va="top", fontsize=9)
    bare(ax, xlim=(-0.5, 11.2), ylim=(-0.6, 3.4))
    return Picture(figure, alt, caption)


def _cut(ax, start, end, name: str, label, **aligned) -> None:
    ax.plot(*zip(start, end), color=COLOURS[1], linewidth=2.2, linestyle="--", zorder=3)
    write(ax, *label, name, 9.5, weight="bold", color="#9a3d00", **aligned)
