"""A training step over time under a checkpoint policy: which layer is computed, and the bytes that the layers hold meanwhile."""

from collections.abc import Sequence

import numpy as np

from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import flops
from helpers.costs.transformers.training_memory_bytes import arrays, recomputed
from helpers.plot.picture import COLOURS, INK, Picture, canvas, legend, styled

KINDS = {"forward": (COLOURS[4], ""), "forward again": (COLOURS[1], "///"), "backward": (COLOURS[0], "\\\\\\\\")}
Step = tuple[str, int, float, float]


def schedule(c: Config, T: int, policy: str) -> list[Step]:
    """Steps of one sequence of T tokens through the layers of c, which are alike: (kind, layer, length, bytes held after it).

    A length of 1 is a layer's forward pass. Before its backward pass a layer makes again what the policy did not keep.

    >>> steps = schedule(model("llama-3-8b"), 8192, "block")
    >>> len(steps), steps[0][:3], steps[-1]
    (96, ('forward', 0, 1.0), ('backward', 0, 2.0, 0.0))
    """
    kind = c.kind(0)
    kept, all_ = (2 * T * sum(arrays(c, kind, p, T).values()) for p in (policy, "everything"))
    again = recomputed(c, 1, T, policy) / flops(c, 1, T).layers
    steps = [("forward", layer, 1.0, (layer + 1) * kept) for layer in range(c.L)]
    for layer in reversed(range(c.L)):
        if again:
            steps.append(("forward again", layer, again, layer * kept + all_))
        steps.append(("backward", layer, 2.0, float(layer * kept)))
    return steps


@styled
def kept_over_time(c: Config, T: int, policies: Sequence[str], alt: str, *, caption: str = "") -> Picture:
    """For each policy: bytes held by the layers over time, and under them what is computed; all panels have the same axes."""
    figure, axes = canvas(5.2, 1.75 * len(policies) + 0.7, len(policies))
    runs = {p: schedule(c, T, p) for p in policies}
    longest = max(sum(s[2] for s in steps) for steps in runs.values())
    highest = max(held for steps in runs.values() for *_, held in steps) / 1e9
    for ax, (policy, steps) in zip(axes, runs.items()):
        ends = np.cumsum([s[2] for s in steps])
        held = np.array([0.0, *(s[3] / 1e9 for s in steps)])
        ax.step([0, *ends], held, where="post", color=INK, linewidth=1.6)
        ax.fill_between([0, *ends], held, step="post", color="#cccccc")
        for (kind, _, length, _), end in zip(steps, ends):
            fill, hatch = KINDS[kind]
            ax.barh(-0.1 * highest, length, left=end - length, height=0.14 * highest, color=fill, hatch=hatch,
                    edgecolor=INK, linewidth=0.5)  # fmt: skip
        ax.axhline(0, color=INK, linewidth=0.8)
        limits = {"xlim": (0, 1.02 * longest), "ylim": (-0.2 * highest, 1.1 * highest)}
        ax.set(title=f"policy {policy}", ylabel="GB held", **limits)
        ax.set_yticks([t for t in ax.get_yticks() if 0 <= t <= highest])
    axes[-1].set_xlabel("time, in forward passes of one layer")
    legend(figure, KINDS, 3, "left")
    return Picture(figure, alt, caption)
