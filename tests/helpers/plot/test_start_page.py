"""The start page's pictures show what the cost functions say, and a card leads to its chapter."""

import re

import pytest

from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.costs.transformers.public_models import model
from helpers.plot import start_page

PICTURES = [f for name, f in vars(start_page).items() if name.startswith("small_")]


@pytest.mark.parametrize("draw", PICTURES, ids=lambda f: f.__name__)
@pytest.mark.sample(quick=3)
def test_a_picture_is_small_and_told(draw):
    picture = draw()
    assert len(picture.alt.split()) > 8 and len(picture.svg()) < 45_000
    assert [*picture.figure.get_size_inches()] == [*start_page.SIZE]


def test_what_is_drawn_is_what_is_computed():
    p = parameters(model("llama-3-70b"))
    words = " ".join(t.get_text() for t in start_page.small_block().figure.axes[0].texts)
    assert f"attention: {p.attention / p.total:.0%}" in words and f"MLP: {p.mlp / p.total:.0%}" in words
    passes = start_page.small_pipeline().figure.axes[0].patches
    assert len(passes) == 4 * 6 * 2
    each, everyone = start_page.small_tradeoff().figure.axes[0].lines[0].get_data()
    assert everyone == pytest.approx(each * [*start_page.np.geomspace(1, 96, 60)])
    filled = [b for b in start_page.small_tiles().figure.axes[0].patches if b.get_facecolor()[3]]
    assert len(filled) == 5 * 6 / 2


def test_cards_are_links_with_a_picture_and_words():
    html = start_page.cards([(start_page.small_tiles(), "a.html?b&c", "A < B", "One.")] * 2)
    links = re.findall(r'<a href="a.html\?b&amp;c">(.*?)</a>', html)
    assert len(links) == 2 and all(
        re.match(r"<img alt=.A triangle[^>]*><strong>A &lt; B</strong><span>One.", x) for x in links
    )
