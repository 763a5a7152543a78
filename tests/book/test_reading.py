"""What a reader does with a page: scroll a box, enlarge a figure, follow a link; and what is there without JavaScript."""

import io

import pytest
from PIL import Image

from tests.book.conftest import settle

SHADOWS = "e => getComputedStyle(e).backgroundImage.split('linear-gradient').length - 1"


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


def test_without_javascript_a_figure_leads_to_its_file(visit, site):
    page = visit("book/ch02_sharding.html", width=360, height=800, javascript=False)
    href = page.locator("a.enlarge").first.get_attribute("href")
    assert (site / "book" / href).resolve().read_bytes().lstrip().startswith((b"<?xml", b"<svg"))


def test_maths_is_there_without_javascript_in_a_font_of_the_site(visit):
    page = visit("book/ch01_rooflines.html", javascript=False)
    fraction = page.locator("math[display] mfrac").first
    numerator, denominator = (fraction.locator("> *").nth(i).bounding_box() for i in (0, 1))
    assert numerator["y"] + numerator["height"] <= denominator["y"] + 2  # a fraction is drawn as one
    page = visit("book/ch01_rooflines.html")
    settle(page)
    assert page.evaluate("document.fonts.check('16px \"Course Math\"', 'T')")
    assert visit.asked == []


def test_without_javascript_pages_have_colours(visit):
    """The theme leaves them to a script, and the bar at the top would be transparent over the text."""
    page = visit("book/ch02_sharding.html", width=360, javascript=False)
    assert page.locator("html").get_attribute("data-theme") == "light"


def test_a_link_to_a_setting_leads_to_its_figure(visit):
    page = visit("book/ch02_sharding.html#live-all-gather?links=line&step=2", width=360, height=740)
    settle(page)
    page.wait_for_function("Math.abs(document.getElementById('live-all-gather').getBoundingClientRect().top) < 300")
