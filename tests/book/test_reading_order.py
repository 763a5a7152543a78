"""Practice links stand where all that an exercise needs has been read, by its data line and the order of the text."""

import re

import pytest

from autograder.making.data_line import data_line
from autograder.making.edition_text import blocks
from autograder.places import Tree

TREE = Tree()
LABEL = re.compile(r"^\(([\w:.-]+)\)=$")
LINK = re.compile(r"<ex-(\d+)-(\d+)>")


def lines_of(topic: str) -> list[str]:
    """The text of a chapter up to its takeaways."""
    text = (TREE.root / f"book/{topic}.md").read_text(encoding="utf-8")
    return re.split(r"^\(sec-ch\d\d-takeaways\)=$", text, flags=re.M)[0].split("\n")


def data_of(topic: str) -> dict:
    """{exercise: its data line} of a chapter."""
    source = (TREE.root / f"solutions/{topic}.md").read_text(encoding="utf-8")
    return {number: data_line("\n".join(lines)) for number, lines in blocks(source) if number}


def wrong(lines: list[str], data: dict) -> list[str]:
    """What a reader meets too early, or never, a sentence each."""
    found, sections, linked = [], set(), set()
    for i, line in enumerate(lines):
        if m := LABEL.match(line):
            sections.add(m[1])
        if not line.startswith("Practice: "):
            continue
        behind = next((after for after in lines[i + 1 :] if after.strip() and not after.startswith("% ")), "")
        if behind and not LABEL.match(behind):
            found.append(f"after {line!r} its section goes on")
        for number in (f"{a}.{b}" for a, b in LINK.findall(line)):
            own = [n for n in data[number].needs if n.split(".")[0] == number.split(".")[0]]
            found += [f"{number} is linked before {n}, which it needs" for n in own if n not in linked]
            found += [f"{number} is linked before {s} is read" for s in data[number].after if s not in sections]
            linked.add(number)
    return found + [f"{n} is linked nowhere" for n in data if n not in linked]


@pytest.mark.parametrize("topic", [p.stem for p in TREE.exercises])
def test_each_exercise_is_linked_where_all_it_needs_has_been_read(topic):
    assert wrong(lines_of(topic), data_of(topic)) == []


@pytest.mark.parametrize("topic", [p.stem for p in TREE.exercises])
def test_every_data_line_is_whole(topic):
    source = (TREE.root / f"solutions/{topic}.md").read_text(encoding="utf-8")
    for number, lines in blocks(source):
        if number:
            data = data_line("\n".join(lines))
            assert data.after, f"{number} says after no section"
            assert " · importance " in next(line for line in lines if re.match("[★☆]{3} · ", line)), number
    spread = [d.importance for d in data_of(topic).values()]
    assert 5 in spread and min(spread) <= 2  # else it tells nobody what to leave out


def test_a_link_that_comes_too_early_is_found():
    data = {n: data_line(f"★☆☆ · 5 min · 1 point · {rest}") for n, rest in
            {"1.1": "after {ref}`sec-b`", "1.2": "after {ref}`sec-a` · bf16; needs 1.1", "1.3": "after {ref}`sec-a`"}.items()}  # fmt: skip
    lines = ["(sec-a)=", "## A", "Practice: {ref}`2 <ex-1-2>`, {ref}`1 <ex-1-1>`.", "", "More.", "(sec-b)=", "## B"]
    assert wrong(lines, data) == [
        "after 'Practice: {ref}`2 <ex-1-2>`, {ref}`1 <ex-1-1>`.' its section goes on",
        "1.2 is linked before 1.1, which it needs",
        "1.1 is linked before sec-b is read",
        "1.3 is linked nowhere",
    ]
