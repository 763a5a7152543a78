"""Questions of the site, in a browser: the script decides as Python does, by keyboard, and without it the answer unfolds."""

from helpers.check.questions import number, verdict
from tests.helpers.check.test_questions import questions

PAGE = "book/ch01_rooflines.html"
CHAPTER = "ch01_rooflines"


def test_the_page_decides_as_python_does(visit):
    page = visit(PAGE)
    page.wait_for_selector("#ask-1.on")
    for serial, question in enumerate(questions(CHAPTER), 1):
        form = page.locator(f"#ask-{serial}")
        if question.unit is None:
            for field, reply in zip(form.locator("input").all(), question.replies, strict=True):
                field.check()
                form.locator("button").click()
                assert form.locator("output").inner_text().startswith("Right." if reply.right else "Not yet: ")
            continue
        right = float(form.get_attribute("data-right"))
        values = [r.value for r in question.replies]
        for typed in (*values, f"{right * 1.5}", f"{right / 1000}", f"{right * 3e6:e}", "0", "-4"):
            form.locator("input").fill(typed)
            form.locator("input").press("Enter")
            told = form.locator("output").inner_text()
            replies = {number(v): r.text for v, r in zip(values, question.replies)}
            good, text = verdict(number(typed), replies, right, question.within)
            assert told.startswith("Right." if good else "Not yet: "), (question.text, typed, told)
            assert good or "$" in text or told == f"Not yet: {text}"
        assert form.locator("details").get_attribute("open") is not None


def test_ways_to_write_a_number(visit):
    page = visit(PAGE)
    form = page.locator("form[data-right='243.0']").first
    right = ("243", " 2.43e2 ", "486/2", "0.243 × 10^3", "2,430e-1", "243 tokens")
    for typed, told in (
        dict.fromkeys(right, "Right.") | dict.fromkeys(("", "many", "243 rows", "2,43"), "Not yet: write")
    ).items():
        form.locator("input").fill(typed)
        form.locator("button").click()
        assert form.locator("output").inner_text().startswith(told), typed


def test_without_javascript_the_answer_unfolds(visit):
    page = visit(PAGE, javascript=False)
    form = page.locator("#ask-2")
    form.scroll_into_view_if_needed()  # what is far below is not laid out
    assert not form.locator("button").is_visible() and not form.locator("input").is_visible()
    assert form.locator("legend").is_visible() and not form.locator("details p").is_visible()
    form.locator("summary").press("Enter")
    assert form.locator("details p").is_visible()
