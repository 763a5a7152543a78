"""Products: the letters of an einsum sorted by where they stand, and a product with the two of its backward pass."""

from collections.abc import Sequence

from matplotlib import rc_context
from matplotlib.patches import FancyArrowPatch, Patch, Rectangle

from helpers.costs.transformers.layer_products import einsum
from helpers.plot.picture import COLOURS, INK, STYLE, Picture, canvas

PAPER = {"facecolor": "#fff", "edgecolor": "none", "pad": 1}
CELLS = {"batch": COLOURS[5] + "70", "contracted": COLOURS[1] + "60", "free": COLOURS[4] + "50"}


def einsum_letters(specs: Sequence[str], alt: str, *, caption: str = "") -> Picture:
    """For each einsum of two arrays a table: across, which array a letter stands in; down, whether the result has it.

    Batch, contracted and free letters are those that `layer_products.einsum` tells apart.
    """
    with rc_context(STYLE):
        figure, axes = canvas(5.2, 1.75 * len(specs), len(specs))
        for ax, spec in zip([axes] if len(specs) == 1 else axes, specs):
            _letters(ax, spec)
    return Picture(figure, alt, caption)


def _letters(ax, spec: str) -> None:
    a, b = spec.partition("->")[0].split(",")
    sorted_ = einsum(spec, *([2] * len(x) for x in (a, b)))
    for row, there in enumerate(("in the result", "not in the result")):
        ax.text(3.1, 0.75 - row, there, ha="right", va="center", fontsize=8)
    for column, where in enumerate(("only in the first", "in both", "only in the second")):
        ax.text(4.5 + 2.6 * column, 1.35, where, ha="center", va="bottom", fontsize=8)
        for row in range(2):
            kind = ("batch", "contracted")[row] if column == 1 else "free" if row == 0 else ""
            mine = {0: a, 2: b}.get(column)
            letters = [x for x in getattr(sorted_, kind, "") if mine is None or x in mine] if kind else []
            fill = CELLS.get(kind, "#fff")
            ax.add_patch(
                Rectangle((3.25 + 2.6 * column, 0.28 - row), 2.5, 0.94, facecolor=fill, edgecolor=INK, linewidth=1)
            )
            if kind:
                ax.text(3.35 + 2.6 * column, 1.14 - row, kind, ha="left", va="top", fontsize=7)
            ax.text(4.6 + 2.6 * column, 0.66 - row, "  ".join(letters) or "–", ha="center", va="center", fontsize=11,
                    family="monospace")  # fmt: skip
    ax.set(xlim=(0.2, 11.1), ylim=(-0.8, 1.75))
    ax.set_title(spec, loc="left", fontsize=10, family="monospace")
    ax.set_axis_off()


# Of an array in the drawing of a backward pass: fill, hatch.
KINDS = {
    "weights": ("#d9d9d9", ""),
    "activations: X has to be kept": (COLOURS[0] + "90", ""),
    "gradient that arrives": (COLOURS[5] + "80", "////"),
    "gradient that is made": ("#fff", "\\\\"),
}
_W, _X, _DY, _D = KINDS
SIDES = {"B": 1.5, "D": 1.9, "F": 2.7}  # B stands for the BT tokens of a batch
PASSES = (
    ("forward", ("X", _X, "BD"), ("$W_{in}$", _W, "DF"), ("Y", _X, "BF"),
     "Y goes on to the next operation"),
    ("backward, for the layer before", ("dY", _DY, "BF"), ("$W_{in}^T$", _W, "FD"), ("dX", _D, "BD"),
     "dX goes back to the operation before"),
    ("backward, for the update", ("$X^T$", _X, "DB"), ("dY", _DY, "BF"), ("$dW_{in}$", _D, "DF"),
     "$dW_{in}$ changes the weights"),
)  # fmt: skip


def product_gradients(alt: str, *, caption: str = "") -> Picture:
    """Y = X · W_in forward, and the two products of its backward pass: what each multiplies, and what happens to its result."""
    with rc_context(STYLE):
        figure, axes = canvas(5.2, 5.6, len(PASSES))
        for ax, (title, left, right, out, then) in zip(axes, PASSES):
            x = 0.6
            for sign, (name, kind, sides) in zip(("", "×", "="), (left, right, out)):
                if sign:
                    ax.text(x - 0.55, -1.3, sign, ha="center", va="center", fontsize=12)
                    x += 0.35
                x = _array(ax, x, name, kind, sides)
            ax.add_patch(FancyArrowPatch((0.1, -3.0), (0.75, -3.0), arrowstyle="-|>", mutation_scale=9, color=INK))
            ax.text(0.9, -3.0, then, ha="left", va="center", fontsize=8)
            ax.text(10.9, -3.0, "$2BTDF$ FLOPs", ha="right", va="center", fontsize=8)
            ax.set(xlim=(0, 11), ylim=(-3.4, 0.5), aspect="equal", anchor="W")
            ax.set_title(title, loc="left", fontsize=9.5, weight="bold")
            ax.set_axis_off()
        shown = [Patch(facecolor=f, hatch=h, edgecolor=INK, label=name) for name, (f, h) in KINDS.items()]
        figure.legend(handles=shown, loc="outside lower left", ncols=2, fontsize=8)
    return Picture(figure, alt, caption)


def _array(ax, x: float, name: str, kind: str, sides: str) -> float:
    """An array of the two letters `sides` from x on, its middle at -1.3; where the next sign stands."""
    height, width = SIDES[sides[0]] * 0.82, SIDES[sides[1]]
    fill, hatch = KINDS[kind]
    top = -1.3 + height / 2
    ax.add_patch(Rectangle((x, top - height), width, height, facecolor=fill, hatch=hatch, edgecolor=INK, linewidth=1))
    down, across = (f"${'BT' if side == 'B' else side}$" for side in sides)
    ax.text(x - 0.1, -1.3, down, ha="right", va="center", fontsize=9)
    ax.text(x + width / 2, top + 0.05, across, ha="center", va="bottom", fontsize=9)
    ax.text(x + width / 2, -1.3, name, ha="center", va="center", fontsize=9, bbox=PAPER)
    return x + width + 0.95
