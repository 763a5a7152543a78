"""What a page shows is what it says: kinds of faults that readers found once, looked for in all sources of the book."""

import ast
import re
from pathlib import Path

import pytest

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
