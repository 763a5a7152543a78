"""How often a number that was read is used: in elementwise work, in a dot product and in a product with a weight matrix."""

from matplotlib import rc_context
from matplotlib.patches import Rectangle

from helpers.plot.picture import COLOURS, INK, STYLE, Picture, canvas

PLAIN, MARK, REACHED = "#ffffff", COLOURS[1], "#9ecae1"
B, D = 4, 3  # rows of X, rows and columns of W


def reuse(alt: str, *, caption: str = "") -> Picture:
    """Three operations in which one number is marked, and what becomes of it: how many results it is used for."""
    with rc_context(STYLE):
        figure, axes = canvas(5.2, 2.1, 1, 3)
        for ax, (title, draw) in zip(
            axes, (("ReLU", _relu), ("dot product", _dot), ("product with weights", _product))
        ):
            used = draw(ax)
            ax.set(xlim=(-0.6, 8.2), ylim=(-1.6, 6.2), aspect="equal")
            ax.set_title(title, fontsize=9)
            ax.text(3.8, -1.2, f"used {'once' if used == 1 else '$B$ times'}", ha="center", fontsize=8)
            ax.set_axis_off()
    return Picture(figure, alt, caption)


def _relu(ax) -> int:
    _grid(ax, 1.0, 4, 1, "x", {(1, 0): MARK})
    ax.annotate("", (4.8, 3.0), (2.4, 3.0), arrowprops={"arrowstyle": "-|>", "color": INK})
    return _grid(ax, 5.2, 4, 1, "y", {(1, 0): REACHED})


def _dot(ax) -> int:
    _grid(ax, 0.4, 4, 1, "x", {(1, 0): MARK})
    ax.text(2.2, 3.0, "·", ha="center", va="center")
    _grid(ax, 3.0, 4, 1, "y")
    ax.text(5.0, 3.0, "=", ha="center", va="center")
    return _grid(ax, 6.0, 1, 1, "", {(0, 0): REACHED})


def _product(ax) -> int:
    _grid(ax, -0.4, B, D, "$X[B, D]$", width=0.8)
    _grid(ax, 2.6, D, D, "$W_{in}$", {(1, 1): MARK}, width=0.8)
    ax.text(5.3, 3.0, "=", ha="center", va="center")
    return _grid(ax, 5.7, B, D, "", {(b, 1): REACHED for b in range(B)}, width=0.8)


def _grid(ax, x: float, rows: int, columns: int, name: str, filled=(), width: float = 1.0) -> int:
    """An array of cells centred at 3; how many of them are marked as results."""
    top = 3.0 + rows * width / 2
    for i in range(rows):
        for j in range(columns):
            fill = dict(filled).get((i, j), PLAIN)
            ax.add_patch(
                Rectangle(
                    (x + j * width, top - (i + 1) * width), width, width, facecolor=fill, edgecolor=INK, linewidth=0.8
                )
            )
    ax.text(x + columns * width / 2, top + 0.25, name, ha="center", va="bottom", fontsize=8)
    return sum(fill == REACHED for fill in dict(filled).values())
