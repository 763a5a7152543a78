"""Every live figure of the book is small, begins by itself, and can be touched and seen by everybody."""

import pytest

from helpers import figures
from tests.helpers.figures.standalone import begun
from tests.tiers import some
from tools.figure_timings import limit, linked, main, names, pages, ready, slowest

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
    const marks = [...document.querySelectorAll(".live-bar, [data-mark], .live-fill, .walks-frame rect")];
    return marks.filter(e => e.checkVisibility()).map(e => {
        const style = getComputedStyle(e), line = style.fill === "none" || e.tagName === "polyline";
        return [e.getAttribute("class"), e.matches(".live-bar") ? style.backgroundColor : line ? style.stroke : style.fill, ground];
    }).filter(([, colour]) => colour === ground || !seen.includes(colour));
}"""


@pytest.fixture(scope="module")
def every(tmp_path_factory):
    return pages(tmp_path_factory.mktemp("figures"))


@pytest.fixture
def opened(browser, every):
    """Open every figure alone, in turn, in a context of its own: its name and its page."""

    def each(**options):
        for name, (_, address) in every.items():
            context = browser.new_context(**options)
            page = context.new_page()
            page.goto(address)
            begun(page)
            yield name, page
            context.close()

    return each


@pytest.mark.slow
@pytest.mark.xdist_group("figures")  # they share a page of every figure
def test_every_figure_is_small_and_starts_by_itself(browser, every):
    assert list(every) == names()
    assert {n: weight for n, (weight, _) in every.items() if weight > limit(n)} == {}
    for _, address in some(every.values(), 5):
        assert ready(browser, address) > 0 and linked(browser, address) > 0
    assert slowest(browser, every["decoder"][1], runs=1) > 0


@pytest.mark.slow
@pytest.mark.xdist_group("figures")  # they share a page of every figure
def test_with_a_finger_every_control_is_large_enough(opened):
    touched = opened(viewport={"width": 820, "height": 1180}, is_mobile=True, has_touch=True)
    assert {name: found for name, page in touched if (found := page.evaluate(SMALL))} == {}


@pytest.mark.slow
@pytest.mark.xdist_group("figures")  # they share a page of every figure
def test_on_a_narrow_screen_with_few_colours_too_and_every_mark_is_seen(opened):
    few = opened(viewport={"width": 390, "height": 844}, forced_colors="active", color_scheme="dark")
    assert {name: found for name, page in few if (found := page.evaluate(UNSEEN) + page.evaluate(SMALL))} == {}


def test_every_figure_stands_on_a_page():
    assert set(names()) == set(figures.MODULES)


def test_it_says_how_it_is_called(capsys):
    assert main(["many"]) == 2 and main(["1", "2"]) == 2
    assert "usage" in capsys.readouterr().out
