"""Products: the letters of an einsum by where they stand, a product with the two of its backward pass, and a model's shares by role."""

from collections.abc import Sequence

import numpy as np

from helpers.costs.transformers.layer_products import einsum
from helpers.plot.picture import (
    COLOURS,
    DASHES,
    INK,
    Picture,
    arrow,
    bare,
    box,
    canvas,
    dress,
    legend,
    panes,
    styled,
    write,
)

CELLS = {"batch": COLOURS[5] + "70", "contracted": COLOURS[1] + "60", "free": COLOURS[4] + "50"}


@styled
def einsum_letters(specs: Sequence[str], alt: str, *, caption: str = "") -> Picture:
    """For each einsum of two arrays a table: across, which array a letter stands in; down, whether the result has it.

    Batch, contracted and free letters are those that `layer_products.einsum` tells apart.
    """
    figure, axes = panes(len(specs), 5.2, 1.75 * len(specs))
    for ax, spec in zip(axes, specs):
        _letters(ax, spec)
    return Picture(figure, alt, caption)


def _letters(ax, spec: str) -> None:
    a, b = spec.partition("->")[0].split(",")
    sorted_ = einsum(spec, *([2] * len(x) for x in (a, b)))
    for row, there in enumerate(("in the result", "not in the result")):
        ax.text(3.1, 0.75 - row, there, ha="right", va="center", fontsize=8)
    for column, where in enumerate(("only in the first", "in both", "only in the second")):
        ax.text(4.5 + 2.6 * column, 1.35, where, ha="center", va="bottom", fontsize=8)
        for row in range(2):
            kind = ("batch", "contracted")[row] if column == 1 else "free" if row == 0 else ""
            mine = {0: a, 2: b}.get(column)
            letters = [x for x in getattr(sorted_, kind, "") if mine is None or x in mine] if kind else []
            box(ax, 3.25 + 2.6 * column, 0.28 - row, 2.5, 0.94, fill=CELLS.get(kind, "#fff"))
            if kind:
                ax.text(3.35 + 2.6 * column, 1.14 - row, kind, ha="left", va="top", fontsize=7)
            write(ax, 4.6 + 2.6 * column, 0.66 - row, "  ".join(letters) or "–", 11, family="monospace")
    bare(ax, xlim=(0.2, 11.1), ylim=(-0.8, 1.75))
    ax.set_title(spec, family="monospace")


# Of an array in the drawing of a backward pass: fill, hatch.
KINDS = {
    "weights": ("#d9d9d9", ""),
    "activations: X has to be kept": (COLOURS[0] + "90", ""),
    "gradient that arrives": (COLOURS[5] + "80", "////"),
    "gradient that is made": ("#fff", "\\\\"),
}
_W, _X, _DY, _D = KINDS
SIDES = {"B": 1.5, "D": 1.9, "F": 2.7}  # B stands for the BT tokens of a batch
PASSES = (
    ("forward", ("X", _X, "BD"), ("$W_{in}$", _W, "DF"), ("Y", _X, "BF"),
     "Y goes on to the next operation"),
    ("backward, for the layer before", ("dY", _DY, "BF"), ("$W_{in}^T$", _W, "FD"), ("dX", _D, "BD"),
     "dX goes back to the operation before"),
    ("backward, for the update", ("$X^T$", _X, "DB"), ("dY", _DY, "BF"), ("$dW_{in}$", _D, "DF"),
     "$dW_{in}$ changes the weights"),
)  # fmt: skip


@styled
def product_gradients(alt: str, *, caption: str = "") -> Picture:
    """Y = X · W_in forward, and the two products of its backward pass: what each multiplies, and what happens to its result."""
    figure, axes = panes(len(PASSES), 5.2, 5.6)
    for ax, (title, left, right, out, then) in zip(axes, PASSES):
        x = 0.6
        for sign, (name, kind, sides) in zip(("", "×", "="), (left, right, out)):
            if sign:
                write(ax, x - 0.55, -1.3, sign, 12)
                x += 0.35
            x = _array(ax, x, name, kind, sides)
        arrow(ax, (0.1, -3.0), (0.75, -3.0))
        ax.text(0.9, -3.0, then, ha="left", va="center", fontsize=8)
        ax.text(10.9, -3.0, "$2BTDF$ FLOPs", ha="right", va="center", fontsize=8)
        bare(ax, title=title, xlim=(0, 11), ylim=(-3.4, 0.5), aspect="equal", anchor="W")
    legend(figure, KINDS, 2, "left")
    return Picture(figure, alt, caption)


def _array(ax, x: float, name: str, kind: str, sides: str) -> float:
    """An array of the two letters `sides` from x on, its middle at -1.3; where the next sign stands."""
    height, width = SIDES[sides[0]] * 0.82, SIDES[sides[1]]
    fill, hatch = KINDS[kind]
    top = -1.3 + height / 2
    box(ax, x, top - height, width, height, name, fill, 9, hatch=hatch)
    down, across = (f"${'BT' if side == 'B' else side}$" for side in sides)
    ax.text(x - 0.1, -1.3, down, ha="right", va="center", fontsize=9)
    ax.text(x + width / 2, top + 0.05, across, ha="center", va="bottom", fontsize=9)
    return x + width + 0.95


FILLS = tuple(zip((*COLOURS, "#bbb"), ("", "//", "||", "\\\\", "xx", "++", "--")))
"""Colour and hatch of each role; no dots among the hatches, whose circles alone are 68 KB of SVG."""


@styled
def shares(panels: dict, alt: str, *, caption: str = "") -> Picture:
    """Panels side by side with one bar for each model, cut by role: shares of the whole, which is 100 percent.

    panels  {title: {model: {role: amount}}}, the same models in the same order in each; a role is drawn in all panels alike
    """
    first = next(iter(panels.values()))
    names = list(first)
    if any(list(panel) != names for panel in panels.values()):
        raise ValueError(f"all panels show the same models in the same order, here {', '.join(names)}")
    roles = list(dict.fromkeys(role for panel in panels.values() for parts in panel.values() for role in parts))
    figure, axes = panes(len(panels), 8.0, 1.3 + 0.4 * len(names), len(panels))
    for ax, (title, panel) in zip(axes, panels.items()):
        whole = {model: 100 / sum(parts.values()) for model, parts in panel.items()}
        scaled = {m: {role: whole[m] * n for role, n in parts.items()} for m, parts in panel.items()}
        _cut(ax, scaled, roles)
        ax.set_xlim(0, 100)
        dress(ax, f"{title}, %", "", "")
        ax.grid(axis="y", visible=False)
        if ax is not axes[0]:
            ax.set_yticklabels([])
    _roles(figure, axes[0], roles)
    return Picture(figure, alt, caption)


@styled
def stacked(bars: dict, xlabel: str, alt: str, *, caption: str = "", marks: dict | None = None) -> Picture:
    """One bar for each label, cut by role, from zero: amounts that add up.

    bars   {label: {role: amount}}, in the unit of xlabel
    marks  {label: x} vertical lines, such as the memory of a chip
    """
    roles = list(dict.fromkeys(role for parts in bars.values() for role in parts))
    figure, ax = canvas(6.4, 1.5 + 0.4 * len(bars))
    _cut(ax, bars, roles)
    ax.margins(x=0.02)
    ax.set_xlim(0, max(ax.get_xlim()[1], *(1.02 * at for at in (marks or {}).values()), 0))
    for i, (label, at) in enumerate((marks or {}).items()):
        ax.axvline(at, color=INK, linewidth=1.5, linestyle=DASHES[(i + 1) % 6])
        ax.annotate(label, (at, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 2),
                    textcoords="offset points", ha="center", va="bottom", fontsize=8)  # fmt: skip
    dress(ax, xlabel, "", "")
    ax.grid(axis="y", visible=False)
    _roles(figure, ax, roles)
    return Picture(figure, alt, caption)


def _roles(figure, ax, roles: list[str]) -> None:
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(roles), 5))


def _cut(ax, bars: dict, roles: list[str]) -> None:
    """Roles from left to right, each with a colour and a hatch of its own; the first bar on top."""
    left = np.zeros(len(bars))
    for i, role in enumerate(roles):
        part = np.array([parts.get(role, 0) for parts in bars.values()], float)
        fill, hatch = FILLS[i % len(FILLS)]
        look = {"color": fill, "hatch": hatch, "edgecolor": INK}
        ax.barh(list(bars), part, left=left, label=role, height=0.65, **look)
        left += part
    ax.invert_yaxis()
