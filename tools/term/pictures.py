"""What an instructor sees in a term: `python -m tools.term.pictures` writes book/results/term.json and two pictures.

Twelve of the term's students hand in and are graded as in the test; what the commands print and the pages show is kept.
Needs walls, and Chromium with tests/browser/requirements.txt.
"""

import contextlib
import datetime
import io
import json
import sys
import tempfile
from pathlib import Path

import pytest
from PIL import Image

from autograder import collect, grade
from autograder.engine.sandbox import available
from autograder.places import ROOT
from tests.browser import chromium
from tests.tools.term import test_term as term
from tools.bench_grading import versions

RESULTS = ROOT / "book" / "results"
COMMAND = "python -m tools.term.pictures"
SHOWN = (
    "widgets", "text_in_an_added_cell", "text_with_a_picture", "name_added_to_the_name", "worked_in_a_copy",
    "file_of_no_bytes", "loop_that_never_ends", "jessica hamrick", "zoe", "late", "second-try", "not-there",
)  # fmt: skip
READ, RETURNED = "text_in_an_added_cell", "second-try"  # whose pages are shown
WINDOW = {"width": 1000, "height": 700}  # the style sheet keeps this room for them
COLOURS = 32  # text on a page has few


def printed(group: grade.Class, results: list[grade.Result]) -> str:
    """What `make grade` prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        grade.print_results(group, results)
    return out.getvalue().rstrip()


def photograph(page, heading: str, below: int, to: Path) -> None:
    """Keep what the window shows with this heading near its top, `below` what stays there."""
    found = page.locator("h2, h3, h4").filter(has_text=heading).first
    page.wait_for_timeout(500)  # what was typed is being saved, and boxes grow
    found.evaluate("(e, below) => window.scrollBy(0, e.getBoundingClientRect().top - below)", below)
    page.wait_for_timeout(500)
    with Image.open(io.BytesIO(page.screenshot())) as taken:
        taken.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(to, optimize=True)


def read(handed_in: term.Term, page) -> None:
    """Give points in the Formgrader, to one by its page, and keep what that looks like."""
    with term.formgrader(handed_in) as url:
        asked = term.asking(url)
        sent = asked("GET", f"submitted_notebooks/{term.TOPIC}/exercises")
        number = next(s["id"] for s in sent if s["student"] == READ)
        page.goto(f"{url}formgrader/submissions/{number}/?token=t")
        page.wait_for_load_state("networkidle")
        page.locator(f"input.score#{term.WRITTEN}").fill("3")
        page.locator(f"textarea#{term.WRITTEN}-comment").fill("Right. Which of the three is it for a small array?")
        page.mouse.click(5, 400)  # what was typed is saved when the box is left
        photograph(page, "Exercise 1.3", 130, RESULTS / "term_formgrader.png")
        term.points_given(asked)  # to everybody else


def main() -> int:
    if why := available().refused:
        print(why, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch, chromium.browser() as browser:
        one = term.begun(Path(folder).resolve(), patch)
        one.students = [s for s in one.students if s.id in SHOWN]
        page = browser.new_page(viewport=WINDOW)
        collected = collect.table(one.by_zip("submissions.zip", one.on("zip")), term.TOPIC)
        one.by_folders()
        one.by_exchange()
        graded = printed(one.what, list(one.graded().values()))
        read(one, page)
        one.graded()  # brings the points into the pages
        page.goto(one.what.page(RETURNED).as_uri())
        photograph(page, "Exercise 1.1", 20, RESULTS / "term_feedback.png")
    found = {"command": COMMAND, "date": datetime.date.today().isoformat(), "versions": versions()}
    found |= {"collect": collected, "grade": f"{available().walls}\n\n{graded}"}
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    (RESULTS / "term.json").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
