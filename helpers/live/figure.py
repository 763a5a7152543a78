"""A live figure as data: its function, controls, results and drawing, as a page gets it with and without JavaScript.

The function is traced to JavaScript by `helpers.live.jaxpr_to_javascript`; `settings.js` reads the controls, and
`figure_controls.js` calls the function, fills tables and sentence, and moves what `drawings.py` has drawn.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from math import nan

from .controls import Choice, Size, head_html
from .drawings import Boxes, Plot
from .jaxpr_to_javascript import javascript
from .tables import Columns, Result, Rows, table_html
from .words import counted, filled

MANY = 5  # controls; on a phone more of them stand smaller, and the sentence stays in sight


@dataclass(frozen=True)
class LiveFigure:
    """Everything a page needs. `function` takes the settings of all controls by name and returns a dict of numbers.

    sentence  said after each change: {name} of a control or result stands for its text
    unknown   said instead where a result is unknown: why it is
    table     none: a row for each result with a label
    hint, rules  what stands above the controls, and below the figure
    """

    name: str
    title: str
    function: Callable[..., dict[str, float]]
    controls: tuple[Size | Choice, ...]
    results: tuple[Result, ...]
    sentence: str
    alt: str = ""
    drawing: Plot | Boxes | None = None
    table: Rows | Columns | None = None
    unknown: str = ""
    hint: str = ""
    rules: str = ""
    runners = ("grids.js", "settings.js", "figure_controls.js")  # the scripts that it wants

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """Names of the function's arguments: sizes, and what some option of a menu gives."""
        sizes = [c.name for c in self.controls if isinstance(c, Size)]
        options = [o for c in self.controls if isinstance(c, Choice) for o in c.options.values()]
        given = [name for o in options for name, x in o.items() if not isinstance(x, str)]
        return tuple(dict.fromkeys([*sizes, *given]))

    def _options(self, chosen: Mapping[str, float | str] | None) -> dict[str, float | str]:
        """What the menus give: numbers and words."""
        menus = [c for c in self.controls if isinstance(c, Choice)]
        return {n: x for c in menus for n, x in c.options[(chosen or {}).get(c.name, c.value)].items()}

    def settings(self, chosen: Mapping[str, float | str] | None = None) -> dict[str, float]:
        """The arguments of the function; `chosen` are sizes that a reader has moved, and options. Unknown is what no menu gives."""
        at, sizes = dict.fromkeys(self.arguments, nan), [c for c in self.controls if isinstance(c, Size)]
        at |= {c.name: c.value for c in sizes}
        at |= {name: x for name, x in self._options(chosen).items() if not isinstance(x, str)}
        moved = {c.name: chosen[c.name] for c in sizes if c.name in (chosen or {})}
        at = {name: float(x) for name, x in (at | moved).items()}
        followed = {c.name: at[c.follows] for c in sizes if c.follows and c.name not in moved}
        return at | {name: x for name, x in followed.items() if x == x}

    def values(self, chosen: Mapping[str, float | str] | None = None) -> dict[str, float]:
        """The function's results, computed by Python."""
        return self.function(**self.settings(chosen))

    def said(self, chosen: Mapping[str, float | str] | None = None) -> dict[str, str]:
        """What stands for each control and each result."""
        at, values = self.settings(chosen), self.values(chosen)
        said = {name: x for name, x in self._options(chosen).items() if isinstance(x, str)}
        said |= {c.name: f"{at[c.name]:,.0f}" for c in self.controls if isinstance(c, Size)}
        said |= {c.name: (chosen or {}).get(c.name, c.value) for c in self.controls if isinstance(c, Choice)}
        said |= {r.name: r.text(values[r.name]) for r in self.results}
        return {name: filled(text, said) for name, text in said.items()}

    def told(self, chosen: Mapping[str, float | str] | None = None) -> str:
        """The sentence."""
        values = self.values(chosen)
        lacks = self.unknown and any(values[r.name] != values[r.name] for r in self.results)
        return counted(filled(self.unknown if lacks else self.sentence, self.said(chosen)))

    def script(self) -> str:
        """The data and the traced function as one call of JavaScript."""
        names = self.arguments
        traced = javascript(lambda *numbers: self.function(**dict(zip(names, numbers))), *[8.0] * len(names))
        data = {
            "id": f"live-{self.name}",
            "args": self.arguments,
            "controls": [c.data for c in self.controls],
            "results": [r.data for r in self.results],
            **(self.drawing.data() if self.drawing else {"marks": []}),
            **({"rows": self.table.rows} if isinstance(self.table, Columns) else {}),
            **({"alt": self.alt} if "{" in self.alt else {}),
            "say": self.sentence,
            "unknown": self.unknown,
        }
        return pushed(data, traced)

    def html(self) -> str:
        """The figure, its table, and its controls, which stay hidden until the script has started."""
        key, at, values, said = f"live-{self.name}", self.settings(), self.values(), self.said()
        controls = "".join(
            c.html(key, not c.follows or at[c.follows] == at[c.follows], at[c.name])
            if isinstance(c, Size)
            else c.html(key)
            for c in self.controls
        )
        kind = "live live-many" if len(self.controls) > MANY else "live"
        results = {r.name: r for r in self.results}
        return (
            head_html(key, self.title, self.hint, controls, self.told(), kind)
            + (self.drawing.svg(key, filled(self.alt, said), values | at, said) if self.drawing else "")
            + (
                self.table.html(self.title, results, values, said)
                if self.table
                else table_html(self.title, self.results, values, said)
            )
            + (f"<figcaption>{escape(self.rules)}</figcaption>" if self.rules else "")
            + "</figure>"
        )


def pushed(data: Mapping, functions: str) -> str:
    """What a figure hands to `figure_controls.js`, as one call of JavaScript."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
    return f"(window.liveFigures=window.liveFigures||[]).push([{text},\n{functions}]);"
