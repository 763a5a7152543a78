"""A Transformer block: its products with their sizes, attention above, three kinds of MLP below."""

from matplotlib import rc_context
from matplotlib.patches import FancyArrowPatch, Rectangle

from helpers.plot.picture import COLOURS, STYLE, Picture, canvas

WEIGHTS, OTHER, INK = COLOURS[0] + "40", "#eeeeee", "#222"
PAPER = {"facecolor": "#fff", "edgecolor": "none", "pad": 0.8}
MLPS = {
    "plain": (("$W_{in}$ [D, F]",), "activation", "[B, T, F]", "$W_{out}$ [F, D]"),
    "gated": (("$W_{in}$ [D, F]", "$W_{gate}$ [D, F]"), "activation × gate", "[B, T, F]", "$W_{out}$ [F, D]"),
    "mixture of experts": (
        ("router [D, E]", "E × $W_{in}$, $W_{gate}$"),
        "of k experts a token",
        "[B, T, k, F]",
        "E × $W_{out}$ [F, D]",
    ),
}


def transformer_block(alt: str, *, caption: str = "") -> Picture:
    """Every product of a block and the shape of what it makes; what holds parameters is blue.

    B sequences, T tokens each, D = d_model, N query heads and K KV heads of H numbers, F = d_ff, E experts of which k are active.
    """
    with rc_context(STYLE):
        figure, ax = canvas(5.2, 7.4)
        _attention(ax)
        for i, name in enumerate(MLPS):
            _mlp(ax, 0.2 + 4.05 * i, name)
        ax.set(xlim=(-0.1, 12.3), ylim=(-0.6, 17.2))
        ax.set_axis_off()
    return Picture(figure, alt, caption)


def _box(ax, x: float, y: float, width: float, text: str, fill: str = WEIGHTS) -> None:
    ax.add_patch(Rectangle((x - width / 2, y), width, 0.85, facecolor=fill, edgecolor=INK, linewidth=1))
    ax.text(x, y + 0.42, text, ha="center", va="center", fontsize=8)


def _arrow(ax, start, end, text: str = "") -> None:
    ax.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=9, color=INK, linewidth=1, shrinkA=0, shrinkB=0)
    )
    if text:
        ax.text(
            (start[0] + end[0]) / 2 + 0.12,
            (start[1] + end[1]) / 2,
            text,
            ha="left",
            va="center",
            fontsize=7.5,
            bbox=PAPER,
        )


def _residual(ax, x: float, top: float, bottom: float, side: float) -> None:
    """The input, added to the result again."""
    ax.plot(
        [x, side, side, x + 0.25 * (1 if side > x else -1)],
        [top, top, bottom, bottom],
        color=INK,
        linewidth=1,
        linestyle="--",
    )
    ax.text(
        x,
        bottom,
        "+",
        ha="center",
        va="center",
        fontsize=11,
        bbox={"boxstyle": "circle,pad=0.1", "facecolor": "#fff", "edgecolor": INK},
    )


def _attention(ax) -> None:
    x = 6.1
    ax.text(x, 17.0, "x [B, T, D]", ha="center", va="top", fontsize=9)
    _arrow(ax, (x, 16.5), (x, 15.9))
    _box(ax, x, 15.05, 3.2, "norm", OTHER)
    for at, name in ((2.0, "$W_Q$ [D, N, H]"), (6.1, "$W_K$ [D, K, H]"), (10.2, "$W_V$ [D, K, H]")):
        _arrow(ax, (x, 15.05), (at, 14.45))
        _box(ax, at, 13.6, 3.6, name)
    _arrow(ax, (2.0, 13.6), (3.6, 12.6), "Q [B, T, N, H]")
    _arrow(ax, (6.1, 13.6), (5.2, 12.6), " K [B, S, K, H]")
    _box(ax, 4.2, 11.75, 5.2, "scores $QK^T$, softmax", OTHER)
    _arrow(ax, (4.6, 11.75), (5.4, 10.95), "[B, N, T, S]")
    _arrow(ax, (10.2, 13.6), (8.0, 10.95), " V [B, S, K, H]")
    _box(ax, x, 10.1, 5.2, "weights · V", OTHER)
    _arrow(ax, (x, 10.1), (x, 9.45), "[B, T, N, H]")
    _box(ax, x, 8.6, 3.6, "$W_O$ [N, H, D]")
    _arrow(ax, (x, 8.6), (x, 7.95))
    _residual(ax, x, 16.2, 7.75, 12.15)
    ax.text(x + 0.5, 7.35, "[B, T, D], then one of", fontsize=8, va="center")
    _arrow(ax, (x, 7.45), (x, 6.95))


def _mlp(ax, left: float, name: str) -> None:
    ins, act, shape, out = MLPS[name]
    x = left + 1.9
    ax.add_patch(Rectangle((left, -0.5), 3.8, 7.4, fill=False, edgecolor="#999", linestyle=":"))
    ax.text(x, 6.6, name, ha="center", va="center", fontsize=8.5, weight="bold")
    _box(ax, x, 5.2, 2.2, "norm", OTHER)
    _arrow(ax, (x, 6.3), (x, 6.05))
    if len(ins) == 1:
        _arrow(ax, (x, 5.2), (x, 4.75))
        _box(ax, x, 3.9, 3.3, ins[0])
    else:
        for i, w in enumerate(ins):
            _box(ax, x, 4.1 - 0.95 * i, 3.3, w)
        _arrow(ax, (x, 5.2), (x, 4.95))
    _arrow(ax, (x, 3.9 if len(ins) == 1 else 3.15), (x, 2.85))
    _box(ax, x, 2.0, 3.3, act, OTHER)
    _arrow(ax, (x, 2.0), (x, 1.4), shape)
    _box(ax, x, 0.55, 3.3, out)
    _arrow(ax, (x, 0.55), (x, 0.1))
    _residual(ax, x, 6.3, -0.1, left + 0.12)
