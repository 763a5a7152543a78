"""The commands that people type: nbgrader's own, as its manual says, and `make check` (slow)."""

import os
import re
import shutil
import subprocess
import sys

import nbformat
import pytest

from autograder import grade_own, release
from autograder.places import COURSE, ROOT
from tests.autograder.classes import RIGHT, SAMPLE, SECOND, SECRET, TOPIC, cell
from tests.autograder.grading import commands

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

MADE = ("source", "release", "submitted", "autograded", "feedback", "exchange", "gradebook.db")


@pytest.fixture
def nbgrader(tmp_path):
    """Runs a command of nbgrader's in the course's folder; what it said."""
    shutil.copytree(COURSE, tmp_path / "autograder", ignore=lambda folder, names: [
        n for n in names if folder == str(COURSE) and n in MADE])  # fmt: skip
    shutil.copytree(ROOT / "helpers", tmp_path / "helpers")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER_CONFIG", "COURSE_", "PYTHONPATH"))}
    environment |= {"HOME": str(tmp_path / "home"), "COURSE_SECRET": SECRET}
    with commands.nbgrader(tmp_path / "autograder", environment) as run:
        run.environment = environment
        yield run


def test_commands_of_nbgrader(nbgrader, tmp_path):
    """generate, release, fetch, submit, collect, feedback, export; it leaves grading to `make grade`."""
    course = tmp_path / "autograder"
    release.generate(SAMPLE, tmp_path / "scratch", tmp_path / "scratch" / "notebooks", database=False)
    shutil.copytree(tmp_path / "scratch" / "source", course / "source")
    nbgrader("generate_assignment", TOPIC, "--force")
    assert (course / "gradebook.db").is_file()
    nbgrader("release_assignment", TOPIC)
    assert TOPIC in nbgrader("list")
    nbgrader("fetch_assignment", TOPIC)
    mine = tmp_path / "work" / TOPIC / "exercises.ipynb"
    nb = nbformat.read(mine, as_version=4)
    for key, answer in (("ch01-q01", RIGHT), ("ch01-q02", SECOND), ("ch01-q03", "Latency.")):
        cell(nb, key).source = answer
    nbformat.write(nb, mine)
    nbgrader("submit", TOPIC)
    nbgrader("collect", TOPIC)
    with pytest.raises(AssertionError, match="Submissions are graded by `make grade`"):
        nbgrader("autograde", TOPIC)
    program, env = (
        [sys.executable, "-m", "autograder.grade", TOPIC],
        nbgrader.environment | {"PYTHONPATH": str(tmp_path)},
    )
    done = subprocess.run(program, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for command in ("generate_feedback", "release_feedback", "fetch_feedback"):
        nbgrader(command, TOPIC)
    nbgrader("export")
    row = (course / "grades.csv").read_text().splitlines()[1].split(",")
    assert row[0] == TOPIC and row[-2:] == ["5.0", "9.0"]
    assert list((tmp_path / "work" / TOPIC).rglob("*.html"))


def test_own_work_is_graded_and_left_alone(tree, tmp_path, capsys):
    """`make check` gives the score of the full tests, of what is begun, and writes nothing."""
    release.release(tree, tmp_path / "course", database=False)
    mine = tree.released(TOPIC)
    # Passes the visible case, fails the hidden ones.
    text = mine.read_text(encoding="utf-8").replace("raise NotImplementedError()", "return V / 2", 1)
    mine.write_text(text, encoding="utf-8")
    before = {p: p.read_bytes() for p in tree.root.rglob("*") if p.is_file()}
    assert grade_own.main([], tree) == 0
    assert {p: p.read_bytes() for p in tree.root.rglob("*") if p.is_file()} == before
    said = capsys.readouterr().out
    assert "Exercise 1.1: 0 of 2 points" in said
    assert said.splitlines()[0] == "Chapter 1: 0 of 5 points, 0 of 2 exercises passed."
    assert re.search(r"^assignment +01 +total\npoints +2 +2$", said, re.M) and "1.2" not in said
    assert grade_own.main(["ch09_nothing"], tree) == 1


@pytest.mark.parametrize("text", ["def f(:", "1 / 0"])
def test_a_package_that_cannot_be_imported_is_a_sentence(tmp_path, text):
    """As of another folder, for another Python."""
    (tmp_path / "soupsieve.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    command = [sys.executable, "-m", "autograder.grade", TOPIC]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and re.fullmatch(r"A package .*soupsieve\.py, line 1: .*`make env`.*\n", done.stderr)
