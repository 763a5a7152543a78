"""A lighter drawing looks like the one that matplotlib writes, and is lighter; cards of the start page are links."""

import gzip
import io
import re
from xml.etree import ElementTree

from matplotlib import rc_context

from helpers import plot
from helpers.plot import start_page
from helpers.plot.picture import STYLE, lighter

SAID = "a figure with some boxes in rows"


def written(picture) -> str:
    with rc_context(STYLE):
        out = io.StringIO()
        picture.figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def shapes(svg: str) -> list[tuple]:
    """What is drawn, in order: kind, style, and text without the space around it."""
    kinds = "path", "use", "text", "image", "rect"
    return [
        (kind, e.get("style"), e.get("clip-path"), "".join("".join(e.itertext()).split()))
        for e in ElementTree.fromstring(svg).iter()
        if (kind := e.tag.rpartition("}")[2]) in kinds
    ]


def test_the_same_shapes_and_a_third_less():
    for picture in (
        plot.lines([1, 10, 100], {"a": [1, 2, 3], "b": [3, 2, 1]}, "x", "y", SAID, log="x", marks={"1.23456": 5}),
        plot.batching((6, 2, 2, 6), 2, SAID),
        plot.cached_heads(8, {"MHA": 8, "MLA": None}, SAID),
    ):
        full = written(picture)
        light = lighter(full)
        assert shapes(light) == shapes(full) and lighter(light) == light and "metadata" not in picture.svg()
        assert len(gzip.compress(light.encode())) < 0.75 * len(gzip.compress(full.encode()))


def test_cards_are_links_with_a_picture_and_words():
    html = start_page.cards([(start_page.small_tiles(), "a.html?b&c", "A < B", "One.")] * 2)
    links = re.findall(r'<a href="a.html\?b&amp;c">(.*?)</a>', html)
    assert len(links) == 2 and all(
        re.match(r"<img alt=.A triangle[^>]*><strong>A &lt; B</strong><span>One.", x) for x in links
    )
