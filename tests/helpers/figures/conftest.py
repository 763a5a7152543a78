"""A live figure on a page of its own, in the one Chromium."""

import pytest

from helpers import figures
from tests.helpers.figures import standalone


@pytest.fixture(scope="module")
def figure(request):
    """The live figure that a test module calls its NAME."""
    return figures.figure(request.module.NAME)


@pytest.fixture(scope="module")
def address(figure, tmp_path_factory):
    """Where that figure stands on a page of its own."""
    return standalone.write(figure, tmp_path_factory.mktemp("figure")).as_uri()


@pytest.fixture(scope="module")
def window(chromium_of_this_process, address):
    with standalone.alone(chromium_of_this_process.alive(), address) as opened:
        yield opened


@pytest.fixture
def page(browser, window, address):
    """The page as it opens, in one window for all tests of a module: a new one takes a second of a processor."""
    standalone.follow(window, address)
    return window


@pytest.fixture
def still(browser, address):
    """The page without JavaScript, where no control is to be seen."""
    opened = browser.new_page(java_script_enabled=False)
    opened.goto(address)
    assert not opened.locator("form").is_visible()
    yield opened
    opened.close()
