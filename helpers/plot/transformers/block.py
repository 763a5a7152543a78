"""A decoder from tokens to logits, and one Transformer block: its products with their sizes, and three kinds of MLP."""

from matplotlib import rc_context
from matplotlib.patches import Rectangle

from helpers.plot.marks import arrow
from helpers.plot.picture import COLOURS, INK, STYLE, Picture, canvas

WEIGHTS, OTHER = COLOURS[0] + "40", "#eeeeee"
PAPER = {"facecolor": "#fff", "edgecolor": "none", "pad": 0.8}
# Of each MLP: what stands above its branches, the branches side by side, the step after them, its result's shape, the last product.
MLPS = {
    "plain": ("", ("$W_{in}$\n[D, F]",), "activation", "[B, T, F]", "$W_{out}$ [F, D]"),
    "gated": ("", ("$W_{gate}$\n[D, F]", "$W_{in}$\n[D, F]"), "activation ×", "[B, T, F]", "$W_{out}$ [F, D]"),
    "mixture of experts": (
        "router $W_R$ [D, E]",
        ("$W_{gate}$\n[E, D, F]", "$W_{in}$\n[E, D, F]"),
        "activation ×",
        "[B, T, k, F]",
        "$W_{out}$ [E, F, D]",
    ),
}


def decoder_stack(alt: str, *, caption: str = "") -> Picture:
    """Tokens, embedding, L layers, norm, unembedding, logits, from left to right; what holds parameters is blue."""
    with rc_context(STYLE):
        figure, ax = canvas(5.2, 1.75)
        for i in (2, 1, 0):
            _card(ax, 5.55 + 0.14 * i, 0.5 + 0.14 * i, 2.2, "layer:\nattention,\nMLP" if i == 0 else "", WEIGHTS)
        _card(ax, 2.2, 0.5, 2.3, "embedding\n[V, D]", WEIGHTS)
        _card(ax, 9.1, 0.5, 1.2, "norm", OTHER)
        _card(ax, 11.3, 0.5, 2.75, "unembedding\n[D, V]", WEIGHTS)
        ax.text(6.8, 2.6, "$L$ layers", ha="center", va="bottom", fontsize=8)
        ax.text(0.7, 1.3, "tokens\n[B, T]", ha="center", va="center", fontsize=8)
        ax.text(15.75, 1.3, "logits\n[B, T, V]", ha="center", va="center", fontsize=8)
        for start, end in ((1.35, 2.2), (4.5, 5.55), (8.05, 9.1), (10.3, 11.3), (14.05, 14.85)):
            _arrow(ax, (start, 1.3), (end, 1.3))
        for x in (5.02, 8.57, 10.82):
            ax.text(x, 0.2, "[B, T, D]", ha="center", va="top", fontsize=7.5)
            ax.plot([x, x], [0.23, 1.2], color=INK, linewidth=0.5, linestyle=":")
        ax.set(xlim=(0, 16.7), ylim=(-0.35, 3.15))
        ax.set_axis_off()
    return Picture(figure, alt, caption)


def transformer_block(alt: str, *, caption: str = "") -> Picture:
    """Every product of a block and the shape of what it makes; what holds parameters is blue.

    B sequences, T tokens each, D = d_model, N query heads and K KV heads of H numbers, F = d_ff, E experts of which k are active.
    """
    with rc_context(STYLE):
        figure, ax = canvas(5.2, 7.6)
        _attention(ax)
        for i, name in enumerate(MLPS):
            _mlp(ax, 0.05 + 4.1 * i, name)
        ax.set(xlim=(-0.1, 12.35), ylim=(-1.3, 17.2))
        ax.set_axis_off()
    return Picture(figure, alt, caption)


def _card(ax, x: float, y: float, width: float, text: str, fill: str) -> None:
    """A tall box that hides what lies behind it."""
    for shade in ("#fff", fill):
        ax.add_patch(Rectangle((x, y), width, 1.6, facecolor=shade, edgecolor=INK, linewidth=1))
    ax.text(x + width / 2, y + 0.8, text, ha="center", va="center", fontsize=8)


def _box(ax, x: float, y: float, width: float, text: str, fill: str = WEIGHTS, height: float = 0.85) -> None:
    ax.add_patch(Rectangle((x - width / 2, y), width, height, facecolor=fill, edgecolor=INK, linewidth=1))
    ax.text(x, y + height / 2, text, ha="center", va="center", fontsize=8, linespacing=1.1)


def _arrow(ax, start, end, text: str = "") -> None:
    arrow(ax, start, end)
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
    _arrow(ax, (4.6, 11.75), (5.4, 10.95), "A [B, N, T, S]")
    _arrow(ax, (10.2, 13.6), (8.0, 10.95), " V [B, S, K, H]")
    _box(ax, x, 10.1, 5.2, "weighted sum of values $AV$", OTHER)
    _arrow(ax, (x, 10.1), (x, 9.45), "[B, T, N, H]")
    _box(ax, x, 8.6, 3.6, "$W_O$ [N, H, D]")
    _arrow(ax, (x, 8.6), (x, 7.95))
    _residual(ax, x, 16.2, 7.75, 12.15)
    ax.text(x + 0.5, 7.35, "[B, T, D], then one of", fontsize=8, va="center")
    _arrow(ax, (x, 7.45), (x, 6.95))


def _mlp(ax, left: float, name: str) -> None:
    above, branches, act, shape, out = MLPS[name]
    x, y = left + 2.05, 4.9
    ax.add_patch(Rectangle((left, -1.2), 4.0, 8.1, fill=False, edgecolor="#999", linestyle=":"))
    ax.text(x, 6.6, name, ha="center", va="center", fontsize=8.5, weight="bold")
    _box(ax, x, 5.35, 1.6, "norm", OTHER, 0.7)
    _arrow(ax, (x, 6.3), (x, 6.05))
    if above:
        _arrow(ax, (x, 5.35), (x, y))
        _box(ax, x, y - 0.75, 3.4, above, height=0.75)
        ax.text(x, 3.72, "k of E", ha="center", va="center", fontsize=7.5)
    top = 2.25 if above else 3.0
    for i, w in enumerate(branches):
        at = x + (i - (len(branches) - 1) / 2) * 1.8
        _arrow(ax, (at, 4.15) if above else (x, 5.35), (at, top + 1.05))
        _box(ax, at, top, 1.65, w, height=1.05)
        _arrow(ax, (at, top), (x + (at - x) * 0.6, 1.75))
    _box(ax, x, 1.05, 3.0, act, OTHER, 0.7)
    _arrow(ax, (x, 1.05), (x, 0.4), shape)
    _box(ax, x, -0.35, 3.3, out, height=0.75)
    _arrow(ax, (x, -0.35), (x, -0.65))
    _residual(ax, x, 6.25, -0.8, left + 0.12)
