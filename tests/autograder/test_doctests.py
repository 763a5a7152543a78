"""The examples in the docstrings of the autograder's modules."""

import doctest
import importlib

import pytest

MODULES = ["links", "translate", "cells", "preprocessors", "trial"]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    found = doctest.testmod(importlib.import_module(f"autograder.{name}"))
    assert found.attempted > 0
    assert found.failed == 0
