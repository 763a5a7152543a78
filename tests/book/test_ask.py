"""Questions of the site, in a browser: the script decides as Python does, by keyboard, and without it the answer unfolds."""

import re

from helpers.check.questions import number, verdict
from tests.helpers.check.test_questions import questions

PAGE = "book/ch01_rooflines.html"
CHAPTER = "ch01_rooflines"


# Choose the reply of that number, or write one, and press the button: what is said, and whether the answer is open.
REPLY = """cases => cases.map(([serial, reply]) => {
    const form = document.getElementById(`ask-${serial}`), fields = form.querySelectorAll("input");
    if (typeof reply === "number") fields[reply].click();
    else fields[0].value = reply;
    form.querySelector("button").click();
    return [form.querySelector("output").textContent, form.querySelector("details").open];
})"""


def test_the_page_decides_as_python_does(visit):
    page = visit(PAGE)
    page.wait_for_selector("#ask-1.on")
    cases, wanted = [], []
    for serial, question in enumerate(questions(CHAPTER), 1):
        if question.unit is None:
            cases += [(serial, n) for n in range(len(question.replies))]
            wanted += [(reply.right, reply.text) for reply in question.replies]
            continue
        right = float(page.locator(f"#ask-{serial}").get_attribute("data-right"))
        values = [r.value for r in question.replies]
        replies = {number(v): r.text for v, r in zip(values, question.replies)}
        for typed in (*values, f"{right * 1.5}", f"{right / 1000}", f"{right * 3e6:e}", "0", "-4"):
            cases.append((serial, typed))
            wanted.append(verdict(number(typed), replies, right, question.within))
    solved = set()
    for case, (told, opened), (good, text) in zip(cases, page.evaluate(REPLY, cases), wanted, strict=True):
        solved |= {case[0]} if good else set()
        assert told.startswith("Right." if good else "Not yet: ") and opened == (case[0] in solved), case
        assert good or "$" in text or told == f"Not yet: {re.sub('<[^>]+>', '', text)}", case


def test_ways_to_write_a_number(visit):
    page = visit(PAGE)
    form = page.locator("form[data-right='243.0']").first
    right = ("243", " 2.43e2 ", "486/2", "0.243 × 10^3", "2,430e-1", "243,1", "0,243e3", "243 tokens")
    for typed, told in (
        dict.fromkeys(right, "Right.") | dict.fromkeys(("", "many", "243 rows", "2,4,3"), "Not yet: write")
    ).items():
        form.locator("input").fill(typed)
        form.locator("input").press("Enter")
        assert form.locator("output").inner_text().startswith(told), typed


def test_without_javascript_the_answer_unfolds(visit):
    page = visit(PAGE, javascript=False)
    form = page.locator("#ask-2")
    form.scroll_into_view_if_needed()  # what is far below is not laid out
    assert not form.locator("button").is_visible() and not form.locator("input").is_visible()
    assert form.locator("legend").is_visible() and not form.locator("details p").is_visible()
    form.locator("summary").press("Enter")
    assert form.locator("details p").is_visible()
