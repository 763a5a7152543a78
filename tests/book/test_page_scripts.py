"""Pages ask for no file that they cannot use, and still for all that they use."""

import re
from types import SimpleNamespace

import pytest

from tests.book.conftest import extension

lean = extension("page_scripts")


def script(filename=None, **attributes):
    return SimpleNamespace(filename=filename, attributes=attributes)


@pytest.mark.parametrize("body, kept", [
    ("<p>x</p>", ["a.js"]),
    ('<div class="sd-tab-set"></div>', ["a.js", "design-tabs.js"]),
    ('<section id="sec-roofline"></section>', ["a.js", "record.js"]),
])  # fmt: skip
def test_a_page_keeps_the_scripts_it_uses_once_and_they_wait(body, kept):
    told = [
        script("a.js"),
        script("design-tabs.js"),
        script("record.js"),
        script("a.js"),
        script(body="DOCUMENTATION_OPTIONS.pagename = 'x';"),
    ]
    found = lean.kept(told, body)
    assert [s.filename for s in found] == kept and all(s.attributes["defer"] for s in found)


def test_an_inline_script_stays_and_does_not_wait():
    inline = script(body="let x = 1;")
    assert lean.kept([inline], "") == [inline] and "defer" not in inline.attributes


def test_only_the_page_that_searches_loads_the_index(site):
    """A theme that writes these lines otherwise, or searches on every page, fails here."""
    loads = {p.name for p in site.rglob("*.html") if re.search(r'src="[^"]*search_sections\.js', p.read_text("utf-8"))}
    assert loads == {"search.html"} and not (site / "searchindex.js").exists()


def test_the_script_of_tabs_is_where_tabs_are(site):
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert ("sd-tab-set" in text) == ("design-tabs.js" in text), path.name


def test_the_contents_of_a_page_mark_where_the_reader_is(visit):
    """After jumps as well, down and up, to a heading and into the midst of what stands under it."""
    page = visit("book/ch01_rooflines.html")
    for section in ("what-a-chip-is", "the-roofline", "worked-problems", "arithmetic-intensity"):
        page.evaluate("id => document.getElementById(id).scrollIntoView()", section)
        page.locator(f"#page-contents a[href='#{section}'][aria-current=true]").wait_for()
        page.evaluate("scrollBy(0, 60)")
        page.wait_for_timeout(100)
        assert page.locator("#page-contents [aria-current]").count() == 1
        assert page.locator(f"#page-contents a[href='#{section}'][aria-current=true]").count() == 1
    assert visit.errors == []


def test_the_list_at_the_left_has_the_sections_and_is_the_only_one(visit):
    page = visit("book/ch01_rooflines.html")
    here = page.locator(".bd-sidebar-primary #page-contents")
    sections = [
        f"#{s}" for s in page.locator(".bd-article > section > section").evaluate_all("all => all.map(s => s.id)")
    ]
    shown = here.locator("a:visible").evaluate_all("all => all.map(a => a.hash)")
    assert [s for s in shown if s in sections] == sections and len(shown) < len(sections) + 4
    assert not page.locator(".bd-sidebar-secondary").is_visible() and not page.locator(".secondary-toggle").is_visible()
    here.locator(f"a[href='{sections[3]}']").click()
    here.locator(f"a[href='{sections[3]}'][aria-current]").wait_for()
    assert visit.errors == []
