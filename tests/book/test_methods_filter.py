"""The box above the index of methods: what it leaves, what it says, and the address that shows it again."""

import json
import re

from tests.book.conftest import ROOT

METHODS = json.loads((ROOT / "book/data/methods.json").read_text(encoding="utf-8"))["methods"]
SHOWN = "[...document.querySelectorAll('tbody tr')].filter(r => r.checkVisibility()).map(r => r.querySelector('th').textContent)"


def asked(word: str, chapter: str = "") -> list[str]:
    """Names of the methods with a word that begins so in what their row says, in the order of the page."""

    def says(m):
        return re.split(r"[\W_]", " ".join([m["name"], m["computes"], *m["functions"], *m["exercises"]]).lower())

    rows = sorted(METHODS, key=lambda m: m["chapter"])
    return [m["name"] for m in rows if any(w.startswith(word) for w in says(m)) and chapter in m["chapter"]]


def test_a_word_and_a_chapter_leave_what_has_both(visit):
    page = visit("book/methods.html")
    status, field = page.locator("#methods-filter [role=status]"), page.get_by_label("Show those with")
    for word in ("", "softmax"):
        field.fill(word)
        assert page.evaluate(SHOWN) == asked(word)
        assert status.inner_text() == f"{len(asked(word))} of {len(METHODS)} methods"
    page.get_by_role("combobox").select_option("Chapter 6")
    left = asked("softmax", "ch06")
    assert page.evaluate(SHOWN) == left and 0 < len(left) < len(asked("softmax"))
    assert page.locator("caption:visible").all_inner_texts() == ["Chapter 6"]
    again = visit(f"book/methods.html#{page.url.partition('#')[2]}")
    assert again.evaluate(SHOWN) == left and again.get_by_label("Show those with").input_value() == "softmax"
    field.fill("softmax nowhere")
    assert page.evaluate(SHOWN) == [] and status.inner_text().startswith("None of")
    assert visit.errors == [] and visit.asked == []


def test_words_match_where_they_begin_however_they_are_spelt(visit):
    page = visit("book/methods.html#chapter=ch02")
    assert page.locator("caption:visible").all_inner_texts() == ["Chapter 2"]
    assert page.evaluate(SHOWN) == asked("", "ch02")
    field, status = page.get_by_label("Show those with"), page.locator("#methods-filter [role=status]")
    field.fill("softmax")
    assert status.inner_text() == f"None of chapter 2’s has all these words; {len(asked('softmax'))} elsewhere."
    page.get_by_role("combobox").select_option("all chapters")
    field.fill("ring")
    assert page.evaluate(SHOWN) == asked("ring")  # not measuring
    found = []
    for words in ("all-reduce", "allreduce", "AllReduce", "quantise", "Quantize", "scatter reduce"):
        field.fill(words)
        found.append(page.evaluate(SHOWN))
    assert found[0] == found[1] == found[2] != [] and found[3] == found[4] != [] and found[5] != []
    assert visit.errors == []


def test_a_link_to_a_chapter_stays_one_and_without_javascript_all_is_there(visit):
    page = visit("book/methods.html#of-ch04_training", height=500)
    assert len(page.evaluate(SHOWN)) == len(METHODS)
    page.wait_for_function("Math.abs(document.getElementById('of-ch04_training').getBoundingClientRect().top) < 300")
    page = visit("book/methods.html", javascript=False)
    assert not page.locator("#methods-filter").is_visible() and page.locator("tbody tr:visible").count() == len(METHODS)
