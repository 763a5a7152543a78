"""Dot-product attention: what crosses HBM for one KV head, keys that pass by a chunk of queries; and tokens on their way to experts."""

from collections.abc import Sequence

from helpers.costs.transformers.shares_and_thresholds import attention_intensity, capacity
from helpers.plot.picture import COLOURS, INK, Picture, arrow, bare, box, canvas, legend, styled, write

QUERY, KEY, SCORE = COLOURS[5] + "80", COLOURS[0] + "90", "#eeeeee"


@styled
def attention_bytes(S: int, G: int, alt: str, *, caption: str = "") -> Picture:
    """One KV head and its G query heads, for T = S queries and for one: arrays that cross HBM, and the scores that do not.

    S  keys; T is S on the left and 1 on the right
    """
    figure, axes = canvas(5.2, 3.9, 1, 2)
    for ax, T, title in zip(axes, (S, 1), ("prefill, training: T = S", "decoding: T = 1")):
        _crossing(ax, T, S, G)
        found = attention_intensity(T, S, G)
        ax.text(-1.2, -2.75, f"S = {S}, G = {G}: I = {found:.2g}", ha="left", va="center", fontsize=8)
        bare(ax, xlim=(-1.3, S + 2.6), ylim=(-3.1, S + 3.2), aspect="equal")
        ax.text(-1.2, S + 2.6, title, ha="left", va="center", fontsize=8.5, weight="bold")
    looks = {"queries, results: G heads": (QUERY, "///"), "keys, values: one head": KEY}
    legend(figure, looks | {"attention weights: stay on the chip": SCORE}, 2, "left")
    return Picture(figure, alt, caption)


def _crossing(ax, T: int, S: int, G: int) -> None:
    """Weights of G heads behind each other; queries at their left, results at their right, keys above and values below."""
    shift = 0.22
    for g in reversed(range(G)):
        box(ax, shift * g, shift * g, S, T, fill=SCORE, linewidth=0.8)
        for x in (-0.95, S + 0.35 + shift * (G - 1)):
            for fill, hatch in (("#fff", ""), (QUERY, "///")):
                box(ax, x + 0.12 * g, shift * g, 0.5, T, fill=fill, hatch=hatch, linewidth=0.8)
    for t in range(1, T):
        ax.plot([0, S], [t, t], color="#aaa", linewidth=0.5)
    for s in range(1, S):
        ax.plot([s, s], [0, T], color="#aaa", linewidth=0.5)
    top = T + shift * (G - 1) + 0.25
    for y in (top, -0.85):
        box(ax, 0, y, S, 0.5, fill=KEY, linewidth=0.8)
    ax.text(S / 2, top + 0.6, "K: $SH$", ha="center", va="bottom", fontsize=8)
    ax.text(S / 2, -0.95, "V: $SH$", ha="center", va="top", fontsize=8)
    ax.text(-1.2, -1.75, "Q: $TGH$", ha="left", va="center", fontsize=8)
    ax.text(S + 2.4, -1.75, "O: $TGH$", ha="right", va="center", fontsize=8)
    write(ax, S / 2, T / 2, "$T \\times S$", bbox={"facecolor": SCORE, "edgecolor": "none", "pad": 1})


@styled
def softmax_chunks(chunks: int, at: int, alt: str, *, caption: str = "") -> Picture:
    """Keys and values in chunks pass by a chunk of queries that stays on the chip with its running softmax.

    chunks  of keys and values; `at` is the one on the chip, those before it are done
    """
    figure, ax = canvas(5.2, 3.1)
    box(ax, 0.2, 2.6, 11.6, 3.9, fill=None, linestyle="--")
    ax.text(0.35, 6.6, "on the chip", ha="left", va="bottom", fontsize=9, weight="bold")
    ax.text(0.35, 1.75, "HBM", ha="left", va="bottom", fontsize=9, weight="bold")
    box(ax, 0.6, 3.4, 2.0, 1.6, "queries\n(stay)", QUERY, hatch="///")
    box(ax, 3.3, 3.4, 2.4, 1.6, "scores of\none chunk", SCORE)
    box(ax, 3.3, 5.35, 2.4, 0.8, f"keys {at}", KEY)
    for y, text in (
        (5.35, "$m$  largest score"),
        (4.2, "$\\ell$  sum of exponentials"),
        (3.05, "$O$  output so far"),
    ):
        box(ax, 7.0, y, 4.5, 0.8, text)
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
        box(ax, 0.2 + wide * i, 0.6, wide - 0.25, 1.0, f"K, V {i}" + ("\ndone" if done else ""), fill)
    x = 0.2 + wide * (at + 0.5)
    arrow(ax, (x, 1.6), (x, 2.6))
    bare(ax, xlim=(0, 12), ylim=(0.3, 7.3))
    return Picture(figure, alt, caption)


FILLS = tuple(zip((c + "80" for c in (COLOURS[0], COLOURS[5], COLOURS[2], COLOURS[3])), ("", "///", "\\\\\\\\", "xx")))
"""Of experts: fill and hatch."""


def queues(choices: Sequence[Sequence[int]], E: int, C: int | None) -> tuple[list[list[int]], list[list[int]]]:
    """Tokens that each expert serves, and those that it drops, in the order of the tokens; with C = None it serves all.

    >>> queues([(0, 1), (0, 2), (0, 1)], E=3, C=2)
    ([[0, 1], [0, 2], [1]], [[2], [], []])
    """
    waiting = [[t for t, chosen in enumerate(choices) if e in chosen] for e in range(E)]
    return [q[:C] for q in waiting], [q[C:] if C is not None else [] for q in waiting]


@styled
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
        box(ax, x - 1.3, 0.55, 2.6, 0.8, f"expert {e}", fill, hatch=hatch)
        for row, t in enumerate(served[e]):
            _place(ax, x, -0.3 - 0.8 * row, f"{t}", fill, hatch)
        for row in range(len(served[e]), C or 0):
            _place(ax, x, -0.3 - 0.8 * row, "", "#fff", "", "--")
        for row, t in enumerate(dropped[e]):
            _place(ax, x, -0.3 - 0.8 * (C + row), f"{t}", "#fff", "")
            low = -0.25 - 0.8 * (C + row)
            ax.plot([x - 0.35, x + 0.35], [low, low + 0.6], color=COLOURS[1], linewidth=1.8)
    ax.text(-0.25, 4.35, "tokens", ha="right", va="center", fontsize=8)
    if C is not None:
        ax.plot([-1.6, 12], [-0.38 - 0.8 * (C - 1)] * 2, color=INK, linewidth=1, linestyle="--")
        ax.text(-0.25, -0.3 - 0.8 * (C - 1) + 0.1, f"C = {C}", ha="right", va="bottom", fontsize=8)
    bare(ax, xlim=(-1.8, 12.1), ylim=(-0.5 - 0.8 * (deep - 1), 5))
    return Picture(figure, alt, caption)


def _expert(e: int, E: int) -> float:
    return 12 * (e + 0.5) / E


def _place(ax, x: float, y: float, text: str, fill: str, hatch: str, line: str = "-") -> None:
    box(ax, x - 0.5, y, 1.0, 0.7, text, fill, hatch=hatch, linestyle=line)


def exchanged(n: int) -> list[list[list[tuple[int, int]]]]:
    """Before, between and after the two AllToAlls: for each of n devices its blocks as (device of the tokens, expert).

    >>> exchanged(2)[1]
    [[(0, 0), (1, 0)], [(0, 1), (1, 1)]]
    """
    own = [[(d, e) for e in range(n)] for d in range(n)]
    return [own, [[own[s][d] for s in range(n)] for d in range(n)], own]


@styled
def expert_exchange(n: int, alt: str, *, caption: str = "") -> Picture:
    """n devices with an expert each: queues by expert, the rows of each expert where it lives, and the results back.

    A row is a device; a block has the colour of the expert it is for, and the number of the device that its tokens come from.
    """
    titles = ("[E, C, D] here:\nqueues by expert", "[$E_X$, XC, D]:\nrows of one expert", "[E, C, D] again:\nresults")
    figure, ax = canvas(5.2, 0.42 * n + 1.35)
    for stage, (title, devices) in enumerate(zip(titles, exchanged(n))):
        x0 = stage * (n + 2.6)
        ax.text(x0 + n / 2, 0.35, title, ha="center", va="bottom", fontsize=8)
        for d, blocks in enumerate(devices):
            for i, (source, e) in enumerate(blocks):
                fill, hatch = FILLS[e % 4]
                box(ax, x0 + i, -d - 0.9, 1, 0.8, f"{source}", fill, hatch=hatch, linewidth=0.9)
            if stage == 0:
                ax.text(-0.2, -d - 0.5, f"device {d}", ha="right", va="center", fontsize=8)
        if stage < 2:
            arrow(ax, (x0 + n + 0.2, -n / 2), (x0 + n + 2.4, -n / 2), head=11)
            ax.text(x0 + n + 1.3, -n / 2 + 0.15, "AllToAll", ha="center", va="bottom", fontsize=8)
    bare(ax, xlim=(-2.3, 3 * n + 5.3), ylim=(-n - 0.1, 1.75))
    legend(figure, {f"for expert {e}": look for e, look in enumerate(FILLS[:n])}, 4, "left")
    return Picture(figure, alt, caption)
