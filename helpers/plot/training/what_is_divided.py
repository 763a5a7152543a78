"""What training can divide: the batch by sequences and by tokens, the model by layers, by heads and F, and by experts."""

from functools import partial

from matplotlib import rc_context

from helpers.plot.marks import box
from helpers.plot.picture import COLOURS, STYLE, Picture, canvas

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
