"""Curves, rooflines, bars and timelines."""

import numpy as np

from .picture import COLOURS, DASHES, INK, MARKERS, Picture, canvas, dress, styled


@styled
def lines(
    x, curves: dict, xlabel: str, ylabel: str, alt: str, *, log: str = "", caption: str = "", marks: dict | None = None
) -> Picture:
    """Curves over a common x.

    curves  {label: y}; a y may hold None or nan where there is no value
    log     "", "x", "y" or "xy": axes on a log scale
    marks   {label: x} vertical lines, such as a critical batch
    """
    figure, ax = canvas()
    for i, (label, y) in enumerate(curves.items()):
        look = {"color": COLOURS[i % 6], "linestyle": DASHES[i % 6], "marker": MARKERS[i % 6] if len(x) <= 16 else ""}
        ax.plot(x, y, label=label, markersize=5, **look)
    mark(ax, marks or {})
    dress(ax, xlabel, ylabel, log)
    if len(curves) > 1:
        ax.legend()
    return Picture(figure, alt, caption)


def mark(ax, marks: dict) -> None:
    """Vertical lines, with what each is written along it: {label: x}."""
    look = {"rotation": 90, "ha": "right", "va": "bottom", "fontsize": 8, "color": "#333"}
    for i, (label, at) in enumerate(marks.items()):
        ax.axvline(at, color="#555", linewidth=1, linestyle=DASHES[(i + 1) % 6])
        ax.annotate(label, (at, 0.02), (-2, 0), ("data", "axes fraction"), "offset points", **look)


@styled
def curves_and_points(
    curves: dict, points: dict, xlabel: str, ylabel: str, alt: str, *, log="", level=None, caption: str = ""
) -> Picture:
    """Predicted curves and measured points, of which those with the same label share a colour.

    curves, points  {label: (x, y)}
    level  (y, what it is) of a horizontal line
    """  # fmt: skip
    names = list(dict.fromkeys([*curves, *points]))
    figure, ax = canvas()
    for label, (x, y) in curves.items():
        i = names.index(label) % 6
        ax.plot(x, y, label=label, color=COLOURS[i], linestyle=DASHES[i])
    for label, (x, y) in points.items():
        i = names.index(label) % 6
        ax.plot(x, y, MARKERS[i], color=COLOURS[i], markeredgecolor=INK, label=f"{label}, measured")
    if level:
        ax.axhline(level[0], color="#555", linewidth=1, linestyle=":")
        ax.annotate(level[1], (0.01, level[0]), xycoords=("axes fraction", "data"), xytext=(0, 3), textcoords="offset points",
                    fontsize=8)  # fmt: skip
    dress(ax, xlabel, ylabel, log)
    ax.legend()
    return Picture(figure, alt, caption)


@styled
def roofline(roofs: dict, points: dict, alt: str, *, caption: str = "", intensities=(0.1, 1e4)) -> Picture:
    """The roofline: attainable FLOPs/s against arithmetic intensity.

    roofs   {label: (C, W)}, one roof each: FLOPs/s and bytes/s
    points  {label: (intensity, FLOPs/s)}, programs measured or predicted
    """
    from helpers.costs.rooflines.roofline import attainable

    x = np.geomspace(*intensities, 200)
    figure, ax = canvas()
    for i, (label, (C, W)) in enumerate(roofs.items()):
        ax.plot(x, attainable(x, C, W), label=label, color=COLOURS[i % 6], linestyle=DASHES[i % 6])
        ax.plot([C / W], [C], marker="|", color=COLOURS[i % 6], markersize=12)
    for i, (label, (intensity, rate)) in enumerate(points.items()):
        ax.plot([intensity], [rate], MARKERS[i % 6], color=INK, markerfacecolor="#fff", label=label)
    dress(ax, "arithmetic intensity, FLOPs per byte", "FLOPs/s", "xy")
    ax.legend()
    return Picture(figure, alt, caption)


@styled
def bars(values: dict, ylabel: str, alt: str, *, caption: str = "") -> Picture:
    """One bar for each label, its value written on it."""
    figure, ax = canvas()
    drawn = ax.bar(list(values), list(values.values()), color=COLOURS[0], edgecolor=INK)
    ax.bar_label(drawn, fmt="{:.3g}", fontsize=8)
    dress(ax, "", ylabel, "")
    ax.grid(axis="x", visible=False)
    return Picture(figure, alt, caption)


@styled
def timeline(rows: dict, xlabel: str, alt: str, *, caption: str = "") -> Picture:
    """Bars along a time axis, one row for each resource.

    rows  {label: [(start, length, text), …]}; rows whose labels agree up to the first comma share a colour
    """
    kinds = list(dict.fromkeys(label.split(",")[0] for label in rows))
    figure, ax = canvas(6.4, 0.9 + 0.45 * len(rows))
    for y, (label, spans) in enumerate(rows.items()):
        for start, length, text in spans:
            colour = COLOURS[kinds.index(label.split(",")[0]) % 6]
            ax.barh(y, length, left=start, color=colour, edgecolor=INK, height=0.6, alpha=0.75)
            ax.annotate(text, (start + length, y), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8)
    ax.set_yticks(range(len(rows)), list(rows))
    ax.invert_yaxis()
    ax.margins(x=0.15)
    ax.set_xlim(left=0)
    dress(ax, xlabel, "", "")
    ax.grid(axis="y", visible=False)
    return Picture(figure, alt, caption)


@styled
def levels(rows: dict, xlabel: str, alt: str, *, caption: str = "", paler: tuple[str, ...] = ()) -> Picture:
    """Horizontal bars on a log axis, each with its text: the steps of a memory hierarchy.

    rows   {label: (value, text)}
    paler  labels whose bars are of another kind, such as what there is beside what is needed
    """
    figure, ax = canvas(6.4, 0.9 + 0.42 * len(rows))
    values = [v for v, _ in rows.values()]
    fills = [COLOURS[4] if label in paler else COLOURS[0] for label in rows]
    drawn = ax.barh(list(rows), values, color=fills, edgecolor=INK, height=0.6, left=0)
    ax.bar_label(drawn, [t for _, t in rows.values()], fontsize=8, padding=4)
    ax.invert_yaxis()
    dress(ax, xlabel, "", "x")
    short = all(len(text) <= 8 for _, text in rows.values())
    ax.set_xlim(min(values) / 5, max(values) * (4 if short else 100))  # room for the texts
    ax.grid(axis="y", visible=False)
    return Picture(figure, alt, caption)
