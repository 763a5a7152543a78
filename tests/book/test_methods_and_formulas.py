"""The index of methods: the functions and formulas that pages show, and the box above it that leaves some of its rows."""

import ast
import functools
import json
import pkgutil
import re

from helpers import prose
from tests.book.conftest import ROOT, chapter_text
from tests.helpers.costs.tables import walks

METHODS = json.loads((ROOT / "book/data/methods.json").read_text(encoding="utf-8"))["methods"]
# Chapters whose sections show every function of their methods.
SHOWN = ("ch05_inference", "ch06_attention", "ch07_racks", "ch08_experts")
FENCE = re.compile(r"^```\{code-cell\}[^\n]*\n(?::[^\n]*\n)*(.*?)^```", re.M | re.S)


@functools.cache
def imported(chapter):
    """What the page's cells import, by the names that they give it."""
    space = {}
    for code in FENCE.findall(chapter_text(chapter)):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                exec(compile(ast.Module([node], []), "page", "exec"), space)
    return space


def named(code, space):
    """All that a program names, `flash` and `flash.flash` each by itself; of what `space` does not know, the last name as a text."""
    for node in ast.walk(ast.parse(code)):
        parts = []
        while isinstance(node, ast.Attribute):
            parts, node = [node.attr, *parts], node.value
        if isinstance(node, ast.Name) and node.id in space:
            found = space[node.id]
            for part in parts:
                found = getattr(found, part, None)
            yield found
        elif parts:
            yield parts[-1]  # a method, or a field, of what a cell has made


@functools.cache
def shown(chapter):
    """For each anchor, what its heading's part computes with: in cells, and in numbers and lets of the text."""
    out = {}
    for part in re.split(r"(?<!\)=\n)(?=^(?:\([\w-]+\)=\n)+##)", chapter_text(chapter), flags=re.M):
        found, text = [x for code in FENCE.findall(part) for x in named(code, imported(chapter))], FENCE.sub("", part)
        numbers = [n.rsplit(" | ", 1)[0].strip() for n in re.findall(r"\{\{(.+?)\}\}", text)]
        for code in numbers + re.findall(r"^% let \w+ = (.+)$", text, re.M):
            found += named(code, prose.names())
        out |= dict.fromkeys(re.findall(r"^\((sec-[a-z0-9-]+)\)=$", part, re.M), found)
    return out


@walks([m for m in METHODS if m["chapter"] in SHOWN])
def test_the_index_names_what_the_section_shows(method):
    """The function itself, from its module: another one of the same name, or the module's name alone, is not enough."""
    seen = shown(method["chapter"])[method["section"]]
    names = {path: pkgutil.resolve_name(f"helpers.{path}") for path in method["functions"]}
    missing = [path for path, function in names.items() if not any(x is function for x in seen)]
    assert (
        names
        and [path for path in missing if path.rsplit(".", 1)[-1] not in [x for x in seen if isinstance(x, str)]] == []
    )


ROWS = "[...document.querySelectorAll('tbody tr')].filter(r => r.checkVisibility()).map(r => r.querySelector('th').textContent)"


def asked(word: str, chapter: str = "") -> list[str]:
    """Names of the methods with a word that begins so in what their row says, in the order of the page."""

    def says(m):
        return re.split(r"[\W_]", " ".join([m["name"], m["computes"], *m["functions"], *m["exercises"]]).lower())

    rows = sorted(METHODS, key=lambda m: m["chapter"])
    return [m["name"] for m in rows if any(w.startswith(word) for w in says(m)) and chapter in m["chapter"]]


def test_a_word_and_a_chapter_leave_what_has_both(visit):
    page = visit("book/methods.html")
    status, field = page.locator("#methods-filter [role=status]"), page.get_by_label("Show those with")
    for word in ("", "softmax"):
        field.fill(word)
        assert page.evaluate(ROWS) == asked(word)
        assert status.inner_text() == f"{len(asked(word))} of {len(METHODS)} methods"
    page.get_by_role("combobox").select_option("Chapter 6")
    left = asked("softmax", "ch06")
    assert page.evaluate(ROWS) == left and 0 < len(left) < len(asked("softmax"))
    assert page.locator("caption:visible").all_inner_texts() == ["Chapter 6"]
    again = visit(f"book/methods.html#{page.url.partition('#')[2]}")
    assert again.evaluate(ROWS) == left and again.get_by_label("Show those with").input_value() == "softmax"
    field.fill("softmax nowhere")
    assert page.evaluate(ROWS) == [] and status.inner_text().startswith("None of")
    assert visit.errors == [] and visit.asked == []


def test_words_match_where_they_begin_however_they_are_spelt(visit):
    page = visit("book/methods.html#chapter=ch02")
    assert page.locator("caption:visible").all_inner_texts() == ["Chapter 2"]
    assert page.evaluate(ROWS) == asked("", "ch02")
    field, status = page.get_by_label("Show those with"), page.locator("#methods-filter [role=status]")
    field.fill("softmax")
    assert status.inner_text() == f"None of chapter 2’s has all these words; {len(asked('softmax'))} elsewhere."
    page.get_by_role("combobox").select_option("all chapters")
    field.fill("ring")
    assert page.evaluate(ROWS) == asked("ring")  # not measuring
    found = []
    for words in ("all-reduce", "allreduce", "AllReduce", "quantise", "Quantize", "scatter reduce"):
        field.fill(words)
        found.append(page.evaluate(ROWS))
    assert found[0] == found[1] == found[2] != [] and found[3] == found[4] != [] and found[5] != []
    assert visit.errors == []


def test_a_link_to_a_chapter_stays_one_and_without_javascript_all_is_there(visit):
    page = visit("book/methods.html#of-ch04_training", height=500)
    assert len(page.evaluate(ROWS)) == len(METHODS)
    page.wait_for_function("Math.abs(document.getElementById('of-ch04_training').getBoundingClientRect().top) < 300")
    page = visit("book/methods.html", javascript=False)
    assert not page.locator("#methods-filter").is_visible() and page.locator("tbody tr:visible").count() == len(METHODS)
