"""The sample chapter as a course of its own, which a test may write into."""

import shutil

import pytest

from autograder.places import ROOT, Tree

SAMPLE = ROOT / "tests" / "autograder" / "sample"


@pytest.fixture
def tree(tmp_path) -> Tree:
    """The sample chapter, its samples where a course has them."""
    for name in ("book", "solutions"):
        shutil.copytree(SAMPLE / name, tmp_path / name)
    for name in ("wrong", "right"):
        shutil.copytree(SAMPLE / name, tmp_path / "autograder" / "samples" / name)
    return Tree(tmp_path)
