"""What a live figure draws: lines and points on logarithmic axes, or boxes that grow with a result.

`data` of a drawing is what `figure_controls.js` moves; `svg` is the drawing at the first values, and without JavaScript.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from .words import PREFIXED


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis from 10**low to 10**high."""

    label: str
    low: int
    high: int
    unit: str = ""

    def scale(self, start: float, end: float) -> list[float]:
        """Pixel = first + second * log10(value)."""
        slope = (end - start) / (self.high - self.low)
        return [start - slope * self.low, slope]

    def pixels(self, start: float, end: float) -> Callable[[float], float]:
        first, slope = self.scale(start, end)
        return lambda value: first + slope * math.log10(value) if value == value else math.nan


WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 480, 320, 52, 28, 26, 46
ACROSS, UP = (LEFT, WIDTH - RIGHT), (HEIGHT - BOTTOM, TOP)  # where the axes begin and end
LINES = ("line", "dash")
SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Mark:
    """Something drawn from results: a full or a dashed line through points, a filled or an open dot. Points are (x name, y name)."""

    kind: str  # "line", "dash", "dot" or "ring"
    label: str
    points: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Plot:
    """Marks on two logarithmic axes."""

    x: Axis
    y: Axis
    marks: tuple[Mark, ...]

    def data(self) -> dict:
        return {
            "marks": [{"kind": m.kind, "points": m.points} for m in self.marks],
            "x": self.x.scale(*ACROSS),
            "y": self.y.scale(*UP),
        }

    def svg(self, key: str, alt: str, values: dict[str, float], texts: dict[str, str] | None = None) -> str:
        """Axes, grid and marks; the colours are the page's own, so that dark mode needs nothing else."""
        corners = f'x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}"'
        x, px, y, py, foot = self.x, self.x.pixels(*ACROSS), self.y, self.y.pixels(*UP), HEIGHT - BOTTOM
        out = [
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{key}-alt" class="live-plot">'
            f'<title id="{key}-alt">{escape(alt)}</title>',
            f'<clipPath id="{key}-clip"><rect {corners}/></clipPath><g class="live-grid">',
        ]
        for e in range(x.low, x.high + 1):
            at = f"{px(10.0**e):.1f}"
            out.append(
                f'<path d="M{at} {TOP}V{foot}"/>'
                f'<text x="{at}" y="{foot + 16}" text-anchor="middle">{tick(e, x.unit)}</text>'
            )
        out.append(f'<text x="{sum(ACROSS) / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x.label)}</text>')
        for e in range(y.low, y.high + 1):
            at = py(10.0**e)
            out.append(
                f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>'
                f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{tick(e, y.unit)}</text>'
            )
        out.append(f'<text x="2" y="14">{escape(y.label)}</text></g>')
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
        px, py = self.x.pixels(*ACROSS), self.y.pixels(*UP)
        points = [(px(values[a]), py(values[b])) for a, b in mark.points]
        if mark.kind in LINES:
            return f'<polyline {start} points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'
        return f'<circle {start} r="6" cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}"/>'


@dataclass(frozen=True)
class Follows:
    """A place or a size that is `start` and `factor` times a result, in `unit` (pixels, or "%" of the width); unseen if that is unknown."""

    result: str
    factor: float
    unit: str = ""
    start: float = 0


Place = str | Follows


@dataclass(frozen=True)
class Box:
    """A rectangle of one kind (`live-weights` in the style sheet; `hatch` is hatched); each of the four is a text or follows a result."""

    kind: str
    x: Place
    y: Place
    width: Place
    height: Place


@dataclass(frozen=True)
class Label:
    """Words at a place, `dx` pixels further, and behind them the text of a result."""

    x: Place
    y: Place
    text: str
    result: str = ""
    anchor: str = "start"
    kind: str = ""
    dx: int = 0


def named_bar(
    name: str, y: int, height: int, span: tuple[int, int], result: str, value: str, kind: str = "fill"
) -> tuple[Box | Label, ...]:
    """A bar as long as `result`, its name before it and the text of `value` behind it; all unseen where that is unknown.

    span  percents of the width: what is before the bar, and a bar whose result is 1
    """
    (left, whole), base = span, Follows(result, 0, "", y + 13)
    return (
        Box(kind, f"{left}%", str(y), Follows(result, whole, "%"), str(height)),
        Label(f"{left}%", base, name, anchor="end", dx=-6),
        Label(Follows(result, whole, "%", left), base, "", value, dx=3),
    )


@dataclass(frozen=True)
class Boxes:
    """Boxes and words, `height` pixels high and as wide as there is room: letters keep their size, percents follow the width."""

    height: int | Follows
    shapes: tuple[Box | Label, ...]

    def data(self) -> dict:
        """For each shape that moves, the drawing first, its [attribute, result, factor, unit, start]."""
        every = [_moves({"height": self.height}), *(_moves(_places(s)) for s in self.shapes)]
        return {"marks": [], "moves": [moves for moves in every if moves]}

    def svg(self, key: str, alt: str, values: dict[str, float], texts: dict[str, str]) -> str:
        """All shapes in their order; a later one lies over an earlier one."""
        size = _written({"height": str(self.height) if isinstance(self.height, int) else self.height}, values)
        out = [f'<svg width="100%" {size} role="img" aria-labelledby="{key}-alt" class="live-boxes">']
        out.append(f'<title id="{key}-alt">{escape(alt)}</title>')
        if any(isinstance(s, Box) and s.kind == "hatch" for s in self.shapes):
            out.append(
                f'<pattern id="{key}-hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
                '<path d="M0 0V5"/></pattern>'
            )
        for shape in self.shapes:
            at = _written(_places(shape), values)
            if isinstance(shape, Label):
                result = shape.result and f' <tspan data-result="{shape.result}">{escape(texts[shape.result])}</tspan>'
                dx = f' dx="{shape.dx}"' if shape.dx else ""
                out.append(
                    f'<text {at}{dx} text-anchor="{shape.anchor}" class="{shape.kind}">{escape(shape.text)}{result}</text>'
                )
            else:
                fill = f' fill="url(#{key}-hatch)"' if shape.kind == "hatch" else ""
                out.append(f'<rect class="live-{shape.kind}" {at}{fill}/>')
        return "".join(out) + "</svg>"


def _places(shape: Box | Label) -> dict[str, Place]:
    names = ("x", "y") if isinstance(shape, Label) else ("x", "y", "width", "height")
    return {name: getattr(shape, name) for name in names}


def _moves(places: dict[str, Place]) -> list[tuple[str, str, float, str, float]]:
    """What of a shape moves: (attribute, result, factor, unit, start) each."""
    return [(name, p.result, p.factor, p.unit, p.start) for name, p in places.items() if isinstance(p, Follows)]


def _written(places: dict[str, Place], values: dict[str, float]) -> str:
    """The attributes of a shape."""
    moves = _moves(places)
    fixed = " ".join(f'{name}="{place}"' for name, place in places.items() if not isinstance(place, Follows))
    if not all(math.isfinite(values[name]) for _, name, *_ in moves):
        return f'data-move style="display:none" {fixed}'
    moved = " ".join(f'{a}="{start + factor * values[name]:.2f}{unit}"' for a, name, factor, unit, start in moves)
    return f"data-move {moved} {fixed}".strip() if moves else fixed


def tick(exponent: int, unit: str) -> str:
    """A power of ten in the units of an axis, '10,000' where prefixes do not fit, and '10⁵' where that is long.

    >>> tick(-4, "s"), tick(10, "B"), tick(4, ""), tick(6, "")
    ('100 µ', '10 G', '10,000', '10⁶')
    """
    if unit in PREFIXED:
        return PREFIXED[unit](10.0**exponent, 3).replace(".00", "").replace(".0", "").removesuffix(unit).strip()
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
