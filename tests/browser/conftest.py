"""One JupyterLab on a scratch copy of the course, as `make lab` starts it, and a page that reaches nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import scratch


@pytest.fixture(scope="session")
def course(tmp_path_factory) -> Path:
    """A copy of the course, with answers and submissions of its own."""
    return scratch.copy(tmp_path_factory.mktemp("lab") / "course")


@pytest.fixture(scope="session")
def lab(course, chromium_of_this_process):
    """The URL of a running JupyterLab; its token is `t`."""
    chromium_of_this_process.alive()  # or the test is skipped
    for words in (
        ["autograder.release", "--course"],
        ["autograder.own_work", "copies"],
    ):  # as `make release` and `make lab` do
        subprocess.run([sys.executable, "-m", *words], cwd=course, check=True)
    with scratch.jupyterlab(course, course.parent / "jupyter") as url:
        yield url


@pytest.fixture
def page(browser, lab):
    """A page that reaches nothing but that server."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    context.route(
        "**/*",
        lambda r: (
            r.continue_() if r.request.url.startswith((lab, lab.replace("http", "ws"), "data:", "blob:")) else r.abort()
        ),
    )
    page = context.new_page()
    page.set_default_timeout(60_000)
    yield page
    context.close()
