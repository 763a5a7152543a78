"""The results of a live figure, and the tables in which they stand at first: `figure_controls.js` fills the same cells."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from .words import filled, reading


@dataclass(frozen=True)
class Result:
    """What the figure's function returns by this `name`, as a number in `unit` or as one of `words`, by its place there.

    label  what it is called in a table; without one it stands in sentences only
    words  may have names of other results and of controls, in braces
    share  of which other result its bar is the share; a row with a bar of nothing is hidden
    """

    name: str
    label: str = ""
    unit: str = ""
    words: tuple[str, ...] = ()
    share: str = ""

    @property
    def data(self) -> dict:
        """What the scripts read."""
        return {"name": self.name, "unit": self.unit, "words": self.words} | (
            {"share": self.share} if self.share else {}
        )

    def text(self, value: float) -> str:
        if self.words:
            return self.words[int(value)] if not math.isnan(value) else "unknown"
        return reading(value, self.unit)


@dataclass(frozen=True)
class Rows:
    """A table of two columns: under each heading the results of these names; one without a value is said by a script of its own."""

    groups: Mapping[str, tuple[str, ...]]

    def html(self, title: str, results: Mapping[str, Result], values: Mapping[str, float], texts: Mapping) -> str:
        """The table at these values and their texts."""
        bodies = []
        for heading, names in self.groups.items():
            lines = "".join(_line(results[name], values, texts[name]) for name in names)
            head = heading and f'<tr><th colspan="2" scope="rowgroup">{escape(heading)}</th></tr>'
            bodies.append(f"<tbody>{head}{lines}</tbody>")
        return (
            '<div class="pst-scrollable-table-container">'
            f'<table class="table live-plans"><caption>{escape(title)}</caption>'
            '<thead><tr><th scope="col">quantity</th><th scope="col">value</th></tr></thead>'
            f"{''.join(bodies)}</table></div>"
        )


def _line(r: Result, values: Mapping[str, float], text: str) -> str:
    bar, value, kind = "", values.get(r.name), "result" if r.name in values else "say"
    if r.share:
        width = 100 * value / values[r.share] if value == value else 0
        bar = f'<span class="live-bar" data-bar="{r.name}" style="width:{width:.1f}%"></span>'
    hidden = " hidden" if bar and value == 0 or value != value else ""
    cell = f'<span data-{kind}="{r.name}">{escape(text)}</span>{bar}'
    return f'<tr{hidden}><th scope="row">{escape(r.label)}</th><td>{cell}</td></tr>'


def table_html(title: str, results: tuple[Result, ...], values: Mapping[str, float], texts: Mapping[str, str]) -> str:
    """A row for each result that has a label; nothing if none has one."""
    labelled = {r.name: r for r in results if r.label}
    return Rows({"": tuple(labelled)}).html(title, labelled, values, texts) if labelled else ""


@dataclass(frozen=True)
class Columns:
    """A table with a column for each quantity: the results of a row are named row_quantity; a row that knows none is hidden.

    corner   what the rows are
    rows     how each is called, perhaps with names of results in braces
    columns  headings
    """

    corner: str
    rows: Mapping[str, str]
    columns: Mapping[str, str]

    def html(self, title: str, results: Mapping[str, Result], values: Mapping[str, float], texts: Mapping) -> str:
        """The table at these values and their texts; it scrolls sideways where it has to."""
        head = "".join(f'<th scope="col">{escape(text)}</th>' for text in self.columns.values())
        lines = "".join(self._line(row, label, values, texts) for row, label in self.rows.items())
        return (
            f'<div class="pst-scrollable-table-container live-forms" tabindex="0" role="region" aria-label="{escape(title)}">'
            f'<table class="table"><caption>{escape(title)}</caption><thead><tr><th scope="col">{escape(self.corner)}</th>{head}</tr>'
            f"</thead><tbody>{lines}</tbody></table></div>"
        )

    def _line(self, row: str, label: str, values: Mapping[str, float], texts: Mapping) -> str:
        names = [f"{row}_{quantity}" for quantity in self.columns]
        cells = "".join(f'<td><span data-result="{name}">{escape(texts[name])}</span></td>' for name in names)
        hidden = " hidden" if all(math.isnan(values[name]) for name in names) else ""
        return f'<tr data-row="{row}"{hidden}><th scope="row">{escape(filled(label, texts))}</th>{cells}</tr>'
