"""The controls and results of a live figure as data, and how a page shows them without JavaScript."""

import math
import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from html import escape

from helpers import show

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


PLAY = '<div class="live-play"><button type="button" name="play">Play</button></div>'  # what play.js works


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


def head_html(
    key: str, title: str, hint: str, controls: str, sentence: str, kind: str = "live", scrolls: bool = False
) -> str:
    """How a figure begins: the controls, which stay hidden until the script has started, and what it says.

    scrolls  whether the sentence has a scroll of its own on a phone, and so has to be reached by keys
    """
    hint = hint and f"<p>{hint}</p>"
    return (
        f'<figure class="{kind}" id="{key}">'
        f'<form class="live-controls" aria-label="Settings of the figure: {escape(title)}" hidden>{hint}{controls}</form>'
        f'<p role="status" aria-live="polite"{" tabindex=0" if scrolls else ""}>{escape(sentence)}</p>'
    )
