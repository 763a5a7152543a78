"""Latent attention in a decode step, as it is written and absorbed: which arrays are multiplied, and which of them is large."""

from matplotlib import rc_context
from matplotlib.patches import Patch, Rectangle

from helpers.plot.picture import COLOURS, INK, STYLE, Picture, canvas

# What a panel's arrays are: fill, hatch.
KINDS = {
    "in the cache": (COLOURS[0], ""),
    "weights": ("#d9d9d9", ""),
    "made in every step": (COLOURS[5], "////"),
}
S, R, HEADS, ROW = 3.2, 0.9, 2.6, 0.42  # lengths on paper: S tokens, R numbers, all heads' numbers, one new token
PANELS = {
    "As it is written": (
        ("c", "in the cache", (S, R), ("$S$", "$R$")),
        "×",
        ("$W_{UK}$", "weights", (R, HEADS), ("$R$", "$N · nope$")),
        "=",
        ("keys of all heads", "made in every step", (S, HEADS), ("$S$", "$N · nope$")),
        "·",
        ("q", "made in every step", (ROW, HEADS), ("$1$", "$N · nope$")),
    ),
    "Absorbed": (
        ("q", "made in every step", (ROW, HEADS), ("$1$", "$N · nope$")),
        "×",
        ("$W_{UK}^T$", "weights", (HEADS, R), ("$N · nope$", "$R$")),
        "=",
        ("q in the latent space", "made in every step", (ROW, 2.2 * R), ("$1$", "$N · R$")),
        "·",
        ("c", "in the cache", (S, R), ("$S$", "$R$")),
    ),
}
COSTS = {
    "As it is written": "$2 S N R · nope$ FLOPs make the keys, and $2 S N · nope$ the scores",
    "Absorbed": "$2 N R · nope$ FLOPs bring the query into the latent space, and $2 S N R$ make the scores",
}


def absorption(alt: str, *, caption: str = "") -> Picture:
    """Scores of one new token against S cached ones, with W_UK applied to the cache or to the query; rotated parts left out."""
    with rc_context(STYLE):
        figure, axes = canvas(7.6, 5.6, len(PANELS))
        for ax, (title, row) in zip(axes, PANELS.items()):
            x = 0.9
            for part in row:
                if isinstance(part, str):
                    ax.text(x - 0.35, -S / 2, part, ha="center", va="center", fontsize=14)
                    x += 0.35
                    continue
                x = _array(ax, x, *part)
            ax.set(xlim=(0, 13.2), ylim=(-S - 1.2, 0.5), aspect="equal")
            ax.set_title(title, loc="left", fontsize=11, weight="bold")
            ax.text(0.1, -S - 1.1, COSTS[title], fontsize=9)
            ax.axis("off")
        shown = [Patch(facecolor=f, hatch=h, edgecolor=INK, label=name) for name, (f, h) in KINDS.items()]
        figure.legend(handles=shown, loc="outside lower center", ncols=3, fontsize=9)
    return Picture(figure, alt, caption)


def _array(ax, x: float, name: str, kind: str, size: tuple[float, float], sides: tuple[str, str]) -> float:
    """An array of rows and columns from x on, its sides named; where the next sign stands."""
    rows, columns = size
    top = (rows - S) / 2
    fill, hatch = KINDS[kind]
    ax.add_patch(
        Rectangle((x, top - rows), columns, rows, facecolor=fill, hatch=hatch, edgecolor=INK, linewidth=1, alpha=0.85)
    )
    ax.text(
        x - 0.1, top - rows / 2, sides[0], ha="right", va="center", fontsize=9, rotation=90 if len(sides[0]) > 4 else 0
    )
    ax.text(x + columns / 2, top + 0.1, sides[1], ha="center", va="bottom", fontsize=9)
    ax.text(x + columns / 2, top - rows - 0.12, name, ha="center", va="top", fontsize=9)
    return x + columns + 0.75
