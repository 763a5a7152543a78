"""Eight devices, asked for before anything starts JAX, and one Chromium for all tests of a process (playwright's limit)."""

import os

import pytest

from helpers.kernels import mesh
from tests.browser import chromium

# Most programs of the tests run once: half of the suite's time went into making them fast.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
mesh.devices()


@pytest.fixture(scope="session")
def browser():
    with chromium.browser() as b:
        yield b
