"""Whoever scrolls through a chapter meets a picture, a film or a live figure within three screens."""

import pytest

from tests.book.conftest import ROOT
from tests.book.test_axe import settle

CHAPTERS = sorted(path.stem for path in (ROOT / "book").glob("ch[0-9][0-9]_*.md"))
WIDTH, HEIGHT = 1280, 900
GAPS = """end => {
    const at = e => e.getBoundingClientRect();
    const article = document.querySelector('.bd-article'), last = at(document.getElementById(end)).top;
    const heads = [...article.querySelectorAll('h1, h2, h3')];
    const pictures = [...article.querySelectorAll('figure, .film, form.live, img, svg')].map(at)
        .filter(b => b.height > 60 && b.top < last).sort((a, b) => a.top - b.top);
    const found = [];
    let from = at(article).top;
    for (const [top, bottom] of [...pictures.map(b => [b.top, b.bottom]), [last, last]]) {
        const above = heads.filter(h => at(h).top <= from + 1).pop();
        found.push([top - from, above ? above.innerText : 'the beginning']);
        from = Math.max(from, bottom);
    }
    return found;
}"""
"""Pixels from each picture to the next, up to the takeaways, each with the heading above it."""


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_more_than_three_screens_without_a_picture(visit, chapter):
    page = visit(f"book/{chapter}.html", width=WIDTH, height=HEIGHT)
    settle(page)
    gaps = page.evaluate(GAPS, f"sec-{chapter[:4]}-takeaways")
    assert len(gaps) > 10
    assert [(heading, round(gap / HEIGHT, 2)) for gap, heading in gaps if gap > 3 * HEIGHT] == []
