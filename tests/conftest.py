"""Eight devices, asked for before anything starts JAX; one Chromium for all tests of a process; which tests run when."""

import gc
import os

import hypothesis
import pytest

from autograder.engine import checker, sandbox
from helpers.kernels import mesh
from tests import areas, durations, tiers
from tests.browser import chromium
from tests.durations import pytest_runtest_call  # noqa: F401  a hook

# Most programs of the tests run once: three quarters of the suite's time went into making them fast.
os.environ.setdefault("XLA_FLAGS", f"--xla_backend_optimization_level=0 {sandbox.ENVIRONMENT['XLA_FLAGS']}")
mesh.devices()
hypothesis.settings.register_profile("tests", deadline=None)  # a busy machine is no fault of what is tested
hypothesis.settings.load_profile("tests")


def pytest_collection_finish():
    """Some ten thousand tests and JAX itself stay to the end: to look through them for garbage took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_configure(config):
    """What one run compiles the next one, and the other process of this one, need not; `--cache-clear` empties it."""
    if config.pluginmanager.hasplugin("cacheprovider"):  # not with -p no:cacheprovider
        checker.keep_compiled(str(config.cache.mkdir("jax")))
    if not hasattr(config, "workerinput"):  # where xdist's processes bring their results
        config.pluginmanager.register(durations.Report())


@pytest.hookimpl(tryfirst=True)  # before -m looks at marks
def pytest_collection_modifyitems(items):
    for item in items:
        needs = getattr(item, "fixturenames", ())
        if "browser" in needs or "site" in needs:
            item.add_marker("slow")
        if "site" in needs:  # in one process: another would only wait until it is built
            item.add_marker(pytest.mark.xdist_group("site"))
    tiers.assign(items)
    if wanted := os.environ.get("AREAS"):
        items[:] = [item for item in items if areas.area(item.nodeid) in wanted.split()]
    if seed := os.environ.get("DRAW"):
        items[:] = tiers.long_sample(items, seed, os.environ.get("WHOLE", "").split())


def pytest_runtest_setup(item):
    tiers.in_time(item)


@pytest.fixture(scope="session")
def chromium_of_this_process():  # playwright allows one in a process
    one = chromium.Chromium()
    yield one
    one.close()


@pytest.fixture
def browser(chromium_of_this_process):
    """Chromium, alive: a machine short of memory may have killed it since the last test."""
    return chromium_of_this_process.alive()
