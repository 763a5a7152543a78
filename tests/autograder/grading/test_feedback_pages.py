"""No submission holds up the feedback pages of others, or makes them run or ask for anything: what is too long is plain, and named."""

import importlib.util
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
import psutil
import pytest
from jinja2 import Environment, FileSystemLoader
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from nbgrader.preprocessors import ClearHiddenTests

from autograder import course, grade
from autograder.grading import feedback_pages, intake, nbgrader_steps
from autograder.grading.nbgrader_steps import HideTests, safe_output
from autograder.grading.one_submission import Graded
from autograder.grading.rebuild import rebuild
from autograder.places import ROOT, SourceError
from tests.autograder import classes
from tests.autograder.grading.test_jobs import gone
from tests.autograder.grading.test_pictures import Attributes

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.xdist_group("pages")]  # they share a class

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


LOUD = {"loud": [new_code_cell("", outputs=[new_output("stream", text="\x1b[31ma\x1b[0m" * 2_000_000)])]}
QUIET = ("ada", "bob", "cyd", "dan")


class Rebuilds(classes.Serial):
    """Runs nothing: the answers are where they should be, and what `HOSTILE` has stands behind them."""

    def run(self, jobs):
        released = nbformat.reads(self.assignment.released, as_version=4)
        for job in jobs:
            nb = rebuild(intake.opened(job.data)[0], nbformat.from_dict(released))[0]
            nb.cells += (HOSTILE | LOUD).get(job.student, [])
            yield Graded(job.student, nbformat.writes(nb, version=4))


@pytest.fixture(scope="module")
def everybody(opened, tmp_path_factory):
    """Graded without running an answer; nobody has a page yet."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        classes.apart(patch, folder)
        patch.setattr(grade, "pool", Rebuilds)
        patch.setattr(grade, "write_feedback", lambda *_: None)
        what = classes.copied(opened, folder)
        for student in (*QUIET, *HOSTILE, *LOUD):
            classes.hand_in(what, student)
        grade.grade(what, progress=False)
    return what


@pytest.fixture
def class_of(everybody, tmp_path, monkeypatch):
    """A class of these students."""
    classes.apart(monkeypatch, tmp_path)
    monkeypatch.setattr(grade, "pool", Rebuilds)

    def made(*students: str) -> classes.Strict:
        what = classes.copied(everybody, tmp_path)
        for student in {*what.students} - {*students}:
            shutil.rmtree(what.root / "submitted" / student)
        return what

    return made


@pytest.mark.slow("makes pages that are too much for nbgrader")
def test_hostile_pages(class_of, capsys, monkeypatch):
    """Every page is there with its scores; those that take too long are plain and named."""
    monkeypatch.setattr(feedback_pages, "PROCESSOR", 4)
    what = class_of("ada", *HOSTILE)
    grade.grade(what, progress=False)
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
def test_a_page_of_too_much_memory_is_named(class_of, monkeypatch):
    monkeypatch.setattr(feedback_pages, "MEMORY", 400_000_000)
    what = class_of("loud", "ada")
    found = {p.student: p for p in feedback_pages.write_pages(what, ["loud", "ada"])}
    assert found["loud"].why == "It takes too much memory." and what.page("loud").is_file()
    assert found["ada"] == feedback_pages.Page("ada")


def test_code_is_coloured_as_far_as_it_is_short():
    assert "<span" in nbgrader_steps.safe_code("x = 1")
    assert "<span" not in nbgrader_steps.safe_code("x = 1\n" * 5_000)
    assert "&lt;" in nbgrader_steps.safe_code("<" * 600)


@pytest.mark.slow("makes pages in processes that are killed")
def test_a_process_that_dies_costs_one_page_its_colours(class_of, monkeypatch):
    monkeypatch.setattr(feedback_pages, "EACH", 1)
    students = sorted(QUIET)
    what = class_of(*students)
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
def test_a_killed_grader_leaves_no_process(class_of):
    """While its processes are in the midst of pages that take long."""
    what = class_of("html", "long lines")
    command = [sys.executable, "-c", WRITES, classes.TOPIC, str(what.root)]
    with subprocess.Popen(command, cwd=ROOT) as run:
        left = []
        while len(left) < 2 or max(p.cpu_times().user for p in left) < 3:  # it imports for one of them
            assert run.poll() is None
            time.sleep(0.1)
            left = psutil.Process(run.pid).children(recursive=True)
        run.kill()
    assert not gone([p.pid for p in left], seconds=5)


@pytest.mark.slow("makes pages")
def test_a_page_that_cannot_be_written_is_an_error_and_stops_no_other(class_of, capsys):
    what, shown = class_of("ada", "bob"), []
    what.page("ada").parent.parent.parent.mkdir(exist_ok=True)
    what.page("ada").parent.parent.write_text("a file where the folder should be")
    for pages in (2, 1):  # the next grading tries again, and the status says so each time
        with pytest.raises(
            SourceError, match=f"1 of {pages} feedback pages could not be written, that of ada .*Points"
        ):
            grade.grade(what, progress=False, show=lambda found, changes: shown.append(found))
    assert what.page("bob").is_file() and len(shown) == 2
    what.page("ada").parent.parent.unlink()
    grade.grade(what, progress=False)
    assert what.page("ada").is_file()


@pytest.mark.slow("takes the class that others make pages of")
def test_the_table_comes_before_the_pages(class_of, monkeypatch):
    what, seen = class_of("ada"), []
    monkeypatch.setattr(grade, "write_feedback", lambda *_: seen.append("pages"))
    grade.grade(what, progress=False, show=lambda rows, _: seen.append([r.student for r in rows]))
    assert seen == [["ada"], "pages"]


ATTACKS = [
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x]( java&#9;script:alert(1))",
    "[x](data:text/html,<script>1</script>)",
    "[x][1]\n\n[1]: vbscript:1",
    "![x](http://elsewhere.example/x.png)",
    "<img src=x onerror=alert(1)>",
    "<a href='javascript:1'>x</a>",
]


def page(*cells) -> str:
    """The body of the page that nbgrader's exporter makes of these cells."""
    c = course.config()
    html = HTMLExporter(config=c, template_name="basic").from_notebook_node(new_notebook(cells=list(cells)))[0]
    return html.lower()


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("text", ATTACKS)
def test_markdown_of_a_learner(text):
    output = new_output("display_data", {"text/markdown": text})
    seen = Attributes()
    seen.feed(page(new_markdown_cell(text), new_code_cell("", outputs=[output])))
    leads = [v for k, v in seen.found if k in ("href", "src")]
    assert all(v.startswith(("http://", "https://", "#", "data:image/")) and "elsewhere" not in v for v in leads), leads
    assert not [k for k, _ in seen.found if k.startswith("on")] and "script" not in seen.tags


def test_a_formula_of_a_learner_runs_nothing_in_the_formgrader(browser):
    """MathJax makes links and styles of formulas, in a page of the grader's own server."""
    templates = FileSystemLoader(ROOT / "autograder/share/nbconvert/templates/formgrade")
    head = (
        Environment(loader=templates).from_string("{% from 'mathjax.html.j2' import mathjax %}{{ mathjax() }}").render()
    )
    formulas = r"$\href{javascript:x}{a}$ $\style{position:fixed}{b}$ $\class{score}{c}$ $\href{https://h}{d}$"
    static = Path(importlib.util.find_spec("sphinx-mathjax-offline").submodule_search_locations[0])
    with browser.new_context() as context:
        page = context.new_page()
        files = lambda route: route.fulfill(path=f"{static}{urlsplit(route.request.url).path}")  # noqa: E731
        page.route("http://grader/static/**", files)
        page.route(
            "http://grader/formgrader/x", lambda route: route.fulfill(body=head + formulas, content_type="text/html")
        )
        page.goto("http://grader/formgrader/x")
        page.locator("mjx-container").nth(3).wait_for()
        made = page.locator("mjx-container").evaluate_all("all => all.map(one => one.outerHTML).join()")
    assert 'href="https://h"' in made and not re.search("javascript|position: *fixed|score", made)


MARKS = [v.default_value for k, v in vars(ClearHiddenTests).items() if k.endswith("_delimeter")]


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_of_nbgraders_in_a_learners_text_is_text(mark):
    """In an own cell, in an answer of code or of words: nbgrader would cut there, or make no page."""
    text, kinds = f"a\n### {mark}\nb", [{}, {"grade": True, "solution": True}, {"solution": True}]
    of_course = new_code_cell("### BEGIN HIDDEN TESTS\n1\n### END HIDDEN TESTS", metadata={"nbgrader": {"grade": True}})
    made = [new(text, metadata={"nbgrader": m}) for m in kinds for new in (new_code_cell, new_markdown_cell)]
    shown = HideTests().preprocess(new_notebook(cells=[*made, of_course]), {})[0].cells
    assert [c.source for c in shown] == [text] * len(made) + [""]


def test_outputs_carry_sizes_and_base64_only():
    out = new_output(
        "display_data",
        {"image/png": "iVBORw0KGgo="},
        metadata={"image/png": {"width": "1 onerror=x", "height": 5}, "x": 1},
    )
    assert safe_output(out).metadata == {"image/png": {"height": 5}}
    assert "image/png" not in safe_output(new_output("display_data", {"image/png": '" onerror="x'})).data


@pytest.mark.filterwarnings("default")
def test_the_courses_own_text_keeps_its_markup():
    cell = new_markdown_cell("<a id='ex-1-1'></a>\n\n<details><summary>Hint</summary>\n\n$a < b$, `x`\n\n</details>")
    cell.metadata = nbformat.from_dict({"released": True})
    html = page(cell)
    assert "<details>" in html and 'id="ex-1-1"' in html and "<code>x</code>" in html and "a &lt; b" in html
