"""What pages say of each other: methods and where they stand, errata and what computes them, exercises and their anchors."""

import json
import re
from importlib import import_module

import pytest

from autograder.places import Tree, topic_of
from helpers import prose
from tests.book.conftest import ROOT, chapter_text, page_names
from tests.helpers.costs.tables import walks

CHAPTERS = [p.stem for p in Tree(ROOT).chapters]
METHODS = json.loads((ROOT / "book/data/methods.json").read_text(encoding="utf-8"))["methods"]
ERRATA = json.loads((ROOT / "book/data/errata.json").read_text(encoding="utf-8"))["errata"]

# Rows of the sources that a chapter covers: letter and number of its methods, errata of the section that it follows.
COVERED = {
    "ch01_rooflines": ("A", 20),
    "ch02_sharding": ("B", 25),
    "ch03_transformers": ("C", 17),
    "ch04_training": ("D", 20),
    "ch05_inference": ("E", 32),
    "ch06_attention": ("F", 23),
    "ch07_racks": ("R", 16),
    "ch08_experts": ("X", 14),
}
MENDED = {
    "ch02_sharding": ("E002", 13),
    "ch03_transformers": ("E000", 9),
    "ch04_training": ("E001", 25),
    "ch05_inference": ("E003", 23),
    "ch06_attention": ("E004", 27),
    "ch07_racks": ("E012", 10),
    "ch08_experts": ("E026", 14),
}

of_chapters = pytest.mark.parametrize("chapter", CHAPTERS)


def anchors(chapter: str) -> set[str]:
    """Anchors of the chapter's exercises."""
    text = (ROOT / f"solutions/{chapter}.md").read_text(encoding="utf-8")
    return set(re.findall(r"^\((ex-\d+-\d+)\)=$", text, re.M))


def resolves(path: str) -> bool:
    """Whether a dotted name leads from a module to something in it."""
    parts = path.split(".")
    for i in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:i]))
        except ModuleNotFoundError:
            continue
        for name in parts[i:]:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False


def test_these_are_the_chapters_of_the_contents():
    """Else the tests below would look at fewer chapters than a reader finds."""
    listed = [n for n in page_names() if n.startswith("book/ch")]
    assert CHAPTERS
    assert sorted(listed) == sorted(f"book/{path.stem}.html" for path in Tree(ROOT).readings)
    assert [n for n in listed if topic_of(n.removesuffix(".html")) == n.removesuffix(".html")] == [
        f"book/{c}.html" for c in CHAPTERS
    ]


@of_chapters
def test_the_index_covers_the_chapter(chapter):
    letter, last = COVERED[chapter]
    assert [m["id"] for m in METHODS if m["id"].startswith(letter)] == [f"{letter}{i}" for i in range(1, last + 1)]


@walks(METHODS)
def test_every_method_has_its_section_and_its_functions(method):
    assert f"\n({method['section']})=\n" in chapter_text(method["chapter"])
    assert [path for path in method["functions"] if not resolves(f"helpers.{path}")] == []


def test_every_method_of_the_sources_is_practised():
    """M is for methods of the course's own, which some sections show without asking for them."""
    assert [m["id"] for m in METHODS if not m["exercises"] and not m["id"].startswith("M")] == []


def test_a_name_that_leads_nowhere_does_not_resolve():
    assert resolves("helpers.costs.rooflines.roofline.time")
    assert not resolves("helpers.costs.rooflines.roofline.thyme") and not resolves("helpless.costs")


@pytest.mark.parametrize("chapter", MENDED)
def test_errata_of_the_source_are_all_told(chapter):
    source, last = MENDED[chapter]
    assert [e["id"] for e in ERRATA if e["id"].startswith(source)] == [f"{source}-{i}" for i in range(1, last + 1)]


@walks(ERRATA)
def test_errata_compute(item):
    assert f"\n({item['section']})=\n" in chapter_text(item["chapter"])
    for c in item["computed"]:
        assert prose.figure(f"{c['expression']} | {c['format']}", prose.names()) == c["gives"], c["what"]


@of_chapters
def test_every_exercise_that_is_named_exists(chapter):
    """By the chapter's page, and by the index for a method of that chapter."""
    wanted = {f"ex-{e.replace('.', '-')}" for m in METHODS if m["chapter"] == chapter for e in m["exercises"]}
    wanted |= set(re.findall(r"<(ex-\d+-\d+)>", chapter_text(chapter)))
    there = set().union(*map(anchors, CHAPTERS))
    assert wanted and wanted <= there, sorted(wanted - there)


@of_chapters
def test_prose_of_the_chapter_renders(chapter):
    assert "{{" not in re.sub(r"`[^`\n]+`", "", prose.render(chapter_text(chapter), f"{chapter}.md"))
