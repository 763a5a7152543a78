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


@pytest.mark.parametrize("width", [390, 820, 1280, 1680, 2560])
def test_a_line_has_at_most_75_characters(visit, width):
    page = visit(PAGE, width=width)
    settle(page)
    assert (30 if width == 390 else 55) < page.evaluate(LONGEST) <= 75
