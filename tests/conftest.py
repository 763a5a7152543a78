"""Eight devices, asked for before anything starts JAX, and one Chromium for all tests of a process (playwright's limit)."""

import os

import pytest

from autograder.engine import checker, sandbox
from helpers.kernels import mesh
from tests.browser import chromium

# Most programs of the tests run once: three quarters of the suite's time went into making them fast.
os.environ.setdefault("XLA_FLAGS", f"--xla_backend_optimization_level=0 {sandbox.ENVIRONMENT['XLA_FLAGS']}")
mesh.devices()


def pytest_configure(config):
    """What one run compiles the next one, and the other process of this one, need not; `--cache-clear` empties it."""
    checker.keep_compiled(str(config.cache.mkdir("jax")))


def pytest_collection_modifyitems(items):
    """All that looks at the site in one process: another would only wait until it is built."""
    for item in items:
        if "site" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("site"))


@pytest.fixture(scope="session")
def browser():
    with chromium.browser() as b:
        yield b
