"""What the index of methods and the tests of numbers take for granted of a page: it shows these functions, and these formulas."""

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
