"""A decoder from tokens to logits, one Transformer block with sizes and parameters, its residual stream, and its heads."""

from collections.abc import Mapping, Sequence
from math import prod

from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import kv_cache
from helpers.plot.picture import COLOURS, INK, PAPER, Picture, arrow, bare, box, canvas, legend, panes, styled, write

WEIGHTS, OTHER = COLOURS[0] + "40", "#eeeeee"


@styled
def decoder_stack(alt: str, *, caption: str = "") -> Picture:
    """Tokens, embedding, L layers, norm, unembedding, logits, from left to right; what holds parameters is blue."""
    figure, ax = canvas(5.2, 1.75)
    for i in (2, 1, 0):
        _card(ax, 5.55 + 0.14 * i, 0.5 + 0.14 * i, 2.2, "layer:\nattention,\nMLP" if i == 0 else "", WEIGHTS)
    _card(ax, 2.2, 0.5, 2.3, "embedding\n[V, D]", WEIGHTS)
    _card(ax, 9.1, 0.5, 1.2, "norm", OTHER)
    _card(ax, 11.3, 0.5, 2.75, "unembedding\n[D, V]", WEIGHTS)
    ax.text(6.8, 2.6, "$L$ layers", ha="center", va="bottom", fontsize=8)
    write(ax, 0.7, 1.3, "tokens\n[B, T]")
    write(ax, 15.75, 1.3, "logits\n[B, T, V]")
    for start, end in ((1.35, 2.2), (4.5, 5.55), (8.05, 9.1), (10.3, 11.3), (14.05, 14.85)):
        _arrow(ax, (start, 1.3), (end, 1.3))
    for x in (5.02, 8.57, 10.82):
        ax.text(x, 0.2, "[B, T, D]", ha="center", va="top", fontsize=7.5)
        ax.plot([x, x], [0.23, 1.2], color=INK, linewidth=0.5, linestyle=":")
    bare(ax, xlim=(0, 16.7), ylim=(-0.35, 3.15))
    return Picture(figure, alt, caption)


@styled
def transformer_block(c: Config, alt: str, *, caption: str = "") -> Picture:
    """Every matrix of a gated block with its parameters, and the shape of what flows; what holds parameters is blue.

    B sequences, T tokens each, D = d_model, N query heads and K KV heads of H numbers, F = d_ff.
    """
    figure, ax = canvas(6.8, 4.7)
    _attention(ax, c)
    _mlp(ax, c)
    bare(ax, xlim=(-0.2, 17.6), ylim=(-0.4, 11.9))
    return Picture(figure, alt, caption)


def _card(ax, x: float, y: float, width: float, text: str, fill: str) -> None:
    """A tall box that hides what lies behind it."""
    box(ax, x, y, width, 1.6)
    box(ax, x, y, width, 1.6, text, fill)


def _box(ax, x: float, y: float, width: float, text: str, fill: str = WEIGHTS, height: float = 0.85) -> None:
    box(ax, x - width / 2, y, width, height, text, fill)


def _arrow(ax, start, end, text: str = "") -> None:
    arrow(ax, start, end)
    if text:
        write(ax, (start[0] + end[0]) / 2 + 0.12, (start[1] + end[1]) / 2, text, 7.5, ha="left", bbox=PAPER)


def _residual(ax, x: float, top: float, bottom: float, side: float) -> None:
    """The input, added to the result again."""
    end = x + 0.25 * (1 if side > x else -1)
    ax.plot([x, side, side, end], [top, top, bottom, bottom], color=INK, linewidth=1, linestyle="--")
    write(ax, x, bottom, "+", 11, bbox={"boxstyle": "circle,pad=0.1", "facecolor": "#fff", "edgecolor": INK})


def _matrix(ax, x: float, y: float, name: str, *sides: int) -> None:
    """A matrix, its parameters in millions under its name, its middle at x."""
    _box(ax, x, y, 2.9, f"{name}\n{prod(sides) / 1e6:.0f} M", height=1.15)


def _attention(ax, c: Config) -> None:
    x = 4.7
    ax.text(x, 11.8, "x [B, T, D]", ha="center", va="top", fontsize=9)
    _arrow(ax, (x, 11.3), (x, 10.5))
    _box(ax, x, 9.8, 2.9, "norm", OTHER, 0.7)
    for at, name, heads in (
        (1.4, "$W_Q$ [D, N, H]", c.N),
        (4.7, "$W_K$ [D, K, H]", c.K),
        (8.0, "$W_V$ [D, K, H]", c.K),
    ):
        _arrow(ax, (x, 9.8), (at, 9.15))
        _matrix(ax, at, 8.0, name, c.D, heads, c.H)
    _arrow(ax, (1.4, 8.0), (2.4, 6.7), " [B, T, N, H]")
    _arrow(ax, (4.7, 8.0), (3.9, 6.7), " [B, S, K, H]")
    _box(ax, 3.1, 5.6, 4.6, "scores: $2SNH$\nsoftmax", OTHER, 1.1)
    _arrow(ax, (3.6, 5.6), (4.2, 4.65), " [B, T, S, N]")
    _arrow(ax, (8.0, 8.0), (6.2, 4.65), " [B, S, K, H]")
    _box(ax, x, 3.8, 4.9, "weighted sum of values: $2SNH$", OTHER)
    _arrow(ax, (x, 3.8), (x, 3.0), "[B, T, N, H]")
    _matrix(ax, x, 1.85, "$W_O$ [N, H, D]", c.N, c.H, c.D)
    _arrow(ax, (x, 1.85), (x, 1.15))
    _residual(ax, x, 11.0, 0.8, 9.75)
    ax.text(x, 0.2, "[B, T, D], to the MLP", ha="center", va="top", fontsize=9)


def _mlp(ax, c: Config) -> None:
    x = 13.6
    ax.text(x, 11.8, "x [B, T, D]", ha="center", va="top", fontsize=9)
    _arrow(ax, (x, 11.3), (x, 10.5))
    _box(ax, x, 9.8, 2.9, "norm", OTHER, 0.7)
    for at, name in ((12.0, "$W_{gate}$ [D, F]"), (15.2, "$W_{in}$ [D, F]")):
        _arrow(ax, (x, 9.8), (at, 9.15))
        _matrix(ax, at, 8.0, name, c.D, c.F)
    _arrow(ax, (12.0, 8.0), (12.0, 6.7), "[B, T, F]")
    _box(ax, 12.0, 5.85, 2.9, "activation", OTHER)
    _arrow(ax, (12.0, 5.85), (13.0, 4.75))
    _arrow(ax, (15.2, 8.0), (14.2, 4.75), " [B, T, F]")
    _box(ax, x, 3.9, 2.9, "multiply", OTHER)
    _arrow(ax, (x, 3.9), (x, 3.0), "[B, T, F]")
    _matrix(ax, x, 1.85, "$W_{out}$ [F, D]", c.F, c.D)
    _arrow(ax, (x, 1.85), (x, 1.15))
    _residual(ax, x, 11.0, 0.8, 17.2)
    ax.text(x, 0.2, "[B, T, D], to the next layer", ha="center", va="top", fontsize=9)


@styled
def flow(
    columns: Sequence[Sequence[str]],
    arrows: Sequence[tuple[str, str]],
    alt: str,
    *,
    marked: Sequence[str] = (),
    caption: str = "",
) -> Picture:
    """Columns of boxes from left to right, the boxes of a column evenly spread; an arrow leads from one box to another by its text.

    marked  boxes in colour
    """
    tall = max(map(len, columns))
    place = {
        text: (1.35 * i * 2, tall * 1.5 * (1 - (j + 0.5) / len(boxes)))
        for i, boxes in enumerate(columns)
        for j, text in enumerate(boxes)
    }
    if unknown := [text for arrow in arrows for text in arrow if text not in place]:
        raise ValueError(f"an arrow names a box that is not there: {unknown[0]!r}")
    figure, ax = canvas(5.2, 0.62 * tall + 0.25)
    for a, b in arrows:
        (x, y), (to, at) = place[a], place[b]
        arrow(ax, (x + 1.0, y), (to - 1.0, at))
    for text, (x, y) in place.items():
        box(ax, x - 1.0, y - 0.55, 2.0, 1.1, text, WEIGHTS if text in marked else OTHER)
    bare(ax, xlim=(-1.1, 2.7 * (len(columns) - 1) + 1.1), ylim=(0, 1.5 * tall))
    return Picture(figure, alt, caption)


CACHED, MADE = COLOURS[0] + "90", COLOURS[5] + "60"


@styled
def kv_heads(models: Mapping[str, Config], alt: str, *, caption: str = "") -> Picture:
    """Of each model one layer: its query heads above, the keys and values that they read, and in blue what is cached of a token.

    models  {title: Config}, of a few heads each
    """
    rows = -(-len(models) // 2)
    figure, axes = panes(len(models), 5.2, 2.15 * rows + 0.4, 2)
    for ax, (title, c) in zip(axes, models.items()):
        _heads(ax, c)
        kept = kv_cache(c, 1, bytes_each=1) / c.L
        what = "latent + rotated key" if c.mla else "$2KH$"
        ax.text(0, -3.0, f"kept: {what} = {kept:,.0f} numbers", ha="left", va="center", fontsize=8)
        bare(ax, title=title, xlim=(-0.1, 8.2), ylim=(-3.35, 2.0))
    looks = {"query head": "#eee", "in the cache": CACHED, "made when needed": (MADE, "////")}
    legend(figure, looks, 3, "left")
    return Picture(figure, alt, caption)


def _heads(ax, c: Config) -> None:
    wide = 8 / c.N
    for n in range(c.N):
        _square(ax, wide * n, 1.0, 0.8 * wide, 0.75, "#eee", "", "q")
        k = n // c.G
        ax.plot([wide * n + 0.4 * wide, _middle(c, k)], [1.0, 0.1], color=INK, linewidth=0.8)
    for k in range(c.K):
        at = _middle(c, k) - 0.4 * wide
        fill, hatch = (MADE, "////") if c.mla else (CACHED, "")
        for y, name in ((-0.65, "k"), (-1.4, "v")):
            _square(ax, at, y, 0.8 * wide, 0.75, fill, hatch, name)
    if c.mla:
        _square(ax, 2.0, -2.4, 2.6, 0.55, CACHED, "", "latent c")
        _square(ax, 5.2, -2.4, 1.5, 0.55, CACHED, "", "$k_R$")
        for k in range(c.K):
            ax.plot([3.3, _middle(c, k)], [-1.85, -1.4], color=INK, linewidth=0.6, linestyle=":")


def _middle(c: Config, k: int) -> float:
    """Where KV head k stands: under the middle of its query heads."""
    wide = 8 / c.N
    return wide * (c.G * k + (c.G - 1) / 2) + 0.4 * wide


def _square(ax, x, y, width, height, fill, hatch, text) -> None:
    box(ax, x, y, width, height, text, fill, hatch=hatch, linewidth=0.9)
