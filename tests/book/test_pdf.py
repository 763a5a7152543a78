"""The book as a PDF: pages in order with bookmarks, formulas and text in it, nothing of the solutions."""

import importlib.util
import sys

import pytest

from tests.book.conftest import ROOT, page_names
from tools.check_site import LEAKS

spec = importlib.util.spec_from_file_location("book_pdf", ROOT / "book/pdf.py")
pdf = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pdf)


def test_its_pages_are_those_of_the_contents():
    assert pdf.pages() == page_names()


def test_the_start_page_has_a_place_for_it(tmp_path):
    assert pdf.PLACE in (ROOT / "book/intro.md").read_text(encoding="utf-8")
    (tmp_path / "book").mkdir()
    (tmp_path / "book/intro.html").write_text(f"<p>x{pdf.PLACE}</p>")
    pdf.lead(tmp_path)
    pdf.lead(tmp_path)
    assert (tmp_path / "book/intro.html").read_text().count(pdf.NAME) == 1


def test_it_says_what_is_missing(tmp_path, capsys, monkeypatch):
    assert pdf.main([str(tmp_path)]) == 2 and "make book first" in capsys.readouterr().out
    (tmp_path / "book").mkdir()
    (tmp_path / "book/intro.html").write_text("")
    monkeypatch.setitem(sys.modules, "pypdf", None)
    assert pdf.main([str(tmp_path)]) == 2 and "pip install" in capsys.readouterr().out


def half_empty(page) -> bool:
    """Whether the last text of a printed page stands in its upper half."""
    heights = []
    page.extract_text(
        visitor_text=lambda text, cm, tm, *_: text.strip() and heights.append(cm[1] * tm[4] + cm[3] * tm[5] + cm[5])
    )
    return min(heights) > float(page.mediabox.height) / 2


@pytest.mark.slow
def test_pages_are_printed_with_bookmarks(browser, site, tmp_path):
    pypdf = pytest.importorskip("pypdf")
    chosen = [
        "book/intro.html",
        "book/explorer.html",
        "book/ch01_rooflines.html",
        "notebooks/ch01_rooflines/exercises.html",
    ]
    pdf.make(browser, site, chosen, tmp_path / "some.pdf")
    found = pypdf.PdfReader(tmp_path / "some.pdf")
    assert [o.title for o in found.outline] == [
        "Rooflines to Racks",
        "The explorer of sharded products",
        "1. Rooflines: where the time goes",
        "Rooflines: exercises",
    ]
    last = {found.get_destination_page_number(o) - 1 for o in found.outline} | {len(found.pages) - 1}
    assert [n for n, p in enumerate(found.pages) if n not in last and half_empty(p)] == []
    text = "\n".join(p.extract_text() for p in found.pages)
    assert "Predict, run, count" in text and "Exercise 1.1" in text
    assert not LEAKS.search(text) and "Mesh axis X" not in text  # no controls on paper
    assert "Play" not in text and not {"code", "code and output"} & set(text.split("\n"))  # nor buttons and folds
