"""Copies of a token on their way to its experts: one for each expert, for each device, or for each host."""

from collections.abc import Sequence

from matplotlib import rc_context
from matplotlib.patches import FancyArrowPatch, Rectangle

from helpers.plot.picture import COLOURS, INK, STYLE, Picture, canvas

LINK, CARD = COLOURS[0], COLOURS[1]
WAYS = ("expert", "device", "host")
Chip = tuple[int, int]
"""Host, and number in it."""


def copies(home: Chip, chosen: Sequence[Chip], way: str) -> list[tuple[Chip, Chip]]:
    """(from, to) of every copy that leaves a chip, those over cards before those that are handed on inside a host.

    chosen  where each of the token's experts lies; the same chip twice for two experts on it
    way     "expert", "device" or "host": what gets a copy of its own; with "host" the chip of the same number hands it on

    >>> copies((0, 0), [(1, 1), (1, 1), (1, 2), (0, 0)], "expert")
    [((0, 0), (1, 1)), ((0, 0), (1, 1)), ((0, 0), (1, 2))]
    >>> copies((0, 0), [(1, 1), (1, 1), (1, 2), (0, 0)], "host")
    [((0, 0), (1, 0)), ((1, 0), (1, 1)), ((1, 0), (1, 2))]
    """
    if way not in WAYS:
        raise ValueError(f"a copy goes to each {', '.join(WAYS[:-1])} or {WAYS[-1]}, not to each {way!r}")
    targets = list(chosen) if way == "expert" else sorted(set(chosen))
    if way == "host":
        entry = {host: (host, home[1]) for host, _ in targets}
        far = [(home, entry[host]) for host in sorted(entry) if host != home[0]]
        return far + [(entry[c[0]], c) for c in targets if c != entry[c[0]]]
    sent = [(home, c) for c in targets if c != home]
    return [x for x in sent if crosses(x)] + [x for x in sent if not crosses(x)]


def crosses(message: tuple[Chip, Chip]) -> bool:
    """Whether a copy goes from one host to another, over network cards."""
    return message[0][0] != message[1][0]


def token_copies(
    hosts: int, g: int, home: Chip, chosen: Sequence[Chip], alt: str, *, ways: Sequence[str] = WAYS, caption: str = ""
) -> Picture:
    """A panel for each way: hosts of g chips, the token at home, its experts as rings, an arrow for each copy."""
    with rc_context(STYLE):
        figure, axes = canvas(6.4, 1.75 * len(ways), len(ways))
        for ax, way in zip([axes] if len(ways) == 1 else axes, ways):
            sent = copies(home, chosen, way)
            far = sum(map(crosses, sent))
            ax.set_title(
                f"a copy for each {way}: {far} over the card, {len(sent) - far} over NVLink", loc="left", fontsize=9
            )
            for host in range(hosts):
                x = host * (g + 0.8)
                ax.add_patch(
                    Rectangle((x - 0.5, -0.45), g, 1.35, fill=False, edgecolor="#888", linestyle="--", linewidth=1)
                )
                ax.text(x - 0.4, 0.93, f"host {host}", fontsize=8, va="bottom")
                for i in range(g):
                    many = list(chosen).count((host, i))
                    fill = LINK if (host, i) == home else COLOURS[5] + "70" if many else "#fff"
                    ax.add_patch(Rectangle((x + i - 0.4, -0.3), 0.8, 0.6, facecolor=fill, edgecolor=INK, zorder=3))
                    text = "token" if (host, i) == home else f"{many}" if many else ""
                    white = "#fff" if (host, i) == home else INK
                    ax.text(x + i, 0, text, ha="center", va="center", fontsize=7, color=white, zorder=4)
            for n, (a, b) in enumerate(sent):
                start, end = (c[0] * (g + 0.8) + c[1] for c in (a, b))
                again = sum(x == (a, b) for x in sent[:n])  # copies to the same chip lie side by side
                y, deep = (-0.32, 0.3 + 0.25 * again) if crosses((a, b)) else (0.32, -0.2 - 0.2 * again)
                ax.add_patch(
                    FancyArrowPatch((start, y), (end, y), arrowstyle="-|>", mutation_scale=8, linewidth=1.3, zorder=2,
                                    color=CARD if crosses((a, b)) else LINK, shrinkA=0, shrinkB=0,
                                    connectionstyle=f"arc3,rad={_bow(end - start, deep)}")
                )  # fmt: skip
            ax.set(xlim=(-0.7, hosts * (g + 0.8) - 0.3), ylim=(-2.0, 1.5))
            ax.set_axis_off()
    return Picture(figure, alt, caption)


def _bow(distance: float, depth: float) -> float:
    """How strongly an arrow is bent: by `depth`, and a little more the farther it goes, below its ends if positive."""
    return (2 * depth + (0.14 if depth > 0 else -0.14) * distance) / distance
