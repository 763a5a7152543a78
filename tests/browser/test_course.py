"""JupyterLab as `course` starts it: without teachers' menus, where one was, with ticks at what is done and a pass that looks like one."""

import json
import os
import subprocess
import sys

import pytest

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
    own = folder.parent / "jupyter"
    own.mkdir()
    folders = ("_CONFIG_DIR", "_DATA_DIR", "_RUNTIME_DIR", "LAB_SETTINGS_DIR", "LAB_WORKSPACES_DIR")
    env = {**os.environ, **{f"JUPYTER{f}": str(own / f) for f in folders}, "PYTHONPATH": str(folder)}
    words = ["--no-browser", "--expose-app-in-browser", "--ServerApp.port=0", "--IdentityProvider.token=t"]
    with open(own / "log", "w") as log:
        command = [sys.executable, "-m", "autograder.own_work", *words]
        server = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log)
    try:
        yield scratch._address(own / "_RUNTIME_DIR", own / "log")
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture
def page(browser, url):
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    page.set_default_timeout(60_000)
    yield page
    context.close()


def open_at(page, url, notebook, section):
    page.goto(f"{url}lab/tree/work/ch01_rooflines/{notebook}?token=t&reset&section={section}")
    page.locator(f'[data-jupyter-id="{section}"], [id="{section}"]').first.wait_for(state="attached")


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
    page.wait_for_function(
        """() => Math.abs(document.querySelector('[data-jupyter-id="sec-intensity"], [id="sec-intensity"]').getBoundingClientRect().top
             - window.jupyterapp.shell.currentWidget.content.node.getBoundingClientRect().top) < 60"""
    )
    tick(page, "sec-intensity")
    kept = json.loads((folder / "work/progress.json").read_text())["sections"]
    assert "sec-intensity" in kept and "sec-roofline" not in kept  # which was never seen
    assert "**Go on: [" in (folder / "work/README.md").read_text(encoding="utf-8")


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
    page.wait_for_function(
        """() => Math.abs(document.querySelector('[data-jupyter-id="ex-1-2"], [id="ex-1-2"]').getBoundingClientRect().top
             - window.jupyterapp.shell.currentWidget.content.node.getBoundingClientRect().top) < 60"""
    )
    assert current_path(page) == "work/ch01_rooflines/exercises.ipynb"
