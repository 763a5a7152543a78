"""A page is as tall as it says before it is laid out."""

import doctest
import importlib.util

import pytest

from tests.book.conftest import ROOT, page_names
from tests.book.test_axe import settle
from tests.tiers import repeats, some

spec = importlib.util.spec_from_file_location("section_heights", ROOT / "book/_ext/section_heights.py")
heights = importlib.util.module_from_spec(spec)
spec.loader.exec_module(heights)


SUM = "sections => sections.reduce((sum, s) => sum + s.getBoundingClientRect().height, 0)"


def test_doctests():
    assert doctest.testmod(heights).failed == 0


def test_what_is_folded_counts_as_one_line_and_a_part_counts_in_what_holds_it():
    page = """<section id="a"><p>four</p><details><summary>two</summary><p>unseen</p><pre>1\n</pre></details>
    <section class="c" id="b"><table><tr><td>in a cell</td></tr></table><img alt="x"><details open><summary>s</summary><pre>1\n2\n</pre>
    </details></section></section>"""
    sections = heights.Sections()
    sections.feed(page)
    b = {"letters": 1, "lines": 2, "words": 3, "rows": 1, "formulas": 0, "pictures": 1, "folds": 1}
    assert sections.found == {"b": b, "a": b | {"letters": 8, "folds": 2}}


def test_a_page_that_was_written_before_stays_as_it_is():
    page = heights.guessed('<section class="c" id="a"><p>x</p></section>')
    assert page.count("style=") == 1 and heights.guessed(page) == page


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.sample(quick=0, slow=1)
def test_what_is_guessed_is_near_what_is_laid_out(visit, width):
    off = {}
    for name in some(page_names(), 9):
        tall = []
        for javascript in (False, True):  # which lays out what is far in its pauses
            page = visit(name, width=width, javascript=javascript)
            if javascript:
                settle(page)
            tall.append(page.locator(".bd-article > section > section").evaluate_all(SUM))
            page.context.close()
        if tall[1] > 1000:
            off[name] = tall[0] / tall[1]
    assert len(off) > repeats(6, 15) and {name: ratio for name, ratio in off.items() if not 0.8 < ratio < 1.25} == {}
