"""Chapters stay what one reads in an hour: ceilings of words, screens, questions and boxes; nothing asks for more of anything."""

import re

import pytest

from autograder.making.further_down import further
from autograder.places import Tree
from tools.text_measures import ROOT, measured

CHAPTERS = Tree(ROOT).chapters
each = pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)

CORE = {
    "ch01_rooflines": 5800,
    "ch02_sharding": 6500,
    "ch03_transformers": 5600,
    "ch04_training": 4400,
    "ch05_inference": 4000,
    "ch06_attention": 4100,
    "ch07_racks": 3300,
    "ch08_experts": 3100,
}
"""Words of a core at most; one also has at most `ASKS` questions and as many boxes "To keep"."""
ASKS, PAGES, PAGE = 12, 4, 2500  # a core's questions, a chapter's pages further down, words of such a page


def counts(text: str) -> tuple[int, int, int]:
    """Words, questions, boxes."""
    found = measured(text)
    return found.words, found.questions, len(re.findall(r"^:{3,}\{admonition\} To keep|^:{3,}\{keep\}", text, re.M))


@each
def test_a_core_keeps_to_its_ceilings(path):
    most = CORE[path.stem], ASKS, ASKS
    found = counts(path.read_text(encoding="utf-8"))
    assert all(n <= limit for n, limit in zip(found, most)), f"{found}, at most {most}"


@each
def test_there_are_few_pages_further_down_and_none_is_long(path):
    words = {name: counts(page.read_text(encoding="utf-8"))[0] for name, page in further(path).items()}
    assert len(words) <= PAGES and max(words.values(), default=0) <= PAGE, words


@each
def test_little_code_is_open(path):
    assert measured(path.read_text(encoding="utf-8")).open <= 90  # lines


@each
def test_a_chapter_ends_with_takeaways_problems_and_where_to_read_on(path):
    text, n = path.read_text(encoding="utf-8"), path.stem[2:4]
    at = [text.index(f"(sec-ch{n}-{name})=") for name in ("takeaways", "problems", "reading")]
    assert at == sorted(at)
    assert len(re.findall(r"^:{3,}\{dropdown\}", text[at[1] : at[2]], re.M)) >= 3
    bib = (ROOT / "book/references.bib").read_text(encoding="utf-8")
    years = dict(re.findall(r"^@\w+\{([^,]+),.*?year = \{(\d{4})\}", bib, re.M | re.S))
    assert (
        max(int(years[key]) for keys in re.findall(r"\{cite\}`([^`]+)`", text[at[2] :]) for key in keys.split(","))
        >= 2025
    )
