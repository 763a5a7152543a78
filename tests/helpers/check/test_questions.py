"""The chapters' questions: their form, and that page and notebook say the same."""

import json
import re
from pathlib import Path

import pytest

from autograder.places import reading_of
from helpers import check, prose
from helpers.check.questions import WITHIN, Question, number, parse, verdict

ROOT = Path(__file__).resolve().parents[3]
ASK = re.compile(r"^:::\{ask\}\n(.*?)^:::$", re.M | re.S)
OPTION = re.compile(r"^:(unit|within): (.*)$")


def question(block: str) -> Question:
    lines = block.splitlines()
    options = dict(m.groups() for line in lines if (m := OPTION.match(line)))
    tolerance = float(options.get("within", WITHIN))
    return parse([line for line in lines if not OPTION.match(line)], options.get("unit"), tolerance)


def questions(chapter: str) -> list[Question]:
    text = prose.render((ROOT / f"book/{chapter}.md").read_text(encoding="utf-8"))
    return [question(block) for block in ASK.findall(text)]


def asked(chapter: str) -> list[str]:
    """The folded cells of a reading that reply to a guess."""
    cells = json.loads((ROOT / "notebooks" / reading_of(chapter)).read_text(encoding="utf-8"))["cells"]
    return [source for cell in cells if "check.question(" in (source := "".join(cell["source"]))]


CHAPTERS = [p.stem for p in sorted((ROOT / "book").glob("ch0*.md")) if "{ask}" in p.read_text(encoding="utf-8")]


@pytest.mark.parametrize("chapter", CHAPTERS)
@pytest.mark.sample(quick=3)
def test_the_notebook_says_what_the_page_says(chapter, capsys):
    found, cells = questions(chapter), asked(chapter)
    assert len(found) == len(cells) > 0
    for one, cell in zip(found, cells):
        for i, reply in enumerate(one.replies):
            exec(cell, {"guess": number(reply.value) if one.unit is not None else chr(ord("a") + i)})
            told = capsys.readouterr().out
            assert told.startswith("Right:" if reply.right else "Not yet:"), (one.text, reply)
            words = re.findall(r"[a-z]{4,}", re.sub(r"\$[^$]*\$|<[^>]+>", "", reply.text))
            assert words and all(word in told for word in words)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_answers_are_computed(chapter):
    for block in ASK.findall((ROOT / f"book/{chapter}.md").read_text(encoding="utf-8")):
        if ":unit:" in block:
            assert re.search(r"^= \{\{", block, re.M), block


@pytest.mark.parametrize("lines, unit, said", [
    (["? a: b.", "= c: d."], None, "needs a text"),
    (["Why?", "= c: d."], None, "at least one"),
    (["Why?", "= c: d.", "= e: f."], None, "one line"),
    (["Why?", "= 100: d.", "? 103: f."], "tokens", "103 counts as the answer 100"),
    (["Why?", "= 1.6: d.", "? 3: f."], "tokens", "rounded by more"),
    (["Why?", "= many: d.", "? 3: f."], "tokens", "could not convert"),
])  # fmt: skip
def test_a_question_that_lacks_something_is_refused(lines, unit, said):
    with pytest.raises(ValueError, match=said):
        parse(lines, unit)


def test_verdicts_of_numbers():
    replies = {200.0: "so it is.", 100.0: "half is one way."}
    assert verdict(203.9, replies, 200.0) == (True, "so it is.")
    assert verdict(101.0, replies, 200.0) == (False, "half is one way.")
    assert "power of ten" in verdict(0.2, replies, 200.0)[1]
    assert "power of ten" in verdict(2000, replies, 200.0)[1]
    assert (
        verdict(200, {203.7: "so."}, 203.7) == (True, "so.") and not verdict(210, {203.7: "so."}, 203.7)[0]
    )  # two digits
    assert verdict(16, {15: "so.", 16: "one more."}, 15, tolerance=0) == (False, "one more.")  # a count is exact
    assert not verdict(150, {154: "so."}, 154, tolerance=0)[0]
    assert verdict(float("inf"), replies, 200.0) == (False, "too large.")
    assert verdict(-200, replies, 200.0) == (False, "too small.")
    assert verdict(0, {0: "nothing moves."}, 0) == (True, "nothing moves.")


@pytest.mark.parametrize(
    "guess, said",
    [(True, "is to be a number"), ("many", "is to be a number"), (None, "No guess yet"), ("1/0", "a number")],
)
def test_what_is_no_number_is_told_so(guess, said, capsys):
    check.question(guess, {6: "two hops."}, 6, unit="hops")
    assert said in capsys.readouterr().out


def test_a_letter_that_is_no_choice_is_told_which_are(capsys):
    check.question("d", {"a": "yes.", "b": "no."}, "a")
    assert capsys.readouterr().out == 'The guess is to be "a" or "b"; it is \'d\'.\n'
    check.question("(A)", {"a": "yes.", "b": "no."}, "a")
    assert capsys.readouterr().out == "Right: yes.\n"
