"""Dot-product attention: what crosses HBM for one KV head, and how keys pass by a chunk of queries."""

from matplotlib import rc_context
from matplotlib.patches import Patch, Rectangle

from helpers.costs.transformers.shares_and_thresholds import attention_intensity
from helpers.plot.marks import arrow
from helpers.plot.picture import COLOURS, INK, STYLE, Picture, canvas

QUERY, KEY, SCORE = COLOURS[5] + "80", COLOURS[0] + "90", "#eeeeee"


def attention_bytes(S: int, G: int, alt: str, *, caption: str = "") -> Picture:
    """One KV head and its G query heads, for T = S queries and for one: arrays that cross HBM, and the scores that do not.

    S  keys; T is S on the left and 1 on the right
    """
    with rc_context(STYLE):
        figure, axes = canvas(5.2, 3.9, 1, 2)
        for ax, T, title in zip(axes, (S, 1), ("prefill, training: T = S", "decoding: T = 1")):
            _crossing(ax, T, S, G)
            found = attention_intensity(T, S, G)
            ax.text(-1.2, -2.75, f"S = {S}, G = {G}: I = {found:.2g}", ha="left", va="center", fontsize=8)
            ax.set(xlim=(-1.3, S + 2.6), ylim=(-3.1, S + 3.2), aspect="equal")
            ax.text(-1.2, S + 2.6, title, ha="left", va="center", fontsize=8.5, weight="bold")
            ax.set_axis_off()
        shown = [
            (QUERY, "///", "queries, results: G heads"),
            (KEY, "", "keys, values: one head"),
            (SCORE, "", "attention weights: stay on the chip"),
        ]
        figure.legend(
            handles=[Patch(facecolor=f, hatch=h, edgecolor=INK, label=t) for f, h, t in shown],
            loc="outside lower left", ncols=2, fontsize=8,
        )  # fmt: skip
    return Picture(figure, alt, caption)


def _crossing(ax, T: int, S: int, G: int) -> None:
    """Weights of G heads behind each other; queries at their left, results at their right, keys above and values below."""
    shift = 0.22
    for g in reversed(range(G)):
        at = (shift * g, shift * g)
        ax.add_patch(Rectangle(at, S, T, facecolor=SCORE, edgecolor=INK, linewidth=0.8))
        for x in (-0.95, S + 0.35 + shift * (G - 1)):
            for fill, hatch in (("#fff", ""), (QUERY, "///")):
                at = (x + 0.12 * g, shift * g)
                ax.add_patch(Rectangle(at, 0.5, T, facecolor=fill, edgecolor=INK, hatch=hatch, linewidth=0.8))
    for t in range(1, T):
        ax.plot([0, S], [t, t], color="#aaa", linewidth=0.5)
    for s in range(1, S):
        ax.plot([s, s], [0, T], color="#aaa", linewidth=0.5)
    top = T + shift * (G - 1) + 0.25
    for y in (top, -0.85):
        ax.add_patch(Rectangle((0, y), S, 0.5, facecolor=KEY, edgecolor=INK, linewidth=0.8))
    ax.text(S / 2, top + 0.6, "K: $SH$", ha="center", va="bottom", fontsize=8)
    ax.text(S / 2, -0.95, "V: $SH$", ha="center", va="top", fontsize=8)
    ax.text(-1.2, -1.75, "Q: $TGH$", ha="left", va="center", fontsize=8)
    ax.text(S + 2.4, -1.75, "O: $TGH$", ha="right", va="center", fontsize=8)
    ax.text(
        S / 2,
        T / 2,
        "$T \\times S$",
        ha="center",
        va="center",
        fontsize=8,
        bbox={"facecolor": SCORE, "edgecolor": "none", "pad": 1},
    )


def softmax_chunks(chunks: int, at: int, alt: str, *, caption: str = "") -> Picture:
    """Keys and values in chunks pass by a chunk of queries that stays on the chip with its running softmax.

    chunks  of keys and values; `at` is the one on the chip, those before it are done
    """
    with rc_context(STYLE):
        figure, ax = canvas(5.2, 3.1)
        ax.add_patch(Rectangle((0.2, 2.6), 11.6, 3.9, fill=False, edgecolor=INK, linestyle="--"))
        ax.text(0.35, 6.6, "on the chip", ha="left", va="bottom", fontsize=9, weight="bold")
        ax.text(0.35, 1.75, "HBM", ha="left", va="bottom", fontsize=9, weight="bold")
        _box(ax, 0.6, 3.4, 2.0, 1.6, "queries\n(stay)", QUERY, "///")
        _box(ax, 3.3, 3.4, 2.4, 1.6, "scores of\none chunk", SCORE, "")
        _box(ax, 3.3, 5.35, 2.4, 0.8, f"keys {at}", KEY, "")
        for y, text in (
            (5.35, "$m$  largest score"),
            (4.2, "$\\ell$  sum of exponentials"),
            (3.05, "$O$  output so far"),
        ):
            _box(ax, 7.0, y, 4.5, 0.8, text, "#fff", "")
        for start, end in (
            ((2.6, 4.2), (3.3, 4.2)),
            ((4.5, 5.35), (4.5, 5.0)),
            ((5.7, 4.6), (7.0, 5.6)),
            ((5.7, 4.4), (7.0, 4.6)),
            ((5.7, 4.2), (7.0, 3.6)),
        ):
            arrow(ax, start, end)
        wide = 11.6 / chunks
        for i in range(chunks):
            done, fill = i < at, KEY if i >= at else "#d9d9d9"
            _box(ax, 0.2 + wide * i, 0.6, wide - 0.25, 1.0, f"K, V {i}" + ("\ndone" if done else ""), fill, "")
        x = 0.2 + wide * (at + 0.5)
        arrow(ax, (x, 1.6), (x, 2.6))
        ax.set(xlim=(0, 12), ylim=(0.3, 7.3))
        ax.set_axis_off()
    return Picture(figure, alt, caption)


def _box(ax, x, y, width, height, text, fill, hatch) -> None:
    ax.add_patch(Rectangle((x, y), width, height, facecolor=fill, hatch=hatch, edgecolor=INK, linewidth=1))
    paper = {"facecolor": "#fff", "edgecolor": "none", "pad": 1} if hatch else None
    ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=8, bbox=paper)
