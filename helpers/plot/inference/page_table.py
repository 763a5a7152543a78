"""Prefill and decode, and page tables: where the pages of each sequence lie in memory."""

from collections.abc import Mapping, Sequence

from matplotlib.patches import ConnectionPatch

from helpers.plot.picture import COLOURS, DASHES, INK, Picture, bare, box, canvas, legend, styled, write

FILLS = tuple(COLOURS[i] for i in (4, 5, 2, 3, 0, 1))


@styled
def page_table(tables: Mapping, texts: Mapping, pages: int, size: int, alt: str, *, caption: str = "") -> Picture:
    """Sequences on the left, cut into pages; the table of each beside it; arrows to the pages in memory on the right.

    tables  {name: [page, …]} of each sequence, in order
    texts   {name: [token, …]}: a place for each, in the sequence and in memory
    pages   pages of memory, of `size` tokens each; how many tables a page stands in is written beside it
    """
    names, place = list(tables), 0.8
    held: dict[int, tuple[int, Sequence]] = {}  # of a page: whose colour, and its tokens
    rows = sum(map(len, tables.values())) + len(names)
    tall = max(rows, pages)
    figure, ax = canvas(7.6, 0.5 + 0.3 * tall)
    table_x = size * place + 0.25
    memory_x = table_x + 3.1
    y = 0.0
    for i, name in enumerate(names):
        ax.text(0, y + 0.72, f"sequence {name}", fontsize=8, va="center")
        write(ax, table_x + 0.35, y + 0.72, "table", 7, color="#555")
        for j, page in enumerate(tables[name]):
            y += 1
            tokens = texts[name][j * size : (j + 1) * size]
            owner = held[page][0] if page in held else i
            if len(tokens) >= len(held.get(page, (0, ()))[1]):
                held[page] = (owner, tokens)
            _places(ax, 0, y, size, place, tokens, owner)
            box(ax, table_x, y + 0.1, 0.7, 0.8, str(page), "#eee", linewidth=0.8)
            look = {"color": FILLS[i % 6], "linewidth": 1.2, "linestyle": DASHES[i % 6], "shrinkA": 0, "shrinkB": 1}
            ends = (table_x + 0.7, y + 0.5), (memory_x, page * tall / pages + 0.5)
            ax.add_patch(ConnectionPatch(*ends, "data", arrowstyle="-|>", **look))
        y += 1
    for page in range(pages):
        y, users = page * tall / pages, sum(page in table for table in tables.values())
        owner, tokens = held.get(page, (0, ()))
        _places(ax, memory_x, y, size, place, tokens, owner)
        said = f"page {page}: {f'count {users}' if users else 'free'}"
        write(ax, memory_x + size * place + 0.12, y + 0.5, said, 7, ha="left", color=INK if users else "#777")
    bare(ax, xlim=(-0.05, memory_x + size * place + 1.6), ylim=(tall + 0.2, -0.1))
    return Picture(figure, alt, caption)


def _places(ax, x: float, y: float, size: int, width: float, tokens: Sequence, owner: int) -> None:
    """A page: a box for each place, filled and with its token where it has one."""
    for k in range(size):
        look = {}
        if k < len(tokens):
            look = {"facecolor": FILLS[owner % 6], "alpha": 0.45}
            write(ax, x + (k + 0.5) * width, y + 0.5, str(tokens[k]), 7, zorder=4)
        box(ax, x + k * width, y + 0.1, width, 0.8, edgecolor="#777", linewidth=0.5, **look)
    box(ax, x, y + 0.1, size * width, 0.8, fill="none", linewidth=1.2)


NEW, CACHED = (COLOURS[1] + "80", ""), (COLOURS[0] + "80", "//")


@styled
def prefill_and_decode(prompt: int, steps: int, alt: str, *, caption: str = "") -> Picture:
    """Above, the scores of each forward pass as squares, queries down and keys across; below, the cache after it.

    prompt  tokens of the prompt
    steps   decode steps that follow
    """
    passes = [prompt, *[1] * steps]
    figure, ax = canvas(5.2, 2.9)
    x = 0.0
    for i, new in enumerate(passes):
        total = prompt + i
        _pass(ax, x, new, total, "prefill" if i == 0 else f"decode {i}")
        x += total + 1.5
    ax.text(-0.4, -2.45, "cache", ha="right", va="center", fontsize=8)
    ax.text(-0.4, prompt / 2, "$T$ queries", ha="right", va="center", fontsize=8)
    bare(ax, xlim=(-4.2, x - 1), ylim=(-3.1, prompt + 2.4), aspect="equal")
    legend(figure, {"computed in this pass": NEW, "read from the cache": CACHED}, 2)
    return Picture(figure, alt, caption)


def _pass(ax, x: float, new: int, total: int, title: str) -> None:
    """Scores of `new` queries over `total` keys, and the cache of keys and values that they leave."""
    for q in range(new):
        for k in range(total - new + q + 1):
            fill, hatch = NEW if k >= total - new else CACHED
            box(ax, x + k, new - 1 - q, 1, 1, fill=fill, hatch=hatch, linewidth=0.7)
    box(ax, x, 0, total, new, fill=None)
    ax.text(x + total / 2, new + 0.3, f"{title}\n$S$ = {total} keys", ha="center", va="bottom", fontsize=8)
    for k in range(total):
        fill, hatch = NEW if k >= total - new else CACHED
        box(ax, x + k, -3, 1, 1.1, fill=fill, hatch=hatch, linewidth=0.7)
