"""Predicted, measured, ratio: the table that a calculation ends in.

>>> Versus("matmul", "B").add(8, 1.0e-3, 1.2e-3).add(64, 2.0e-3, 5.0e-3)
matmul
B   predicted  measured  ratio
8   1.00 ms    1.20 ms   1.20
64  2.00 ms    5.00 ms   2.50
median ratio 1.85, from 1.20 to 2.50

What was counted just as predicted stands once:

>>> Versus("FLOPs", "B", "{:,}".format, "counted").add(8, 1024, 1024)
FLOPs
B  predicted, and counted
8  1,024
"""

from collections.abc import Callable
from html import escape
from math import isclose
from statistics import median

from . import show


class Versus:
    """Rows of (label, predicted, measured) in one unit.

    title    what the table is about
    heading  of the first column
    unit     how a value is printed, a function of `helpers.show`
    got      what the prediction is held against: "measured" or "counted"
    """

    def __init__(self, title: str, heading: str, unit: Callable[[float], str] = show.seconds, got: str = "measured"):
        self.title, self.heading, self.unit, self.got = title, heading, unit, got
        self.rows: list[tuple[str, float, float]] = []

    def add(self, label, predicted: float, measured: float) -> "Versus":
        """One more row; predicted and measured are above 0."""
        if not (predicted > 0 and measured > 0):
            raise ValueError(f"a ratio needs two values above 0, got predicted {predicted} and measured {measured}")
        self.rows.append((str(label), predicted, measured))
        return self

    @property
    def ratios(self) -> list[float]:
        """What was got / predicted, row by row."""
        return [m / p for _, p, m in self.rows]

    @property
    def median(self) -> float:
        """The ratio in the middle: of the same ratios whose least and largest stand beside it, so it lies between them.

        >>> Versus("t", "x").add("a", 1, 3).add("b", 2, 1).add("c", 1, 1).median
        1.0
        """
        return median(self.ratios)

    def _cells(self) -> tuple[list[tuple[str, ...]], str]:
        if self.rows and self.got == "counted" and all(isclose(p, m) for _, p, m in self.rows):
            return [(self.heading, "predicted, and counted")] + [(w, self.unit(p)) for w, p, _ in self.rows], ""
        head = (self.heading, "predicted", self.got, "ratio")
        body = [(w, self.unit(p), self.unit(m), f"{m / p:.2f}") for w, p, m in self.rows]
        few = len({row[3] for row in body}) < 2
        least, most = (f(self.ratios, default=1) for f in (min, max))
        foot = "" if few else f"median ratio {self.median:.2f}, from {least:.2f} to {most:.2f}"
        return [head, *body], foot

    def __repr__(self) -> str:
        cells, foot = self._cells()
        return "\n".join([self.title, *show.columns(cells), *([foot] if foot else [])])

    def _repr_html_(self) -> str:
        (head, *body), foot = self._cells()
        top = "".join(f'<th scope="col">{escape(c)}</th>' for c in head)
        rows = "".join(
            f'<tr><th scope="row">{escape(r[0])}</th>' + "".join(f"<td>{escape(c)}</td>" for c in r[1:]) + "</tr>"
            for r in body
        )
        below = f"<p>{escape(foot)}.</p>" if foot else ""
        table = f"<caption>{escape(self.title)}</caption><thead><tr>{top}</tr></thead><tbody>{rows}</tbody>"
        return f'<table class="table versus">{table}</table>{below}'
