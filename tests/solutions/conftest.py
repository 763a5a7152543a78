"""The solved answers of a chapter, and devices for all."""

import pytest

from autograder.making import in_process_grading, mistakes
from helpers.kernels import mesh
from tests.solutions import course

mesh.devices(8)  # while tests are collected: another chapter's tests may start JAX with fewer


@pytest.fixture(scope="module")
def solved(request):
    """Every answer of the module's TOPIC, by name; no check runs, so none is filled with values, which takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_process_grading, "_made", {})
        patch.setattr(mistakes, "fill", lambda cells, mutants: [])
        return course.solved(request.module.TOPIC)
