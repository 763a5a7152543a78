"""Prefill and decode, and page tables: where the pages of each sequence lie in memory."""

from collections.abc import Mapping, Sequence

from matplotlib import rc_context
from matplotlib.patches import ConnectionPatch, Rectangle

from helpers.plot.picture import COLOURS, DASHES, INK, STYLE, Picture, canvas

FILLS = tuple(COLOURS[i] for i in (4, 5, 2, 3, 0, 1))


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
    with rc_context(STYLE):
        figure, ax = canvas(7.6, 0.5 + 0.3 * tall)
        table_x = size * place + 0.25
        memory_x = table_x + 3.1
        y = 0.0
        for i, name in enumerate(names):
            ax.text(0, y + 0.72, f"sequence {name}", fontsize=8, va="center")
            ax.text(table_x + 0.35, y + 0.72, "table", fontsize=7, ha="center", va="center", color="#555")
            for j, page in enumerate(tables[name]):
                y += 1
                tokens = texts[name][j * size : (j + 1) * size]
                owner = held[page][0] if page in held else i
                if len(tokens) >= len(held.get(page, (0, ()))[1]):
                    held[page] = (owner, tokens)
                _places(ax, 0, y, size, place, tokens, owner)
                _cell(ax, table_x, y, str(page))
                arrow = dict(
                    arrowstyle="-|>", color=FILLS[i % 6], linewidth=1.2, linestyle=DASHES[i % 6], shrinkA=0, shrinkB=1
                )
                ends = (table_x + 0.7, y + 0.5), (memory_x, page * tall / pages + 0.5)
                ax.add_patch(ConnectionPatch(*ends, "data", **arrow))
            y += 1
        for page in range(pages):
            y, users = page * tall / pages, sum(page in table for table in tables.values())
            owner, tokens = held.get(page, (0, ()))
            _places(ax, memory_x, y, size, place, tokens, owner)
            said = f"page {page}: {f'count {users}' if users else 'free'}"
            ax.text(
                memory_x + size * place + 0.12,
                y + 0.5,
                said,
                fontsize=7,
                va="center",
                color=INK if users else "#777",
            )
        ax.set(xlim=(-0.05, memory_x + size * place + 1.6), ylim=(tall + 0.2, -0.1))
        ax.axis("off")
    return Picture(figure, alt, caption)


def _places(ax, x: float, y: float, size: int, width: float, tokens: Sequence, owner: int) -> None:
    """A page: a box for each place, filled and with its token where it has one."""
    for k in range(size):
        fill = dict(facecolor="#fff")
        if k < len(tokens):
            fill = dict(facecolor=FILLS[owner % 6], alpha=0.45)
            ax.text(x + (k + 0.5) * width, y + 0.5, str(tokens[k]), fontsize=7, ha="center", va="center", zorder=4)
        ax.add_patch(Rectangle((x + k * width, y + 0.1), width, 0.8, edgecolor="#777", linewidth=0.5, **fill))
    ax.add_patch(Rectangle((x, y + 0.1), size * width, 0.8, facecolor="none", edgecolor=INK, linewidth=1.2))


def _cell(ax, x: float, y: float, text: str) -> None:
    ax.add_patch(Rectangle((x, y + 0.1), 0.7, 0.8, facecolor="#eee", edgecolor=INK, linewidth=0.8))
    ax.text(x + 0.35, y + 0.5, text, fontsize=8, ha="center", va="center")


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
