"""Experts: two meshes on the same chips, copies of a token on their way, and how unevenly tokens fall."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from matplotlib.patches import FancyBboxPatch

from helpers.plot.picture import COLOURS, DASHES, INK, Picture, arrow, bare, box, canvas, dress, panes, styled, write

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


@styled
def token_copies(
    hosts: int, g: int, home: Chip, chosen: Sequence[Chip], alt: str, *, ways: Sequence[str] = WAYS, caption: str = ""
) -> Picture:
    """A panel for each way: hosts of g chips, the token at home, its experts as rings, an arrow for each copy."""
    figure, axes = panes(len(ways), 6.4, 1.75 * len(ways))
    for ax, way in zip(axes, ways):
        sent = copies(home, chosen, way)
        far = sum(map(crosses, sent))
        ax.set_title(f"a copy for each {way}: {far} over the card, {len(sent) - far} over NVLink")
        for host in range(hosts):
            x = host * (g + 0.8)
            box(ax, x - 0.5, -0.45, g, 1.35, fill=None, edgecolor="#888", linestyle="--")
            ax.text(x - 0.4, 0.93, f"host {host}", fontsize=8, va="bottom")
            for i in range(g):
                many, own = list(chosen).count((host, i)), (host, i) == home
                fill = LINK if own else COLOURS[5] + "70" if many else "#fff"
                box(ax, x + i - 0.4, -0.3, 0.8, 0.6, fill=fill, zorder=3)
                write(ax, x + i, 0, "token" if own else f"{many or ''}", 7, color="#fff" if own else INK, zorder=4)
        for n, (a, b) in enumerate(sent):
            start, end = (c[0] * (g + 0.8) + c[1] for c in (a, b))
            again = sum(x == (a, b) for x in sent[:n])  # copies to the same chip lie side by side
            y, deep, colour = (-0.32, 0.3 + 0.25 * again, CARD) if crosses((a, b)) else (0.32, -0.2 - 0.2 * again, LINK)
            look = {"color": colour, "zorder": 2, "connectionstyle": f"arc3,rad={_bow(end - start, deep)}"}
            arrow(ax, (start, y), (end, y), head=8, width=1.3, **look)
        bare(ax, xlim=(-0.7, hosts * (g + 0.8) - 0.3), ylim=(-2.0, 1.5))
    return Picture(figure, alt, caption)


def _bow(distance: float, depth: float) -> float:
    """How strongly an arrow is bent: by `depth`, and a little more the farther it goes, below its ends if positive."""
    return (2 * depth + (0.14 if depth > 0 else -0.14) * distance) / distance


@styled
def expert_loads(runs: Mapping[str, np.ndarray], alt: str, *, level: float | None = None, caption: str = "") -> Picture:
    """A panel for each run: from the least to the most chosen expert as a band, the most chosen one as a line, over the steps.

    runs   {title: tokens[steps, experts]}; loads are drawn over their mean
    level  what the most chosen expert would have by chance alone
    """
    figure, axes = panes(len(runs), 2.6 * len(runs) + 0.4, 2.9, len(runs))
    loads = {title: np.asarray(run) / np.mean(run, axis=1, keepdims=True) for title, run in runs.items()}
    highest = max(run.max() for run in loads.values())
    for n, (ax, (title, run)) in enumerate(zip(axes, loads.items())):
        steps = np.arange(len(run))
        ax.fill_between(steps, run.min(1), run.max(1), color=COLOURS[n] + "40", linewidth=0)
        ax.plot(steps, run.max(1), color=COLOURS[n], label="most chosen")
        ax.plot(steps, run.min(1), color=COLOURS[n], linewidth=1, linestyle=DASHES[1], label="least chosen")
        if level is not None:
            ax.axhline(level, color=INK, linewidth=1, linestyle=DASHES[3], label="by chance alone")
        dress(ax, "step", "tokens of an expert / mean" if n == 0 else "", "")
        ax.set(title=title, ylim=(0, 1.05 * highest))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return Picture(figure, alt, caption)


FILLS = (*(colour + "50" for colour in COLOURS), "#dddddd", "#ffffff")
"""One for each place along an axis of eight at most."""
Axes = tuple[tuple[str, int], ...]


def coordinates(chip: int, axes: Axes) -> tuple[int, ...]:
    """Where a chip stands along each axis of a mesh, the last axis counting fastest.

    >>> coordinates(6, (("dp", 2), ("tp", 4))), coordinates(6, (("edp", 1), ("ep", 8)))
    ((1, 2), (0, 6))
    """
    found = []
    for _, n in reversed(axes):
        chip, place = divmod(chip, n)
        found.append(place)
    return tuple(reversed(found))


@styled
def two_meshes(meshes: Mapping[str, tuple[Axes, str]], alt: str, *, caption: str = "") -> Picture:
    """Rows of the same chips under several meshes; a dashed frame joins chips that exchange along the last axis.

    meshes  {title: ((axis, size), …) from the outermost axis to the innermost, and what the chips of a frame send}
    """
    if not meshes or len({prod(n for _, n in axes) for axes, _ in meshes.values()}) > 1:
        raise ValueError("meshes of the same chips are drawn: give at least one, and the same product of sizes in each")
    chips = prod(n for _, n in next(iter(meshes.values()))[0])
    figure, ax = canvas(6.8, 0.5 + 1.05 * len(meshes))
    for row, (title, (axes, sent)) in enumerate(meshes.items()):
        y, inner = -1.95 * row, axes[-1][1]
        ax.text(-0.02, y + 1.22, f"{title}: {sent}", ha="left", va="bottom", fontsize=8.5)
        for chip in range(chips):
            at = coordinates(chip, axes)
            text = "\n".join(f"{name} {i}" for (name, n), i in zip(axes, at) if n > 1)
            box(ax, chip + 0.08, y + 0.16, 0.84, 0.84, text, FILLS[at[-1] % len(FILLS)])
        for start in range(0, chips, inner):
            look = {"boxstyle": "round,pad=0.02", "fill": False, "edgecolor": INK, "linestyle": "--", "linewidth": 1.1}
            ax.add_patch(FancyBboxPatch((start + 0.05, y + 0.08), inner - 0.1, 1.0, **look))
    for chip in range(chips):
        ax.text(chip + 0.5, -1.95 * (len(meshes) - 1) - 0.12, f"chip {chip}", ha="center", va="top", fontsize=8)
    bare(ax, xlim=(-0.1, chips + 0.1), ylim=(-1.95 * (len(meshes) - 1) - 0.5, 1.65))
    return Picture(figure, alt, caption)
