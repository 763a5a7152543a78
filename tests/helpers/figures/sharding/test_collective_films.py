"""The films of the collectives on a page: all frames without JavaScript, one at a time with it."""

import pytest

from helpers import figures
from tests.helpers.figures.standalone import link, strays, write

STATUS = "[role=status]"


@pytest.fixture
def visit(browser, tmp_path):
    """Open a figure; nothing may be asked of other hosts, nothing may fail."""
    contexts, asked, errors = [], [], []

    def opened(figure, *, anchor="", **options):
        context = browser.new_context(**options)
        contexts.append(context)
        context.route(lambda url: not url.startswith("file:"), lambda r: (asked.append(r.request.url), r.abort()))
        page = context.new_page()
        page.on("pageerror", lambda e: errors.append(str(e)))
        page.goto(write(figure, tmp_path).as_uri() + anchor)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert asked == [] and errors == []


def frames(page) -> list[str]:
    """What is said of the frames that can be seen."""
    return [f.get_attribute("aria-label") for f in page.locator(".film-strip svg").all() if f.is_visible()]


def test_nothing_moves_by_itself(visit):
    """No animation and no transition anywhere in a film, and no frame before the button is pressed."""
    page = visit(figures.figure("all-gather"), reduced_motion="no-preference")
    before = frames(page)
    assert page.evaluate("document.getAnimations().length") == 0
    page.wait_for_timeout(1500)
    assert frames(page) == before


def test_the_button_plays_to_the_end_and_the_arrow_keys_step(visit):
    figure = figures.figure("all-gather")
    page, film = visit(figure), figure.films["ring, both ways"].frames
    page.clock.install()
    play = page.get_by_role("button", name="Play")
    play.focus()
    page.keyboard.press("ArrowRight")
    assert frames(page) == [film[1].text] and link(page).endswith("&step=1")
    page.keyboard.press("ArrowLeft")
    assert frames(page) == [film[0].text] and link(page).endswith("&step=0")
    page.keyboard.press("Enter")
    pause = page.get_by_role("button", name="Pause")
    assert page.locator(STATUS).get_attribute("aria-live") == "off"  # a frame would cut off the last one's text
    page.clock.run_for(1300)
    assert frames(page) == [film[1].text]
    pause.press("Enter")
    page.clock.run_for(5000)
    assert frames(page) == [film[1].text]
    play.press("Enter")
    page.clock.run_for(20_000)
    assert link(page).endswith(f"&step={len(film) - 1}")
    assert frames(page) == [film[-1].text] and page.locator(STATUS).get_attribute("aria-live") == "polite"
    play.press("Enter")  # from the end: once more
    assert frames(page) == [film[0].text]
    page.get_by_label("Step", exact=True).press("ArrowRight")  # a move of one's own ends it
    page.clock.run_for(5000)
    assert frames(page) == [film[1].text] and play.is_visible()


def test_a_reader_who_wants_less_motion_gets_one_step_a_press(visit):
    figure = figures.figure("all-gather")
    page = visit(figure, reduced_motion="reduce")
    page.clock.install()
    page.get_by_role("button", name="Next step").press("Enter")
    page.clock.run_for(5000)
    assert frames(page) == [figure.films["ring, both ways"].frames[1].text]


def test_a_step_can_be_linked_to(visit):
    figure = figures.figure("reduce-scatter")
    page = visit(figure, anchor="#live-reduce-scatter?links=line&step=2")
    assert frames(page) == [figure.films["line"].frames[2].text] and strays(page) == ""
    page = visit(figure, anchor="#live-reduce-scatter?links=nonsense&step=99&chip=v5e")
    assert frames(page) == [figure.films["ring, both ways"].frames[0].text]
    assert strays(page) == "links = nonsense, step = 99, chip = v5e"
    page = visit(figure, anchor="#live-reduce-scatter?links=line&step=1.5")
    assert frames(page) == [figure.films["line"].frames[0].text] and strays(page) == "step = 1.5"
    assert "ignored" not in page.locator(STATUS).inner_text()  # a control was moved


def test_what_a_frame_shows_is_written_for_readers_of_the_screen_alone(visit):
    """Else a long list of sends pushes the caption down at every step."""
    page = visit(figures.figure("all-to-all"))
    whole, frame = page.locator(f"{STATUS} span").all()
    assert "visually-hidden" not in (whole.get_attribute("class") or "")
    assert frame.get_attribute("class") == "visually-hidden" and frame.inner_text() == frames(page)[0]


@pytest.mark.parametrize("kind", ["screen", "print"])
def test_paper_gets_every_frame_and_no_controls(visit, kind):
    figure = figures.figure("reduce-scatter")
    page = visit(figure)
    page.emulate_media(media=kind)
    every = [f.text for f in next(iter(figure.films.values())).frames]
    assert frames(page) == (every if kind == "print" else every[:1])
    assert page.locator("form").is_visible() == (kind == "screen")
