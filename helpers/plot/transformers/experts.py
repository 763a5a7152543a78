"""A router that sends tokens to experts, with and without a capacity, and the two AllToAlls of experts on several devices."""

from collections.abc import Sequence

from matplotlib import rc_context
from matplotlib.patches import FancyArrowPatch, Patch, Rectangle

from helpers.costs.transformers.shares_and_thresholds import capacity
from helpers.plot.picture import COLOURS, INK, STYLE, Picture, canvas

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
