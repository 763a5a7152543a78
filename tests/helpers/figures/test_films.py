"""Every film of the course is light, steps by keyboard through all of its frames, and shows them without JavaScript."""

import pytest

from helpers import figures
from tests.helpers.figures.standalone import alone, size, status, write

NAMES = [name for name in figures.MODULES if hasattr(figures.figure(name), "films")]
LIMIT = 20_000  # bytes, compressed


@pytest.mark.parametrize("name", NAMES)
def test_it_is_light_and_without_javascript_all_frames_of_the_first_film_are_there(browser, tmp_path, name):
    figure = figures.figure(name)
    assert size(figure) < LIMIT
    context = browser.new_context(java_script_enabled=False)
    try:
        still = context.new_page()
        still.goto(write(figure, tmp_path).as_uri())
        said = still.locator(".film-strip:not([hidden]) svg").evaluate_all(
            "all => all.map(f => f.getAttribute('aria-label'))"
        )
        assert said == [f.text for f in next(iter(figure.films.values())).frames]
    finally:
        context.close()


@pytest.mark.parametrize("name", NAMES)
def test_the_keyboard_steps_through_every_film(browser, tmp_path, name):
    figure = figures.figure(name)
    with alone(browser, write(figure, tmp_path).as_uri()) as page:
        for option, film in figure.films.items():
            page.get_by_label(figure.menu, exact=True).select_option(option)
            slider = page.get_by_label("Step", exact=True)
            slider.press("Home")
            for step in film.frames:
                assert slider.get_attribute("aria-valuetext") == step.label
                assert (
                    status(page) == f"{film.said} {step.text}" if hasattr(film, "said") else step.text in status(page)
                )
                slider.press("ArrowRight")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
