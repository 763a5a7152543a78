"""The examples in the docstrings of the autograder's modules."""

import doctest
import importlib

import pytest

from autograder.places import COURSE

ROOMS = ("engine", "grading", "lms", "making", "samples")  # what was submitted lies beside them
MODULES = sorted(
    ".".join(path.relative_to(COURSE.parent).with_suffix("").parts)
    for path in (*COURSE.glob("*.py"), *(path for room in ROOMS for path in COURSE.glob(f"{room}/**/*.py")))
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0
