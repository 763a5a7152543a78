"""An engine for all tests of this folder."""

import pytest

from autograder.engine import engine as engines
from autograder.engine import sandbox
from tests.autograder.engine.small import ANSWERS, LIMITS, notebook
from tests.needs import needs


@pytest.fixture(scope="session")
def small():
    return engines.bundle(notebook(ANSWERS))


@pytest.fixture(scope="session")
def engine():
    host = sandbox.available()
    needs(not host.refusal, host.refusal)
    with engines.Engine(LIMITS, host) as e:
        yield e
