"""No number is typed twice, `{{ expression | spec }}` computes it; and what a page shows is what it says."""

import ast
import re
from pathlib import Path

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


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.relative_to(ROOT).as_posix())
@pytest.mark.sample(quick=12)
def test_computed_numbers_evaluate(path):
    """As the site and the generator do it, without building either."""
    from helpers import prose as numbers

    text = numbers.render(path.read_text(encoding="utf-8"), where=path.name)
    assert "{{" not in re.sub(r"```.*?```", "", text, flags=re.DOTALL)


ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "book").glob("*.md"))
CELL = re.compile(r"^```\{code-cell\} ipython3\n((?::[^\n]*\n)*)(.*?)^```", re.M | re.S)
MEASURES = re.compile(r"machine\.(measure|sweep\w*)\(|perf_counter|timeit")


def cells(path: Path) -> list[tuple[str, str]]:
    """(options, code) of each code cell, those apart that a page shows as text."""
    return CELL.findall(re.sub(r"^`{4,}.*?^`{4,}$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S))


def assigned(code: str) -> set[str]:
    """Names that a cell's statements make, functions apart."""
    return {n.id for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def shows(code: str) -> bool:
    """True if a cell may put something out."""
    return any(isinstance(statement, ast.Expr | ast.For | ast.If) for statement in ast.parse(code).body)


def live_outputs(found: list[tuple[str, str]]) -> list[str]:
    """Cells whose output a page shows though it depends on how fast the building machine is; a later cell may give a name anew."""
    live, faults = set(), []
    for options, code in found:
        names = {n.id for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        if MEASURES.search(code):
            live |= assigned(code)
        else:
            live -= assigned(code)
        if (MEASURES.search(code) or names & live) and shows(code) and not re.search("remove-(output|cell)", options):
            faults.append(code)
    return faults


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.stem)
def test_no_timing_of_the_building_machine_is_a_figure_of_the_book(path):
    assert not live_outputs(cells(path))


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.stem)
def test_the_text_of_a_link_has_no_formula(path):
    """Sphinx writes it out as it stands, dollars and all."""
    text = path.read_text(encoding="utf-8")
    assert not re.findall(r"\{(?:ref|doc|term|numref)\}`[^`<]*\$[^`]*`", text)
    labels = re.findall(r"^\(([\w-]+)\)=\n#+ .*\$.*$", text, re.M)
    linked = [label for label in labels for p in PAGES if re.search(rf"\{{ref\}}`{label}`", p.read_text("utf-8"))]
    assert not linked, "a heading with a formula needs a link with words of its own"


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.stem)
def test_a_folded_cell_can_be_unfolded(path):
    """The next cell is on the page: one without its code, or that is not there at all, is no folded cell."""
    text = path.read_text(encoding="utf-8")
    for said in re.finditer(r"[Tt]he folded cells?\b", text):
        options = CELL.search(text, said.end())[1]
        assert "remove-input" not in options and "remove-cell" not in options, text[said.start() : said.end() + 80]
