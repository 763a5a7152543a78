"""Eight devices, asked for before anything starts JAX, and one Chromium for all tests of a process (playwright's limit)."""

import pytest

from helpers.kernels import mesh
from tests.browser import chromium

mesh.devices()


@pytest.fixture(scope="session")
def browser():
    with chromium.browser() as b:
        yield b
