"""What a figure says: numbers with their units, one thing as one, and sentences whose names in braces stand for other words."""

import math
import re
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal

from helpers import show

PREFIXED = {
    "s": show.seconds,
    "FLOPs/s": show.flops_rate,
    "FLOPs": show.flops,
    "B/s": show.rate,
    "B": show.bytes,
}
COUNT = "count"  # the unit of whole numbers, all of whose digits are said


def reading(value: float, unit: str = "") -> str:
    """Three digits and the unit, as `helpers.show` prints it; `text` in figure_controls.js does the same.

    >>> reading(1.7612e-4, "s"), reading(1.97e14, "FLOPs/s"), reading(252.93), reading(8755.6, "FLOPs/byte")
    ('176 µs', '197 TFLOPs/s', '253', '8,756 FLOPs/byte')
    >>> reading(math.inf), reading(math.nan, "s"), reading(0.0), reading(7.0, COUNT)
    ('infinite', 'unknown', '0', '7')
    >>> reading(312.5), reading(2.5e15 / 8e12)                                     # C/W of a GB200
    ('313', '313')
    """
    if math.isnan(value):
        return "unknown"
    if unit in PREFIXED:
        return PREFIXED[unit](value)
    if math.isinf(value):
        return "infinite"
    if unit == COUNT:
        return f"{value:,.0f}"
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

    `ungrouped` in planner.js does the same.

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


NAME = re.compile(r"\{(\w+)\}")


def filled(sentence: str, texts: Mapping[str, str]) -> str:
    """A sentence with the words that its names stand for, whose own names are filled in too; `fill` in figure_controls.js does it.

    >>> filled("{who}: {part}", {"who": "a model", "part": "{D} numbers", "D": "4,096"})
    'a model: 4,096 numbers'
    """
    return NAME.sub(lambda match: filled(texts[match[1]], texts), sentence)
