"""Eight devices, asked for before anything starts JAX, and one Chromium for all tests of a process (playwright's limit)."""

import os

import pytest
from xdist.scheduler import LoadScopeScheduling

from autograder.engine import checker, sandbox
from helpers.kernels import mesh
from tests.browser import chromium

# Most programs of the tests run once: three quarters of the suite's time went into making them fast.
os.environ.setdefault("XLA_FLAGS", f"--xla_backend_optimization_level=0 {sandbox.ENVIRONMENT['XLA_FLAGS']}")
mesh.devices()


def pytest_configure(config):
    """What one run compiles the next one, and the other process of this one, need not; `--cache-clear` empties it."""
    checker.keep_compiled(str(config.cache.mkdir("jax")))


class Together(LoadScopeScheduling):
    """All that looks at the site in one process: another would only wait until it is built."""

    def _split_scope(self, nodeid: str) -> str:
        return "the book" if nodeid.startswith("tests/book/") else nodeid


@pytest.hookimpl(optionalhook=True)  # xdist's groups are not seen under pytest 9.2, whose node ids it cannot change
def pytest_xdist_make_scheduler(config, log):
    return Together(config, log)


@pytest.fixture(scope="session")
def browser():
    with chromium.browser() as b:
        yield b
