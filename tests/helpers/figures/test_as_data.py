"""Every figure that is data, in the one renderer: the page says what Python does, at drawn settings, by keys and by links."""

import random

import pytest

from helpers import figures
from helpers.live.controls import Choice, Size
from helpers.live.figure import LiveFigure
from tests.helpers.figures.standalone import SET, follow, link, same, shown, status, strays
from tests.tiers import repeats

DATA = tuple(name for name in figures.MODULES if isinstance(figures.figure(name), LiveFigure))
BARS = """() => [...document.querySelectorAll("[data-bar]")]
    .map(bar => [bar.dataset.bar, parseFloat(bar.style.width), bar.closest("tr").hidden])"""
ROWS = """() => [...document.querySelectorAll("[data-row]")]
    .map(row => [row.dataset.row, row.firstChild.textContent, row.hidden])"""


@pytest.fixture(scope="module", params=DATA)
def figure(request):
    return figures.figure(request.param)


def draw(figure, seed: int) -> dict:
    """Some option of each menu, and some value of none, a few or all of the sizes that it leaves free; heads that share mostly."""
    r = random.Random(seed)
    at = {c.name: r.choice(list(c.options)) for c in figure.controls if isinstance(c, Choice)}
    there, share = figure.settings(at), r.choice((0, 0.2, 1))
    for c in figure.controls:
        free = isinstance(c, Size) and (not c.follows or (there[c.follows] == there[c.follows] and r.random() < share))
        at |= {c.name: r.choice(c.grid)} if free else {}
    if "K" in at and r.random() < 0.6:
        N = at.get("N", there["N"])
        at["K"] = r.choice([K for K in next(c.grid for c in figure.controls if c.name == "K") if N % K == 0])
    return at


def check(page, figure, chosen: dict) -> None:
    """The page says what Python does, and its bars and rows are those of Python's numbers."""
    said, cells, values = figure.said(chosen), shown(page), figure.values(chosen)
    assert cells == {name: said[name] for name in cells}, chosen
    assert status(page) == figure.told(chosen), chosen
    shares = {r.name: r.share for r in figure.results}
    for name, width, hidden in page.evaluate(BARS):
        of = values[shares[name]]
        share = 100 * values[name] / of if of == of else 0
        assert width == pytest.approx(share, abs=0.01) and hidden == (not values[name] > 0), name
    for row, label, hidden in page.evaluate(ROWS):
        known = [values[f"{row}_{q}"] == values[f"{row}_{q}"] for q, head in figure.table.columns.items() if head]
        assert hidden == (not any(known)) and "{" not in label


def test_drawn_settings_read_as_python_says(page, figure):
    for seed in range(repeats(10, 60)):
        chosen = draw(figure, seed)
        page.evaluate(SET, chosen)
        check(page, figure, chosen)


def test_drawn_settings_number_for_number(page, figure):
    cases = [figure.settings(draw(figure, seed)) for seed in range(1000, 1000 + repeats(80, 400))]
    got = page.evaluate("cases => cases.map(c => window.liveFigures[0][1](...c))", [list(c.values()) for c in cases])
    for case, found in zip(cases, got, strict=True):
        want = figure.function(**case)
        assert found.keys() == want.keys()
        assert [name for name in want if not same(found[name], want[name])] == [], case


def test_a_key_moves_a_size_and_the_others_stay(page, figure):
    sizes, at, chosen = [c for c in figure.controls if isinstance(c, Size)], figure.settings(), {}
    for size in dict.fromkeys((sizes[0], sizes[-1])):
        slider, place = page.get_by_label(size.label, exact=True), size.position(at[size.name])
        for key, step in (("ArrowRight", 1), ("ArrowLeft", -1), ("ArrowLeft", -1)):
            slider.press(key)
            place = max(0, place + step)
            chosen[size.name] = size.grid[place]
            if chosen[size.name] != at[size.name]:
                assert slider.get_attribute("aria-valuetext") == f"{chosen[size.name]:,}"
                check(page, figure, chosen)
    assert page.locator("[role=status]").get_attribute("aria-live") == "polite"


def test_a_setting_can_be_linked_to(page, figure, address):
    chosen = draw(figure, 7)
    page.evaluate(SET, chosen)
    page.evaluate("document.querySelector('figure form').dispatchEvent(new Event('change'))")
    linked = link(page)
    follow(page, linked)
    check(page, figure, chosen)
    first = figure.settings()
    free = [c for c in figure.controls if isinstance(c, Size) and not c.steps and first[c.name] == first[c.name]]
    size = free[-1]
    odd = (
        next(n for n in range(size.low + 1, size.high) if n not in size.grid and n % 7 == 0)
        if size.high > 30
        else size.high
    )
    query = "&".join(
        f"{c.name}={'toString' if isinstance(c, Choice) else 2.5}" for c in figure.controls if c is not size
    )
    follow(page, f"{address}#live-{figure.name}?{query}&{size.name}={odd}")
    assert strays(page).count(" = ") == len(figure.controls) - 1
    check(page, figure, {size.name: odd})
