"""An engine for all tests of this folder."""

import pytest

from autograder.engine import run_submission as engines, sandbox
from tests.autograder.engine.small import ANSWERS, LIMITS, notebook
from tests.skip_conditions import needs


@pytest.fixture(scope="session")
def small():
    return engines.bundle(notebook(ANSWERS))


@pytest.fixture(scope="session")
def walls() -> sandbox.Host:
    """What this host isolates with."""
    host = sandbox.available()
    needs(not host.refusal, host.refusal)
    return host


@pytest.fixture(scope="session")
def engine(walls):
    with engines.Engine(LIMITS, walls) as e:
        yield e
