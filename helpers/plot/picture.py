"""What every figure is: the course's style, and a `Picture` with its alt text.

Lines differ by dash and marker as well as by colour (Okabe and Ito's palette, ordered by lightness).
"""

import base64
import io
from html import escape

from matplotlib import rc_context
from matplotlib.figure import Figure

from .lighter_svg import lighter

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
INK = "#222"
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


def dress(ax, xlabel: str, ylabel: str, log: str) -> None:
    """Names and scales of the axes."""
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    if "x" in log:
        ax.set_xscale("log")
    if "y" in log:
        ax.set_yscale("log")
