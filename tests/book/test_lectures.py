"""The page on lectures: minutes add up, exercises and sections are those of their chapter, and what it calls live or a film is there."""

import re

import pytest

from autograder.places import ROOT, Tree

PAGE = (ROOT / "book/instructor_lectures.md").read_text(encoding="utf-8")
PARTS = PAGE.split("\n## ")[1:]


@pytest.mark.parametrize("number", range(1, len(Tree().chapters) + 1))
def test_a_lecture_fits_its_time_and_its_chapter(number):
    part, core = PARTS[number - 1], Tree().chapters[number - 1].read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d*) ?\| (\d+) \| (.*?) \| (.*) \|$", part, re.M)[1:]
    assert len(rows) == part.count("\n| ") - 1 <= 10  # and two lines of a head
    short, long = (sum(int(row[i] or 0) for row in rows) for i in (0, 1))
    assert short == 45 and long == 90
    exercises = re.findall(r"<ex-(\d+)-\d+>", part)
    assert exercises == [str(number)] * 2
    for section, live in re.findall(r"\{ref\}`(sec-[\w-]+)`([^|]*)", part):
        text = core.partition(f"({section})=")[2].lstrip().partition("\n## ")[0]
        text = re.split(r"\n#{2,3} ", re.sub(r"\A(?:\(sec-[\w-]+\)=\n)*#+ .*\n", "", text))[0]
        assert text and ("{live}" in text) == bool(re.search(r"live|film", live)), section
        assert "plot." in text or "{live}" in text or "{math}" in text or "|---" in text, section


def test_every_chapter_has_one():
    assert len(PARTS) == len(Tree().chapters)
