"""Each test of a check starts as a learner who has tried nothing yet."""

import pytest

from helpers.check import progress, solutions


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(solutions, "_tries", {})
    monkeypatch.setattr(solutions, "_passed", set())
    monkeypatch.setattr(solutions, "_recalled", set())
    monkeypatch.setattr(progress, "_said", set())
