"""On a phone: what scrolls sideways, how it shows that it does, and figures that a tap enlarges."""

import io
from collections import Counter

import pytest
from PIL import Image

from tests.book.conftest import ROOT, page_names
from tests.book.test_axe import settle

# Boxes of a page that scroll at 360 pixels: tables with more columns than a phone has room for, and columns that a program
# printed. Formulas and code have none, other pages neither.
MOST = {
    "book/ch01_rooflines.html": (2, 4),
    "book/ch02_sharding.html": (8, 7),
    "book/ch03_transformers.html": (2, 7),
    "book/ch04_training.html": (2, 10),
    "book/ch05_inference.html": (0, 25),
    "book/ch06_attention.html": (1, 17),
    "book/ch07_racks.html": (1, 6),
    "book/hardware.html": (4 + any((ROOT / "book/results").glob("hardware_*.json")), 0),
    "book/instructor.html": (5, 2),
    "book/methods.html": (1, 0),
    "book/runs.html": (4, 0),
}
SIDEWAYS = """() => [...document.querySelectorAll(".bd-article *")].filter(e => {
    if (e.closest("svg, math") || !["auto", "scroll"].includes(getComputedStyle(e).overflowX)) return false;
    return e.clientWidth && e.scrollWidth > e.clientWidth + 1;
  }).map(e => e.matches("div.math") ? "formula" : e.querySelector("table") ? "table" : e.closest(".cell_output") ? "printed"
    : e.matches("pre") ? "code" : e.className)"""
OPEN = """async () => {
    document.querySelectorAll("article details").forEach(d => { d.open = true });
    document.querySelectorAll(".bd-article section").forEach(s => { s.style.contentVisibility = "visible" });
    await document.fonts.load('16px "Course Math"', "x");
    await document.fonts.ready;
  }"""
SHADOWS = "e => getComputedStyle(e).backgroundImage.split('linear-gradient').length - 1"


@pytest.mark.parametrize("name", page_names())
@pytest.mark.sample(quick=0, slow=6)
def test_formulas_and_code_never_scroll_sideways_and_few_tables_do(visit, name):
    page = visit(name, width=360, height=800)
    page.evaluate(OPEN)
    for width in (360, 390):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found = Counter(page.evaluate(SIDEWAYS))
        tables, printed = (found.pop(kind, 0) for kind in ("table", "printed"))
        assert found == {}
        most = MOST.get(name, (0, 0))
        assert tables <= most[0] and printed <= most[1], (width, tables, printed)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_scrolls_shows_it_and_is_reached_by_keyboard(visit, scheme):
    page = visit("book/hardware.html", width=360, height=800, scheme=scheme)
    settle(page)
    box = page.locator(".cell_output > .text_html").first
    box.scroll_into_view_if_needed()
    assert box.evaluate(SHADOWS) == 4
    page.wait_for_function("document.querySelector('.cell_output > .text_html').tabIndex === 0")

    def edge() -> tuple:
        """How dark the right end of the box is, beside its rows, and how dark the page is."""
        b = box.bounding_box()
        shot = page.screenshot(clip={"x": b["x"], "y": b["y"] + 2, "width": b["width"], "height": 20})
        picture = Image.open(io.BytesIO(shot)).convert("L")
        return picture.getpixel((picture.width - 1, 2)), picture.getpixel((picture.width // 2, 2))

    there, ground = edge()
    assert abs(there - ground) > 40
    box.focus()
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "(([e]) => e.scrollLeft + e.clientWidth > e.scrollWidth - 2)(document.querySelectorAll('.cell_output > .text_html'))"
    )
    there, ground = edge()
    assert abs(there - ground) < 10


@pytest.mark.slow
def test_a_tap_enlarges_a_figure_and_escape_leads_back(visit):
    page = visit("book/ch02_sharding.html", width=360, height=800)
    settle(page)
    link = page.locator("a.enlarge").nth(2)
    small = link.locator("img").bounding_box()["width"]
    link.focus()
    page.keyboard.press("Enter")
    large = page.locator("dialog.enlarged img")
    assert large.bounding_box()["width"] > 1.5 * small
    assert large.get_attribute("alt") == link.locator("img").get_attribute("alt")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('dialog.enlarged figure').scrollLeft > 0")
    assert page.locator(".enlarged span").inner_text() == "More to the right: scroll"
    page.keyboard.press("Tab")  # past the last stop
    address = page.url
    for close in (lambda: page.keyboard.press("Escape"), page.go_back):
        close()
        page.wait_for_function("!document.querySelector('dialog.enlarged') && !history.state?.enlarged")
        assert link.evaluate("e => e === document.activeElement") and page.url == address
        page.keyboard.press("Enter")
        page.locator("dialog.enlarged").wait_for()
    assert visit.errors == []


@pytest.mark.slow
def test_without_javascript_a_figure_leads_to_its_file(visit, site):
    page = visit("book/ch02_sharding.html", width=360, height=800, javascript=False)
    href = page.locator("a.enlarge").first.get_attribute("href")
    assert (site / "book" / href).resolve().read_bytes().lstrip().startswith((b"<?xml", b"<svg"))
