"""A training step over time: arithmetic and network beside each other, layer by layer, and what sticks out."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib import rc_context
from matplotlib.patches import Patch, Rectangle

from helpers.costs.rooflines.hardware import Chip
from helpers.costs.training.dp_fsdp_tp import cost
from helpers.plot.picture import COLOURS, INK, STYLE, Picture, canvas

KINDS = {
    "forward": (COLOURS[0], "", "#fff"),
    "backward": (COLOURS[4], "", INK),
    "AllGather": ("#f4f4f4", "", INK),
    "ReduceScatter": (COLOURS[5], "////", INK),
    "AllReduce": (COLOURS[5], "////", INK),
}


class Span(NamedTuple):
    """What runs from when on and how long, for which layer; row 0 is arithmetic, 1 the network."""

    row: int
    kind: str
    layer: int
    start: float
    seconds: float

    @property
    def end(self) -> float:
        return self.start + self.seconds


def spans(
    strategy: str, layers: int, B: float, D: float, F: float, X: int, chip: Chip, M: int, *, micro: int = 1, once=False
) -> list[Span]:
    """A step of DP or FSDP of so many layers: each collective starts as soon as it can, and one at a time has the links.

    micro  microbatches that the batch goes through in
    once   gradients are sent for the last microbatch only, summed over all of them

    FSDP gathers one layer ahead. Gradients of a layer are sent when its backward pass is done.
    """
    passes = cost(strategy, B / micro, D, F, X=X)
    there, back = (p.time(chip.rate(), chip.link_bandwidth, {"X": M}).parts for p in passes)
    gather, gathers = there["X"], strategy == "FSDP"
    sums = back["X"] - (gather if gathers else 0.0)
    out: list[Span] = []
    free = [0.0, 0.0]  # arithmetic, network

    def run(row: int, kind: str, layer: int, seconds: float, after: float) -> float:
        start = max(free[row], after)
        out.append(Span(row, kind, layer, start, seconds))
        free[row] = start + seconds
        return free[row]

    order = [("forward", i, there["math"]) for i in range(layers)]
    order += [("backward", i, back["math"]) for i in reversed(range(layers))]
    order *= micro
    ready = run(1, "AllGather", 0, gather, 0.0) if gathers else 0.0
    for k, (kind, layer, seconds) in enumerate(order):
        start = max(free[0], ready)
        if gathers and k + 1 < len(order):
            ready = run(1, "AllGather", order[k + 1][1], gather, start)
        end = run(0, kind, layer, seconds, start)
        if kind == "backward" and (not once or k >= len(order) - layers):
            run(1, "ReduceScatter" if gathers else "AllReduce", layer, sums, end)
    return out


def step_timelines(
    panels: Mapping[str, Sequence[Span]], alt: str, *, chip_time: str = "time", caption: str = ""
) -> Picture:
    """A panel for each step: what the chip computes above, what its links carry below, the layer's number in each box.

    panels  {title: spans}, on one scale of time
    """
    span = max(s.end for some in panels.values() for s in some)
    with rc_context(STYLE):
        figure, axes = canvas(6.0, 0.75 + 1.0 * len(panels), len(panels))
        for ax, (title, some) in zip([axes] if len(panels) == 1 else axes, panels.items()):
            for s in some:
                fill, hatch, ink = KINDS[s.kind]
                ax.add_patch(
                    Rectangle(
                        (s.start, s.row), s.seconds, 0.9, facecolor=fill, hatch=hatch, edgecolor=INK, linewidth=0.6
                    )
                )
                if s.seconds > 0.025 * span:
                    box = dict(facecolor="#fff", edgecolor="none", pad=0.6) if hatch else None
                    ax.text(s.start + s.seconds / 2, s.row + 0.45, str(s.layer), ha="center", va="center", fontsize=8,
                            color=ink, bbox=box)  # fmt: skip
            done = max(s.end for s in some if s.row == 0)
            ax.axvline(done, color=INK, linewidth=1, linestyle=":")
            ax.set(xlim=(0, span * 1.01), ylim=(1.95, -0.05), yticks=(0.45, 1.45), xticks=())
            ax.set_yticklabels(("arithmetic", "links"), fontsize=9)
            ax.set_title(title, fontsize=9.5, loc="left", weight="bold")
            ax.grid(visible=False)
        ax.set_xlabel(chip_time, fontsize=9)
        kinds = dict.fromkeys(s.kind for some in panels.values() for s in some)
        shown = [Patch(facecolor=KINDS[k][0], hatch=KINDS[k][1], edgecolor=INK, label=k) for k in KINDS if k in kinds]
        figure.legend(handles=shown, loc="outside lower center", ncols=len(shown), fontsize=8)
    return Picture(figure, alt, caption)
