"""A disk that fills while an archive is taken: one sentence, nothing lost, and the next run goes on."""

import dataclasses
import os
import shutil

import pytest

from autograder import collect
from autograder.lms import class_list, placing
from autograder.places import FULL
from tests.autograder.disks import disk, fill  # noqa: F401  a fixture

from .platforms import TOPIC, canvas_name, zipped
from .test_collect import ADA, BOB, A, B, canvas_list, lies

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
STAGES = {
    "class list": (class_list.ClassList, "save"),
    "gradebook": (collect, "enter"),
    "files": (collect, "_take"),
    "placing": (placing.Folder, "place"),
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_disk_that_fills(stage, what, disk, tmp_path, monkeypatch, capsys):  # noqa: F811
    shutil.copytree(what.root, disk / "course")
    course = dataclasses.replace(what, scratch=disk / "course")
    monkeypatch.setattr(collect, "Class", lambda topic: course)
    given, first = canvas_list(tmp_path), zipped(tmp_path / "1.zip", {canvas_name(ADA, "exercises.ipynb"): A})
    assert collect.main([TOPIC, "--from", str(first), "--class", str(given)]) == 0
    files = {canvas_name(ADA, "exercises.ipynb"): B * 100, canvas_name(BOB, "exercises.ipynb"): B * 100}
    argv = [TOPIC, "--from", str(zipped(tmp_path / "2.zip", files))]
    capsys.readouterr()
    holder, name = STAGES[stage]
    real = getattr(holder, name)

    def late(*args, **kwargs):
        fill(disk)
        return real(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(holder, name, late)
        status = collect.main(argv)
    said = capsys.readouterr()
    assert (status, said.err.splitlines(), said.out) == (1, [FULL], "")
    assert A in [p.read_bytes() for p in course.root.rglob("*.ipynb")]
    os.remove(disk / "filler")
    assert collect.main(argv) == 0
    assert lies(course, "ada") == lies(course, "bob") == {"exercises.ipynb": B * 100}
    assert class_list.saved(course.root, TOPIC)[0].students
