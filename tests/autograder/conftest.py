"""The sample chapter: a small tree of sources, and what is made from it."""

import shutil
from pathlib import Path

import pytest

from autograder import release
from autograder.places import Tree

SAMPLE = Path(__file__).parent / "sample"


@pytest.fixture
def tree(tmp_path) -> Tree:
    """A copy of the sample that a test may change."""
    shutil.copytree(SAMPLE, tmp_path / "tree")
    return Tree(tmp_path / "tree")


@pytest.fixture(scope="session")
def generated(tmp_path_factory) -> Path:
    """The sample released without a gradebook: notebooks/ and course/."""
    folder = tmp_path_factory.mktemp("sample")
    release.generate(Tree(SAMPLE), folder / "course", folder / "notebooks", database=False)
    return folder
