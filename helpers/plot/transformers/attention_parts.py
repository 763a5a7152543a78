"""Dot-product attention: what crosses HBM for one KV head, keys that pass by a chunk of queries; and tokens on their way to experts."""

from collections.abc import Sequence

from matplotlib import rc_context
from matplotlib.patches import FancyArrowPatch, Patch, Rectangle

from helpers.costs.transformers.shares_and_thresholds import attention_intensity, capacity
from helpers.plot.picture import COLOURS, INK, STYLE, Picture, arrow, canvas

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


PAPER = {"facecolor": "#fff", "edgecolor": "none", "pad": 0.8}
FILLS = tuple(zip((c + "80" for c in (COLOURS[0], COLOURS[5], COLOURS[2], COLOURS[3])), ("", "///", "\\\\\\\\", "xx")))
"""Of experts: fill and hatch."""


def queues(choices: Sequence[Sequence[int]], E: int, C: int | None) -> tuple[list[list[int]], list[list[int]]]:
    """Tokens that each expert serves, and those that it drops, in the order of the tokens; with C = None it serves all.

    >>> queues([(0, 1), (0, 2), (0, 1)], E=3, C=2)
    ([[0, 1], [0, 2], [1]], [[2], [], []])
    """
    waiting = [[t for t, chosen in enumerate(choices) if e in chosen] for e in range(E)]
    return [q[:C] for q in waiting], [q[C:] if C is not None else [] for q in waiting]


def routed(
    choices: Sequence[Sequence[int]], E: int, alt: str, *, factor: float | None = None, caption: str = ""
) -> Picture:
    """Tokens above, experts below with the tokens that they get; with a capacity factor, empty places and dropped choices too.

    choices  the experts of each token
    factor   capacity factor; None: every expert takes all that come
    """
    T, k = len(choices), len(choices[0])
    C = None if factor is None else capacity(T, E, k, factor)
    served, dropped = queues(choices, E, C)
    deep = max(len(a) + len(b) for a, b in zip(served, dropped))
    with rc_context(STYLE):
        figure, ax = canvas(5.2, 2.1 + 0.33 * deep)
        at = [12 * (t + 0.5) / T for t in range(T)]
        for t, x in enumerate(at):
            _place(ax, x, 4.0, f"{t}", "#eee", "")
            for e in choices[t]:
                lost = t in dropped[e]
                ax.plot([x, _expert(e, E)], [4.0, 1.35], color=COLOURS[1] if lost else INK, linewidth=1.0,
                        linestyle=":" if lost else "-")  # fmt: skip
        for e in range(E):
            x, (fill, hatch) = _expert(e, E), FILLS[e % 4]
            ax.add_patch(Rectangle((x - 1.3, 0.55), 2.6, 0.8, facecolor=fill, hatch=hatch, edgecolor=INK))
            ax.text(x, 0.95, f"expert {e}", ha="center", va="center", fontsize=8, bbox=PAPER)
            for row, t in enumerate(served[e]):
                _place(ax, x, -0.3 - 0.8 * row, f"{t}", fill, hatch)
            for row in range(len(served[e]), C or 0):
                _place(ax, x, -0.3 - 0.8 * row, "", "#fff", "", "--")
            for row, t in enumerate(dropped[e]):
                _place(ax, x, -0.3 - 0.8 * (C + row), f"{t}", "#fff", "")
                ax.plot(
                    [x - 0.35, x + 0.35],
                    [-0.25 - 0.8 * (C + row), 0.35 - 0.8 * (C + row)],
                    color=COLOURS[1],
                    linewidth=1.8,
                )
        ax.text(-0.25, 4.35, "tokens", ha="right", va="center", fontsize=8)
        if C is not None:
            ax.plot([-1.6, 12], [-0.38 - 0.8 * (C - 1)] * 2, color=INK, linewidth=1, linestyle="--")
            ax.text(-0.25, -0.3 - 0.8 * (C - 1) + 0.1, f"C = {C}", ha="right", va="bottom", fontsize=8)
        ax.set(xlim=(-1.8, 12.1), ylim=(-0.5 - 0.8 * (deep - 1), 5))
        ax.set_axis_off()
    return Picture(figure, alt, caption)


def _expert(e: int, E: int) -> float:
    return 12 * (e + 0.5) / E


def _place(ax, x: float, y: float, text: str, fill: str, hatch: str, line: str = "-") -> None:
    ax.add_patch(
        Rectangle((x - 0.5, y), 1.0, 0.7, facecolor=fill, hatch=hatch, edgecolor=INK, linestyle=line, linewidth=1)
    )
    if text:
        ax.text(x, y + 0.35, text, ha="center", va="center", fontsize=8, bbox=PAPER if hatch else None)


def exchanged(n: int) -> list[list[list[tuple[int, int]]]]:
    """Before, between and after the two AllToAlls: for each of n devices its blocks as (device of the tokens, expert).

    >>> exchanged(2)[1]
    [[(0, 0), (1, 0)], [(0, 1), (1, 1)]]
    """
    own = [[(d, e) for e in range(n)] for d in range(n)]
    return [own, [[own[s][d] for s in range(n)] for d in range(n)], own]


def expert_exchange(n: int, alt: str, *, caption: str = "") -> Picture:
    """n devices with an expert each: queues by expert, the rows of each expert where it lives, and the results back.

    A row is a device; a block has the colour of the expert it is for, and the number of the device that its tokens come from.
    """
    titles = ("[E, C, D] here:\nqueues by expert", "[$E_X$, XC, D]:\nrows of one expert", "[E, C, D] again:\nresults")
    with rc_context(STYLE):
        figure, ax = canvas(5.2, 0.42 * n + 1.35)
        for stage, (title, devices) in enumerate(zip(titles, exchanged(n))):
            x0 = stage * (n + 2.6)
            ax.text(x0 + n / 2, 0.35, title, ha="center", va="bottom", fontsize=8)
            for d, blocks in enumerate(devices):
                for i, (source, e) in enumerate(blocks):
                    fill, hatch = FILLS[e % 4]
                    ax.add_patch(
                        Rectangle((x0 + i, -d - 0.9), 1, 0.8, facecolor=fill, hatch=hatch, edgecolor=INK, linewidth=0.9)
                    )
                    ax.text(x0 + i + 0.5, -d - 0.5, f"{source}", ha="center", va="center", fontsize=8, bbox=PAPER)
                if stage == 0:
                    ax.text(-0.2, -d - 0.5, f"device {d}", ha="right", va="center", fontsize=8)
            if stage < 2:
                ax.add_patch(
                    FancyArrowPatch(
                        (x0 + n + 0.2, -n / 2), (x0 + n + 2.4, -n / 2), arrowstyle="-|>", mutation_scale=11, color=INK
                    )
                )
                ax.text(x0 + n + 1.3, -n / 2 + 0.15, "AllToAll", ha="center", va="bottom", fontsize=8)
        ax.set(xlim=(-2.3, 3 * n + 5.3), ylim=(-n - 0.1, 1.75))
        ax.set_axis_off()
        shown = [
            Patch(facecolor=f, hatch=h, edgecolor=INK, label=f"for expert {e}") for e, (f, h) in enumerate(FILLS[:n])
        ]
        figure.legend(handles=shown, loc="outside lower left", ncols=4, fontsize=8)
    return Picture(figure, alt, caption)
