"""JupyterLab as `course` starts it: without teachers' menus, where one was, with ticks at what is done and a pass that looks like one."""

import json

import pytest

from helpers.check import record
from tests import scratch
from tests.browser.test_jupyterlab import current_path, run, write

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab")]
RIGHT = "def dot_intensity(N, bytes_each=2):\n    return (2 * N - 1) / (bytes_each * (2 * N + 1))"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return scratch.copy(tmp_path_factory.mktemp("learner") / "Meine Kurse ü")


@pytest.fixture(scope="module")
def url(folder, chromium_of_this_process):
    """The address of a JupyterLab that `course` started; its token is `t`."""
    chromium_of_this_process.alive()  # or the test is skipped
    with scratch.jupyterlab(folder, folder.parent / "jupyter", "autograder.own_work") as address:
        yield address


@pytest.fixture
def page(browser, url):
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    page.set_default_timeout(60_000)
    yield page
    context.close()


def open_at(page, url, notebook, section):
    """By a link, as on the start page."""
    page.goto(f"{url}lab?token=t&reset")
    page.wait_for_function("() => window.jupyterapp?.shell.restored")
    link = {"path": f"work/ch01_rooflines/{notebook}", "id": f"#{section}"}
    command = "jupyterapp.commands.execute('rendermime:handle-local-link', link)"
    page.evaluate(f"link => jupyterapp.restored.then(() => {command}).then(() => 0)", link)
    arrives(page, section)


def arrives(page, section):
    """Waits until a section stands at the top of its notebook."""
    page.wait_for_function(
        """section => Math.abs(document.querySelector(`[data-jupyter-id="${section}"], [id="${section}"]`)?.getBoundingClientRect().top
             - window.jupyterapp?.shell.currentWidget?.content.node.getBoundingClientRect().top) < 60""",
        arg=section,
    )


def tick(page, anchor):
    """Waits until the heading below an anchor has a tick."""
    page.wait_for_function(
        """anchor => [...document.querySelectorAll(`.jp-RenderedMarkdown:has([data-jupyter-id="${anchor}"], [id="${anchor}"])
             :is(h1, h2, h3)`)].some(h => getComputedStyle(h, "::after").content.includes("✓"))""",
        arg=anchor,
    )


def test_the_first_start_is_the_start_page_without_menus_of_teachers(page, url):
    page.goto(f"{url}lab?token=t&reset")  # before there was `course`, somebody has opened the page as source
    page.wait_for_function("() => window.jupyterapp?.shell.restored")
    page.evaluate("() => window.jupyterapp.restored")
    with page.expect_response(lambda r: "api/workspaces" in r.url and r.request.method == "PUT"):
        page.evaluate(
            "() => jupyterapp.commands.execute('docmanager:open', {path: 'work/README.md', factory: 'Editor'}).then(() => 0)"
        )
        page.locator(".jp-FileEditor").wait_for()
    page.goto(url)
    page.locator(".jp-MarkdownViewer h1").wait_for()
    assert not page.locator(".jp-FileEditor").count()
    assert "Nbgrader" not in page.locator(".lm-MenuBar-itemLabel").all_inner_texts()


def test_a_section_that_was_read_is_kept_and_has_a_tick(page, url, folder):
    open_at(page, url, "reading.ipynb", "sec-intensity")
    tick(page, "sec-intensity")
    kept = json.loads((folder / "work/progress.json").read_text())["sections"]
    assert "sec-intensity" in kept and "sec-roofline" not in kept  # which was never seen
    assert "**Go on: [" in (folder / "work/README.md").read_text(encoding="utf-8")


def test_course_opens_the_section_that_is_next_and_run_all_leaves_the_reader_there(page, url, folder):
    record.note_sections(folder / "work/progress.json", ["sec-bounds", "sec-intensity"])
    page.goto(f"{url}lab/workspaces/course/tree/work/ch01_rooflines/reading.ipynb?token=t")
    arrives(page, "sec-matmul")
    page.wait_for_timeout(2000)  # until nothing moves any more
    page.keyboard.press("Escape")
    page.evaluate("() => { jupyterapp.commands.execute('notebook:run-all-cells') }")
    page.wait_for_timeout(3000)
    arrives(page, "sec-matmul")
    page.evaluate("jupyterapp.commands.execute('docmanager:open', {path: 'work/README.md'}).then(() => 0)")
    record.note_sections(folder / "work/progress.json", ["sec-matmul"])
    record.refresh(folder / "work")
    page.locator(".lm-TabBar-tab", has_text="reading").click()
    page.locator(".lm-TabBar-tab", has_text="README").click()
    page.locator(".jp-MarkdownViewer", has_text="Go on: How fast can a model").wait_for()


def test_a_pass_has_a_tick_the_chapter_s_bar_and_a_link_to_what_is_next(page, url):
    open_at(page, url, "exercises.ipynb", "ex-1-1")
    page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
    )
    write(page, "ch01-q01", RIGHT)
    run(page, "ch01-q01")
    run(page, "ch01-q01-check")
    shown = page.locator(".jp-OutputArea-output", has_text="✓ Exercise 1.1: 1 of 1 points")
    shown.wait_for()
    assert "1 of 22 exercises passed" in shown.inner_text() and "▰▱" in shown.inner_text()
    assert "However long the vectors are" in shown.inner_text()
    tick(page, "ex-1-1")
    shown.get_by_role("link", name="Exercise 1.2").click()
    arrives(page, "ex-1-2")
    assert current_path(page) == "work/ch01_rooflines/exercises.ipynb"
