"""One request: a prefill reads the whole prompt at once, then each decode step reads one token and all that is cached."""

from matplotlib import rc_context
from matplotlib.patches import Rectangle

from helpers.plot.picture import COLOURS, INK, STYLE, Picture, canvas

NEW, CACHED = COLOURS[1], COLOURS[0]


def prefill_and_decode(prompt: int, steps: int, alt: str, *, caption: str = "") -> Picture:
    """Above, the scores of each forward pass as squares, queries down and keys across; below, the cache after it.

    prompt  tokens of the prompt
    steps   decode steps that follow
    """
    passes = [prompt, *[1] * steps]
    with rc_context(STYLE):
        figure, ax = canvas(5.2, 2.9)
        x = 0.0
        for i, new in enumerate(passes):
            total = prompt + i
            _pass(ax, x, new, total, "prefill" if i == 0 else f"decode {i}")
            x += total + 1.5
        ax.text(-0.4, -2.45, "cache", ha="right", va="center", fontsize=8)
        ax.text(-0.4, prompt / 2, "$T$ queries", ha="right", va="center", fontsize=8)
        ax.set(xlim=(-4.2, x - 1), ylim=(-3.1, prompt + 2.4), aspect="equal")
        ax.set_axis_off()
        shown = [(NEW, "computed in this pass", ""), (CACHED, "read from the cache", "//")]
        figure.legend(
            handles=[Rectangle((0, 0), 1, 1, facecolor=c + "80", hatch=h, edgecolor=INK, label=t) for c, t, h in shown],
            loc="outside lower center", ncols=2, fontsize=8,
        )  # fmt: skip
    return Picture(figure, alt, caption)


def _pass(ax, x: float, new: int, total: int, title: str) -> None:
    """Scores of `new` queries over `total` keys, and the cache of keys and values that they leave."""
    for q in range(new):
        for k in range(total - new + q + 1):
            fresh = k >= total - new
            colour, hatch = (NEW, "") if fresh else (CACHED, "//")
            ax.add_patch(
                Rectangle(
                    (x + k, new - 1 - q), 1, 1, facecolor=colour + "80", hatch=hatch, edgecolor=INK, linewidth=0.7
                )
            )
    ax.add_patch(Rectangle((x, 0), total, new, fill=False, edgecolor=INK, linewidth=1))
    ax.text(x + total / 2, new + 0.3, f"{title}\n$S$ = {total} keys", ha="center", va="bottom", fontsize=8)
    for k in range(total):
        fresh = k >= total - new
        colour, hatch = (NEW, "") if fresh else (CACHED, "//")
        ax.add_patch(Rectangle((x + k, -3), 1, 1.1, facecolor=colour + "80", hatch=hatch, edgecolor=INK, linewidth=0.7))
