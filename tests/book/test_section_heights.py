"""A page is as tall as it says before it is laid out."""

import pytest

from tests.book.conftest import extension

heights = extension("section_heights")


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


def test_a_browser_takes_what_a_section_says_for_its_height(visit):
    """That this is near its height, test_pages holds of every page."""
    page = visit("book/ch04_training.html", width=390, javascript=False)
    last = page.locator(".bd-article > section > section").last
    said, tall = last.evaluate("s => [parseFloat(getComputedStyle(s).getPropertyValue('--narrow')), s.clientHeight]")
    assert tall == pytest.approx(said, abs=1)
