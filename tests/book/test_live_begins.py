"""A live figure computes when a reader comes near it, and not before."""

import pytest

from .standalone import begun, load, write

FAR = '<div style="height:{height}px"></div><h1>'
MARKS = "performance.getEntriesByType('mark').map(m => m.name)"
NAME = "matmul-roofline"
# What a page says that begins: the first value again, since another one stands in its place.
SPOIL = "document.querySelector('[data-result]').textContent = 'spoilt'"


@pytest.fixture(scope="module")
def far(tmp_path_factory):
    """Where the figure stands far below the first screen."""
    path = write(load(NAME), tmp_path_factory.mktemp("far"))
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
    page.goto(f"{far}#live-{NAME}?B=5")
    assert page.evaluate(MARKS) == [f"live-{NAME}"]
    assert page.locator("input[name=B]").get_attribute("aria-valuetext") == "32"


def test_a_browser_that_cannot_watch_begins_at_once(page, far):
    page.add_init_script("delete window.IntersectionObserver")
    page.goto(far)
    assert page.evaluate(MARKS) == [f"live-{NAME}"]
