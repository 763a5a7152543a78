"""Curves with measured points on them, and thresholds of several machines side by side."""

from matplotlib import rc_context

from helpers.plot.picture import COLOURS, DASHES, INK, MARKERS, STYLE, Picture, canvas, dress


def curves_and_points(
    curves: dict,
    points: dict,
    xlabel: str,
    ylabel: str,
    alt: str,
    *,
    log: str = "",
    level: tuple[float, str] | None = None,
    caption: str = "",
) -> Picture:
    """Predicted curves and measured points, of which those with the same label share a colour.

    curves, points  {label: (x, y)}
    level  (y, what it is) of a horizontal line
    """  # fmt: skip
    names = list(dict.fromkeys([*curves, *points]))
    with rc_context(STYLE):
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
        ax.legend(fontsize=8)
    return Picture(figure, alt, caption)


def side_by_side(
    values: dict[str, dict[str, float]], ylabel: str, alt: str, *, log: bool = False, caption: str = ""
) -> Picture:
    """Groups of bars, a group for each key of `values` and in it a bar for each machine, with its value.

    values  {what: {machine: value}}, of the same machines for each
    """
    if len({frozenset(v) for v in values.values()}) != 1:
        raise ValueError("bars side by side are {what: {machine: value}}, with the same machines for each")
    machines = list(next(iter(values.values())))
    wide = 0.84 / len(machines)
    with rc_context(STYLE):
        figure, ax = canvas(5.2, 0.9 + 0.26 * len(values) * len(machines))
        for j, machine in enumerate(machines):
            at = [i + (j - (len(machines) - 1) / 2) * wide for i in range(len(values))]
            hatch = ("", "//", "||", "xx", "\\\\", "++")[j % 6]
            drawn = ax.barh(at, [v[machine] for v in values.values()], wide, color=COLOURS[j % 6] + "90", hatch=hatch, edgecolor=INK,
                            label=machine)  # fmt: skip
            ax.bar_label(drawn, [f"{v[machine]:,.0f}" for v in values.values()], fontsize=8, padding=3)
        ax.set_yticks(range(len(values)), list(values))
        ax.invert_yaxis()
        dress(ax, ylabel, "", "x" if log else "")
        ax.grid(axis="y", visible=False)
        ax.margins(x=0.15)
        figure.legend(loc="outside lower center", ncols=len(machines), fontsize=8)
    return Picture(figure, alt, caption)
