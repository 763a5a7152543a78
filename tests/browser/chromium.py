"""A real Chromium for tests, through playwright; tests without one are skipped, and say how to get it."""

import os
import shutil
from contextlib import contextmanager

import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
HOW = "install it and point CHROMIUM at its program, then: pip install -r tests/browser/requirements.txt"


def program() -> str | None:
    """Path of a Chromium or Chrome."""
    names = (os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome", "chrome")
    return next((p for n in names if n and (p := shutil.which(n))), None)


@contextmanager
def browser():
    """A headless Chromium; skips the test where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason=f"no playwright: {HOW}")
    if program() is None:
        pytest.skip(f"no Chromium: {HOW}")
    with api.sync_playwright() as p:
        b = p.chromium.launch(executable_path=program(), args=FLAGS)
        try:
            yield b
        finally:
            b.close()
