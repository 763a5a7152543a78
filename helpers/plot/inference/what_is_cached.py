"""What is read and what is kept: weights for all sequences, a cache for each, KV heads, layers, a window, latent vectors absorbed."""

from collections.abc import Sequence
from functools import partial

from helpers.plot.picture import COLOURS, Picture, arrow, bare, box, canvas, legend, styled, write

KEPT, NEW, PALE = COLOURS[4], COLOURS[5], "#eee"


_box = partial(box, linewidth=0.9)


@styled
def weights_and_caches(contexts: Sequence[int], alt: str, *, caption: str = "") -> Picture:
    """One decode step: the new tokens of all sequences use the same weights, and each looks at a cache of its own.

    contexts  tokens in the cache of each sequence
    """
    rows, longest = len(contexts), max(contexts)
    figure, ax = canvas(5.2, 0.9 + 0.38 * rows)
    for y, n in enumerate(contexts):
        _box(ax, 4.6, y + 0.15, 0.8, 0.7, fill=NEW)
        arrow(ax, (3.4, y + 0.5), (4.6, y + 0.5), head=8)
        arrow(ax, (6.6, y + 0.5), (5.4, y + 0.5), head=8)
        _box(ax, 6.6, y + 0.15, 5.0 * n / longest, 0.7, fill=KEPT)
        ax.text(6.7, y + 0.5, f"cache of sequence {y}", fontsize=7.5, va="center")
    _box(ax, 0.6, 0, 2.8, rows, "weights\nof all layers", COLOURS[0] + "60", 9)
    for x, text in ((2.0, "read once"), (5.0, "$B$ tokens"), (8.9, "$B$ caches, each read for one token")):
        ax.text(x, -0.25, text, ha="center", va="bottom", fontsize=9)
    bare(ax, xlim=(0.5, 11.8), ylim=(rows + 0.1, -1.0))
    return Picture(figure, alt, caption)


@styled
def kept_tokens(tokens: int, layers: int, window: int, alt: str, *, caption: str = "") -> Picture:
    """Layers down, tokens across: whose keys and values are kept when all layers are full, local, mixed, or share in pairs."""
    every = range(layers)
    full, local = set(range(tokens)), set(range(tokens - window, tokens))
    panels = {
        "all full": [full for _ in every],
        "local": [local for _ in every],
        "1 in 2 full": [local if layer % 2 else full for layer in every],
        "shared in pairs": [set() if layer % 2 else full for layer in every],
    }
    figure, axes = canvas(5.2, 1.9, 1, len(panels))
    for ax, (title, rows) in zip(axes, panels.items()):
        for y, kept in enumerate(rows):
            _box(ax, 0, y, tokens, 1, fill="#fff", linewidth=0.5)
            for x in kept:
                _box(ax, x, y, 1, 1, fill=KEPT, linewidth=0.5)
            if not kept:
                write(ax, tokens / 2, y + 0.5, "uses the layer above", 6)
                box(ax, 0, y, tokens, 1, fill="#fff", linewidth=0.5, zorder=1.5)
        write(ax, tokens / 2, layers + 0.3, f"{sum(map(len, rows))} kept", va="top")
        bare(ax, title=title, xlim=(-1.4 if ax is axes[0] else -0.1, tokens + 0.1), ylim=(layers + 1.8, -0.1))
    write(axes[0], -0.4, layers / 2, "layers", rotation=90, ha="right")
    write(axes[0], tokens / 2, layers + 1.0, "tokens →", va="top")
    return Picture(figure, alt, caption)


@styled
def rolling(window: int, sinks: int, moments: Sequence[int], alt: str, *, caption: str = "") -> Picture:
    """Places of a ring with sinks after each of some tokens: the number in a place is the token that stands there."""
    places = sinks + window
    figure, ax = canvas(5.2, 0.85 + 0.4 * len(moments))
    for y, t in enumerate(moments):
        ax.text(-0.2, y + 0.5, f"after token {t}", ha="right", va="center", fontsize=8)
        for token in range(t + 1):
            place = token if token < sinks else sinks + (token - sinks) % window
            if token < sinks or token > t - window:
                fill = NEW if token == t else "#bbb" if token < sinks else KEPT
                _box(ax, place + 0.3 * (place >= sinks), y + 0.08, 1, 0.84, str(token), fill, 9)
    ax.text(sinks / 2, -0.15, "sinks", ha="center", fontsize=8)
    ax.text(sinks + 0.3 + window / 2, -0.15, "ring of $L_w$ places", ha="center", fontsize=8)
    bare(ax, xlim=(-2.6, places + 0.6), ylim=(len(moments) + 0.05, -0.7))
    legend(figure, {"just written": NEW, "in the window": KEPT, "kept for good": "#bbb"}, 3)
    return Picture(figure, alt, caption)


@styled
def chunks(S: int, T: int, alt: str, *, caption: str = "") -> Picture:
    """The scores of a prompt of S tokens that is read T at a time: queries down, keys across, one piece in colour."""
    pieces = -(-S // T)
    figure, axes = canvas(5.2, 2.0, 1, pieces)
    for i, ax in enumerate(axes):
        for q in range(min((i + 1) * T, S)):
            if q < i * T:
                _box(ax, 0, q, q + 1, 1, fill=PALE, linewidth=0.4)
                continue
            if i:
                _box(ax, 0, q, i * T, 1, fill=KEPT, linewidth=0.4)
            _box(ax, i * T, q, q + 1 - i * T, 1, fill=NEW, linewidth=0.4)
        box(ax, 0, 0, S, S, fill=None, edgecolor="#777", linewidth=0.8, linestyle=":")
        ax.set_title(f"piece {i + 1}")
        ax.text(S, i * T + T / 2, " $T$", va="center", fontsize=9)
        ax.text(S / 2, S + 0.3, "$S$ keys", ha="center", va="top", fontsize=8)
        bare(ax, xlim=(-0.2, S + 1.4), ylim=(S + 1.8, -0.2), aspect="equal")
    legend(figure, {"keys of this piece": NEW, "keys from the cache": KEPT, "done before": PALE}, 3)
    return Picture(figure, alt, caption)


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


@styled
def absorption(alt: str, *, caption: str = "") -> Picture:
    """Scores of one new token against S cached ones, with W_UK applied to the cache or to the query; rotated parts left out."""
    figure, axes = canvas(7.6, 5.6, len(PANELS))
    for ax, (title, row) in zip(axes, PANELS.items()):
        x = 0.9
        for part in row:
            if isinstance(part, str):
                write(ax, x - 0.35, -S / 2, part, 14)
                x += 0.35
                continue
            x = _array(ax, x, *part)
        bare(ax, title=title, xlim=(0, 13.2), ylim=(-S - 1.2, 0.5), aspect="equal")
        ax.text(0.1, -S - 1.1, COSTS[title], fontsize=9)
    legend(figure, KINDS, 3, fontsize=9)
    return Picture(figure, alt, caption)


def _array(ax, x: float, name: str, kind: str, size: tuple[float, float], sides: tuple[str, str]) -> float:
    """An array of rows and columns from x on, its sides named; where the next sign stands."""
    rows, columns = size
    top = (rows - S) / 2
    fill, hatch = KINDS[kind]
    box(ax, x, top - rows, columns, rows, fill=fill, hatch=hatch, alpha=0.85)
    ax.text(
        x - 0.1, top - rows / 2, sides[0], ha="right", va="center", fontsize=9, rotation=90 if len(sides[0]) > 4 else 0
    )
    ax.text(x + columns / 2, top + 0.1, sides[1], ha="center", va="bottom", fontsize=9)
    ax.text(x + columns / 2, top - rows - 0.12, name, ha="center", va="top", fontsize=9)
    return x + columns + 0.75
