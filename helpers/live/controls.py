"""The controls of a live figure as data, and how a page shows them before JavaScript has begun."""

import math
from dataclasses import dataclass
from functools import cached_property
from html import escape


@dataclass(frozen=True)
class Size:
    """A size on a slider whose positions are round numbers: each doubling in `parts` equal steps, multiples of `grain`.

    A value off the grid, as public models have them, is kept until this very slider moves.

    follows  the argument whose value it takes until a reader moves it; where no menu gives that argument, it is not used
    until    controls whose move takes it back there
    steps    its positions, if they are others: then it takes no value between them

    >>> Size("N", "N", 14, 8, 32, parts=4).grid
    (8, 10, 12, 14, 16, 20, 24, 28, 32)
    >>> Size("D", "D", 300, 256, 512, parts=8, grain=64).grid
    (256, 320, 384, 448, 512)
    """

    name: str
    label: str
    value: int
    low: int
    high: int
    parts: int = 4
    grain: int = 1
    follows: str = ""
    until: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()

    @cached_property
    def grid(self) -> tuple[int, ...]:
        if self.steps:
            return self.steps
        octaves = [self.low * 2**e for e in range((self.high // self.low).bit_length() - 1)]
        exact = [low + low * n / self.parts for low in octaves for n in range(self.parts)]
        return tuple(sorted({math.floor(x / self.grain + 0.5) * self.grain for x in exact} | {self.high}))

    def position(self, value: float) -> int:
        """The place on the grid that is nearest by ratio; the lower one of two."""
        return min(range(len(self.grid)), key=lambda n: abs(math.log(self.grid[n] / value)))

    @property
    def data(self) -> dict:
        """What the scripts read."""
        follows = {"follows": self.follows, "until": self.until} if self.follows else {}
        exact = {"exact": 1} if self.steps else {}
        return {"name": self.name, "grid": self.grid, "value": self.value} | follows | exact

    def html(self, key: str, used: bool = True, value: float = 0) -> str:
        name, value = f"{key}-{self.name}", value or self.value
        text = f"{value:,.0f}" if used else "not used"
        return (
            f'<div><label for="{name}">{escape(self.label)}</label><input type="range" id="{name}" name="{self.name}" min="0" '
            f'max="{len(self.grid) - 1}" step="1" value="{self.position(value)}" autocomplete="off" '
            f'aria-valuetext="{text}"{"" if used else " disabled"}><span>{text}</span></div>'
        )


@dataclass(frozen=True)
class Choice:
    """A menu: each option sets arguments of the figure's function, and words of its sentences."""

    name: str
    label: str
    value: str
    options: dict[str, dict[str, float | str]]

    @property
    def data(self) -> dict:
        """What the scripts read."""
        return {"name": self.name, "options": self.options}

    def html(self, key: str) -> str:
        """A label with its menu; the browser's own, so the keyboard works."""
        name = f"{key}-{self.name}"
        options = "".join(f"<option{' selected' if o == self.value else ''}>{escape(o)}</option>" for o in self.options)
        label = f'<label for="{name}">{escape(self.label)}</label>'
        return f'<div>{label}<select id="{name}" name="{self.name}" autocomplete="off">{options}</select></div>'


def powers(low: int, high: int) -> tuple[int, ...]:
    """Powers of two from 2**low to 2**high, as steps of a size.

    >>> powers(2, 4)
    (4, 8, 16)
    """
    return tuple(2**e for e in range(low, high + 1))


PLAY = '<div class="live-play"><button type="button" name="play">Play</button></div>'  # what play.js works


def head_html(
    key: str,
    title: str,
    hint: str,
    controls: str,
    sentence: str,
    kind: str = "live",
    scrolls: bool = False,
    above: str = "",
) -> str:
    """How a figure begins: the controls, which stay hidden until the script has started, and what it says.

    scrolls  whether the sentence has a scroll of its own on a phone, and so has to be reached by keys
    above    what stands before the controls
    """
    hint = hint and f"<p>{hint}</p>"
    return (
        f'<figure class="{kind}" id="{key}">{above}'
        f'<form class="live-controls" aria-label="Settings of the figure: {escape(title)}" hidden>{hint}{controls}</form>'
        f'<p role="status" aria-live="polite"{" tabindex=0" if scrolls else ""}>{escape(sentence)}</p>'
    )
