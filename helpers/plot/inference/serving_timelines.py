"""Answering: latency against throughput, who had the chips when, pages in memory, a tree of prefixes as it grows."""

from collections.abc import Iterable, Mapping

import numpy as np
from matplotlib import rc_context
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import LogLocator

from helpers.plot.picture import COLOURS, DASHES, INK, MARKERS, STYLE, Picture, canvas, dress

# What a server does: fill and text, from dark to light, so that they differ in grey, too.
SPANS = {
    "prefill": (COLOURS[0], "#fff"),
    "mixed": (COLOURS[2], "#fff"),
    "generate": (COLOURS[4], INK),
    "transfer": ("#f4f4f4", INK),
}
# What became of a block of the tree with this prompt: fill, text and edge.
BLOCKS = {
    "known": (COLOURS[0], "#fff", "-"),
    "read now": (COLOURS[5], INK, "-"),
    "there before": ("#eee", INK, "-"),
    "let go": ("#fff", "#777", ":"),
}
HATCHES = ("", "///", "---", "xxx", "\\\\\\", "++")  # no dots: the file of a drawing holds the curves of each


def tradeoff(
    curves: Mapping, xlabel: str, ylabel: str, alt: str, *, marks: Mapping | None = None, caption: str = ""
) -> Picture:
    """Curves of which a third quantity runs along: each point carries its text, such as the batch; both axes on a log scale.

    curves  {label: (xs, ys, texts)}; an empty text leaves the point without one
    marks   {label: x} vertical lines, such as a latency that has to be kept
    """
    with rc_context(STYLE):
        figure, ax = canvas(6.2, 4.2)
        leftmost = min((min(xs) for xs, _, _ in curves.values() if len(xs)), default=0)
        for i, (label, (xs, ys, texts)) in enumerate(curves.items()):
            if not len(xs) == len(ys) == len(texts):
                raise ValueError(
                    f"{label}: every point has an x, a y and a text, not {len(xs)}, {len(ys)}, {len(texts)}"
                )
            ax.plot(
                xs, ys, label=label, color=COLOURS[i % 6], linestyle=DASHES[i % 6], marker=MARKERS[i % 6], markersize=5
            )
            for x, y, text in zip(xs, ys, texts):
                left = i % 2 and x > leftmost  # a text to the left of the leftmost point would lie on the axis
                place = (-6, 4) if left else (0, -18) if i % 2 else (5, -9)
                ax.annotate(
                    text, (x, y), xytext=place, textcoords="offset points", ha="right" if left else "left",
                    fontsize=7, color="#333",
                )  # fmt: skip
        for label, at in (marks or {}).items():
            ax.axvline(at, color="#555", linewidth=1, linestyle=":")
            ax.annotate(
                label, (at, 0.02), xycoords=("data", "axes fraction"), xytext=(-2, 0), textcoords="offset points",
                rotation=90, ha="right", va="bottom", fontsize=8, color="#333",
            )  # fmt: skip
        dress(ax, xlabel, ylabel, "xy")
        for axis in (ax.xaxis, ax.yaxis):  # plain numbers: such curves span a decade or two
            axis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
            axis.set_major_formatter(lambda x, _: f"{x:,g}")
            axis.set_minor_formatter("")
        figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    return Picture(figure, alt, caption)


def served(panels: Mapping, xlabel: str, alt: str, *, caption: str = "") -> Picture:
    """One panel for each design: a row for each server and slot, bars for what it did, and in each the request's name.

    panels  {title: [(lane, start, end, kind, text), …]}, kinds as in `costs.inference.serving_log.Span`; all panels have one time axis
    """
    lanes = {title: sorted({lane for lane, *_ in bars}) for title, bars in panels.items()}
    span = max(end for bars in panels.values() for _, _, end, *_ in bars)
    kinds = {kind for bars in panels.values() for *_, kind, _ in bars}
    if strange := sorted(kinds - set(SPANS)):
        raise ValueError(f"a bar is one of {', '.join(SPANS)}, not {', '.join(strange)}")
    with rc_context(STYLE):
        figure, axes = canvas(8.0, 0.7 + sum(0.5 + 0.24 * len(rows) for rows in lanes.values()), len(panels))
        for ax, (title, bars) in zip(np.atleast_1d(axes), panels.items()):
            for lane, start, end, kind, text in bars:
                fill, ink = SPANS[kind]
                y = lanes[title].index(lane)
                ax.add_patch(
                    Rectangle((start, y + 0.06), end - start, 0.88, facecolor=fill, edgecolor=INK, linewidth=0.5)
                )
                if (end - start) / span > 0.012 * max(1, len(text)):
                    ax.text((start + end) / 2, y + 0.5, text, ha="center", va="center", fontsize=6, color=ink)
            ax.set(xlim=(0, span * 1.01), ylim=(len(lanes[title]), 0), yticks=np.arange(len(lanes[title])) + 0.5)
            ax.set_yticklabels(lanes[title], fontsize=7)
            ax.set_title(title, fontsize=9, loc="left")
            ax.tick_params(labelsize=8)
            ax.grid(visible=False)
        np.atleast_1d(axes)[-1].set_xlabel(xlabel)
        shown = [Patch(facecolor=SPANS[k][0], edgecolor=INK, label=k) for k in SPANS if k in kinds]
        figure.legend(handles=shown, loc="outside lower center", ncols=4, fontsize=8)
    return Picture(figure, alt, caption)


def pages(moments: Mapping, alt: str, *, caption: str = "") -> Picture:
    """A pool of pages at several moments, one above the other: in each page its number and whose it is, a place for each token.

    moments  {title: Blocks}, an allocator of `kernels.inference.paged_kv_cache` as it is, or a copy of it as it was
    """
    names = list(dict.fromkeys(name for b in moments.values() for name in b.names()))
    across = max(b.pages for b in moments.values())
    with rc_context(STYLE):
        figure, axes = canvas(0.4 + 0.72 * across, 0.4 + 1.0 * len(moments), len(moments))
        for ax, (title, b) in zip(np.atleast_1d(axes), moments.items()):
            for page in range(b.pages):
                owners = [n for n in b.names() if page in b.table(n)]
                used = max((min(b.size, b.length(n) - b.size * b.table(n).index(page)) for n in owners), default=0)
                _page(ax, page, b.size, used, owners, names)
            ax.set(xlim=(-0.02, across + 0.02), ylim=(-0.42, 1.1))
            ax.set_title(f"{title}: {b.available} of {b.pages} free", fontsize=9, loc="left", pad=2)
            ax.axis("off")
    return Picture(figure, alt, caption)


def _page(ax, page: int, size: int, used: int, owners: list, names: list) -> None:
    """A box of `size` places, the used ones filled in the colour and hatch of the first owner; its owners stand below."""
    for place in range(size):
        fill = dict(facecolor="#fff")
        if place < used:
            i = names.index(owners[0]) % 6
            fill = dict(facecolor=COLOURS[(4, 5, 2, 3, 0, 1)[i]], hatch=HATCHES[i], alpha=0.6)
        at = (page + 0.04 + 0.92 * place / size, 0.3)
        ax.add_patch(Rectangle(at, 0.92 / size, 0.75, edgecolor="#555", linewidth=0.5, **fill))
    edge = dict(facecolor="none", edgecolor=INK, linewidth=1.2 + 1.3 * (len(owners) > 1))
    ax.add_patch(Rectangle((page + 0.04, 0.3), 0.92, 0.75, **edge))
    said = f"{page}: {', '.join(map(str, owners)) or 'free'}"
    ax.text(page + 0.5, 0.22, said, ha="center", va="top", fontsize=7, color=INK if owners else "#666")


def trees(frames: Mapping, alt: str, *, caption: str = "") -> Picture:
    """A tree of prefixes after each of several prompts, side by side: what the prompt found, what it added, what made room.

    frames  {title: {path: kind}}: a path is a tuple of blocks from the root on, and each is "known" (found by this prompt),
            "read now", "there before" or "let go"; the text of a box is the last block of its path
    """
    laid = {title: _rows(paths) for title, paths in frames.items()}
    deep = max(len(path) for paths in frames.values() for path in paths)
    tall = max(row for rows in laid.values() for row in rows.values()) + 1
    down = -(-len(frames) // 2)
    with rc_context(STYLE):
        figure, axes = canvas(
            1.15 * deep * min(2, len(frames)), down * (0.5 + 0.42 * tall) + 0.4, down, min(2, len(frames))
        )
        flat = np.ravel(axes)
        for ax in flat[len(frames) :]:
            ax.remove()
        for ax, (title, paths) in zip(flat, frames.items()):
            rows = laid[title]
            for path, kind in paths.items():
                fill, ink, edge = BLOCKS[kind]
                x, y = len(path) - 1, rows[path]
                if len(path) > 1:
                    ax.plot([x - 0.18, x + 0.02], [rows[path[:-1]], y], color="#777", linewidth=0.8)
                box = dict(facecolor=fill, edgecolor=INK, linewidth=0.8, linestyle=edge)
                ax.add_patch(Rectangle((x + 0.02, y - 0.32), 0.8, 0.64, zorder=3, **box))
                ax.text(x + 0.42, y, str(path[-1]), ha="center", va="center", fontsize=7, color=ink, zorder=4)
            ax.set(xlim=(-0.05, deep - 0.1), ylim=(tall - 0.5, -0.5))
            ax.set_title(title, fontsize=9, loc="left")
            ax.axis("off")
        met = {kind for paths in frames.values() for kind in paths.values()}
        shown = [
            Patch(facecolor=fill, edgecolor=INK, linestyle=edge, label=kind)
            for kind, (fill, _, edge) in BLOCKS.items()
            if kind in met
        ]
        figure.legend(handles=shown, loc="outside lower center", ncols=4, fontsize=8)
    return Picture(figure, alt, caption)


def _rows(paths: Iterable[tuple]) -> dict[tuple, float]:
    """A row for each path: leaves one below the other, a parent in the middle of its children."""
    rows, leaves = {}, 0
    for path in sorted(paths, key=lambda p: [str(b) for b in p]):
        if not any(other[: len(path)] == path and other != path for other in paths):
            rows[path], leaves = float(leaves), leaves + 1
    for path in sorted(paths, key=len, reverse=True):
        if path not in rows:
            below = [rows[p] for p in paths if len(p) == len(path) + 1 and p[:-1] == path]
            rows[path] = (min(below) + max(below)) / 2
    return rows
