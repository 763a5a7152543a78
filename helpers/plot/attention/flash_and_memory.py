"""Attention and its two memories: kernels that write in between, Flash's blocks forward and backward, what is kept, blocks on cores."""

from helpers.costs.attention.io_complexity import warp_floats
from helpers.plot.picture import COLOURS, HATCHES, Picture, arrow, bare, box, canvas, legend, panes, styled, write

# Each kernel of a softmax over L rows of L scores: its name, what it reads, what it writes, as (L²s, Ls).
KERNELS = {
    "three kernels": (("exp", (1, 0), (1, 0)), ("sum", (1, 0), (0, 1)), ("divide", (1, 1), (1, 0))),
    "one kernel": (("exp, sum and divide", (1, 0), (1, 0)),),
}
# Where a block of Flash lies: fill, hatch, and what the legend says.
PLACES = {
    "chip": (COLOURS[5], "", "in fast memory now"),
    "done": (COLOURS[0] + "60", "///", "output, finished, in HBM"),
    "hbm": ("#dddddd", "", "in HBM"),
}


@styled
def kernels(alt: str, *, caption: str = "") -> Picture:
    """A softmax as three kernels and as one: what each reads from HBM (upwards) and writes there (downwards)."""
    figure, axes = panes(len(KERNELS), 5.2, 4.1)
    for ax, (title, steps) in zip(axes, KERNELS.items()):
        box(ax, 0, 0, 9.6, 0.75, "HBM", COLOURS[0] + "40", 9)
        for i, (name, reads, writes) in enumerate(steps):
            left, wide = (3.3 * i, 3.0) if len(steps) > 1 else (2.6, 4.4)
            box(ax, left, 2.2, wide, 0.85, name, COLOURS[5] + "70", 9)
            for at, (start, end), amount in (
                (left + 0.55, (0.75, 2.2), reads),
                (left + wide - 0.95, (2.2, 0.75), writes),
            ):
                arrow(ax, (at, start), (at, end), width=1.1)
                ax.text(at + 0.14, 1.47, _amount(amount), ha="left", va="center", fontsize=9)
        squares, rows = (sum(step[which][k] for step in steps for which in (1, 2)) for k in (0, 1))
        bare(ax, title=f"{title}: {_amount((squares, rows))} numbers", xlim=(-0.1, 9.7), ylim=(-0.05, 3.15))
    return Picture(figure, alt, caption)


def _amount(count: tuple[int, int]) -> str:
    squares, rows = count
    named = [f"{'' if n == 1 else n}{letter}" for n, letter in ((squares, "L^2"), (rows, "L")) if n]
    return f"${' + '.join(named)}$"


@styled
def flash_tiles(at: dict[str, tuple[int, int]], alt: str, *, n: int = 4, caption: str = "") -> Picture:
    """One step of Flash over n by n blocks: which blocks of Q, K, V and O lie in fast memory, and which scores exist at all.

    at  {"Flash 1": (i, j), …}, the block of queries and that of keys of the step; Flash 1 takes keys outside, Flash 2 queries
    """
    figure, axes = panes(len(at), 5.2, 3.3 * len(at) + 0.4)
    for ax, (version, (i, j)) in zip(axes, at.items()):
        _tiles(ax, n, i, j, keys_outside=version.startswith("Flash 1"))
        ax.set_title(version)
    looks = {name: (fill, hatch) for fill, hatch, name in PLACES.values()}
    legend(figure, looks | {"scores, never in HBM": {"facecolor": "#ffffff", "linestyle": "--"}}, 2)
    return Picture(figure, alt, caption)


def place(array: str, k: int, i: int, j: int, keys_outside: bool) -> str:
    """Where block k of Q, K, V or O lies in the step (i, j): a key of PLACES.

    >>> place("O", 0, 1, 2, False), place("O", 1, 1, 2, False), place("O", 0, 1, 2, True)
    ('done', 'chip', 'hbm')
    """
    if k == (j if array in "KV" else i):
        return "chip"
    return "done" if array == "O" and k < i and not keys_outside else "hbm"


def _tiles(ax, n: int, i: int, j: int, keys_outside: bool) -> None:
    left, right = -1.75, n + 0.75
    for k in range(n):
        corners = {"Q": (left, n - 1 - k), "O": (right, n - 1 - k), "K": (k, n + 0.5), "V": (k, n + 1.6)}
        for array, corner in corners.items():
            fill, hatch, _ = PLACES[place(array, k, i, j, keys_outside)]
            box(ax, *corner, 1, 0.95, f"${array}_{k}$", fill, 9, hatch=hatch)
        for s in range(n):
            chip = (k, s) == (i, j)
            look = {"fill": PLACES["chip"][0]} if chip else {"fill": None, "linestyle": "--", "alpha": 0.6}
            box(ax, s, n - 1 - k, 1, 0.95, linewidth=1.6 if chip else 0.8, **look)
    write(ax, j + 0.5, n - 0.53 - i, f"$x_{{{i}{j}}}$", 9)
    ax.text(right + 1.15, n - 0.53 - i, "with $m, \\ell$", ha="left", va="center", fontsize=8)
    down, across = ("inner", "outer") if keys_outside else ("outer", "inner")
    arrow(ax, (left - 0.35, n - 0.1), (left - 0.35, 0.1), width=1.1)
    ax.text(left - 0.55, n / 2, f"{down} loop", ha="right", va="center", fontsize=8, rotation=90)
    arrow(ax, (0.1, n + 2.85), (n - 0.1, n + 2.85), width=1.1)
    ax.text(n / 2, n + 2.95, f"{across} loop", ha="center", va="bottom", fontsize=8)
    bare(ax, xlim=(left - 1.0, right + 2.6), ylim=(-0.1, n + 3.5), aspect="equal")


@styled
def kept(alt: str, *, caption: str = "") -> Picture:
    """What forward leaves for backward, filled, and what backward computes again, dashed: with all weights stored, and in Flash."""
    rows = {
        "All weights stored": {"Q": "T H", "K": "S H", "V": "S H", "O": "T H", "P": "T S"},
        "Flash": {"Q": "T H", "K": "S H", "V": "S H", "O": "T H", "$m + \\ln\\ell$": "T 1", "P again": "T S -"},
    }
    figure, axes = canvas(5.2, 4.9, 2)
    for ax, (title, arrays) in zip(axes, rows.items()):
        x = 0.6
        for name, how in arrays.items():
            x = _kept_array(ax, x, name, *how.split())
        bare(ax, title=title, xlim=(-0.1, 13.4), ylim=(-0.8, 3.9), aspect="equal", anchor="W")
    again = {"computed again, block by block": {"fill": False, "linestyle": "--"}}
    legend(figure, {"kept from the forward pass": COLOURS[0] + "70"} | again, 2, "left")
    return Picture(figure, alt, caption)


LENGTH = {"T": 3.0, "S": 3.0, "H": 0.8, "1": 0.22}
"""Lengths on paper: a head's H numbers are few beside T queries and S keys."""


def _kept_array(ax, x: float, name: str, down: str, across: str, again: str = "") -> float:
    tall, wide = LENGTH[down], LENGTH[across]
    look = {"fill": None, "linestyle": "--"} if again else {"fill": COLOURS[0] + "70"}
    box(ax, x, 3.0 - tall, wide, tall, **look)
    if again:
        box(ax, x + 1, 1.5, 0.5, 0.5, fill=COLOURS[5])
    ax.text(x - 0.1, 3.0 - tall / 2, f"${down}$", ha="right", va="center", fontsize=9)
    ax.text(x + wide / 2, 3.1, f"${across}$", ha="center", va="bottom", fontsize=9)
    ax.text(x + wide / 2, -0.15, name, ha="center", va="top", fontsize=9)
    return x + wide + (1.15 if name != "O" else 1.35)


@styled
def warps(alt: str, *, R: int = 128, C: int = 128, H: int = 64, count: int = 4, caption: str = "") -> Picture:
    """A block of R queries and C keys that `count` warps share, by keys and by queries, with what each way reads and exchanges."""
    figure, axes = canvas(5.2, 5.6, 2)
    for ax, split in zip(axes, ("keys", "queries")):
        by_keys = split == "keys"
        _striped(ax, (0, 0), (0.8, 2.4), count, rows=not by_keys, whole=by_keys, name="Q")
        _striped(ax, (1.3, 2.9), (2.4, 0.8), count, rows=False, whole=not by_keys, name="K, V")
        _striped(ax, (1.3, 0), (2.4, 2.4), count, rows=not by_keys, whole=False, name="scores")
        for k in range(count if by_keys else 1):
            corner = (4.5 + 1.2 * k, 0)
            _striped(ax, corner, (0.8, 2.4), count, rows=True, whole=False, name="O", only=k if by_keys else None)
            if by_keys and k:
                write(ax, 4.3 + 1.2 * k, 1.2, "+", 11)
        read, exchanged = warp_floats(R, C, H, count, split)
        ax.text(0, -0.55, f"reads {read:,} numbers, exchanges {exchanged:,}", fontsize=9, va="center")
        bare(ax, title=f"split by {split}", xlim=(-0.1, 9.0), ylim=(-0.85, 4.2), aspect="equal", anchor="W")
    legend(figure, {f"warp {k}": _look(k) for k in range(count)} | {"every warp": "#dddddd"}, 3, "left")
    return Picture(figure, alt, caption)


def _look(k: int) -> tuple[str, str]:
    """Fill and hatch of a warp, or of a core."""
    return COLOURS[k % 6] + "90", HATCHES[k % 4]


def _striped(ax, corner, size, count: int, rows: bool, whole: bool, name: str, only: int | None = None) -> None:
    """A rectangle in `count` stripes, one for each warp; grey as a whole where every warp has it; of one warp if `only`."""
    (x, y), (wide, tall) = corner, size
    for k in range(1 if whole or only is not None else count):
        owner = k if only is None else only
        fill, hatch = ("#dddddd", "") if whole else _look(owner)
        if whole or only is not None:
            at, w, h = corner, wide, tall
        elif rows:
            at, w, h = (x, y + tall - (k + 1) * tall / count), wide, tall / count
        else:
            at, w, h = (x + k * wide / count, y), wide / count, tall
        box(ax, *at, w, h, fill=fill, hatch=hatch, linewidth=0.8)
    ax.text(x + wide / 2, y + tall + 0.06, name, ha="center", va="bottom", fontsize=9)


THIN, WIDE, GAP = 0.95, 3.6, 0.7
INPUTS = {"Q": "left", "dO": "left", "K": "top", "V": "top"}
PRODUCTS = (
    (r"$P = e^{\tau Q K^T - (m + \ln\ell)}$", "the weights again"),
    (r"$dP = dO\, V^T$", r"so $dx = P \odot (dP - \delta)$"),
    (r"$\tau\, dx\, K$", "dQ"),
    (r"$P^T dO$", "dV"),
    (r"$\tau\, dx^T Q$", "dK"),
)
"""Each of the products of a block, and what becomes of it: of the last three, the array that it adds to."""
FILLS = {"input": COLOURS[0] + "60", "block": COLOURS[5] + "90", "gradient": COLOURS[1] + "70"}


@styled
def backward_block(alt: str, *, caption: str = "") -> Picture:
    """Blocks of Q and dO left of a block of the table, K and V above it, dQ right of it, dV and dK below."""
    figure, axes = canvas(5.4, 4.9, 1)
    box(axes, 0, 0, WIDE, WIDE, fill=FILLS["block"])
    for k, (product, then) in enumerate(PRODUCTS[:2]):
        write(axes, WIDE / 2, WIDE * (0.78 - 0.45 * k), f"{k + 1}:  {product}", 9)
        write(axes, WIDE / 2, WIDE * (0.64 - 0.45 * k), then, 9)
    for k, (name, side) in enumerate(INPUTS.items()):
        near = GAP / 2 + (1 - k % 2) * (THIN + 0.15)
        sides = (-near - THIN, 0, THIN, WIDE) if side == "left" else (0, WIDE + near, WIDE, THIN)
        box(axes, *sides, f"${name}$", FILLS["input"], 10)
    for k, (product, name) in enumerate(PRODUCTS[2:]):
        if name == "dQ":
            at, start, end = (WIDE + 1.9, 0, THIN, WIDE), (WIDE, WIDE / 2), (WIDE + 1.85, WIDE / 2)
            words = (WIDE + 0.95, WIDE / 2 + 0.35)
        else:
            below = 0.95 + (k - 1) * (THIN + 0.15)
            x = (0.6, WIDE - 1.1)[k - 1]
            at, start, end = (0, -below - THIN, WIDE, THIN), (x, 0), (x, -0.9)
            words = (x + 0.85, -0.45)
        arrow(axes, start, end)
        write(axes, *words, f"{k + 3}:  {product}", 8.5)
        box(axes, *at, f"${name}$", FILLS["gradient"], 10)
    axes.text(WIDE + 1.9 + THIN + 0.1, WIDE / 2, "summed over\nthe row", ha="left", va="center", fontsize=8)
    axes.text(WIDE + 0.15, -1.95, "summed over the column", ha="left", va="center", fontsize=8)
    bare(axes, xlim=(-2.6, WIDE + 4.4), ylim=(-3.1, WIDE + 2.6), aspect="equal")
    names = "kept from the forward pass, or given", "on the chip only", "gradients"
    legend(figure, dict(zip(names, FILLS.values())), 3)
    return Picture(figure, alt, caption)


SUMS = {"forward": {"rows": ("O",), "columns": ()}, "backward": {"rows": ("dQ",), "columns": ("dK\ndV",)}}
"""What is summed over a row of blocks, and what over a column."""


def core(way: str, i: int, j: int) -> int:
    """The core that computes block (i, j): that of its row forward, that of its column backward."""
    return i if way == "forward" else j


def summed_by(way: str, side: str, k: int, n: int) -> set[int]:
    """The cores that add to the sum over row (or column) k of n by n causal blocks.

    >>> summed_by("forward", "rows", 2, 3), summed_by("backward", "rows", 2, 3), summed_by("backward", "columns", 1, 3)
    ({2}, {0, 1, 2}, {1})
    """
    of = [(k, j) for j in range(k + 1)] if side == "rows" else [(i, k) for i in range(k, n)]
    return {core(way, i, j) for i, j in of}


@styled
def blocks_on_cores(n: int, alt: str, *, caption: str = "") -> Picture:
    """Causal blocks in the colour of the core that computes them; sums in it too, if one core makes them, else grey."""
    figure, axes = panes(len(SUMS), 5.2, 3.2, len(SUMS))
    for ax, (way, sums) in zip(axes, SUMS.items()):
        for i in range(n):
            for j in range(i + 1):
                _box(ax, j, i, {core(way, i, j)}, "")
        for side, names in sums.items():
            for name in names:
                for k in range(n):
                    at = (n + 0.5, k) if side == "rows" else (k, n + 0.5)
                    _box(ax, *at, summed_by(way, side, k, n), name)
        bare(ax, title=way, xlim=(-0.1, n + 1.6), ylim=(n + 1.6, -0.1), aspect="equal")
    looks = {f"core {c}": _look(c) for c in range(n)} | {"summed across cores": "#dddddd"}
    legend(figure, looks, len(looks), fontsize=7.5)
    return Picture(figure, alt, caption)


def _box(ax, x: float, y: float, cores: set[int], text: str) -> None:
    fill, hatch = _look(*cores) if len(cores) == 1 else ("#dddddd", "")
    box(ax, x, y, 0.95, 0.95, text, fill, 7, hatch=hatch)
