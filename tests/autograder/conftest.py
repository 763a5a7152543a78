"""The sample chapter: a small tree of sources, and what is made from it."""

import shutil
from functools import cache
from pathlib import Path

import pytest

from autograder import release
from autograder.places import Tree

SAMPLE = Path(__file__).parent / "sample"


@pytest.fixture(scope="session", autouse=True)
def schema():
    """For every new gradebook nbgrader asks Alembic, in a process of five seconds, which version its schema has: here once."""
    from nbgrader import api

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "get_alembic_version", cache(api.get_alembic_version))
        yield


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
