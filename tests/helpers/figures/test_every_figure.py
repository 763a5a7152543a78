"""Every live figure and film: light, there without JavaScript, as it would compute itself, for fingers, keys and few colours."""

import re
from functools import cache

import pytest

from helpers import figures
from tests.helpers.figures.standalone import begun, follow, size, status, write
from tests.tiers import some
from tools.figure_timings import CONTROLS, LAZY, MOVE, limit, names

FILMS = [name for name in names() if hasattr(figures.figure(name), "films")]
COMPUTING = [name for name in names() if "figure_controls.js" in figures.figure(name).runners]
NAME = "matmul-roofline"
MARKS = "performance.getEntriesByType('mark').map(m => m.name).filter(name => !name.endsWith(' ready'))"
# What a page says that begins: the first value again, since another one stands in its place.
SPOIL = "document.querySelector('[data-result]').textContent = 'spoilt'"
# All that can be seen or heard of a figure: its elements, and what its controls hold.
WHOLE = """() => [document.querySelector("figure").outerHTML,
    ...[...document.querySelector("figure form").elements].map(e => `${e.name}=${e.value} ${e.checked ?? ""}`)].join("\\n")"""
# Controls whose target is lower or narrower than 44 px; that of a radio button is its label.
SMALL = """() => [...document.querySelectorAll("figure :is(input, select, button, summary)")]
    .filter(e => e.checkVisibility())
    .map(e => [e.name || e.tagName, (e.type === "radio" ? e.labels[0] : e).getBoundingClientRect()])
    .filter(([, box]) => box.width < 44 || box.height < 44).map(([name, { width, height }]) => `${name} ${width} x ${height}`)"""
# Marks and bars of which nothing can be seen: [what, its colour, the ground].
UNSEEN = """() => {
    const probe = document.body.appendChild(document.createElement("i"));
    const system = name => { probe.style.color = name; return getComputedStyle(probe).color; };
    const seen = ["CanvasText", "Highlight", "GrayText"].map(system), ground = system("Canvas");
    const marks = [...document.querySelectorAll(".live-bar, [data-mark], .live-fill")];
    return marks.filter(e => e.checkVisibility()).map(e => {
        const style = getComputedStyle(e), line = style.fill === "none" || e.tagName === "polyline";
        return [e.getAttribute("class"), e.matches(".live-bar") ? style.backgroundColor : line ? style.stroke : style.fill, ground];
    }).filter(([, colour]) => colour === ground || !seen.includes(colour));
}"""
# Values of a table that no eye finds: none, or not there; a row may be hidden that has nothing to say.
ABSENT = """() => [...document.querySelectorAll("figure [data-result]")]
    .filter(e => !e.closest("[hidden]") && !(e.textContent.trim() && e.checkVisibility())).map(e => e.dataset.result)"""


WINDOWS = {
    "still": {"java_script_enabled": False},
    "touched": {"viewport": {"width": 820, "height": 1180}, "is_mobile": True, "has_touch": True},
    "few colours": {"forced_colors": "active", "color_scheme": "dark"},
    "warm": {},
    "cold": {},
}
pytestmark = pytest.mark.xdist_group("figures")  # they share windows, and the page of every figure


@pytest.fixture(scope="module")
def windows(chromium_of_this_process):
    """One of each kind for all figures; in the cold one nothing is computed before a control moves."""
    browser, errors = chromium_of_this_process.alive(), []
    pages = {k: browser.new_page(**{"viewport": {"width": 390, "height": 800}} | o) for k, o in WINDOWS.items()}
    pages["cold"].add_init_script(LAZY)
    for page in pages.values():
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda m: m.type == "error" and errors.append(m.text))
        page.route(
            lambda url: not url.startswith(("file:", "data:")), lambda r: (errors.append(r.request.url), r.abort())
        )
    yield pages
    for page in pages.values():
        page.close()
    assert errors == []


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The address of a figure alone on a page."""
    folder = tmp_path_factory.mktemp("figures")
    return cache(lambda name: write(figures.figure(name), folder).as_uri())


def same(one: str, other: str) -> bool:
    """Whether two states of a figure differ in nothing but tenths of a pixel, and what says that nothing is wrong; no result may."""
    number = re.compile(r"\d+(?:\.\d+)?(?:e-\d+)?")
    empty = re.compile(' aria-invalid="false"| style=""')
    plain = [empty.sub("", t).replace(": ", ":").replace(';"', '"') for t in (one, other)]
    places = [[float(n) for n in number.findall(t)] for t in plain]
    words = [re.findall(r" data-result=[^>]*>([^<]*)", re.sub(r"(?s)<svg.*?</svg>", "", t)) for t in plain]
    near = places[0] == pytest.approx(places[1], rel=0, abs=0.051)
    return words[0] == words[1] and number.split(plain[0]) == number.split(plain[1]) and near


def test_every_figure_stands_on_a_page():
    assert set(names()) == set(figures.MODULES) and len(FILMS) > 10 and len(COMPUTING) > 7


@pytest.mark.parametrize("name", names())
def test_it_is_light_and_for_everybody(browser, windows, written, name):
    """Without JavaScript, with a finger, and on a narrow screen with few colours."""
    figure, (still, touched, few, *_) = figures.figure(name), windows.values()
    assert size(figure) <= limit(name)
    for page in (still, touched, few):
        page.goto(written(name))
    assert not still.locator("form").is_visible() and status(still) and still.evaluate(ABSENT) == []
    assert still.locator("figure :is(svg, table)").filter(visible=True).count()
    if name in FILMS:
        frames = still.locator(".film-strip:not([hidden]) svg").evaluate_all("all => all.map(f => f.ariaLabel)")
        assert frames == [f.text for f in next(iter(figure.films.values())).frames]
    begun(touched)
    assert touched.evaluate(SMALL) == []
    begun(few)
    assert few.evaluate(SMALL) == few.evaluate(UNSEEN) == []
    assert few.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("name", FILMS)
def test_the_keyboard_steps_through_every_film(browser, windows, written, name):
    figure, page = figures.figure(name), windows["warm"]
    follow(page, written(name))
    for option, film in figure.films.items():
        page.get_by_label(figure.menu, exact=True).select_option(option)
        slider = page.get_by_label("Step", exact=True)
        slider.press("Home")
        for step in film.frames:
            assert slider.get_attribute("aria-valuetext") == step.label
            assert status(page) == f"{film.said} {step.text}"
            slider.press("ArrowRight")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("name", COMPUTING)
def test_it_stands_as_it_computes_and_a_first_move_needs_nothing_computed_before(browser, windows, written, name):
    address, warm, cold = written(name), windows["warm"], windows["cold"]
    cold.goto(address)
    stands = cold.evaluate(WHOLE)
    cold.evaluate(SPOIL)
    assert cold.evaluate(MARKS) == [] and not same(stands, cold.evaluate(WHOLE))
    cold.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert cold.evaluate(MARKS) == [f"live-{name}"] and same(stands, cold.evaluate(WHOLE))
    for n in some(cold.evaluate(CONTROLS), 3):
        follow(warm, address)
        cold.goto("about:blank")
        cold.goto(address)
        assert cold.evaluate(MARKS) == []
        warm.evaluate(MOVE, n)
        cold.evaluate(MOVE, n)
        assert same(cold.evaluate(WHOLE), warm.evaluate(WHOLE)), n


@pytest.fixture(scope="module")
def far(tmp_path_factory):
    """Where a figure stands far below the first screen."""
    path = write(figures.figure(NAME), tmp_path_factory.mktemp("far"))
    text = path.read_text(encoding="utf-8").replace("<h1>", '<div style="height:3000px"></div><h1>')
    path.write_text(text, encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def page(browser):
    with browser.new_context(viewport={"width": 390, "height": 800}) as context:
        yield context.new_page()


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


@pytest.mark.parametrize("begin", ["move", "print"])
def test_a_move_of_a_control_and_print_need_no_waiting(page, far, begin):
    page.goto(far)
    page.evaluate(SPOIL)
    if begin == "print":
        page.pdf()
        assert page.evaluate(MARKS) == [f"live-{NAME}"]
    else:
        page.evaluate("document.forms[0].dispatchEvent(new Event('input'))")
    assert page.locator("[data-result]").first.text_content() != "spoilt"


def test_a_link_begins_it_at_once(page, far):
    page.add_init_script("Element.prototype.scrollIntoView = () => {}")
    page.goto(f"{far}#live-{NAME}?B=32")
    assert page.evaluate(MARKS) == [f"live-{NAME}"]
    assert page.locator("input[name=B]").get_attribute("aria-valuetext") == "32"


def test_a_browser_that_cannot_watch_begins_at_once(page, far):
    page.add_init_script("delete window.IntersectionObserver")
    page.goto(far)
    assert page.evaluate(MARKS) == [f"live-{NAME}"]
