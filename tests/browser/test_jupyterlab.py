"""JupyterLab as a learner and an instructor meet it: start page, reading, exercises, Formgrader, Assignment List."""

import json
import re

import pytest

from autograder.making import in_process_grading
from tests.scratch import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab")]  # they share a JupyterLab
CHAPTER = "work/ch01_rooflines"
READINGS = sorted(f"work/{p.parent.name}/reading.ipynb" for p in ROOT.glob("notebooks/ch*/reading.ipynb"))


def open_notebook(page, lab, path):
    """Open a notebook in a fresh workspace and wait for its kernel."""
    page.goto(f"{lab}lab/tree/{path}?token=t&reset")
    page.locator(".jp-Notebook-cell").first.wait_for()
    page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
    )


def command(page, name):
    """Run a command of JupyterLab to its end."""
    page.evaluate("async name => { await window.jupyterapp.commands.execute(name); }", name)


def cells(page):
    """The open notebook as JSON."""
    return page.evaluate("() => window.jupyterapp.shell.currentWidget.context.model.toJSON().cells")


def current_path(page):
    return page.evaluate("() => window.jupyterapp.shell.currentWidget.context.path")


def write(page, grade_id, source):
    """Put text into the cell of that grade_id."""
    done = page.evaluate(
        """([id, source]) => { for (const c of window.jupyterapp.shell.currentWidget.content.widgets)
             if ((c.model.getMetadata('nbgrader') || {}).grade_id === id) { c.model.sharedModel.setSource(source); return true; } }""",
        [grade_id, source],
    )
    assert done, f"no cell {grade_id}"


def run(page, grade_id):
    """Run one cell, as Shift-Enter does."""
    page.evaluate(
        """async id => { const n = window.jupyterapp.shell.currentWidget.content;
             n.activeCellIndex = n.widgets.findIndex(c => (c.model.getMetadata('nbgrader') || {}).grade_id === id);
             n.deselectAll(); await window.jupyterapp.commands.execute('notebook:run-cell'); }""",
        grade_id,
    )


def output(page, grade_id):
    """What the check cell printed, on one line."""
    cell = next(c for c in cells(page) if c["metadata"].get("nbgrader", {}).get("grade_id") == grade_id)
    said = [o.get("text") or o.get("data", {}).get("text/plain") or o.get("traceback", "") for o in cell["outputs"]]
    return " ".join("".join("".join(part) for part in said).split())


def test_the_start_page_leads_to_reading_and_exercises(page, lab):
    page.goto(f"{lab}?token=t")
    start = page.locator(
        ".jp-MarkdownViewer .jp-RenderedMarkdown"
    ).first  # a notebook of an earlier visit may be open too
    start.get_by_role("heading", name="Rooflines to Racks").wait_for()
    assert start.get_by_role("link", name="reading", exact=True).first.is_visible()
    assert not page.get_by_text("official Jupyter news").is_visible()
    start.get_by_role("link", name=re.compile("exercises")).first.click()
    page.locator(".jp-Notebook-cell").first.wait_for()
    page.get_by_role("heading", name=re.compile("Exercise 1.1")).first.wait_for()
    assert current_path(page) == f"{CHAPTER}/exercises.ipynb"  # a copy of the learner's own


LINKS = {"Two times": "sec-bounds", "Exercise 1.3": "ex-1-3", "The matrix product": "sec-matmul"}


@pytest.mark.parametrize("link", LINKS)
def test_a_first_click_leads_to_the_section_or_exercise(page, lab, link):
    page.goto(f"{lab}lab/tree/work/README.md?token=t&reset")
    page.locator(".jp-RenderedMarkdown").get_by_role("link", name=link, exact=True).first.click()
    page.wait_for_function(
        """id => { const top = document.querySelector(`.jp-Notebook [data-jupyter-id=${id}]`)?.getBoundingClientRect().top;
                   return 0 < top && top < 400; }""",
        arg=LINKS[link],
    )


def test_a_tab_says_its_chapter_and_is_not_marked_as_changed(page, lab):
    open_notebook(page, lab, f"{CHAPTER}/exercises.ipynb")
    page.wait_for_function(
        """() => { const { model } = window.jupyterapp.shell.currentWidget.context;
                   return model.getMetadata('language_info').version && !model.dirty; }"""
    )
    label = ".jp-mod-current[data-chapter] .lm-TabBar-tabLabel"
    assert page.locator(label).evaluate("e => getComputedStyle(e, '::before').content") == '"1 · "'
    assert current_path(page) == f"{CHAPTER}/exercises.ipynb"  # a changed label would have renamed it


@pytest.mark.parametrize("reading", READINGS, ids=lambda r: r.split("/")[1])
@pytest.mark.sample(quick=0, slow=1)
def test_the_reading_runs_to_its_end(page, lab, reading):
    open_notebook(page, lab, reading)
    command(page, "notebook:run-all-cells")
    code = [c for c in cells(page) if c["cell_type"] == "code"]
    assert all(c["execution_count"] for c in code)
    assert not [o for c in code for o in c["outputs"] if o["output_type"] == "error"]
    drawn = "".join(c["source"] for c in code).count("alt=")
    assert page.locator(".jp-OutputArea img[alt]:not([alt=''])").count() >= drawn > 1
    rendered = page.locator(".jp-Notebook .jp-RenderedMarkdown").all_inner_texts()
    assert not [t for t in rendered if re.search(r"\{(math|eq|ref|note|dropdown)\}|:::|\{\{", t)]


def test_a_right_answer_passes_and_a_wrong_one_is_named(page, lab, course):
    ours = {
        c.metadata.nbgrader.grade_id: c.source
        for c in in_process_grading.solved("ch01_rooflines").cells
        if "nbgrader" in c.metadata
    }
    open_notebook(page, lab, f"{CHAPTER}/exercises.ipynb")
    write(page, "ch01-q01", ours["ch01-q01"])
    write(
        page,
        "ch01-q02",
        "def bounds(flops, n_bytes, C, W):\n    return min(flops / C, n_bytes / W), flops / C + n_bytes / W, 'compute'",
    )
    command(page, "notebook:run-all-cells")
    assert "Exercise 1.1: 1 of 1 points" in output(page, "ch01-q01-check")
    assert "Exercise 1.2: 0 of 2 points" in output(page, "ch01-q02-check")
    assert "the shorter of the two is not a bound" in output(page, "ch01-q02-check")
    assert "not done yet" in output(page, "ch01-q03-check")
    stands = r"Chapter 1: 1 of \d+ points, 1 of \d+ exercises passed; next: 1\.2\."
    assert re.search(stands, output(page, "ch01-q01-check"))
    assert set(json.loads((course / "work/progress.json").read_bytes())["exercises"]) == {"1.1", "1.2"}

    # No colon: the older answer is still there.
    write(page, "ch01-q01", "def dot_intensity(N, bytes_each=2)\n    return 1")
    run(page, "ch01-q01")
    run(page, "ch01-q01-check")
    said = output(page, "ch01-q01-check")
    assert "The cell that defines dot_intensity ended with SyntaxError: expected ':', at line 1:" in said
    assert "Nothing is judged" in said and "points" not in said
    write(page, "ch01-q01", "def dot_intensity(N, bytes_each=2):\n    prices = {}\n    return prices['weights']")
    run(page, "ch01-q01")
    run(page, "ch01-q01-check")
    said = output(page, "ch01-q01-check")
    assert "dot_intensity(4096) raised KeyError: 'weights', at line 3: `return prices['weights']`." in said


def test_an_assignment_travels_from_formgrader_to_assignment_list_and_back(page, lab, course):
    page.goto(f"{lab}lab/tree/work/README.md?token=t&reset")
    page.locator(".jp-RenderedMarkdown").first.wait_for()
    command(page, "nbgrader:open-formgrader")
    grader = page.frame_locator("iframe[src*='formgrader']")
    row = grader.locator("tr", has_text="ch01_rooflines")
    row.locator(".release a").click()
    grader.get_by_text(re.compile("Successfully released")).wait_for()

    command(page, "nbgrader:open-assignment-list")

    assert not page.get_by_role("button", name="Fetch").count()  # the copy in work/ is the assignment
    page.get_by_role("button", name="Submit").click()
    page.locator("#submitted_assignments_list").get_by_text("ch01_rooflines").first.wait_for()
    [sent] = (course / "autograder/exchange/rooflines/inbound").iterdir()
    assert (sent / "exercises.ipynb").read_bytes() == (course / "work/ch01_rooflines/exercises.ipynb").read_bytes()
