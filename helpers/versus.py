"""Predicted, measured, ratio: the table that a calculation ends in.

>>> Versus("matmul", "B").add(8, 1.0e-3, 1.2e-3).add(64, 2.0e-3, 5.0e-3)
matmul
B   predicted  measured  ratio
8   1.00 ms    1.20 ms   1.20
64  2.00 ms    5.00 ms   2.50
typical ratio 1.73, from 1.20 to 2.50
"""

from collections.abc import Callable
from html import escape
from math import exp, log

from . import show


class Versus:
    """Rows of (what, predicted, measured) in one unit.

    title  what the table is about
    what   heading of the first column
    unit   how a value is printed, a function of `helpers.show`
    got    what the prediction is held against: "measured" or "counted"
    """

    def __init__(self, title: str, what: str, unit: Callable[[float], str] = show.seconds, got: str = "measured"):
        self.title, self.what, self.unit, self.got = title, what, unit, got
        self.rows: list[tuple[str, float, float]] = []

    def add(self, what, predicted: float, measured: float) -> "Versus":
        """One more row; predicted and measured are above 0."""
        if not (predicted > 0 and measured > 0):
            raise ValueError(f"a ratio needs two values above 0, got predicted {predicted} and measured {measured}")
        self.rows.append((str(what), predicted, measured))
        return self

    @property
    def ratios(self) -> list[float]:
        """What was got / predicted, row by row."""
        return [m / p for _, p, m in self.rows]

    @property
    def typical(self) -> float:
        """How far off a prediction typically is: the geometric mean of the ratios, each turned so that it is 1 or more.

        >>> round(Versus("t", "x").add("a", 1, 2).add("b", 2, 1).typical, 6)
        2.0
        """
        return exp(sum(abs(log(r)) for r in self.ratios) / len(self.rows))

    def _cells(self) -> tuple[list[tuple[str, ...]], str]:
        head = (self.what, "predicted", self.got, "ratio")
        body = [(w, self.unit(p), self.unit(m), f"{m / p:.2f}") for w, p, m in self.rows]
        foot = (
            ""
            if len({row[3] for row in body}) < 2
            else (f"typical ratio {self.typical:.2f}, from {min(self.ratios):.2f} to {max(self.ratios):.2f}")
        )
        return [head, *body], foot

    def __repr__(self) -> str:
        cells, foot = self._cells()
        wide = [max(len(row[i]) for row in cells) for i in range(4)]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, wide)).rstrip() for row in cells]
        return "\n".join([self.title, *lines, *([foot] if foot else [])])

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
