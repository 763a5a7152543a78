"""How a page is set: length of lines, weight of headings, room around formulas."""

import pytest

from tests.book.conftest import settle

PAGE = "book/ch01_rooflines.html"
# The most characters that stand in one line of a paragraph without formulas and code, whose boxes are counted otherwise.
LONGEST = """() => Math.max(...[...document.querySelectorAll(".bd-article :is(section, li, .admonition) > p")].filter(
  p => !p.querySelector("math, code, .worked")).map(p => {
    const range = document.createRange(), texts = document.createTreeWalker(p, NodeFilter.SHOW_TEXT), lines = new Map();
    while (texts.nextNode()) for (let i = 0; i < texts.currentNode.length; i++) {
        range.setStart(texts.currentNode, i);
        range.setEnd(texts.currentNode, i + 1);
        const { width, bottom } = range.getBoundingClientRect();
        const line = [...lines.keys()].find(y => Math.abs(y - bottom) < 8) ?? bottom;
        if (width) lines.set(line, (lines.get(line) ?? 0) + 1);
    }
    return Math.max(0, ...lines.values());
}))"""
HEADINGS = """() => ["h1", "h2", "h3"].map(name => {
    const { fontSize, fontWeight } = getComputedStyle(document.querySelector(`.bd-article ${name}`));
    return [parseFloat(fontSize), +fontWeight];
})"""
# Pixels above and below each formula that stands between two paragraphs.
ROOM = """() => [...document.querySelectorAll("p + div.math:has(+ p)")].map(box => {
    const [above, inner, below] = [box.previousElementSibling, box.querySelector(".parts") ?? box.querySelector("math"),
                                   box.nextElementSibling].map(e => e.getBoundingClientRect());
    return [inner.top - above.bottom, below.top - inner.bottom];
})"""


@pytest.mark.parametrize("width", [390, 820, 1280, 1680, 2560])
def test_a_line_has_at_most_75_characters(visit, width):
    page = visit(PAGE, width=width)
    settle(page)
    assert (30 if width == 390 else 55) < page.evaluate(LONGEST) <= 75


def test_headings_lose_weight_with_size_and_formulas_stand_in_the_middle(visit):
    page = visit(PAGE)
    settle(page)
    headings, rooms = page.evaluate(HEADINGS), page.evaluate(ROOM)
    assert headings == sorted(headings, reverse=True) and len({tuple(h) for h in headings}) == 3
    assert headings[1][1] > headings[2][1]
    assert len(rooms) > 5 and all(abs(above - below) < 3 for above, below in rooms)
