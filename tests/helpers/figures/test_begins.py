"""A live figure stands in the page as it would compute itself; it computes when a reader comes near it, and not before."""

import re

import pytest

from helpers import figures
from tests.helpers.figures.standalone import begun, follow, write
from tests.tiers import some
from tools.figure_timings import CONTROLS, LAZY, MOVE, names

FAR = '<div style="height:{height}px"></div><h1>'
MARKS = "performance.getEntriesByType('mark').map(m => m.name).filter(name => !name.endsWith(' ready'))"
NAME = "matmul-roofline"
# What a page says that begins: the first value again, since another one stands in its place.
SPOIL = "document.querySelector('[data-result]').textContent = 'spoilt'"
# All that can be seen or heard of a figure: its elements, and what its controls hold.
WHOLE = """() => [document.querySelector("figure").outerHTML,
    ...[...document.querySelector("figure form").elements].map(e => `${e.name}=${e.value} ${e.checked ?? ""}`)].join("\\n")"""


@pytest.fixture(scope="module")
def far(tmp_path_factory):
    """Where the figure stands far below the first screen."""
    path = write(figures.figure(NAME), tmp_path_factory.mktemp("far"))
    path.write_text(path.read_text(encoding="utf-8").replace("<h1>", FAR.format(height=3000)), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 390, "height": 800})
    yield context.new_page()
    context.close()


def spoilt(page) -> bool:
    """Two frames later: whether nothing was computed yet."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page.locator("[data-result]").first.text_content() == "spoilt" and page.evaluate(MARKS) == []


def test_far_away_it_waits_and_near_it_begins(page, far):
    page.goto(far)
    page.evaluate(SPOIL)
    assert page.locator("form").is_visible() and spoilt(page)
    page.evaluate("scrollTo(0, 1500)")  # 700 px below the screen
    assert spoilt(page)
    page.evaluate("scrollTo(0, 1700)")
    begun(page)
    assert page.evaluate(MARKS) == [f"live-{NAME}"] and not spoilt(page)


def test_a_move_of_a_control_needs_no_waiting(page, far):
    page.goto(far)
    page.evaluate(SPOIL)
    page.evaluate("document.querySelector('form').dispatchEvent(new Event('input'))")
    assert page.locator("[data-result]").first.text_content() != "spoilt"


def test_print_begins_it(page, far):
    page.goto(far)
    page.evaluate(SPOIL)
    page.pdf()
    assert page.locator("[data-result]").first.text_content() != "spoilt"
    assert page.evaluate(MARKS) == [f"live-{NAME}"]


def test_a_link_begins_it_at_once(page, far):
    page.add_init_script("Element.prototype.scrollIntoView = () => {}")
    page.goto(f"{far}#live-{NAME}?B=32")
    assert page.evaluate(MARKS) == [f"live-{NAME}"]
    assert page.locator("input[name=B]").get_attribute("aria-valuetext") == "32"


def test_a_browser_that_cannot_watch_begins_at_once(page, far):
    page.add_init_script("delete window.IntersectionObserver")
    page.goto(far)
    assert page.evaluate(MARKS) == [f"live-{NAME}"]


@pytest.fixture(scope="module")
def every(tmp_path_factory):
    """Each figure that computes, and the address of its page; a film only hides frames."""
    made, folder = [figures.figure(name) for name in names()], tmp_path_factory.mktemp("every")
    return {f.name: write(f, folder).as_uri() for f in made if "figure_controls.js" in f.runners}


def same(one: str, other: str) -> bool:
    """Whether two states of a figure differ in nothing but tenths of a pixel, and what says that nothing is wrong."""
    number = re.compile(r"\d+(?:\.\d+)?(?:e-\d+)?")
    empty = re.compile(' aria-invalid="false"| style=""')
    plain = [empty.sub("", t).replace(": ", ":").replace(';"', '"') for t in (one, other)]
    places = [[float(n) for n in number.findall(t)] for t in plain]
    return number.split(plain[0]) == number.split(plain[1]) and places[0] == pytest.approx(places[1], rel=0, abs=0.051)


@pytest.mark.slow("writes a page of every figure")
def test_what_stands_in_a_page_is_what_it_computes(page, every):
    page.add_init_script(LAZY)
    for name, address in every.items():
        page.goto(address)
        stands = page.evaluate(WHOLE)
        page.evaluate(SPOIL)
        assert page.evaluate(MARKS) == [] and not same(stands, page.evaluate(WHOLE))
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate(MARKS) == [f"live-{name}"]
        assert same(stands, page.evaluate(WHOLE)), name


@pytest.mark.slow
def test_a_first_move_needs_nothing_that_was_computed_before(browser, every):
    for name, address in every.items():
        context = browser.new_context(viewport={"width": 390, "height": 800})
        warm, cold = context.new_page(), context.new_page()
        cold.add_init_script(LAZY)
        follow(warm, address)
        for n in some(warm.evaluate(CONTROLS), 3):
            follow(warm, address)
            cold.goto("about:blank")
            cold.goto(address)
            assert cold.evaluate(MARKS) == []
            warm.evaluate(MOVE, n)
            cold.evaluate(MOVE, n)
            assert same(cold.evaluate(WHOLE), warm.evaluate(WHOLE)), (name, n)
        context.close()
