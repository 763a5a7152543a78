"""A reader's record and review on the site, in a browser: kept over a reload, ticks and what is next, carried as a line, offline."""

import pytest

from helpers.check.record import of_line

CHAPTER, START, REVIEW = "book/ch01_rooflines.html", "book/intro.html", "book/review.html"
RECORD = "localStorage.r2r"


def bring(page, line):
    page.evaluate("line => courseRecord.bring(courseRecord.parse(line))", line)


def test_a_section_is_read_once_its_end_was_seen_for_long_enough(visit):
    page = visit(CHAPTER)
    page.evaluate("document.getElementById('sec-intensity').scrollIntoView()")
    page.wait_for_function("() => localStorage.r2r?.includes('s:sec-intensity=')", timeout=60_000)
    known = of_line(page.evaluate(RECORD)).sections
    assert "sec-intensity" in known and "sec-roofline" not in known
    assert page.locator("h2:has-text('Arithmetic intensity') .done").count() == 1


def test_questions_and_the_path_remember(visit):
    page = visit(CHAPTER)
    form = page.locator("form[data-name='sec-matmul.2']")
    for typed in ("many", "1"):
        assert not page.evaluate(RECORD)  # what is no number is no answer
        form.locator("input").fill(typed)
        form.locator("button").click()
    form.locator("input").fill(form.get_attribute("data-right"))
    form.locator("button").click()
    assert of_line(page.evaluate(RECORD)).questions["sec-matmul.2"].state == 1
    page.reload()
    assert page.locator("form[data-name='sec-matmul.2'] output").inner_text() == "You have answered this one right."
    bring(page, "r2r1 2 s:sec-bounds=300 e:1.3=301")
    visit.go(page, START)
    page.locator(".go-on").wait_for()
    assert page.locator("#sec-paths ~ * a[href$='#sec-bounds'] .done, a[href$='#ex-1-3'] .done").count() >= 2
    assert page.locator(".go-on a").count() == 1


def test_two_pages_at_once_lose_nothing(visit):
    first = visit(REVIEW)
    second = first.context.new_page()
    visit.go(second, REVIEW)
    for i in range(20):
        bring((first, second)[i % 2], f"r2r1 1 s:sec-{i}=300")
    for page in (first, second):
        page.wait_for_function("() => courseRecord.read().size === 20", timeout=10_000)


@pytest.mark.parametrize("width", [390, 1280])
def test_review_asks_judges_moves_and_carries(visit, width):
    page = visit(REVIEW, width=width)
    assert "Nothing waits" in page.locator("#review-cards").inner_text()
    line = page.locator("#record-line")
    line.fill("r2r1 3 s:sec-matmul=300")
    page.locator("#record-take").click()
    assert "cut short" in page.locator("#record-said").inner_text()
    line.fill("r2r1 2 s:sec-matmul=300 e:1.1=300")
    page.locator("#record-take").click()
    assert page.locator("#record-said").inner_text() == "2 words were news, and are kept."
    names = []
    while page.locator("#review-cards form").count():
        form = page.locator("#review-cards form")
        form.get_by_role("button", name="Check").click()
        assert "first" in form.locator("output").inner_text() or "rite a number" in form.locator("output").inner_text()
        assert not page.locator(".on-with-it").count()  # no answer, so the card stays
        if form.locator("[data-right]").count():
            form.locator("[data-right]").check()
            form.get_by_role("button", name="Check").click()
        elif form.get_attribute("data-right"):
            form.locator("input").fill(form.get_attribute("data-right"))
            form.get_by_role("button", name="Check").click()
        else:
            form.locator("input").fill("-1")
            form.get_by_role("button", name="Check").click()
        page.locator(".on-with-it").wait_for()
        names.append(form.locator("output").inner_text())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.locator(".on-with-it").click()
    assert sorted(names) == ["Not this.", "Right.", "Right."]
    reviews = of_line(line.input_value()).reviews
    assert {name: entry.state for name, entry in reviews.items()} == {"1.1": 0, "sec-matmul.1": 1, "sec-matmul.2": 1}
    assert "2 of 3 known." in page.locator("#review-cards").inner_text()
    assert not visit.asked and not visit.errors
