"""What drawings are made of: boxes with a text in their middle, arrows, and the hatches of devices."""

from matplotlib.patches import FancyArrowPatch, Rectangle

from .picture import INK

HATCHES = ("", "///", "---", "xxx")
"""Of what has a number: no dots, for the file of a drawing holds the curves of each."""


def box(
    ax, x: float, y: float, wide: float, high: float, text: str = "", fill: str = "#fff", size: float = 8, **look
) -> None:
    """A rectangle from its lower left corner; `look` is of the rectangle."""
    ax.add_patch(Rectangle((x, y), wide, high, **{"facecolor": fill, "edgecolor": INK, "linewidth": 1} | look))
    if text:
        ax.text(x + wide / 2, y + high / 2, text, ha="center", va="center", fontsize=size)


def arrow(ax, start, end, style: str = "-|>", head: float = 9, width: float = 1, **look) -> None:
    """An arrow that reaches from point to point; `style` "<|-|>" has a head at both ends."""
    look = {"color": INK, "shrinkA": 0, "shrinkB": 0} | look
    ax.add_patch(FancyArrowPatch(start, end, arrowstyle=style, mutation_scale=head, linewidth=width, **look))
