"""An address from before chapters had pages further down still arrives: on the site and in the notebooks."""

import json
import re

import nbformat
import pytest

from autograder.places import Tree
from tests.book.conftest import ROOT
from tools.check_site import Page

KNOWN = json.loads((ROOT / "book/data/addresses.json").read_text(encoding="utf-8"))
ITEM = re.compile(r"<li>(?:(?!</?li>).)*</li>", re.S)
each = pytest.mark.parametrize("topic", KNOWN)


def test_all_chapters_of_the_course_are_in_the_list():
    assert {p.stem for p in Tree(ROOT).chapters} >= set(KNOWN) and len(KNOWN) == 7
    assert sum(len(ids) + 1 for page in KNOWN.values() for ids in page.values()) == 606


@each
def test_an_address_of_the_site_arrives(site, topic):
    """On its page, in a section of it, or in an entry whose links lead to the page that has it now."""
    html = (site / f"book/{topic}.html").read_text(encoding="utf-8")
    page, entries = Page(html), [entry for entry in ITEM.findall(html) if '<span id="' in entry]
    pages = {p.name: Page(p.read_text(encoding="utf-8")) for p in (site / "book").glob(f"{topic}_*.html")}
    listed = {link.partition("#")[0] for link in page.links}
    assert len(entries) <= len(pages) and set(pages) <= listed  # a page that is new has no address of before
    for label, ids in KNOWN[topic].items():
        assert [i for i in (label, *ids) if page.ids[i] != 1] == []
        if entry := next((e for e in entries if f'id="{label}"' in e), None):
            there = [link.partition("#") for link in Page(entry).links]
            assert any(label in pages[name].ids for name, _, _ in there if name in pages), label


@each
def test_an_address_of_a_notebook_arrives(topic):
    """Labels of sections and of equations, as `<a id>`."""
    cells = nbformat.read(ROOT / f"notebooks/{topic}/reading.ipynb", as_version=4).cells
    there = re.findall(r'<a id="([^"]+)"', "\n".join(c.source for c in cells if c.cell_type == "markdown"))
    wanted = [
        i for label, ids in KNOWN[topic].items() for i in (label, *ids) if i == label or i.startswith("equation-")
    ]
    assert [i for i in wanted if there.count(i.removeprefix("equation-")) != 1] == []
