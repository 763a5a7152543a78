"""What the guide shows of a term: whole, small, of no machine, and as wide and high as the room that the page keeps."""

import json
import re

import pytest
from PIL import Image

from autograder.places import ROOT

RESULTS = ROOT / "book" / "results"
SEEN = json.loads((RESULTS / "term.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "book" / "instructor_reference.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["term_formgrader.png", "term_feedback.png"])
def test_a_picture_is_small_and_fits_the_room_that_is_kept(name):
    with Image.open(RESULTS / name) as taken:
        width, height = taken.size
    style = (ROOT / "book/_static/course.css").read_text(encoding="utf-8")
    ratio = re.search(r"img\.screen { aspect-ratio: (\d+) / (\d+);", style)
    assert width * int(ratio[2]) == height * int(ratio[1])
    assert (RESULTS / name).stat().st_size < 60_000
    assert f"```{{figure}} results/{name}\n:alt: " in PAGE and f":width: {width}px" in PAGE


@pytest.mark.parametrize("what", ["collect", "grade"])
def test_the_page_shows_what_was_printed(what):
    assert f'printed("{what}", ' in PAGE
    lines = SEEN[what].splitlines()
    assert max(map(len, lines)) <= 80 and "not-there" in SEEN[what]


def test_the_rows_that_the_page_explains_are_there():
    for words in ("Walls: ", "could not be graded", "put right, or stopped", "late, points off", "No submission: "):
        assert words in SEEN["grade"], words
