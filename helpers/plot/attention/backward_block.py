"""The backward pass of Flash in one block: five products, what goes in, and which sums they add to."""

from matplotlib import rc_context
from matplotlib.patches import Patch

from helpers.plot.marks import arrow, box
from helpers.plot.picture import COLOURS, STYLE, Picture, canvas

THIN, WIDE, GAP = 0.95, 3.6, 0.7
INPUTS = {"Q": "left", "dO": "left", "K": "top", "V": "top"}
PRODUCTS = (
    (r"$P = e^{\tau Q K^T - (m + \ln\ell)}$", "the weights again"),
    (r"$dP = dO\, V^T$", r"so $dx = P \odot (dP - \delta)$"),
    (r"$\tau\, dx\, K$", "dQ"),
    (r"$P^T dO$", "dV"),
    (r"$\tau\, dx^T Q$", "dK"),
)
"""Each of the products of a block, and what becomes of it: of the last three, the array that it adds to."""
FILLS = {"input": COLOURS[0] + "60", "block": COLOURS[5] + "90", "gradient": COLOURS[1] + "70"}


def backward_block(alt: str, *, caption: str = "") -> Picture:
    """Blocks of Q and dO left of a block of the table, K and V above it, dQ right of it, dV and dK below."""
    with rc_context(STYLE):
        figure, axes = canvas(5.4, 4.9, 1)
        box(axes, 0, 0, WIDE, WIDE, fill=FILLS["block"])
        for k, (product, then) in enumerate(PRODUCTS[:2]):
            axes.text(WIDE / 2, WIDE * (0.78 - 0.45 * k), f"{k + 1}:  {product}", ha="center", va="center", fontsize=9)
            axes.text(WIDE / 2, WIDE * (0.64 - 0.45 * k), then, ha="center", va="center", fontsize=9)
        for k, (name, side) in enumerate(INPUTS.items()):
            near = GAP / 2 + (1 - k % 2) * (THIN + 0.15)
            sides = (-near - THIN, 0, THIN, WIDE) if side == "left" else (0, WIDE + near, WIDE, THIN)
            box(axes, *sides, f"${name}$", FILLS["input"], 10)
        for k, (product, name) in enumerate(PRODUCTS[2:]):
            if name == "dQ":
                at, start, end = (WIDE + 1.9, 0, THIN, WIDE), (WIDE, WIDE / 2), (WIDE + 1.85, WIDE / 2)
                words = (WIDE + 0.95, WIDE / 2 + 0.35)
            else:
                below = 0.95 + (k - 1) * (THIN + 0.15)
                x = (0.6, WIDE - 1.1)[k - 1]
                at, start, end = (0, -below - THIN, WIDE, THIN), (x, 0), (x, -0.9)
                words = (x + 0.85, -0.45)
            arrow(axes, start, end)
            axes.text(*words, f"{k + 3}:  {product}", ha="center", va="center", fontsize=8.5)
            box(axes, *at, f"${name}$", FILLS["gradient"], 10)
        axes.text(WIDE + 1.9 + THIN + 0.1, WIDE / 2, "summed over\nthe row", ha="left", va="center", fontsize=8)
        axes.text(WIDE + 0.15, -1.95, "summed over the column", ha="left", va="center", fontsize=8)
        axes.set(xlim=(-2.6, WIDE + 4.4), ylim=(-3.1, WIDE + 2.6), aspect="equal")
        axes.set_axis_off()
        shown = {"kept from the forward pass, or given": "input", "on the chip only": "block", "gradients": "gradient"}
        figure.legend(
            handles=[Patch(facecolor=FILLS[f], edgecolor="k", label=name) for name, f in shown.items()],
            loc="outside lower center", ncols=3, fontsize=8,
        )  # fmt: skip
    return Picture(figure, alt, caption)
