"""One Chromium for all tests of a process: playwright allows no second one."""

import pytest

from tests.browser import chromium


@pytest.fixture(scope="session")
def browser():
    with chromium.browser() as b:
        yield b
