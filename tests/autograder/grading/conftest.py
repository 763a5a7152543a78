"""A class of three, with one that is no notebook, before and after its first grading: each test has a copy."""

import nbformat
import pytest

from autograder import grade, release
from tests.autograder import classes
from tests.autograder.classes import RIGHT, SECOND, WRONG
from tests.skip_conditions import needs


@pytest.fixture
def released(generated):
    return nbformat.read(generated / "course/release/ch01_sample/exercises.ipynb", as_version=4)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "ada/ch01_sample").mkdir(parents=True)
    return tmp_path / "ada/ch01_sample"


@pytest.fixture(scope="session")
def handed_in(opened, tmp_path_factory) -> classes.Strict:
    made = classes.copied(opened, tmp_path_factory.mktemp("three"))
    classes.hand_in(made, "ada", RIGHT, SECOND, "Latency.")
    classes.hand_in(made, "bob", WRONG, SECOND)
    release.write(made.notebook("submitted", "eve"), "{")
    return made


@pytest.fixture(scope="session")
def graded_once(handed_in, tmp_path_factory):
    """The class, graded, and the jobs that this took."""
    folder = tmp_path_factory.mktemp("graded")
    with pytest.MonkeyPatch.context() as patch:
        without_pages(patch, folder)
        what = classes.copied(handed_in, folder)
        grade.grade(what, progress=False)
        return what, list(classes.Serial.jobs)


def without_pages(patch, folder) -> None:
    needs(grade.available().refusal is None, grade.available().refusal or "")
    classes.apart(patch, folder)
    patch.setattr(grade, "write_feedback", lambda *_: None)


@pytest.fixture
def what(handed_in, tmp_path, monkeypatch) -> classes.Strict:
    """The class before it is graded."""
    without_pages(monkeypatch, tmp_path)
    return classes.copied(handed_in, tmp_path)


@pytest.fixture
def graded(graded_once, tmp_path, monkeypatch) -> classes.Strict:
    """The class after it was graded."""
    without_pages(monkeypatch, tmp_path)
    return classes.copied(graded_once[0], tmp_path)
