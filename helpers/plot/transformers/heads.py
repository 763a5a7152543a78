"""Query heads and what a KV cache keeps for them: one key and value each, shared ones, or a latent vector."""

from collections.abc import Mapping

from matplotlib import rc_context
from matplotlib.patches import Patch, Rectangle

from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import kv_cache
from helpers.plot.picture import COLOURS, INK, STYLE, Picture, canvas

CACHED, MADE = COLOURS[0] + "90", COLOURS[5] + "60"


def kv_heads(models: Mapping[str, Config], alt: str, *, caption: str = "") -> Picture:
    """Of each model one layer: its query heads above, the keys and values that they read, and in blue what is cached of a token.

    models  {title: Config}, of a few heads each
    """
    rows = -(-len(models) // 2)
    with rc_context(STYLE):
        figure, axes = canvas(5.2, 2.15 * rows + 0.4, rows, 2)
        for ax, (title, c) in zip(axes.flat, models.items()):
            _heads(ax, c)
            kept = kv_cache(c, 1, bytes_each=1) / c.L
            what = "latent + rotated key" if c.mla else "$2KH$"
            ax.text(0, -3.0, f"kept: {what} = {kept:,.0f} numbers", ha="left", va="center", fontsize=8)
            ax.set(xlim=(-0.1, 8.2), ylim=(-3.35, 2.0))
            ax.set_title(title, loc="left", fontsize=9, weight="bold")
            ax.set_axis_off()
        for ax in axes.flat[len(models) :]:
            ax.remove()
        shown = [("#eee", "", "query head"), (CACHED, "", "in the cache"), (MADE, "////", "made when needed")]
        figure.legend(
            handles=[Patch(facecolor=f, hatch=h, edgecolor=INK, label=t) for f, h, t in shown],
            loc="outside lower left", ncols=3, fontsize=8,
        )  # fmt: skip
    return Picture(figure, alt, caption)


def _heads(ax, c: Config) -> None:
    wide = 8 / c.N
    for n in range(c.N):
        _square(ax, wide * n, 1.0, 0.8 * wide, 0.75, "#eee", "", "q")
        k = n // c.G
        ax.plot([wide * n + 0.4 * wide, _middle(c, k)], [1.0, 0.1], color=INK, linewidth=0.8)
    for k in range(c.K):
        at = _middle(c, k) - 0.4 * wide
        fill, hatch = (MADE, "////") if c.mla else (CACHED, "")
        for y, name in ((-0.65, "k"), (-1.4, "v")):
            _square(ax, at, y, 0.8 * wide, 0.75, fill, hatch, name)
    if c.mla:
        _square(ax, 2.0, -2.4, 2.6, 0.55, CACHED, "", "latent c")
        _square(ax, 5.2, -2.4, 1.5, 0.55, CACHED, "", "$k_R$")
        for k in range(c.K):
            ax.plot([3.3, _middle(c, k)], [-1.85, -1.4], color=INK, linewidth=0.6, linestyle=":")


def _middle(c: Config, k: int) -> float:
    """Where KV head k stands: under the middle of its query heads."""
    wide = 8 / c.N
    return wide * (c.G * k + (c.G - 1) / 2) + 0.4 * wide


def _square(ax, x, y, width, height, fill, hatch, text) -> None:
    ax.add_patch(Rectangle((x, y), width, height, facecolor=fill, hatch=hatch, edgecolor=INK, linewidth=0.9))
    paper = {"facecolor": "#fff", "edgecolor": "none", "pad": 0.5} if hatch else None
    ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=8, bbox=paper)
