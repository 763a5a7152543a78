"""A live figure as data: its controls, results and axes, and the page's figure and table without JavaScript.

The figure's function is traced to JavaScript by `helpers.live.jaxpr_to_javascript`; `figure_controls.js` reads the sliders,
calls it, and moves what this module has drawn.
"""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from html import escape

from helpers import show

from .jaxpr_to_javascript import javascript

PREFIXED = {
    "s": show.seconds,
    "FLOPs/s": show.flops_rate,
    "FLOPs": show.flops,
    "B/s": show.rate,
    "B": show.bytes,
}


def reading(value: float, unit: str = "") -> str:
    """Three digits and the unit, as `helpers.show` prints it; `text` in figure_controls.js does the same.

    >>> reading(1.7612e-4, "s"), reading(1.97e14, "FLOPs/s"), reading(252.93), reading(8755.6, "FLOPs/byte")
    ('176 µs', '197 TFLOPs/s', '253', '8,756 FLOPs/byte')
    >>> reading(math.inf), reading(math.nan, "s"), reading(0.0)
    ('infinite', 'unknown', '0')
    >>> reading(312.5), reading(2.5e15 / 8e12)                                     # C/W of a GB200
    ('313', '313')
    """
    if math.isnan(value):
        return "unknown"
    if unit in PREFIXED:
        return PREFIXED[unit](value)
    if math.isinf(value):
        return "infinite"
    if value == 0:
        return f"0 {unit}".rstrip()
    exponent = int(f"{value:.2e}".split("e")[1])
    digits = max(0, 2 - exponent)
    if exponent < 20:  # halves go up, as in JavaScript
        value = Decimal(float(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return f"{value:,.{digits}f} {unit}".rstrip()


# Thousands parted by commas or by one kind of space, all groups alike; a comma before other than three digits parts nothing.
GROUPED = re.compile(r"[1-9][0-9]{0,2}([, \u00a0\u2009\u202f])[0-9]{3}(\1[0-9]{3})*(\.[0-9]*)?")


def ungrouped(typed: str) -> str:
    """A number as it was typed, without what parts its thousands; anything else as it stands.

    `ungrouped` in figure_controls.js does the same.

    >>> ungrouped(" 16,384 "), ungrouped("1 048 576.5"), ungrouped("1,5"), ungrouped("0,500")
    ('16384', '1048576.5', '1,5', '0,500')
    """
    typed = typed.strip()
    return typed.replace(found[1], "") if (found := GROUPED.fullmatch(typed)) else typed


# What figures count in their sentences; a name whose number may be 1 belongs here and in figure_controls.js.
ONE = re.compile(r"(^|[^\d.,])(1 (?:token|sequence|layout|deployment|request|replica|expert))s\b")


def counted(sentence: str) -> str:
    """A sentence in which one thing is one; `counted` in figure_controls.js does the same.

    >>> counted("Of 1 layouts the best holds 1 tokens and 31 sequences, 0.1 tokens a chip")
    'Of 1 layout the best holds 1 token and 31 sequences, 0.1 tokens a chip'
    """
    return ONE.sub(r"\1\2", sentence)


@dataclass(frozen=True)
class Slider:
    """A size on a logarithmic slider: 2**low to 2**high in steps of 2**step, rounded to whole numbers."""

    name: str
    label: str
    value: float
    low: int
    high: int
    step: float = 0.25

    def settings(self) -> dict[str, float]:
        return {self.name: float(self.value)}

    def spoken(self) -> str:
        return f"{self.value:,.0f}"

    @property
    def first(self) -> float:
        """Where the slider stands at first: log2 of the value."""
        return math.log2(self.value)


@dataclass(frozen=True)
class Choice:
    """A menu: each option sets one or more arguments of the figure's function."""

    name: str
    label: str
    value: str
    options: dict[str, dict[str, float]]

    def settings(self) -> dict[str, float]:
        return self.options[self.value]

    def spoken(self) -> str:
        return self.value

    @property
    def first(self) -> str:
        """What the menu shows at first."""
        return self.value


@dataclass(frozen=True)
class Result:
    """A row of the table: the function's result `name`, in `unit`, or one of `words` chosen by it."""

    name: str
    label: str
    unit: str = ""
    words: tuple[str, ...] = ()

    def text(self, value: float) -> str:
        if self.words:
            return self.words[int(value)] if not math.isnan(value) else "unknown"
        return reading(value, self.unit)


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis from 10**low to 10**high."""

    label: str
    low: int
    high: int
    unit: str = ""


PLAY = '<div class="live-play"><button type="button" name="play">Play</button></div>'  # what play.js works
LINES = ("line", "dash")
SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Mark:
    """Something drawn from results: a full or a dashed line through points, a filled or an open dot. Points are (x name, y name)."""

    kind: str  # "line", "dash", "dot" or "ring"
    label: str
    points: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class LiveFigure:
    """Everything a page needs. `function` takes the settings of all controls by name and returns a dict of numbers."""

    name: str
    title: str
    alt: str
    function: Callable[..., dict[str, float]]
    controls: tuple[Slider | Choice, ...]
    results: tuple[Result, ...]
    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    sentence: str  # said after each change: {name} of a control or result stands for its text
    unknown: str = ""  # said instead where a result is unknown: why it is
    runners = ("sizes.js", "figure_controls.js")

    def settings(self) -> dict[str, float]:
        """The arguments of the function at the controls' first values."""
        return {k: float(v) for control in self.controls for k, v in control.settings().items()}

    def values(self) -> dict[str, float]:
        """The function's results at the first values, computed by Python."""
        return self.function(**self.settings())

    def script(self) -> str:
        """The data and the traced function as one call of JavaScript."""
        names = list(self.settings())
        function = javascript(lambda *a: self.function(**dict(zip(names, a))), *self.settings().values())
        data = {
            "id": f"live-{self.name}",
            "args": names,
            "controls": [control_data(c) for c in self.controls],
            "results": [{"name": r.name, "unit": r.unit, "words": r.words} for r in self.results],
            "marks": [{"kind": m.kind, "points": m.points} for m in self.marks],
            "x": scale(self.x, LEFT, WIDTH - RIGHT),
            "y": scale(self.y, HEIGHT - BOTTOM, TOP),
            "say": self.sentence,
            "unknown": self.unknown,
        }
        text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
        return f"(window.liveFigures=window.liveFigures||[]).push([{text},\n{function}]);"

    def html(self) -> str:
        """The figure, its table, and its controls, which stay hidden until the script has started."""
        values, key = self.values(), f"live-{self.name}"
        said = {c.name: c.spoken() for c in self.controls} | {r.name: r.text(values[r.name]) for r in self.results}
        return (
            head_html(
                key, self.title, "", "".join(control_html(key, c) for c in self.controls), self.sentence.format(**said)
            )
            + f"{self.svg(values)}{table_html(self.title, self.results, said)}</figure>"
        )

    def svg(self, values: dict[str, float]) -> str:
        """Axes, grid and marks; the colours are the page's own, so that dark mode needs nothing else."""
        key, corners = (
            f"live-{self.name}",
            f'x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}"',
        )
        out = [
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{key}-alt" class="live-plot">',
            f'<title id="{key}-alt">{escape(self.alt)}</title>',
            f'<clipPath id="{key}-clip"><rect {corners}/></clipPath>',
        ]
        out += _grid(self.x, self.y)
        out.append(f'<g clip-path="url(#{key}-clip)">')
        out += [self._drawn(n, mark, values) for n, mark in enumerate(self.marks)]
        out.append("</g>")
        out += _legend(self.marks)
        return "".join(out) + "</svg>"

    def _drawn(self, n: int, mark: Mark, values: dict[str, float]) -> str:
        """One mark; it waits unseen for the script if it has no place."""
        start = f'data-mark="{n}" class="live-{mark.kind}"'
        if not all(math.isfinite(values[name]) for point in mark.points for name in point):
            start += ' style="display:none"'
            return f"<polyline {start}/>" if mark.kind in LINES else f'<circle {start} r="6"/>'
        points = [(_across(self.x, values[a]), _up(self.y, values[b])) for a, b in mark.points]
        if mark.kind in LINES:
            return f'<polyline {start} points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'
        return f'<circle {start} r="6" cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}"/>'


WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 480, 320, 52, 28, 26, 46


def scale(axis: Axis, start: float, end: float) -> list[float]:
    """Pixel = first + second * log10(value)."""
    slope = (end - start) / (axis.high - axis.low)
    return [start - slope * axis.low, slope]


def _across(axis: Axis, value: float) -> float:
    """Horizontal pixel of a value."""
    first, slope = scale(axis, LEFT, WIDTH - RIGHT)
    return first + slope * math.log10(value)


def _up(axis: Axis, value: float) -> float:
    """Vertical pixel of a value."""
    first, slope = scale(axis, HEIGHT - BOTTOM, TOP)
    return first + slope * math.log10(value)


def _grid(x: Axis, y: Axis) -> list[str]:
    """Decade lines with their numbers, and the names of the axes."""
    out, foot, end = ['<g class="live-grid">'], HEIGHT - BOTTOM, WIDTH - RIGHT
    for e in range(x.low, x.high + 1):
        px = f"{_across(x, 10.0**e):.1f}"
        out.append(
            f'<path d="M{px} {TOP}V{foot}"/><text x="{px}" y="{foot + 16}" text-anchor="middle">{_tick(e, x)}</text>'
        )
    for e in range(y.low, y.high + 1):
        py = _up(y, 10.0**e)
        out.append(
            f'<path d="M{LEFT} {py:.1f}H{end}"/><text x="{LEFT - 6}" y="{py + 4:.1f}" text-anchor="end">{_tick(e, y)}</text>'
        )
    out.append(f'<text x="{(LEFT + end) / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x.label)}</text>')
    return [*out, f'<text x="2" y="14">{escape(y.label)}</text></g>']


def _tick(exponent: int, axis: Axis) -> str:
    """A power of ten in the units of the axis: '10 T', or '10,000' where prefixes do not fit, and '10⁵' where that is long."""
    if axis.unit in PREFIXED:
        return (
            PREFIXED[axis.unit](10.0**exponent, 3).replace(".00", "").replace(".0", "").removesuffix(axis.unit).strip()
        )
    return f"{10.0**exponent:,g}" if exponent < 5 else f"10{str(exponent).translate(SUPERSCRIPT)}"


def _legend(marks: tuple[Mark, ...]) -> list[str]:
    """One line a mark, bottom right inside the axes, where a roofline leaves room."""
    out = ['<g class="live-legend">']
    for n, mark in enumerate(marks):
        y = HEIGHT - BOTTOM - 12 - 18 * (len(marks) - 1 - n)
        if mark.kind in LINES:
            out.append(f'<path class="live-{mark.kind}" d="M{WIDTH - 196} {y - 4}h18"/>')
        else:
            out.append(f'<circle class="live-{mark.kind}" r="5" cx="{WIDTH - 187}" cy="{y - 4}"/>')
        out.append(f'<text x="{WIDTH - 172}" y="{y}">{escape(mark.label)}</text>')
    return [*out, "</g>"]


def table_html(title: str, results: tuple[Result, ...], said: dict[str, str]) -> str:
    """A row for each result, with its text."""
    rows = "".join(
        f'<tr><th scope="row">{escape(r.label)}</th><td data-result="{r.name}">{escape(said[r.name])}</td></tr>'
        for r in results
    )
    return (
        f'<div class="pst-scrollable-table-container"><table class="table"><caption>{escape(title)}</caption>'
        f'<thead><tr><th scope="col">quantity</th><th scope="col">value</th></tr></thead><tbody>{rows}</tbody></table></div>'
    )


def control_data(control: Slider | Choice) -> dict:
    if isinstance(control, Slider):
        return {"name": control.name}
    return {"name": control.name, "options": control.options}


def control_html(key: str, control: Slider | Choice) -> str:
    """A label with its slider or menu; the browser's own controls, so the keyboard works."""
    name = f"{key}-{control.name}"
    label = f'<label for="{name}">{escape(control.label)}</label>'
    if isinstance(control, Slider):
        return (
            f'<div>{label}<input type="range" id="{name}" name="{control.name}" min="{control.low}" max="{control.high}" '
            f'step="{control.step}" value="{control.first:g}" aria-valuetext="{control.spoken()}"><span>{control.spoken()}</span></div>'
        )
    options = "".join(
        f"<option{' selected' if o == control.value else ''}>{escape(o)}</option>" for o in control.options
    )
    return f'<div>{label}<select id="{name}" name="{control.name}" autocomplete="off">{options}</select></div>'


def head_html(key: str, title: str, hint: str, controls: str, sentence: str, kind: str = "live") -> str:
    """How a figure begins: the controls, which stay hidden until the script has started, and what it says."""
    hint = hint and f"<p>{hint}</p>"
    return (
        f'<figure class="{kind}" id="{key}">'
        f'<form class="live-controls" aria-label="Settings of the figure: {escape(title)}" hidden>{hint}{controls}</form>'
        f'<p role="status" aria-live="polite">{escape(sentence)}</p>'
    )
