"""Shapes and words of drawings that are SVG text: their ink is the page's own colour, so that dark mode needs nothing else."""

import re
from collections.abc import Iterable


def element(kind: str, text: str | None = None, **look) -> str:
    """One shape, or a word; a look that is None is left out.

    >>> element("path", d="M0 0h9", stroke_width=0.5), element("text", "a", x=2.0, text_anchor=None)
    ('<path d="M0 0h9" stroke-width=".5"/>', '<text x="2">a</text>')
    """
    given = {name.replace("_", "-"): x for name, x in look.items() if x is not None}
    texts = {name: x if isinstance(x, str) else re.sub(r"^0\.", ".", f"{x:g}") for name, x in given.items()}
    head = " ".join([kind, *(f'{name}="{x}"' for name, x in texts.items())])
    return f"<{head}/>" if text is None else f"<{head}>{text}</{kind}>"


def word(x: float, y: float, text, anchor: str | None = None, size: float | None = None, **look) -> str:
    """A word that begins, ends or has its middle at a place."""
    return element("text", str(text), x=x, y=y, font_size=size, text_anchor=anchor, **look)


def rect(x: float, y: float, wide: float, high: float, fill: str = "none", edge: float | None = 1, **look) -> str:
    """A rectangle with an edge of some width, or of none."""
    stroke = {} if edge is None else {"stroke": "currentColor", "stroke_width": None if edge == 1 else edge}
    return element("rect", x=x, y=y, width=wide, height=high, fill=fill, **stroke | look)


def frame(label: str, shapes: Iterable[str], size: int = 13) -> str:
    """What is inside of one frame of a film: its label above its shapes, and how large letters are."""
    return (
        f'<g font-family="sans-serif" font-size="{size}" fill="currentColor">{word(2, 14, label)}{"".join(shapes)}</g>'
    )
