"""Training on many chips: pipelines, steps and what they wait for in time, the plane of layouts, estimates beside measurements."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.patches import Patch

from helpers.costs.rooflines.hardware import Chip
from helpers.costs.training.dp_fsdp_tp import cost
from helpers.plot.picture import (
    COLOURS,
    DASHES,
    INK,
    MARKERS,
    PAPER,
    Picture,
    box,
    canvas,
    dress,
    legend,
    name_rows,
    panes,
    styled,
    write,
)

# What a device does in a tick: fill and text, from dark to light, so that they differ in grey, too.
TASKS = {
    1: ("forward", COLOURS[0], "#fff"),
    2: ("gradient of input", COLOURS[5], INK),
    3: ("gradient of weights", "#f4f4f4", INK),
}


@styled
def pipelines(panels: dict, alt: str, *, caption: str = "") -> Picture:
    """One panel for each schedule: a row for each device, a column for each tick, in a whole tick's box the number of the microbatch.

    panels  {title: (task, micro, v)}, arrays [ticks, devices]: 0 nothing, 1 forward, 2 gradient of the input, 3 gradient of the
            weights; `kernels.training.pipeline_parallel.ticks` has both, and `Gradients.done` what was carried out. With v stages on
            a device ticks are 1/v as long
    """
    panels = {title: (np.asarray(task), np.asarray(micro), v) for title, (task, micro, v) in panels.items()}
    span = max(len(task) / v for task, _, v in panels.values())
    figure, axes = panes(len(panels), 5.6, 0.5 + sum(0.45 + 0.22 * task.shape[1] for task, _, _ in panels.values()))
    for ax, (title, (task, micro, v)) in zip(axes, panels.items()):
        _ticks(ax, task, micro, 1 / v)
        name_rows(
            ax, range(task.shape[1]), 0.5, title=f"{title}: {_idle(task)}", xlim=(0, span), ylim=(task.shape[1], 0)
        )
        ax.grid(visible=False)
        ax.fill_between([0, len(task) / v], 0, task.shape[1], color="#ddd", linewidth=0, zorder=0)
    axes[-1].set_xlabel("tick")

    legend(
        figure, {name: fill for name, fill, _ in TASKS.values()} | {"idle": {"facecolor": "#ddd", "edgecolor": None}}, 4
    )
    return Picture(figure, alt, caption)


def _idle(task: np.ndarray) -> str:
    """The share of time in which devices wait in a step, and in one of many if that is less: each begins when it has ended the last."""
    busy = [np.flatnonzero(device) for device in task.T]
    alone, in_a_row = (
        1 - sum(map(len, busy)) / len(busy) / ticks for ticks in (len(task), max(b[-1] + 1 - b[0] for b in busy))
    )
    return f"{alone:.0%} idle" + (f", {in_a_row:.0%} as one of many steps" if in_a_row < alone else "")


def _ticks(ax, task, micro, wide: float) -> None:
    for (t, d), kind in np.ndenumerate(task):
        if kind:
            _, fill, ink = TASKS[int(kind)]
            box(ax, t * wide, d, wide, 1, fill=fill, linewidth=0.4)
            if wide == 1:  # a number does not fit into a thinner box
                write(ax, (t + 0.5) * wide, d + 0.5, str(micro[t, d]), 6, color=ink)


@styled
def plane(x, y, z, xlabel: str, ylabel: str, alt: str, *, inside: str, lines: dict, caption: str = "") -> Picture:
    """A plane on two log axes: where z[y, x] is at least 1 it is shaded and called `inside`; lines lie on it, {label: (xs, ys)}."""
    z = np.asarray(z, float)
    figure, ax = canvas(6.2, 4.2)
    ax.contourf(x, y, z, levels=[1, np.inf], colors=[COLOURS[4]], alpha=0.35)
    ax.contour(x, y, z, levels=[1], colors=[INK], linewidths=1)
    handles = [Patch(facecolor=COLOURS[4], alpha=0.35, edgecolor=INK, label=inside)]
    for i, (label, (xs, ys)) in enumerate(lines.items()):
        handles += ax.plot(xs, ys, color=COLOURS[i % 6], linestyle=DASHES[i % 6], label=label)
    ax.set(xlim=(min(x), max(x)), ylim=(min(y), max(y)))
    dress(ax, xlabel, ylabel, "xy")
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return Picture(figure, alt, caption)


@styled
def predicted(sources: dict, methods: tuple[str, ...], alt: str, *, caption: str = "") -> Picture:
    """Predicted over measured on a log axis, one mark for each row: a group of lanes for each source, a lane for each method.

    sources  {name: rows [n, 1 + methods]}: the measured value, then what each method predicted
    """
    rows = {name: np.asarray(found, float) for name, found in sources.items()}
    lane = 0.8 / len(methods)
    figure, ax = canvas(5.6, 0.9 + 0.6 * len(rows))
    ax.axvline(1, color=INK, linewidth=1)
    for i, found in enumerate(rows.values()):
        if i:
            ax.axhline(i - 0.5, color="#bbb", linewidth=0.8)
        for j, method in enumerate(methods):
            ax.plot(
                found[:, 1 + j] / found[:, 0], np.full(len(found), i + (j - (len(methods) - 1) / 2) * lane),
                MARKERS[j % 6], color=COLOURS[j % 6], markerfacecolor=COLOURS[0] if j == 0 else "#fff",
                markersize=5, linestyle="", label=method if i == 0 else None,
            )  # fmt: skip
    _ratios(
        ax,
        [f"{name}\n{len(found)} row{'s' * (len(found) > 1)}" for name, found in rows.items()],
        "predicted / measured",
    )
    figure.legend(loc="outside lower center", ncols=len(methods))
    return Picture(figure, alt, caption)


@styled
def intervals(rows: dict, alt: str, *, caption: str = "") -> Picture:
    """An estimate over what was measured with its interval as a bar, one row each, on a log axis; filled where the bar reaches 1.

    rows  {name: (measured, low, estimate, high)}, all in one unit
    """
    figure, ax = canvas(5.6, 0.9 + 0.34 * len(rows))
    ax.axvline(1, color=INK, linewidth=1)
    for i, (measured, low, middle, high) in enumerate(rows.values()):
        if not 0 < low <= middle <= high:
            raise ValueError(f"{list(rows)[i]}: an interval is 0 < low <= estimate <= high")
        ax.errorbar(
            middle / measured, i, xerr=[[(middle - low) / measured], [(high - middle) / measured]], fmt="o",
            color=COLOURS[0], markersize=6, capsize=4, linewidth=1.6,
            markerfacecolor=COLOURS[0] if low <= measured <= high else "#fff",
        )  # fmt: skip
    _ratios(ax, rows, "estimate / published")
    return Picture(figure, alt, caption)


def _ratios(ax, names: Iterable, xlabel: str) -> None:
    """A row for each name, and ratios on a log axis."""
    names = list(names)
    name_rows(ax, names, 0, ylim=(len(names) - 0.5, -0.5))
    dress(ax, xlabel, "", "x")
    ticks = [t for t in (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10) if ax.get_xlim()[0] <= t <= ax.get_xlim()[1]]
    ax.set_xticks(ticks, [f"{t:g}" for t in ticks])
    ax.minorticks_off()


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


@styled
def step_timelines(panels: Mapping[str, Sequence[Span]], alt: str, *, caption: str = "") -> Picture:
    """A panel for each step: what the chip computes above, what its links carry below, the layer's number in each box.

    panels  {title: spans}, on one scale of time
    """
    span = max(s.end for some in panels.values() for s in some)
    figure, axes = panes(len(panels), 6.0, 0.75 + 1.0 * len(panels))
    for ax, (title, some) in zip(axes, panels.items()):
        for s in some:
            fill, hatch, ink = KINDS[s.kind]
            box(ax, s.start, s.row, s.seconds, 0.9, fill=fill, hatch=hatch, linewidth=0.6)
            if s.seconds > 0.025 * span:
                paper = PAPER if hatch else None
                write(ax, s.start + s.seconds / 2, s.row + 0.45, str(s.layer), color=ink, bbox=paper)
        done = max(s.end for s in some if s.row == 0)
        ax.axvline(done, color=INK, linewidth=1, linestyle=":")
        name_rows(ax, ("arithmetic", "links"), 0.45, title=title, xlim=(0, span * 1.01), ylim=(1.95, -0.05), xticks=())
        ax.grid(visible=False)
    ax.set_xlabel("time")
    kinds = dict.fromkeys(s.kind for some in panels.values() for s in some)
    legend(figure, {k: look[:2] for k, look in KINDS.items() if k in kinds}, len(kinds))
    return Picture(figure, alt, caption)
