"""The solved answers of a chapter, and devices for all."""

import pytest

from helpers.kernels import mesh
from tests.solutions import course

mesh.devices(8)  # while tests are collected: another chapter's tests may start JAX with fewer


@pytest.fixture(scope="module")
def solved(request):
    """Every answer of the module's TOPIC, by name."""
    return course.solved(request.module.TOPIC)
