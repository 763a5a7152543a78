"""The sample chapter: a small tree of sources, and what is made from it."""

import os
import shutil
import sys
from functools import cache
from pathlib import Path

import pytest

from autograder import grade, release
from autograder.engine.sandbox import available
from autograder.places import Tree
from tests.autograder import classes
from tests.skip_conditions import needs

SAMPLE = Path(__file__).parent / "sample"


@pytest.fixture(scope="session", autouse=True)
def schema():
    """For every new gradebook nbgrader asks Alembic by name, in a process of five seconds, which version its schema has: here once."""
    from nbgrader import api

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
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


@pytest.fixture(scope="session")
def opened(tmp_path_factory) -> classes.Strict:
    """The sample released with a gradebook, which takes nbgrader seconds; nobody has handed in."""
    folder = tmp_path_factory.mktemp("opened")
    with pytest.MonkeyPatch.context() as patch:
        classes.apart(patch, folder)
        return classes.opened(folder)


@pytest.fixture(scope="session")
def large_class(opened, tmp_path_factory):
    """The class of `classes`, graded once; no test changes it. Who asks for it is in the xdist_group "class"."""
    needs(available().refusal is None, available().refusal or "")
    folder = tmp_path_factory.mktemp("large")
    with pytest.MonkeyPatch.context() as patch:
        classes.apart(patch, folder)
        what = classes.copied(opened, folder)
        classes.everybody_hands_in(what, folder)
        results = {r.student: r for r in grade.grade(what, progress=False)}
    before = state(what.root)
    yield classes.Large(what, results)
    assert state(what.root) == before, "a test changed the class that all share"


def state(folder: Path) -> dict:
    return {p: (p.stat().st_size, p.stat().st_mtime) for p in folder.rglob("*") if p.is_file()}
