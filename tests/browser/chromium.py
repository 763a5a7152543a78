"""A real Chromium for tests, through playwright; tests without one are skipped, and say how to get it."""

import os
import shutil
from contextlib import contextmanager, suppress

import pytest

FLAGS = """
    --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update
    --disable-sync --disable-dev-shm-usage
""".split()
HOW = "install it and point CHROMIUM at its program, then: pip install -r tests/browser/requirements.txt"


def program() -> str | None:
    """Path of a Chromium or Chrome."""
    names = (os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome", "chrome")
    return next((p for n in names if n and (p := shutil.which(n))), None)


class Chromium:
    """A headless Chromium that is started when it is asked for, and again where it, or what drives it, was killed since."""

    def __init__(self):
        self.driver = self.browser = None

    def alive(self):
        """The browser of playwright; skips the test where there is none."""
        if self.browser is None or not _answers(self.browser):
            self.close()
            api = pytest.importorskip("playwright.sync_api", reason=f"no playwright: {HOW}")
            if program() is None:
                pytest.skip(f"no Chromium: {HOW}")
            self.driver = api.sync_playwright().start()
            self.browser = self.driver.chromium.launch(executable_path=program(), args=FLAGS)
        return self.browser

    def close(self) -> None:
        """End both, as far as they live."""
        for end in (self.browser and self.browser.close, self.driver and self.driver.stop):
            with suppress(Exception):  # of what is dead already
                end and end()
        self.driver = self.browser = None


def _answers(browser) -> bool:
    try:
        browser.new_context().close()
    except Exception:
        return False
    return True


@contextmanager
def browser():
    """A headless Chromium; skips the test where there is none."""
    one = Chromium()
    try:
        yield one.alive()
    finally:
        one.close()
