"""Curves of a live figure: its results along a slider, as they stand at first; `curves.js` moves them."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape

from .controls import Size
from .drawings import ACROSS, BOTTOM, HEIGHT, LEFT, RIGHT, TOP, UP, WIDTH, Axis, begin, columns, tick
from .words import filled

TICKS, GAP = 16, 15  # decades that the vertical axis can show, pixels between names of curves


@dataclass(frozen=True)
class Curve:
    """A result along the slider, its name beside its end, and its stroke as CSS."""

    result: str
    label: str
    stroke: str = ""


@dataclass(frozen=True)
class Curves:
    """Curves over all values of a slider, and a dot of each where the slider stands, on a vertical axis that shows them all.

    label  of the vertical axis, perhaps with names of results in braces
    units  of the heights: the result `by` says which
    """

    over: Size
    x: Axis
    curves: tuple[Curve, ...]
    label: str
    units: tuple[str, ...]
    by: str
    runners = ("curves.js",)

    def data(self) -> dict:
        """What `curves.js` reads: the vertical axis is fitted there."""
        at = self.over.name
        dots = [{"kind": "dot", "points": [(at, c.result)]} for c in self.curves]
        return {
            "marks": [{"kind": "dash", "points": [(at, "low"), (at, "high")]}, *dots],
            "x": self.x.scale(*ACROSS),
            "y": [0, 0],
            "curves": {
                "over": at, "names": [c.result for c in self.curves], "units": self.units, "by": self.by, "label": self.label,
                "box": [TOP, HEIGHT - BOTTOM], "gap": GAP,
            },
        }  # fmt: skip

    def svg(
        self, key: str, alt: str, values: Mapping, texts: Mapping, ask: Callable[[float], Mapping[str, float]]
    ) -> str:
        """The drawing; `ask` gives the figure's results at another value of the slider."""
        along = [ask(value) for value in self.over.grid]
        lines = {c.result: [at[c.result] for at in along] for c in self.curves}
        seen = [x for line in lines.values() for x in line if not math.isnan(x)]
        low, high = (math.floor(math.log10(min(seen))), math.ceil(math.log10(max(seen)))) if seen else (0, 1)
        px, py = self.x.pixels(*ACROSS), Axis("", low, max(high, low + 1)).pixels(*UP)
        unit = self.units[int(values[self.by])]
        out = [
            begin(key, alt),
            '<g class="live-grid">',
            *columns(self.x),
            *(_tick(k, low, max(high, low + 1), unit, py) for k in range(TICKS)),
            f'<text x="2" y="14" data-axis>{escape(filled(self.label, texts))}</text></g>',
        ]
        for n, curve in enumerate(self.curves):
            points = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in zip(self.over.grid, lines[curve.result]) if y == y)
            out.append(f'<polyline data-curve="{n}" class="live-line" style="{curve.stroke}" points="{points}"/>')
        chosen = px(values[self.over.name])
        out.append(
            f'<polyline data-mark="0" class="live-dash" points="{chosen:.1f},{HEIGHT - BOTTOM} {chosen:.1f},{TOP}"/>'
        )
        for n, curve in enumerate(self.curves, 1):
            y = values[curve.result]
            place = f'cx="{chosen:.1f}" cy="{py(y):.1f}"' if y == y else 'style="display:none"'
            out.append(f'<circle data-mark="{n}" class="live-dot" r="3" {place}/>')
        return (
            "".join(out)
            + self._names(px(self.over.grid[-1]) + 6, {n: py(line[-1]) for n, line in lines.items()})
            + "</svg>"
        )

    def _names(self, x: float, ends: Mapping[str, float]) -> str:
        """Names beside the ends of their lines."""
        at = spread({name: y for name, y in ends.items() if y == y}, TOP, HEIGHT - BOTTOM)
        places = [f'y="{at[c.result] + 4:.1f}"' if c.result in at else 'style="display:none"' for c in self.curves]
        return "".join(f'<text data-end x="{x:.1f}" {place}>{c.label}</text>' for c, place in zip(self.curves, places))


def spread(heights: Mapping[str, float], top: float, foot: float, gap: float = GAP) -> dict[str, float]:
    """Heights of names beside the ends of their lines, moved apart where they are too near, in order.

    >>> spread({"a": 100.0, "b": 103.0, "c": 290.0, "d": 295.0}, 26, 280, 15)
    {'a': 100.0, 'b': 115.0, 'c': 265, 'd': 280}
    """
    order = sorted(heights, key=lambda name: heights[name])
    out, least = {}, top
    for name in order:
        out[name] = max(heights[name], least)
        least = out[name] + gap
    most = foot
    for name in reversed(order):
        out[name] = min(out[name], most)
        most = out[name] - gap
    return out


def _tick(k: int, low: int, high: int, unit: str, py: Callable[[float], float]) -> str:
    """Decade k above the lowest, unseen above the highest."""
    e = low + k
    place = f'transform="translate(0,{py(10.0**e):.1f})"' if e <= high else 'style="display:none"'
    text = tick(e, unit) if e <= high else ""
    return f'<g data-tick {place}><path d="M{LEFT} 0H{WIDTH - RIGHT}"/><text x="{LEFT - 6}" y="4" text-anchor="end">{text}</text></g>'
