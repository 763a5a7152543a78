"""No number is typed twice: a figure with a unit is computed, `{{ expression | spec }}`, or stands in what an exercise gives or assumes."""

import re

import pytest

from tests.book.conftest import ROOT

SOURCES = sorted([*(ROOT / "book").glob("*.md"), *(ROOT / "solutions").glob("*.md")])

NUMBER = r"(?<![\w.\[^{])(?<!\w-)\d(?:[\d,.]*\d)?(?:e[+-]?\d+)?(?:\s*(?:\\times|\\cdot|×|·)\s*10(?:\^\{?-?\d+\}?|[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+))?"
PREFIX = r"(?:[kKMGTPE]i?|[mµμnp])?"
UNIT = (
    rf"(?:{PREFIX}(?:s|FLOPs?|OPs?|B|bytes?|bits?|b)(?:/s|ps|/byte|/B)?|FLOPs? per (?:second|byte)"
    r"|(?:milli|micro|nano)?seconds?|minutes|hours|[MG]Hz|watts?)"
)
TYPED = re.compile(rf"({NUMBER})(?:\s|~|\\,|\\;|-|\\ |\$)*(?:\\(?:text|mathrm|,text)\{{\s*)?({UNIT})(?![\w(\[-])")
EXACT = re.compile(r"^(?:1?\d[ -](?:bytes?|bits?)|1e9 bytes)$")  # definitions: bf16 has 2 bytes, a GB has 1e9 bytes
GIVEN = re.compile(r"^(?:[★☆]+ · |Assume: )")
FENCE = re.compile(r"^\s*(`{3,})(?:\{([\w-]+)\})?")


def prose(text: str):
    """(line number, text) outside front matter, code, data lines, what exercises assume, computed numbers, code spans and quotations."""
    lines = text.splitlines()
    start = lines.index("---", 1) + 1 if lines and lines[0] == "---" else 0
    code, closing = False, None
    for number, line in enumerate(lines[start:], start + 1):
        if mark := FENCE.match(line):
            if closing is None:
                closing, code = (
                    mark[1],
                    mark[2] not in ("math", "note", "tip", "important", "warning", "admonition", "dropdown"),
                )
            elif line.strip() == closing:
                closing, code = None, False
            continue
        if code or GIVEN.match(line) or line.startswith("% "):
            continue
        line = re.sub(r"\*Data:.*?\*(?!\w)", "", line)
        line = re.sub(r"\{\{.*?\}\}", "", line)
        line = re.sub(r"(`+).+?\1", "", line)
        yield number, re.sub(r'"[^"]*"|“[^”]*”', "", line)  # what a source says is quoted


def typed(text: str) -> list[tuple[int, str]]:
    """Every typed number with a unit, and its line."""
    found = [(n, m[0].strip()) for n, line in prose(text) for m in TYPED.finditer(line)]
    return [(n, what) for n, what in found if not EXACT.match(what)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_numbers_with_units_are_computed(path):
    assert [f"{path.name}, line {n}: {what}" for n, what in typed(path.read_text(encoding="utf-8"))] == []


def test_computed_numbers_of_every_source_evaluate():
    """As the site and the generator do it, without building either."""
    from helpers import prose as numbers

    for path in SOURCES:
        text = numbers.render(path.read_text(encoding="utf-8"), where=path.name)
        assert "{{" not in re.sub(r"```.*?```", "", text, flags=re.DOTALL), path.name
