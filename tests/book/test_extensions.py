"""Examples in docstrings of the book's Sphinx extensions."""

import doctest

import pytest

from tests.book.conftest import ROOT, extension

NAMES = sorted(p.stem for p in (ROOT / "book/_ext").glob("*.py") if ">>>" in p.read_text(encoding="utf-8"))
assert NAMES


@pytest.mark.parametrize("name", NAMES)
def test_examples_hold(name):
    found = doctest.testmod(extension(name))
    assert found.attempted and not found.failed
