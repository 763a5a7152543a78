"""What pages say of each other: methods and where they stand, errata and what computes them, exercises and their anchors."""

import json
import re
from importlib import import_module

import pytest

from autograder.places import Tree
from helpers import prose
from tests.book.conftest import ROOT, chapter_text
from tests.helpers.costs.tables import walks

CHAPTERS = [p.stem for p in Tree(ROOT).chapters]
METHODS = json.loads((ROOT / "book/data/methods.json").read_text(encoding="utf-8"))["methods"]
ERRATA = json.loads((ROOT / "book/data/errata.json").read_text(encoding="utf-8"))["errata"]


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


@pytest.mark.parametrize(("rows", "all_of_them"), [(METHODS, 204), (ERRATA, 135)], ids=["methods", "errata"])
def test_rows_of_a_source_follow_each_other(rows, all_of_them):
    """A1, A2 … and E002-1, E002-2 …: none is left out. M is for methods of the course's own, some of which are gone."""
    found = {}
    for row in rows:
        source, n = re.fullmatch(r"(.*?)(\d+)", row["id"].replace("-", " ")).groups()
        found.setdefault(source, []).append(int(n))
    assert [source for source, ns in found.items() if source != "M" and ns != [*range(1, len(ns) + 1)]] == []
    assert len(rows) == all_of_them and {row["chapter"] for row in rows} == set(CHAPTERS)


@walks(METHODS)
def test_every_method_has_its_section_and_its_functions(method):
    assert f"\n({method['section']})=\n" in chapter_text(method["chapter"])
    assert [path for path in method["functions"] if not resolves(f"helpers.{path}")] == []


def test_every_method_of_the_sources_is_practised():
    """M is for methods of the course's own, which some sections show without asking for them."""
    assert [m["id"] for m in METHODS if not m["exercises"] and not m["id"].startswith("M")] == []


@walks(ERRATA)
def test_errata_compute(item):
    assert f"\n({item['section']})=\n" in chapter_text(item["chapter"])
    for c in item["computed"]:
        assert prose.figure(f"{c['expression']} | {c['format']}", prose.names()) == c["gives"], c["what"]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_exercise_that_is_named_exists(chapter):
    """By the chapter's page, and by the index for a method of that chapter."""
    wanted = {f"ex-{e.replace('.', '-')}" for m in METHODS if m["chapter"] == chapter for e in m["exercises"]}
    wanted |= set(re.findall(r"<(ex-\d+-\d+)>", chapter_text(chapter)))
    there = set().union(*map(anchors, CHAPTERS))
    assert wanted and wanted <= there, sorted(wanted - there)
