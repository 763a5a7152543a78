"""JupyterLab as a learner and an instructor meet it: start page, reading, exercises, Validate, Formgrader, Assignment List."""

import re

import pytest

pytestmark = pytest.mark.slow
EXERCISES = "notebooks/ch01_rooflines/exercises.ipynb"


def open_lab(page, lab, path):
    page.goto(f"{lab}lab/tree/{path}?token=t&reset")
    page.locator("#jp-main-dock-panel").wait_for()


def open_notebook(page, lab, path):
    open_lab(page, lab, path)
    page.locator(".jp-Notebook").first.wait_for()
    page.get_by_text(re.compile(r"Python 3.*\| Idle")).first.wait_for()


def menu(page, *names):
    page.get_by_role("menuitem", name=names[0], exact=True).first.click()
    for name in names[1:]:
        page.locator(".lm-Menu .lm-Menu-itemLabel").get_by_text(re.compile(f"^{re.escape(name)}")).first.click()


def in_notebook(page, script):
    """The value of a script over `nb`, the open notebook's model as JSON."""
    return page.evaluate("(s) => { const w = window.jupyterapp.shell.currentWidget; const nb = w.context.model.toJSON(); return eval(s); }", script)


def run_all(page, minutes):
    menu(page, "Run", "Run All Cells")
    page.wait_for_timeout(1500)
    page.wait_for_function("() => document.querySelectorAll('.jp-Notebook .jp-InputPrompt').length && "
                           "![...document.querySelectorAll('.jp-Notebook .jp-InputPrompt')].some(e => e.textContent.includes('*')) && "
                           "/Idle/.test(document.querySelector('#jp-main-statusbar').textContent)", timeout=60_000 * minutes)


def test_the_start_page_leads_to_reading_and_exercises(page, lab):
    page.goto(f"{lab}lab?token=t&reset")
    start = page.locator(".jp-MarkdownViewer")
    start.wait_for()
    for name in ("Reading", "Exercises"):
        assert start.get_by_role("link", name=name).first.is_visible()
    start.get_by_role("link", name="Exercises").first.click()
    page.locator(".jp-Notebook").first.wait_for()
    assert not page.get_by_text("official Jupyter news").is_visible()
