"""Requests in time: slots of a static and of a continuous batch, places that a padded batch reads for nothing, loads as they arrive."""

from collections.abc import Mapping, Sequence

from matplotlib import rc_context
from matplotlib.patches import Patch, Rectangle

from helpers.costs.inference.engine_simulation import batched, interleaved
from helpers.plot.picture import COLOURS, INK, STYLE, Picture, canvas

EMPTY = "#bbb"
FILLS = tuple(COLOURS[i] + "b0" for i in (4, 5, 2, 3))


def batching(outputs: Sequence[int], slots: int, alt: str, *, caption: str = "") -> Picture:
    """Static batching above, continuous batching below: a row for each slot, a column for each decode step.

    outputs  tokens of each answer, in the order of arrival; all are there from the start, and prefills take no time
    """
    load = [(0, 1, n) for n in outputs]
    logs = {
        "static": batched(load, slots, lambda T: 0, lambda B, S: 1),
        "continuous": interleaved(load, slots, lambda T: 0, lambda B, S: 1),
    }
    last = max(s.tokens[-1] for log in logs.values() for s in log.served)
    with rc_context(STYLE):
        figure, axes = canvas(5.2, 0.9 + 2 * (0.5 + 0.27 * slots), 2)
        for ax, (name, log) in zip(axes, logs.items()):
            end = max(s.tokens[-1] for s in log.served)
            ax.add_patch(Rectangle((0, 0), end, slots, facecolor="#fff", edgecolor=EMPTY, hatch="////", linewidth=0))
            for i, s in enumerate(log.served):
                at, length = s.joined, s.tokens[-1] - s.joined
                for fill in ("#fff", FILLS[i % 4]):  # paper hides the hatch of the empty slot
                    box = dict(facecolor=fill, edgecolor=INK, linewidth=0.9)
                    ax.add_patch(Rectangle((at, s.slot[1] + 0.06), length, 0.88, **box))
                if length > 0.04 * last:
                    ax.text(at + length / 2, s.slot[1] + 0.5, str(i), ha="center", va="center", fontsize=8)
            ax.set_title(f"{name}: {end} steps, {log.slot_use:.0%} of the slots in use", loc="left", fontsize=9)
            ax.set(xlim=(0, last * 1.01), ylim=(slots, 0), yticks=[k + 0.5 for k in range(slots)])
            ax.set_yticklabels([f"slot {k}" for k in range(slots)], fontsize=8)
            ax.tick_params(labelsize=8, left=False)
            ax.grid(visible=False)
        axes[-1].set_xlabel("decode steps", fontsize=9)
        shown = [
            Patch(facecolor=FILLS[0], edgecolor=INK, label="a request, with its number"),
            Patch(facecolor="#fff", edgecolor=EMPTY, hatch="////", label="empty slot"),
        ]
        figure.legend(handles=shown, loc="outside lower center", ncols=2, fontsize=8)
    return Picture(figure, alt, caption)


def ragged(lengths: Sequence[int], block: int, alt: str, *, caption: str = "") -> Picture:
    """Caches of a batch, one below the other: tokens that are there, what a kernel reads in whole blocks, and padding."""
    longest = max(lengths)
    blocks = [-(-n // block) for n in lengths]
    with rc_context(STYLE):
        figure, ax = canvas(5.2, 0.75 + 0.34 * len(lengths))
        for y, (n, count) in enumerate(zip(lengths, blocks)):
            ax.add_patch(
                Rectangle((0, y + 0.1), longest, 0.8, facecolor="#fff", edgecolor=EMPTY, hatch="////", linewidth=0.8)
            )
            ax.add_patch(Rectangle((0, y + 0.1), n, 0.8, facecolor=COLOURS[4], edgecolor="none"))
            for k in range(count):
                ax.add_patch(
                    Rectangle((k * block, y + 0.1), block, 0.8, facecolor="none", edgecolor=INK, linewidth=1.1)
                )
            ax.text(-0.6, y + 0.5, f"{n} tokens", ha="right", va="center", fontsize=8)
            ax.text(longest + 0.6, y + 0.5, f"{count} blocks" if count > 1 else "1 block", va="center", fontsize=8)
        ax.set(xlim=(-9, longest + 8), ylim=(len(lengths), 0))
        ax.set_axis_off()
        shown = [
            Patch(facecolor=COLOURS[4], edgecolor=INK, label=f"read, in blocks of {block}"),
            Patch(facecolor="#fff", edgecolor=EMPTY, hatch="////", label="read only by a padded kernel"),
        ]
        figure.legend(handles=shown, loc="outside lower center", ncols=2, fontsize=8)
    return Picture(figure, alt, caption)


def arrivals(loads: Mapping[str, Sequence[float]], alt: str, *, caption: str = "") -> Picture:
    """A row for each load, a stroke for each request at the second when it arrives."""
    with rc_context(STYLE):
        figure, ax = canvas(5.2, 0.7 + 0.42 * len(loads))
        for y, times in enumerate(loads.values()):  # one path for all strokes of a row
            xs = [x for at in times for x in (at, at, None)]
            ax.plot(xs, [y - 0.35, y + 0.35, None] * len(times), color=COLOURS[0], linewidth=1)
        ax.set(yticks=range(len(loads)), ylim=(len(loads) - 0.5, -0.5), xlabel="seconds")
        ax.set_yticklabels(list(loads), fontsize=8)
        ax.tick_params(labelsize=8)
        ax.grid(axis="y", visible=False)
    return Picture(figure, alt, caption)
