"""Serving: latency against throughput, who had the chips when, ragged caches, drafts, a tree of prefixes as it grows."""

from collections.abc import Iterable, Mapping, Sequence

from matplotlib.ticker import LogLocator

from helpers.costs.inference.speculative_decoding import acceptance
from helpers.plot.picture import (
    COLOURS,
    DASHES,
    INK,
    MARKERS,
    PAPER,
    Picture,
    bare,
    box,
    canvas,
    dress,
    legend,
    name_rows,
    panes,
    styled,
    write,
)

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


@styled
def tradeoff(curves: Mapping, xlabel: str, ylabel: str, alt: str, *, caption: str = "") -> Picture:
    """Curves of which a third quantity runs along: each point carries its text, such as the batch; both axes on a log scale.

    curves  {label: (xs, ys, texts)}; an empty text leaves the point without one
    """
    figure, ax = canvas(6.2, 4.2)
    leftmost = min((min(xs) for xs, _, _ in curves.values() if len(xs)), default=0)
    for i, (label, (xs, ys, texts)) in enumerate(curves.items()):
        if not len(xs) == len(ys) == len(texts):
            raise ValueError(f"{label}: every point has an x, a y and a text, not {len(xs)}, {len(ys)}, {len(texts)}")
        ax.plot(xs, ys, label=label, color=COLOURS[i % 6], linestyle=DASHES[i % 6], marker=MARKERS[i % 6], markersize=5)
        for x, y, text in zip(xs, ys, texts):
            left = i % 2 and x > leftmost  # a text to the left of the leftmost point would lie on the axis
            place = (-6, 4) if left else (0, -18) if i % 2 else (5, -9)
            ax.annotate(
                text, (x, y), xytext=place, textcoords="offset points", ha="right" if left else "left",
                fontsize=7, color="#333",
            )  # fmt: skip
    dress(ax, xlabel, ylabel, "xy")
    for axis in (ax.xaxis, ax.yaxis):  # plain numbers: such curves span a decade or two
        axis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
        axis.set_major_formatter(lambda x, _: f"{x:,g}")
        axis.set_minor_formatter("")
    figure.legend(loc="outside lower center", ncols=3)
    return Picture(figure, alt, caption)


@styled
def served(panels: Mapping, xlabel: str, alt: str, *, caption: str = "") -> Picture:
    """One panel for each design: a row for each server and slot, bars for what it did, and in each the request's name.

    panels  {title: [(lane, start, end, kind, text), …]}, kinds as in `costs.inference.serving_log.Span`; all panels have one time axis
    """
    lanes = {title: sorted({lane for lane, *_ in bars}) for title, bars in panels.items()}
    span = max(end for bars in panels.values() for _, _, end, *_ in bars)
    kinds = {kind for bars in panels.values() for *_, kind, _ in bars}
    figure, axes = panes(len(panels), 8.0, 0.7 + sum(0.5 + 0.24 * len(rows) for rows in lanes.values()))
    for ax, (title, bars) in zip(axes, panels.items()):
        for lane, start, end, kind, text in bars:
            fill, ink = SPANS[kind]
            y = lanes[title].index(lane)
            box(ax, start, y + 0.06, end - start, 0.88, fill=fill, linewidth=0.5)
            if (end - start) / span > 0.012 * max(1, len(text)):
                write(ax, (start + end) / 2, y + 0.5, text, 6, color=ink)
        name_rows(ax, lanes[title], 0.5, title=title, xlim=(0, span * 1.01), ylim=(len(lanes[title]), 0))
        ax.grid(visible=False)
    axes[-1].set_xlabel(xlabel)
    legend(figure, {kind: fill for kind, (fill, _) in SPANS.items() if kind in kinds}, 4)
    return Picture(figure, alt, caption)


@styled
def trees(frames: Mapping, alt: str, *, caption: str = "") -> Picture:
    """A tree of prefixes after each of several prompts, side by side: what the prompt found, what it added, what made room.

    frames  {title: {path: kind}}: a path is a tuple of blocks from the root on, and each is "known" (found by this prompt),
            "read now", "there before" or "let go"; the text of a box is the last block of its path
    """
    laid = {title: _rows(paths) for title, paths in frames.items()}
    deep = max(len(path) for paths in frames.values() for path in paths)
    tall = max(row for rows in laid.values() for row in rows.values()) + 1
    down = -(-len(frames) // 2)
    columns = min(2, len(frames))
    figure, axes = panes(len(frames), 1.15 * deep * columns, down * (0.5 + 0.42 * tall) + 0.4, columns)
    for ax, (title, paths) in zip(axes, frames.items()):
        rows = laid[title]
        for path, kind in paths.items():
            fill, ink, edge = BLOCKS[kind]
            x, y = len(path) - 1, rows[path]
            if len(path) > 1:
                ax.plot([x - 0.18, x + 0.02], [rows[path[:-1]], y], color="#777", linewidth=0.8)
            box(ax, x + 0.02, y - 0.32, 0.8, 0.64, fill=fill, linewidth=0.8, linestyle=edge, zorder=3)
            write(ax, x + 0.42, y, str(path[-1]), 7, color=ink, zorder=4)
        bare(ax, title=title, xlim=(-0.05, deep - 0.1), ylim=(tall - 0.5, -0.5))
    met = {kind for paths in frames.values() for kind in paths.values()}
    looks = {kind: {"facecolor": fill, "linestyle": edge} for kind, (fill, _, edge) in BLOCKS.items() if kind in met}
    legend(figure, looks, 4)
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


KINDS = {
    "text": ("#eee", ""), "draft": (COLOURS[5], ""), "own": (COLOURS[4], ""), "kept": (COLOURS[2] + "48", ""),
    "refused": ("#fff", "xx"), "unused": ("#fff", ""),
}  # fmt: skip


@styled
def speculation(
    rounds: Mapping[str, tuple[Sequence[str], Sequence[str]]], before: Sequence[str], alt: str, *, caption: str = ""
) -> Picture:
    """For each round three rows: what is drafted, what one pass of the model says in these places, and what stays.

    rounds  {title: (γ drafted tokens, γ + 1 of the model's own, each after the drafts before it)}
    before  the last tokens of the text
    """
    figure, axes = panes(len(rounds), 5.2, 0.3 + 1.45 * len(rounds))
    for ax, (title, (drafted, own)) in zip(axes, rounds.items()):
        right = next((i for i, (d, o) in enumerate(zip(drafted, own)) if d != o), len(drafted))
        start = len(before)
        for x, token in enumerate(before):
            _token(ax, x, 0, token, "text")
            _token(ax, x, 2, token, "text")
        for x, token in enumerate(drafted):
            _token(ax, start + x, 0, token, "draft" if x < right else "refused" if x == right else "unused")
        for x, token in enumerate(own):
            _token(ax, start + x, 1, token, "own" if x <= right else "unused")
        for x, token in enumerate(own[: right + 1]):
            _token(ax, start + x, 2, token, "kept" if x < right else "own")
        for y, text in enumerate(("drafted", "one pass", "result")):
            ax.text(-0.15, y + 0.5, text, ha="right", va="center", fontsize=8)
        ax.set_title(f"{title}: {right} of {len(drafted)} drafts stay, {right + 1} tokens")
        bare(ax, xlim=(-1.3, start + max(len(o) for _, o in rounds.values())), ylim=(3.02, -0.02))
    names = {"the model's own": "own", "draft": "draft", "accepted": "kept", "refused": "refused", "not used": "unused"}
    legend(figure, {name: KINDS[kind] for name, kind in names.items()}, 5, fontsize=7.5, columnspacing=1)
    return Picture(figure, alt, caption)


def _token(ax, x: int, y: int, text: str, kind: str) -> None:
    fill, hatch = KINDS[kind]
    faint = kind == "unused"
    edge = {"edgecolor": "#999", "linestyle": ":"} if faint else {}
    box(ax, x + 0.03, y + 0.1, 0.94, 0.8, fill=fill, hatch=hatch, linewidth=0.9, **edge)
    write(ax, x + 0.5, y + 0.5, text, color="#666" if faint else INK, bbox=PAPER if hatch else None)


@styled
def accepted(p: Sequence[float], q: Sequence[float], tokens: Sequence[str], alt: str, *, caption: str = "") -> Picture:
    """Bars of a model's distribution p and a draft model's q over some tokens: their overlap is accepted, the excess of p drawn again."""
    both = [min(a, b) for a, b in zip(p, q)]
    places = range(len(tokens))
    figure, ax = canvas(5.2, 2.9)
    ax.bar(places, both, 0.62, color=COLOURS[2] + "a0", edgecolor=INK, label="min(p, q): drafted and accepted")
    ax.bar(places, [a - m for a, m in zip(p, both)], 0.62, bottom=both, color=COLOURS[4], hatch="//", edgecolor=INK,
           label="p − q: drawn when a draft is refused")  # fmt: skip
    ax.bar(places, [b - m for b, m in zip(q, both)], 0.62, bottom=both, color="#fff", linestyle="--", edgecolor=INK,
           label="q − p: drafted and refused")  # fmt: skip
    ax.set_xticks(list(places), list(tokens))
    ax.set_ylabel("probability")
    ax.set_title(f"a draft is accepted with probability {acceptance(list(p), list(q)):.2f}")
    ax.grid(axis="x", visible=False)
    figure.legend(loc="outside lower center", ncols=1)
    return Picture(figure, alt, caption)


HOLE = {"facecolor": "#fff", "edgecolor": "#bbb", "hatch": "////"}


@styled
def ragged(lengths: Sequence[int], block: int, alt: str, *, caption: str = "") -> Picture:
    """Caches of a batch, one below the other: tokens that are there, what a kernel reads in whole blocks, and padding."""
    longest = max(lengths)
    blocks = [-(-n // block) for n in lengths]
    figure, ax = canvas(5.2, 0.75 + 0.34 * len(lengths))
    for y, (n, count) in enumerate(zip(lengths, blocks)):
        box(ax, 0, y + 0.1, longest, 0.8, linewidth=0.8, **HOLE)
        box(ax, 0, y + 0.1, n, 0.8, fill=COLOURS[4], edgecolor="none")
        for k in range(count):
            box(ax, k * block, y + 0.1, block, 0.8, fill="none", linewidth=1.1)
        ax.text(-0.6, y + 0.5, f"{n} tokens", ha="right", va="center", fontsize=8)
        ax.text(longest + 0.6, y + 0.5, f"{count} blocks" if count > 1 else "1 block", va="center", fontsize=8)
    bare(ax, xlim=(-9, longest + 8), ylim=(len(lengths), 0))
    legend(figure, {f"read, in blocks of {block}": COLOURS[4], "read only by a padded kernel": HOLE}, 2)
    return Picture(figure, alt, caption)
