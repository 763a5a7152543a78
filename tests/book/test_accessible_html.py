"""What a page says to assistive technology where Sphinx and the theme write it otherwise; axe-core judges the whole in test_pages."""

import re

import pytest

from tests.book.conftest import extension, page_names

accessible = extension("accessible")


@pytest.mark.parametrize(
    "written, want",
    [
        ('<th class="head"></th>', "<td></td>"),
        ('<th class="head stub"><p></p></th>', "<td></td>"),
        ('<th class="head"><p>N</p></th>', '<th class="head"><p>N</p></th>'),
        ('<div role="list"><div role="doc-biblioentry" id="a">', '<div><div id="a">'),
    ],
)
def test_accessible_html(written, want):
    assert accessible.repaired(written) == want


def test_the_templates_have_their_effect(site):
    """A theme that renames a block or a part fails here."""
    for name in page_names():
        page = (site / name).read_text(encoding="utf-8")
        contents = re.search(r'<aside aria-label="Book">.*?</aside>', page, re.DOTALL)[0]
        assert contents.count("<summary aria-label=") == contents.count("<summary") > 5
        assert "search-button-field" in contents and ' aria-label="Search"' not in contents
        assert 'data-theme="light"' in page and page.count("<h1") == 1 and "jb-print" not in page, name
        assert page.count('name="viewport"') <= 2 and "fontawesome.js" not in page and 'rel="preload"' not in page, name
