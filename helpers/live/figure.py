"""A live figure as data: its function, controls, results and drawing, as a page gets it with and without JavaScript.

The function is traced to JavaScript by `helpers.live.jaxpr_to_javascript`; `figure_controls.js` reads the controls, calls it, and
moves what `drawings.py` has drawn.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

from .controls import Choice, Result, Slider, control_data, control_html, head_html, table_html
from .drawings import Boxes, Plot
from .jaxpr_to_javascript import javascript


@dataclass(frozen=True)
class LiveFigure:
    """Everything a page needs. `function` takes the settings of all controls by name and returns a dict of numbers."""

    name: str
    title: str
    alt: str
    function: Callable[..., dict[str, float]]
    controls: tuple[Slider | Choice, ...]
    results: tuple[Result, ...]
    drawing: Plot | Boxes
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
            **self.drawing.data(),
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
            + self.drawing.svg(key, self.alt, values, said)
            + (table_html(self.title, self.results, said) if self.drawing.table else "")
            + "</figure>"
        )
