"""Pages for everybody: axe-core on desktop and phone, light and dark; nothing sideways on a phone; nothing from another host."""

import os
import re
from pathlib import Path

import pytest

from tests.book.conftest import ROOT, page_names

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
COLOURS = ["color-contrast", "link-in-text-block"]  # which the other scheme changes, and nothing else
SIZES = {"desktop": (1280, 900), "phone": (390, 800)}
PAGES = [*page_names(), "search.html", "genindex.html"]


@pytest.fixture(scope="module")
def axe() -> str:
    """axe-core's source, from npm."""
    package = "node_modules/axe-core/axe.min.js"
    places = (
        [Path(os.environ["AXE_CORE"])]
        if "AXE_CORE" in os.environ
        else [ROOT / "tests/browser" / package, ROOT / package]
    )
    found = next((p for p in places if p.is_file()), None)
    if found is None:
        pytest.skip("no axe-core: npm install --prefix tests/browser, or point AXE_CORE at its axe.min.js")
    return found.read_text(encoding="utf-8")


def settle(page) -> None:
    """Wait until the page has its fonts, and all of it is laid out."""
    page.evaluate("async () => { await document.fonts.ready }")
    page.wait_for_function(
        "[...document.querySelectorAll('.bd-article > section section')].every(s => s.style.contentVisibility === 'visible')"
    )


def walk(page) -> None:
    """Go down a page as a reader does: boxes are measured when they come near."""
    page.evaluate("""async () => {
      const frame = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
      for (let y = 0; y < document.documentElement.scrollHeight; y += 500) { scrollTo(0, y); await frame(); await frame(); }
      scrollTo(0, 0); await frame();
    }""")


def picture(page, name: str) -> None:
    """The whole page, kept under _build/screenshots; an empty one has next to no bytes."""
    folder = ROOT / "_build/screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    width, height = page.evaluate("[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
    shown = {"x": 0, "y": 0, "width": width, "height": min(height, 65_000)}  # JPEG has no more rows than 65,535
    assert len(page.screenshot(path=folder / name, full_page=True, clip=shown, quality=50, type="jpeg")) > 8_000, name


def kind(params: dict) -> tuple[str, str]:
    """A chapter or its exercises on a desktop or a phone; each page of its own on one of them."""
    name = params["name"].removeprefix("book/").removeprefix("notebooks/")
    chapter = re.sub(r"^ch\d+_\w+", "ch", name)
    return chapter, params["size"] if chapter != name else None


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PAGES)
@pytest.mark.sample(quick=0, slow=1, kind=kind)
def test_axe_finds_nothing(visit, axe, name, size):
    page = visit(name, width=SIZES[size][0], height=SIZES[size][1])
    settle(page)
    page.evaluate(
        "document.querySelectorAll('article details').forEach(d => { d.open = true })"
    )  # what is folded is judged too
    page.evaluate("document.getAnimations().forEach(a => a.finish())")  # those of parts that are not drawn never end
    walk(page)
    page.evaluate(axe)
    for scheme, rules in (("light", RULES), ("dark", COLOURS)):  # as when a reader's system turns dark in the evening
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function("scheme => document.documentElement.dataset.theme === scheme", arg=scheme)
        page.evaluate("document.getAnimations().forEach(a => a.finish())")
        picture(page, f"{name.removesuffix('.html').replace('/', '-')}-{scheme}-{size}.jpg")
        found = page.evaluate(
            "async runOnly => (await axe.run(document, {runOnly, resultTypes: ['violations']})).violations", rules
        )
        assert [
            f"{scheme}: {v['id']}: {n['html'][:160]}: {n.get('failureSummary', '')}" for v in found for n in v["nodes"]
        ] == []


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.sample(quick=0, slow=10)
def test_a_phone_never_scrolls_sideways_and_nothing_is_asked_of_other_hosts(visit, name):
    page = visit(name, width=390, height=800)
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.set_viewport_size({"width": 320, "height": 640})  # the least width of WCAG's 1.4.10
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert visit.asked == [] and visit.errors == []


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
    page = visit("book/ch02_sharding.html#live-reduce-scatter?links=line&step=2", width=360, height=740)
    settle(page)
    page.wait_for_function("Math.abs(document.getElementById('live-reduce-scatter').getBoundingClientRect().top) < 300")
