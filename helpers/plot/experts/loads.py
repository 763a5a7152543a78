"""How many tokens each expert gets, step by step of a training run."""

from collections.abc import Mapping

import numpy as np
from matplotlib import rc_context

from helpers.plot.picture import COLOURS, DASHES, INK, STYLE, Picture, canvas, dress


def expert_loads(runs: Mapping[str, np.ndarray], alt: str, *, level: float | None = None, caption: str = "") -> Picture:
    """A panel for each run: from the least to the most chosen expert as a band, the most chosen one as a line, over the steps.

    runs   {title: tokens[steps, experts]}; loads are drawn over their mean
    level  what the most chosen expert would have by chance alone
    """
    with rc_context(STYLE):
        figure, axes = canvas(2.6 * len(runs) + 0.4, 2.9, 1, len(runs))
        loads = {title: np.asarray(run) / np.mean(run, axis=1, keepdims=True) for title, run in runs.items()}
        highest = max(run.max() for run in loads.values())
        for n, (ax, (title, run)) in enumerate(zip(np.ravel(axes), loads.items())):
            steps = np.arange(len(run))
            ax.fill_between(steps, run.min(1), run.max(1), color=COLOURS[n] + "40", linewidth=0)
            ax.plot(steps, run.max(1), color=COLOURS[n], label="most chosen")
            ax.plot(steps, run.min(1), color=COLOURS[n], linewidth=1, linestyle=DASHES[1], label="least chosen")
            if level is not None:
                ax.axhline(level, color=INK, linewidth=1, linestyle=DASHES[3], label="by chance alone")
            dress(ax, "step", "tokens of an expert / mean" if n == 0 else "", "")
            ax.set_title(title, fontsize=9)
            ax.set_ylim(0, 1.05 * highest)
        handles, labels = np.ravel(axes)[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8)
    return Picture(figure, alt, caption)
