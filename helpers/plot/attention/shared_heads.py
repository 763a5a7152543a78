"""Which query heads use which KV head, for MHA, GQA and MQA."""

from collections.abc import Sequence

from matplotlib import rc_context
from matplotlib.patches import Rectangle

from helpers.plot.picture import COLOURS, INK, STYLE, Picture, canvas


def kv_head(n: int, N: int, K: int) -> int:
    """The KV head that query head n of N uses.

    >>> [kv_head(n, 8, 2) for n in range(8)]
    [0, 0, 0, 0, 1, 1, 1, 1]
    """
    if N % K:
        raise ValueError(f"{N} query heads do not group over {K} KV heads: make N a multiple of K")
    return n // (N // K)


def shared_heads(N: int, Ks: Sequence[int], alt: str, *, caption: str = "") -> Picture:
    """A row for each number of KV heads: query heads above, keys and values below, a line from each to the head that it uses."""
    with rc_context(STYLE):
        figure, axes = canvas(5.2, 1.45 * len(Ks), len(Ks))
        for ax, K in zip(axes, Ks):
            for n in range(N):
                k = kv_head(n, N, K)
                ax.plot([n + 0.4, _middle(k, N, K)], [2.1, 1.0], color=INK, linewidth=1)
                ax.add_patch(Rectangle((n, 2.1), 0.8, 0.7, facecolor=COLOURS[5] + "80", edgecolor=INK))
                ax.text(n + 0.4, 2.45, f"$q_{n}$", ha="center", va="center", fontsize=9)
            for k in range(K):
                ax.add_patch(
                    Rectangle((_middle(k, N, K) - 0.48, 0.2), 0.96, 0.8, facecolor=COLOURS[0] + "60", edgecolor=INK)
                )
                ax.text(_middle(k, N, K), 0.6, f"$k_{k}, v_{k}$", ha="center", va="center", fontsize=8)
            name = "MHA" if K == N else "MQA" if K == 1 else "GQA"
            ax.set_title(f"{name}: $N$ = {N}, $K$ = {K}, $G$ = {N // K}", loc="left", fontsize=10)
            ax.set(xlim=(-0.2, N + 0.1), ylim=(0.1, 2.9))
            ax.set_axis_off()
    return Picture(figure, alt, caption)


def _middle(k: int, N: int, K: int) -> float:
    """Under the middle of its query heads."""
    G = N // K
    return k * G + (G - 1) / 2 + 0.4
