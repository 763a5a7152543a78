"""What every figure is: the course's style, and a `Picture` with its alt text.

Lines differ by dash and marker as well as by colour (Okabe and Ito's palette, ordered by lightness).
"""

import base64
import io
import re
from collections.abc import Iterable, Mapping
from html import escape

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Patch, Rectangle

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
INK = "#222"
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P")
STYLE = {
    "font.size": 10,
    "font.family": "DejaVu Sans",
    "axes.titlelocation": "left",  # titles of panels, and the letters around axes: 12 to 15 px as wide as a page shows them
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 8,
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


styled = rc_context(STYLE)
"""A decorator: what a function draws has this style."""


class Picture:
    """A drawn figure, of matplotlib or SVG text already, with its alt text and caption."""

    def __init__(self, figure: Figure | str, alt: str, caption: str = ""):
        if len(alt.split()) < 4:
            raise ValueError(f"alt text says in a sentence what the figure shows, got {alt!r}")
        self.figure, self.alt, self.caption = figure, alt, caption

    def svg(self) -> str:
        """The figure as SVG text."""
        if isinstance(self.figure, str):
            return self.figure
        with rc_context(STYLE):
            out = io.StringIO()
            self.figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        return lighter(out.getvalue())

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.svg().encode()).decode()
        caption = f"<figcaption>{escape(self.caption)}</figcaption>" if self.caption else ""
        return (
            f'<figure class="picture"><img alt="{escape(self.alt)}" src="data:image/svg+xml;base64,{data}" '
            f'style="max-width:100%;background:#fff">{caption}</figure>'
        )

    def __repr__(self) -> str:
        return f"[figure: {self.alt}]"


def canvas(width: float = 5.2, height: float = 3.5, rows: int = 1, columns: int = 1):
    """An empty figure in the course's style and its axes (an array of them if there are several)."""
    with rc_context(STYLE):
        figure = Figure(figsize=(width, height))
        return figure, figure.subplots(rows, columns)


def panes(count: int, width: float, height: float, columns: int = 1):
    """A figure and its axes as a list, `columns` of them side by side; width and height are those of all together."""
    figure, axes = canvas(width, height, -(-count // columns), columns)
    axes = list(np.ravel(axes))
    for ax in axes[count:]:
        ax.remove()
    return figure, axes[:count]


def dress(ax, xlabel: str, ylabel: str, log: str) -> None:
    """Names and scales of the axes."""
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    if "x" in log:
        ax.set_xscale("log")
    if "y" in log:
        ax.set_yscale("log")


def name_rows(ax, names: Iterable, start: float, **limits) -> None:
    """A row for each name, one below the other from `start` on."""
    names = list(names)
    ax.set(yticks=np.arange(len(names)) + start, yticklabels=names, **limits)


GEOMETRY = re.compile(r'(?<=\s)(?:d|x|y|transform|points|width|height)="[^"]*"')


def lighter(svg: str) -> str:
    """The same drawing without comments, metadata, names that nothing refers to, groups and turns of nothing, and digits
    below a hundredth of a point.

    >>> lighter('<svg>\\n <!-- hi -->\\n <g id="a">\\n  <text x="1.23456">1.23456</text>\\n </g>\\n</svg>')
    '<svg><text x="1.23">1.23456</text></svg>'
    >>> lighter('<svg><clipPath id="p"/><g id="b" clip-path="url(#p)"><path d="M 0.5 0.999"/></g></svg>')
    '<svg><clipPath id="p"/><g clip-path="url(#p)"><path d="M 0.5 1"/></g></svg>'
    >>> lighter('<svg><text transform="rotate(-0 1 2)">a</text><text transform="rotate(-90 1 2)">b</text></svg>')
    '<svg><text>a</text><text transform="rotate(-90 1 2)">b</text></svg>'
    """
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<\?xml.*?\?>|<!DOCTYPE.*?>", "", svg, flags=re.S)
    svg = re.sub(r' transform="rotate\(-0 [^"]*\)"', "", svg)
    used = set(re.findall(r'#([^"\')\s]+)', svg))
    svg = re.sub(r' id="([^"]+)"', lambda m: m[0] if m[1] in used else "", svg)
    svg = re.sub(r"(?<=>)\s*\n\s*(?=<)", "", svg)
    svg = re.sub(r"\s*\n\s*", " ", svg).strip()
    svg = GEOMETRY.sub(lambda m: re.sub(r"\d+\.\d{3,}", _shorter, m[0]), svg)
    before = None
    while before != svg:
        before, svg = svg, re.sub(r"<g>((?:(?!</?g\b).)*)</g>", r"\1", svg)
    return svg


def _shorter(number: re.Match) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


PAPER = {"facecolor": "#fff", "edgecolor": "none", "pad": 0.8}
"""Behind words on a hatch."""
HATCHES = ("", "///", "---", "xxx")
"""Of what has a number: no dots, for the file of a drawing holds the curves of each."""


def box(
    ax, x: float, y: float, wide: float, high: float, text: str = "", fill: str | None = "#fff", size: float = 8, **look
) -> None:
    """A rectangle from its lower left corner, with a text in its middle; `look` is of the rectangle, and with no fill it is an outline."""
    inside = {"fill": False} if fill is None else {"facecolor": fill}
    ax.add_patch(Rectangle((x, y), wide, high, **inside | {"edgecolor": INK, "linewidth": 1} | look))
    if text:
        write(ax, x + wide / 2, y + high / 2, text, size, bbox=PAPER if look.get("hatch") else None)


def write(ax, x: float, y: float, text: str, size: float = 8, **look) -> None:
    """A text about its middle, if `look` does not say otherwise."""
    ax.text(x, y, text, fontsize=size, **{"ha": "center", "va": "center"} | look)


def legend(figure: Figure, looks: Mapping, columns: int, side: str = "center", **more) -> None:
    """Below a drawing what its boxes are: of each name a fill, a fill and a hatch, or all that it looks like."""
    shown = []
    for name, look in looks.items():
        fill, hatch = look if isinstance(look, tuple) else (look, "")
        full = look if isinstance(look, Mapping) else {"facecolor": fill, "hatch": hatch}
        shown.append(Patch(**{"edgecolor": INK, "label": name} | full))
    figure.legend(handles=shown, loc=f"outside lower {side}", ncols=columns, **{"fontsize": 8} | more)


def bare(ax, **limits) -> None:
    """A drawing without axes; besides its limits it may have a title."""
    ax.set(**limits)
    ax.set_axis_off()


def arrow(ax, start, end, style: str = "-|>", head: float = 9, width: float = 1, **look) -> None:
    """An arrow that reaches from point to point; `style` "<|-|>" has a head at both ends."""
    look = {"color": INK, "shrinkA": 0, "shrinkB": 0} | look
    ax.add_patch(FancyArrowPatch(start, end, arrowstyle=style, mutation_scale=head, linewidth=width, **look))
