"""The data line under an exercise's heading: how hard it is, how much rests on it, how long it takes, what it needs.

What a statement takes for granted stands in a paragraph of its own below, one sentence that begins with `ASSUME`.
"""

import re
from dataclasses import dataclass

LINE = re.compile(
    r"^(?P<stars>[★☆]{3})(?: · importance (?P<importance>[1-5])/5)? · (?P<minutes>\d+) min"
    r" · (?P<points>\d+(?:\.\d+)?) points?(?:: [^·\n]+?)?(?: · after (?P<after>[^·\n]+?))?(?: · needs (?P<needs>[^·\n]+))?$",
    re.M,
)
ASSUME = "Assume: "
SECTION = re.compile(r"\{ref\}`(?:[^`<]*<)?([\w:.-]+)>?`|\]\([^)#]*#([\w:.-]+)\)")
NUMBER = re.compile(r"(?<![\d.])\d\.\d{1,2}(?![\d.e])")

LIKE = "★★☆ · importance 4/5 · 15 min · 3 points · after {ref}`sec-critical` · needs 1.3"


@dataclass(frozen=True)
class DataLine:
    """What the data line says. How points are given may follow their number: "3 points: 1 for the gather, 2 for the program".

    stars       1 to 3: apply one idea, combine some, design
    importance  1 to 5: how much later chapters and real work rest on it; 3 if the line does not say
    minutes     it takes
    points      it is worth
    after       labels of the sections after which all that it needs has been read
    needs       exercises that come before it
    """

    stars: int
    importance: int
    minutes: int
    points: float
    after: tuple[str, ...]
    needs: tuple[str, ...]


def data_line(text: str) -> DataLine | None:
    """The first data line of a text, as the source has it or translated for a notebook; None if there is none.

    >>> data_line(LIKE)
    DataLine(stars=2, importance=4, minutes=15, points=3.0, after=('sec-critical',), needs=('1.3',))
    >>> data_line("★☆☆ · 5 min · 1 point · after [Exactly](reading.ipynb#sec-critical)").after
    ('sec-critical',)
    >>> data_line("two stars · 5 min"), data_line("★☆☆ · 5 min · 1 point · in bf16; needs 1.3")
    (None, None)
    """
    found = LINE.search(text)
    if not found:
        return None
    after = tuple(a or b for a, b in SECTION.findall(found["after"] or ""))
    needs = tuple(NUMBER.findall(found["needs"] or ""))
    stars, importance = found["stars"].count("★"), int(found["importance"] or 3)
    return DataLine(stars, importance, int(found["minutes"]), float(found["points"]), after, needs)
