"""Bars cut by role: where the parameters, FLOPs and bytes of models sit."""

import numpy as np
from matplotlib import rc_context

from helpers.plot.picture import COLOURS, DASHES, INK, STYLE, Picture, canvas, dress

FILLS = tuple(zip((*COLOURS, "#bbb"), ("", "//", "||", "\\\\", "xx", "++", "--")))
"""Colour and hatch of each role; no dots among the hatches, whose circles alone are 68 KB of SVG."""


def shares(panels: dict, alt: str, *, caption: str = "") -> Picture:
    """Panels side by side with one bar for each model, cut by role: shares of the whole, which is 100 percent.

    panels  {title: {model: {role: amount}}}, the same models in the same order in each; a role is drawn in all panels alike
    """
    first = next(iter(panels.values()))
    names = list(first)
    if any(list(panel) != names for panel in panels.values()):
        raise ValueError(f"all panels show the same models in the same order, here {', '.join(names)}")
    roles = list(dict.fromkeys(role for panel in panels.values() for parts in panel.values() for role in parts))
    with rc_context(STYLE):
        figure, axes = canvas(8.0, 1.3 + 0.4 * len(names), 1, len(panels))
        for ax, (title, panel) in zip(np.ravel(axes), panels.items()):
            whole = {model: 100 / sum(parts.values()) for model, parts in panel.items()}
            scaled = {m: {role: whole[m] * n for role, n in parts.items()} for m, parts in panel.items()}
            _cut(ax, scaled, roles)
            ax.set_xlim(0, 100)
            dress(ax, f"{title}, %", "", "")
            ax.grid(axis="y", visible=False)
            if ax is not np.ravel(axes)[0]:
                ax.set_yticklabels([])
        _roles(figure, np.ravel(axes)[0], roles)
    return Picture(figure, alt, caption)


def stacked(bars: dict, xlabel: str, alt: str, *, caption: str = "", marks: dict | None = None) -> Picture:
    """One bar for each label, cut by role, from zero: amounts that add up.

    bars   {label: {role: amount}}, in the unit of xlabel
    marks  {label: x} vertical lines, such as the memory of a chip
    """
    roles = list(dict.fromkeys(role for parts in bars.values() for role in parts))
    with rc_context(STYLE):
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
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(roles), 5), fontsize=8)


def _cut(ax, bars: dict, roles: list[str]) -> None:
    """Roles from left to right, each with a colour and a hatch of its own; the first bar on top."""
    left = np.zeros(len(bars))
    for i, role in enumerate(roles):
        part = np.array([parts.get(role, 0) for parts in bars.values()], float)
        fill, hatch = FILLS[i % len(FILLS)]
        ax.barh(
            list(bars),
            part,
            left=left,
            label=role,
            color=fill,
            hatch=hatch,
            edgecolor=INK,
            height=0.65,
        )
        left += part
    ax.invert_yaxis()
