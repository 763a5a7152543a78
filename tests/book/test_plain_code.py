"""Code whose spans are gone looks as before: what stood in them has no colour of its own."""

import re

import pytest

from tests.book.conftest import extension

plain_code = extension("plain_code")
pytestmark = pytest.mark.slow


def test_no_class_that_goes_has_a_colour_of_its_own(site):
    sheet = (site / "_static/site.css").read_text(encoding="utf-8")
    for theme in ("light", "dark"):
        of = lambda cls, theme=theme: re.search(  # noqa: E731
            rf'html\[data-theme="{theme}"\] \.highlight{cls}\{{[^}}]*?(?<!-)color: (#\w+)', sheet
        )
        base = of("")[1]
        assert [c for c in plain_code.CLASSES if (found := of(rf" \.{c}")) and found[1] != base] == []
        assert of(r" \.k")[1] != base  # a keyword has one, so the pattern finds what there is


def test_pages_have_none_of_them_and_keep_the_others(site):
    page = (site / "book/ch01_rooflines.html").read_text(encoding="utf-8")
    code = "".join(re.findall(r'<div class="highlight"><pre>.*?</pre>', page, re.S))
    assert not plain_code.PLAIN.search(code) and '<span class="k">' in code
