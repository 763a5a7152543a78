"""The chart of the figure of attention: one line for each form, its name beside its end, against the number of tokens.

The vertical axis has as many decades as the lines need; `attention_variants.js` moves it as this module draws it at first.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape

from helpers.live.drawings import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Axis, scale
from helpers.live.words import PREFIXED

from .variants import FORMS

SHORT = {
    "naive": "naive",
    "fused": "fused",
    "chunked": "chunked",
    "flash1": "Flash 1",
    "flash2": "Flash 2",
    "flash3": "Flash 3",
    "window": "window",
    "linear": "linear",
}
STROKES = {
    "naive": ("1 3", 1.5),
    "fused": ("", 1.5),
    "chunked": ("7 3", 1.5),
    "flash1": ("7 3 1 3", 1.5),
    "flash2": ("", 3),
    "flash3": ("", 1.5),
    "window": ("9 4", 2.5),
    "linear": ("2 3", 2.5),
}
MARKED = ("flash2", "flash3", "window", "linear")  # in the colour of marks
TICKS, GAP = 16, 15  # decades that the vertical axis can show, pixels between names of lines
X = Axis("tokens", 2, 7)


def chart(
    key: str, alt: str, what: str, unit: str, lengths: Sequence[int], marks: Sequence[Mapping], values: Mapping
) -> str:
    """The SVG: `marks` at the points that `values` gives their names, `low` and `high` of it the ends of the vertical axis."""
    low, high = (round(math.log10(values[n])) for n in ("low", "high"))
    px, py = _pixels(X, LEFT, WIDTH - RIGHT), _pixels(Axis("", low, high), HEIGHT - BOTTOM, TOP)
    foot, end = HEIGHT - BOTTOM, WIDTH - RIGHT
    out = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{key}-alt" class="live-plot">',
        f'<title id="{key}-alt">{escape(alt)}</title><g class="live-grid">',
    ]
    for e in range(X.low, X.high + 1):
        x = f"{px(10.0**e):.1f}"
        out.append(
            f'<path d="M{x} {TOP}V{foot}"/><text x="{x}" y="{foot + 18}" text-anchor="middle">{tick(e, "")}</text>'
        )
    for k in range(TICKS):
        e = low + k
        where = f'transform="translate(0,{py(10.0**e):.1f})"' if e <= high else 'style="display:none"'
        out.append(
            f'<g data-tick="{k}" {where}><path d="M{LEFT} 0H{end}"/>'
            f'<text x="{LEFT - 6}" y="4" text-anchor="end">{tick(e, unit) if e <= high else ""}</text></g>'
        )
    out.append(f'<text x="{(LEFT + end) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">{X.label}</text>')
    out.append(f'<text x="2" y="14" data-axis>{escape(axis(what, unit))}</text></g>')
    for n, mark in enumerate(marks):
        out.append(_mark(n, mark, [(values[a], values[b]) for a, b in mark["points"]], px, py))
    return "".join(out) + _names(lengths, values, px, py) + "</svg>"


def _names(lengths, values, px, py) -> str:
    last, out = len(lengths) - 1, []
    ends = {form: py(values[f"{form}{last}"]) for form in FORMS if not math.isnan(values[f"{form}{last}"])}
    at = spread(ends, TOP, HEIGHT - BOTTOM)
    for form, text in SHORT.items():
        place = f'y="{at[form] + 4:.1f}"' if form in at else 'style="display:none"'
        out.append(f'<text data-line="{form}" x="{px(lengths[last]) + 6:.1f}" {place}>{text}</text>')
    return "".join(out)


def tick(exponent: int, unit: str) -> str:
    """A power of ten as the axis writes it.

    >>> tick(-4, "s"), tick(10, "B"), tick(6, "")
    ('100 µ', '10 G', '1 M')
    """
    text = PREFIXED[unit](10.0**exponent) if unit else PREFIXED["B"](10.0**exponent)
    number, prefixed = text.split(" ")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {prefixed.removesuffix(unit or 'B')}".strip()


def axis(chart: str, unit: str) -> str:
    """The name of the vertical axis.

    >>> axis("time", "s"), axis("bytes held in HBM", "B")
    ('time, s', 'bytes held in HBM')
    """
    return f"{chart}, {unit}" if unit == "s" else chart


def spread(at: Mapping[str, float], top: float, foot: float, gap: float = GAP) -> dict[str, float]:
    """Heights of names beside the ends of their lines, moved apart where they are too near, in order.

    >>> spread({"a": 100.0, "b": 103.0, "c": 290.0, "d": 295.0}, 26, 280, 15)
    {'a': 100.0, 'b': 115.0, 'c': 265, 'd': 280}
    """
    order = sorted(at, key=lambda name: at[name])
    out, least = {}, top
    for name in order:
        out[name] = max(at[name], least)
        least = out[name] + gap
    most = foot
    for name in reversed(order):
        out[name] = min(out[name], most)
        most = out[name] - gap
    return out


def _pixels(axis: Axis, start: float, end: float):
    first, slope = scale(axis, start, end)
    return lambda value: first + slope * math.log10(value)


def _mark(n: int, mark: Mapping, points, px, py) -> str:
    form = (list(FORMS) * 2)[n if n < len(FORMS) else n - 1] if mark["kind"] != "dash" else ""
    colour = ";stroke:var(--live-mark)" if form in MARKED else ""
    known = all(not math.isnan(v) for _, v in points)
    hidden = "" if known else "display:none"
    if mark["kind"] == "dot":
        place = f'cx="{px(points[0][0]):.1f}" cy="{py(points[0][1]):.1f}"' if known else ""
        style = f' style="{hidden}"' if hidden else ""
        return f'<circle data-mark="{n}" class="live-dot"{style} r="3" {place}/>'
    dashes, width = STROKES.get(form, ("2 4", 1.5))
    style = f"stroke-width:{width}" + (f";stroke-dasharray:{dashes.replace(' ', ',')}" if dashes else "") + colour
    line = " ".join(f"{px(a):.1f},{py(b):.1f}" for a, b in points) if known else ""
    return f'<polyline data-mark="{n}" class="live-line" style="{style}{hidden and ";" + hidden}" points="{line}"/>'
