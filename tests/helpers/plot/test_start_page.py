"""The start page's pictures show what the cost functions say, and a card leads to its chapter."""

import re

from helpers.plot import start_page


def test_cards_are_links_with_a_picture_and_words():
    html = start_page.cards([(start_page.small_tiles(), "a.html?b&c", "A < B", "One.")] * 2)
    links = re.findall(r'<a href="a.html\?b&amp;c">(.*?)</a>', html)
    assert len(links) == 2 and all(
        re.match(r"<img alt=.A triangle[^>]*><strong>A &lt; B</strong><span>One.", x) for x in links
    )
