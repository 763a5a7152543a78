"""The glossary: in order, every term with its section and its words in Korean and Chinese."""

import re

import pytest

from tests.book.conftest import ROOT

TEXT = (ROOT / "book/glossary.md").read_text(encoding="utf-8")
ENTRY = re.compile(
    r"^(\S.*)\n  (.+)\n  \{ref\}`([\w-]+)` · <span lang=\"ko\">(.+?)</span>(?:\\\*)? · <span lang=\"zh\">(.+?)</span>(?:\\\*)?$",
    re.M,
)
FOUND = ENTRY.findall(TEXT)


def test_every_entry_is_whole_and_in_order():
    body = TEXT.split("```{glossary}\n")[1].removesuffix("```\n").strip()
    assert len(FOUND) == len(body.split("\n\n"))
    terms = [term.lower() for term, *_ in FOUND]
    assert terms == sorted(set(terms))


def test_every_letter_leads_to_its_first_word():
    first = {}
    for term, *_ in FOUND:
        first.setdefault(term[0].upper(), term)
    assert re.findall(r"\{term\}`(\w) <(.+)>`", TEXT) == list(first.items())


def test_every_term_leads_to_a_section_that_says_it():
    """The section that an entry names uses the term's first word, or the file does so before it."""
    chapters = [p.read_text(encoding="utf-8") for p in sorted((ROOT / "book").glob("ch*.md"))]
    for term, _, label, *_ in FOUND:
        (chapter,) = [c for c in chapters if f"({label})=" in c]
        word = re.sub(r"[^a-z]", "", term.lower().split()[0])[:6]
        assert word in re.sub(r"[^a-z]", "", chapter.lower()), term


@pytest.mark.parametrize(("place", "letters"), [(3, "가-힣"), (4, "\u4e00-\u9fff")], ids=["ko", "zh"])
def test_words_are_of_their_language(place, letters):
    names = {"VMEM", "pod", "logits", "softmax"}
    assert [e for e in FOUND if not re.search(f"[{letters}]", e[place]) and e[place] not in names] == []


def test_search_finds_a_term_in_any_of_the_three_languages(visit):
    for word in ("AllGather", "올개더", "流水线"):
        page = visit(f"search.html?q={word}")
        page.wait_for_selector("#search-results li", timeout=15_000)
        assert page.locator("#search-results a[href*='glossary']").count(), word
