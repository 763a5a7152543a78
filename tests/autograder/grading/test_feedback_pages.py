"""No submission holds up the feedback pages of the others: what is too long or too large becomes a plain page, and is named."""

import re
import subprocess
import sys
import time

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from autograder import demo, grade, release
from autograder.grading import feedback_pages, intake, nbgrader_steps
from autograder.grading.one_submission import Graded
from autograder.grading.rebuild import rebuild
from autograder.places import ROOT, Tree
from tests.autograder.grading.serial import Serial
from tests.autograder.grading.test_jobs import gone

SAMPLE = Tree(ROOT / "tests" / "autograder" / "sample")
TOPIC = "ch01_sample"
HTML = "<div><p>" * 1200
HOSTILE = {
    "one long line": [new_code_cell("a." * 40_000)],
    "long lines": [new_code_cell(("a." * 249 + "\n") * 40) for _ in range(14)],
    "much code": [new_code_cell("a = [1] # x\n" * 8_000) for _ in range(3)],
    "links": [new_markdown_cell("[" * 9_900) for _ in range(30)],
    "emphasis": [new_markdown_cell("*a_" * 3_300) for _ in range(30)],
    "html": [
        new_code_cell(
            "", outputs=[new_output("display_data", {"text/html": HTML, "text/plain": "x"}) for _ in range(50)]
        )
        for _ in range(4)
    ],
}


class Rebuilds(Serial):
    """Runs nothing: the answers are where they should be, and what `HOSTILE` has stands behind them."""

    def run(self, jobs):
        released = nbformat.reads(self.assignment.released, as_version=4)
        for job in jobs:
            nb = rebuild(intake.notebook(job.data), nbformat.from_dict(released))[0]
            nb.cells += HOSTILE.get(job.student, [])
            yield Graded(job.student, nbformat.writes(nb, version=4))


@pytest.fixture
def graded(tmp_path, monkeypatch):
    """Grade a class of these students without running an answer; the course."""
    monkeypatch.setenv("COURSE_SECRET", "not a secret")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(grade, "pool", Rebuilds)

    def graded(*students: str, pages: bool = True) -> grade.Class:
        what = demo.open_class(TOPIC, SAMPLE, tmp_path / "course")
        released = nbformat.read(what.notebook("release"), as_version=4)
        for student in students:
            release.write(what.notebook("submitted", student), nbformat.writes(released, version=4))
        with monkeypatch.context() as patched:
            if not pages:
                patched.setattr(grade, "write_feedback", lambda *_: None)
            grade.grade(what, progress=False)
        return what

    return graded


pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.slow("makes pages that are too much for nbgrader")
def test_hostile_pages(graded, capsys, monkeypatch):
    """Every page is there with its scores; those that take too long are plain and named."""
    monkeypatch.setattr(feedback_pages, "PROCESSOR", 4)
    what = graded("ada", *HOSTILE)
    said = capsys.readouterr().err
    for student in ("ada", *HOSTILE):
        page = what.page(student).read_text(encoding="utf-8")
        assert "Exercise 1.1" in page and re.search(r"Score: 0.0 / [1-9]", page), student
    for student in ("long lines", "html"):
        assert f"The feedback page of {student} is plain: it takes more than 4 s of a processor" in said
    assert "of ada" not in said and "of one long line" not in said
    grade.grade(what, progress=False)
    assert "feedback page" not in capsys.readouterr().err  # what is plain stays so


@pytest.mark.slow("makes a page that is too much for nbgrader")
def test_a_page_of_too_much_memory_is_named(graded, monkeypatch):
    monkeypatch.setattr(feedback_pages, "MEMORY", 400_000_000)
    loud = new_output("stream", text="\x1b[31ma\x1b[0m" * 2_000_000)
    monkeypatch.setitem(HOSTILE, "loud", [new_code_cell("", outputs=[loud])])
    what = graded("loud", "ada", pages=False)
    found = {p.student: p for p in feedback_pages.write_pages(what, ["loud", "ada"])}
    assert found["loud"].why == "It takes too much memory." and what.page("loud").is_file()
    assert found["ada"] == feedback_pages.Page("ada")


def test_code_is_coloured_as_far_as_it_is_short():
    assert "<span" in nbgrader_steps.safe_code("x = 1")
    assert "<span" not in nbgrader_steps.safe_code("x = 1\n" * 5_000)
    assert "&lt;" in nbgrader_steps.safe_code("<" * 600)


@pytest.mark.slow("makes pages in processes that are killed")
def test_a_process_that_dies_costs_one_page_its_colours(graded, monkeypatch):
    monkeypatch.setattr(feedback_pages, "EACH", 1)
    students = [f"s{i}" for i in range(8)]
    what = graded(*students, pages=False)
    found = feedback_pages.write_pages(what, students)
    pages = [next(found)]
    for process in psutil.Process().children():
        process.kill()
    pages += found
    assert sorted(p.student for p in pages) == students
    lost = [p for p in pages if p.why]
    assert lost and all(p.there and p.again and "died" in p.why for p in lost)
    assert all(what.page(s).is_file() for s in students)


WRITES = """
import sys
from pathlib import Path
from autograder import grade
from autograder.grading import feedback_pages
what = grade.Class(sys.argv[1], Path(sys.argv[2]))
feedback_pages.EACH = 1
list(feedback_pages.write_pages(what, ["html", "long lines"]))
"""


@pytest.mark.slow("makes pages in processes that are killed")
def test_a_killed_grader_leaves_no_process(graded):
    """While its processes are in the midst of pages that take long."""
    what = graded("html", "long lines", pages=False)
    command = [sys.executable, "-c", WRITES, TOPIC, str(what.root)]
    with subprocess.Popen(command, cwd=ROOT) as run:
        left = []
        while len(left) < 2 or max(p.cpu_times().user for p in left) < 3:  # it imports for one of them
            assert run.poll() is None
            time.sleep(0.1)
            left = psutil.Process(run.pid).children(recursive=True)
        run.kill()
    assert not gone([p.pid for p in left], seconds=5)


@pytest.mark.slow("makes pages")
def test_a_folder_that_cannot_be_written_costs_its_page_and_no_more(graded, capsys):
    what = graded("ada", "bob", pages=False)
    what.page("ada").parent.parent.parent.mkdir(exist_ok=True)
    what.page("ada").parent.parent.write_text("a file where the folder should be")
    found = {p.student: p for p in feedback_pages.write_pages(what, what.students)}
    assert not found["ada"].there and found["ada"].again and found["ada"].why
    assert found["bob"] == feedback_pages.Page("bob")


@pytest.mark.slow("makes pages")
def test_the_table_comes_before_the_pages(graded, monkeypatch):
    what, seen = graded("ada", pages=False), []
    monkeypatch.setattr(grade, "write_feedback", lambda *_: seen.append("pages"))
    grade.grade(what, progress=False, show=lambda rows: seen.append([r.student for r in rows]))
    assert seen == [["ada"], "pages"]
