"""Every figure of the course, in one style: readable in grey and by the colour-blind, with alt text.

Lines differ by dash and marker as well as by colour (Okabe and Ito's palette, ordered by lightness).
Each function returns a `Picture`, which a notebook and the site show as an image with its alt text.
"""

import base64
import io
from html import escape

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P")
STYLE = {
    "font.size": 10,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 2,
    "figure.constrained_layout.use": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "rooflines",  # text stays text, and the same figure is the same bytes
}


class Picture:
    """A drawn figure with its alt text and caption."""

    def __init__(self, figure: Figure, alt: str, caption: str = ""):
        if len(alt.split()) < 4:
            raise ValueError(f"alt text says in a sentence what the figure shows, got {alt!r}")
        self.figure, self.alt, self.caption = figure, alt, caption

    def svg(self) -> str:
        """The figure as SVG text."""
        with matplotlib.rc_context(STYLE):
            out = io.StringIO()
            self.figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        return out.getvalue()

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.svg().encode()).decode()
        caption = f"<figcaption>{escape(self.caption)}</figcaption>" if self.caption else ""
        return (
            f'<figure class="picture"><img alt="{escape(self.alt)}" src="data:image/svg+xml;base64,{data}" '
            f'style="max-width:100%;background:#fff">{caption}</figure>'
        )

    def __repr__(self) -> str:
        return f"[figure: {self.alt}]"


def canvas(width: float = 6.4, height: float = 3.8, rows: int = 1, columns: int = 1):
    """An empty figure in the course's style and its axes (an array of them if there are several)."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height))
        return figure, figure.subplots(rows, columns)


def lines(
    x, curves: dict, xlabel: str, ylabel: str, alt: str, *, log: str = "", caption: str = "", marks: dict | None = None
) -> Picture:
    """Curves over a common x.

    curves  {label: y}; a y may hold None or nan where there is no value
    log     "", "x", "y" or "xy": axes on a log scale
    marks   {label: x} vertical lines, such as a critical batch
    """
    with matplotlib.rc_context(STYLE):
        figure, ax = canvas()
        for i, (label, y) in enumerate(curves.items()):
            ax.plot(
                x,
                y,
                label=label,
                color=COLOURS[i % 6],
                linestyle=DASHES[i % 6],
                marker=MARKERS[i % 6] if len(x) <= 16 else "",
                markersize=5,
            )
        for i, (label, at) in enumerate((marks or {}).items()):
            ax.axvline(at, color="#555", linewidth=1, linestyle=DASHES[(i + 1) % 6])
            ax.annotate(
                label,
                (at, 0.02),
                xycoords=("data", "axes fraction"),
                rotation=90,
                ha="right",
                va="bottom",
                fontsize=8,
                color="#333",
            )
        _dress(ax, xlabel, ylabel, log)
        if len(curves) > 1:
            ax.legend()
    return Picture(figure, alt, caption)


def roofline(roofs: dict, points: dict, alt: str, *, caption: str = "", intensities=(0.1, 1e4)) -> Picture:
    """The roofline: attainable FLOPs/s against arithmetic intensity.

    roofs   {label: (C, W)}, one roof each: FLOPs/s and bytes/s
    points  {label: (intensity, FLOPs/s)}, programs measured or predicted
    """
    from .costs.roofline import attainable

    x = np.geomspace(*intensities, 200)
    with matplotlib.rc_context(STYLE):
        figure, ax = canvas()
        for i, (label, (C, W)) in enumerate(roofs.items()):
            ax.plot(x, attainable(x, C, W), label=label, color=COLOURS[i % 6], linestyle=DASHES[i % 6])
            ax.plot([C / W], [C], marker="|", color=COLOURS[i % 6], markersize=12)
        for i, (label, (intensity, rate)) in enumerate(points.items()):
            ax.plot([intensity], [rate], MARKERS[i % 6], color="#222", markerfacecolor="#fff", label=label)
        _dress(ax, "arithmetic intensity, FLOPs per byte", "FLOPs/s", "xy")
        ax.legend(fontsize=8)
    return Picture(figure, alt, caption)


def bars(values: dict, ylabel: str, alt: str, *, log: bool = False, caption: str = "") -> Picture:
    """One bar for each label, its value written on it."""
    with matplotlib.rc_context(STYLE):
        figure, ax = canvas()
        drawn = ax.bar(list(values), list(values.values()), color=COLOURS[0], edgecolor="#222")
        ax.bar_label(drawn, fmt="{:.3g}", fontsize=8)
        _dress(ax, "", ylabel, "y" if log else "")
        ax.grid(axis="x", visible=False)
    return Picture(figure, alt, caption)


def timeline(rows: dict, xlabel: str, alt: str, *, caption: str = "") -> Picture:
    """Bars along a time axis, one row for each resource.

    rows  {label: [(start, length, text), …]}; rows whose labels agree up to the first comma share a colour
    """
    kinds = list(dict.fromkeys(label.split(",")[0] for label in rows))
    with matplotlib.rc_context(STYLE):
        figure, ax = canvas(6.4, 0.9 + 0.45 * len(rows))
        for y, (label, spans) in enumerate(rows.items()):
            for start, length, text in spans:
                colour = COLOURS[kinds.index(label.split(",")[0]) % 6]
                ax.barh(y, length, left=start, color=colour, edgecolor="#222", height=0.6, alpha=0.75)
                ax.annotate(
                    text, (start + length, y), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8
                )
        ax.set_yticks(range(len(rows)), list(rows))
        ax.invert_yaxis()
        ax.margins(x=0.15)
        ax.set_xlim(left=0)
        _dress(ax, xlabel, "", "")
        ax.grid(axis="y", visible=False)
    return Picture(figure, alt, caption)


def systolic(frames, alt: str, *, columns: int = 4, caption: str = "") -> Picture:
    """Frames of a systolic array: each square is one PE, with the row of X that it works on; idle ones are blank.

    frames  `helpers.kernels.systolic.Frame`s, one picture for each
    """
    frames = list(frames)
    K, N = frames[0].row.shape
    down = -(-len(frames) // columns)
    with matplotlib.rc_context(STYLE):
        figure, axes = canvas(1.65 * columns, (1.65 * K / N + 0.35) * down, down, columns)
        for ax in np.ravel(axes)[len(frames) :]:
            ax.set_axis_off()
        for ax, frame in zip(np.ravel(axes), frames):
            _array(ax, frame)
    return Picture(figure, alt, caption)


def _array(ax, frame) -> None:
    """One frame: a square for each PE; what leaves at the bottom is written under its column."""
    K, N = frame.row.shape
    for k in range(K):
        for n in range(N):
            b = int(frame.row[k, n])
            colour = "#fff" if b < 0 else COLOURS[b % 6]
            ax.add_patch(Rectangle((n, k), 1, 1, facecolor=colour, edgecolor="#555", linewidth=0.8, alpha=0.6))
            ax.text(n + 0.5, k + 0.5, "" if b < 0 else str(b), ha="center", va="center", fontsize=9)
    for (b, n), _ in frame.finished:
        ax.annotate(
            str(b),
            (n + 0.5, K),
            xytext=(n + 0.5, K + 0.7),
            ha="center",
            va="center",
            fontsize=8,
            arrowprops={"arrowstyle": "<-"},
        )
    ax.set(xlim=(-0.1, N + 0.1), ylim=(K + 1, -0.1), aspect="equal")
    ax.set_title(f"cycle {frame.cycle}", fontsize=9)
    ax.set_axis_off()


def torus(s, src, dst, alt: str, *, caption: str = "") -> Picture:
    """The chips of a two-axis slice and its links; those that wrap are bent. Every chip carries its hops from src.

    Two paths from src to dst are drawn, one axis first; they share no link if the chips differ along both axes.
    """
    from .costs.topology import distance

    with matplotlib.rc_context(STYLE):
        figure, ax = canvas(1.1 * s.shape[1] + 1, 1.1 * s.shape[0] + 0.6)
        for a, b in np.ndindex(*s.shape):
            for axis in (0, 1):
                _link(ax, s, (a, b), axis)
        for i, first in enumerate((0, 1)):
            corner = (dst[0], src[1]) if first == 0 else (src[0], dst[1])
            xs, ys = zip(*((b, a) for a, b in (src, corner, dst)))
            ax.plot(xs, ys, color=COLOURS[i], linestyle=DASHES[i], linewidth=4, alpha=0.6, zorder=2)
        for a, b in np.ndindex(*s.shape):
            end = (a, b) in (tuple(src), tuple(dst))
            ax.plot([b], [a], "s", markersize=18, color="#222" if end else "#fff", markeredgecolor="#222", zorder=3)
            ax.text(
                b,
                a,
                str(distance(src, (a, b), s)),
                ha="center",
                va="center",
                color="#fff" if end else "#222",
                fontsize=9,
                zorder=4,
            )
        ax.set(xlim=(-0.6, s.shape[1] - 0.4), ylim=(s.shape[0] - 0.4, -0.6), aspect="equal")
        ax.set_axis_off()
    return Picture(figure, alt, caption)


def _link(ax, s, at, axis: int) -> None:
    """The link from one chip to the next along an axis; the one that closes a ring is drawn as an arc."""
    to = list(at)
    to[axis] = (at[axis] + 1) % s.shape[axis]
    closes = to[axis] == 0
    if s.shape[axis] < 2 or (closes and not s.wraps[axis]):
        return
    style = "arc3,rad=0.25" if closes else "arc3,rad=0"
    ax.add_patch(
        FancyArrowPatch(
            at[::-1], to[::-1], arrowstyle="-", connectionstyle=style, color="#888", linewidth=1.2, zorder=1
        )
    )


def levels(rows: dict, xlabel: str, alt: str, *, caption: str = "") -> Picture:
    """Horizontal bars on a log axis, each with its text: the steps of a memory hierarchy.

    rows  {label: (value, text)}
    """
    with matplotlib.rc_context(STYLE):
        figure, ax = canvas(6.4, 0.9 + 0.42 * len(rows))
        values = [v for v, _ in rows.values()]
        drawn = ax.barh(list(rows), values, color=COLOURS[0], edgecolor="#222", height=0.6, left=0)
        ax.bar_label(drawn, [t for _, t in rows.values()], fontsize=8, padding=4)
        ax.invert_yaxis()
        _dress(ax, xlabel, "", "x")
        ax.set_xlim(min(values) / 5, max(values) * 30)
        ax.grid(axis="y", visible=False)
    return Picture(figure, alt, caption)


def _dress(ax, xlabel: str, ylabel: str, log: str) -> None:
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    if "x" in log:
        ax.set_xscale("log")
    if "y" in log:
        ax.set_yscale("log")
