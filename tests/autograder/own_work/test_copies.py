"""work/ at the start of JupyterLab: made once, left alone, brought up to date, and never written by half."""

import os
import re
import shutil
import subprocess
import sys
from datetime import date

import nbformat
import pytest

from autograder import grade_own
from autograder.engine.host import Host
from autograder.grading import class_summary
from autograder.making import cells
from autograder.own_work import __main__ as command, following
from autograder.own_work.copies import Work, replace_file
from autograder.own_work.start import update
from autograder.places import Tree
from helpers.check.progress import Standing
from tests.scratch import ROOT

NAME = "ch01_sample/exercises.ipynb"
RIGHT = "def seconds(V, W):\n    return V / W"
PASSED = '{"exercises": {"1.1": {"": {"won": 1, "of": 1, "tries": 0, "begun": "2026-11-01", "passed": "2026-11-02"}}}}'


@pytest.fixture
def tree(tmp_path, generated):
    shutil.copytree(generated / "notebooks", tmp_path / "course/notebooks")
    return Tree(tmp_path / "course")


def start(tree):
    work = Work(tree)
    update(work)
    return work.said


def fill_in(tree, folder="work"):
    path = tree.root / folder / NAME
    nb = nbformat.read(path, as_version=4)
    next(c for c in nb.cells if c.id == "ch01-q01").source = RIGHT
    nbformat.write(nb, path)


def course_changes(tree):
    path = tree.notebooks / NAME
    nb = nbformat.read(path, as_version=4)
    nb.cells[0].source += "\n\nNew words."
    path.write_text(cells.dumps(nb), encoding="utf-8")


def texts(tree):
    return [c.source for c in nbformat.read(tree.root / "work" / NAME, as_version=4).cells]


def test_the_first_start_copies_and_the_next_ones_leave_alone(tree):
    assert start(tree) == []
    made = sorted(
        p.relative_to(tree.root / "work").as_posix() for p in (tree.root / "work").rglob("*.*") if p.is_file()
    )
    assert made == [f"{at}{n}" for at in (".released/", "") for n in ("README.md", NAME, "ch01_sample/reading.ipynb")]
    assert (tree.root / "work" / NAME).read_bytes() == (tree.notebooks / NAME).read_bytes()
    fill_in(tree)
    before = (tree.root / "work" / NAME).read_bytes()
    assert start(tree) == [] and (tree.root / "work" / NAME).read_bytes() == before


def test_new_text_comes_and_the_command_and_the_next_start_page_say_so(tree, capsys):
    start(tree)
    fill_in(tree)
    course_changes(tree)
    assert command.main(["copies"], tree) == 0
    assert capsys.readouterr().out == f"Bringing work/{NAME} up to date with the course …\n"
    assert RIGHT in texts(tree) and texts(tree)[0].endswith("New words.")
    news = f"> **Brought up to date with the course on {date.today()}:** [{NAME}]({NAME})\n"
    assert news in (tree.root / "work/README.md").read_text(encoding="utf-8")
    page = tree.root / "work/README.md"
    for day, there in ((date.today(), True), (date(2026, 1, 1), False)):
        page.write_text(page.read_text(encoding="utf-8").replace(str(date.today()), str(day)), encoding="utf-8")
        assert start(tree) == []  # news are no edit of the page, and are gone on the next day
        assert ("Brought up to date" in page.read_text(encoding="utf-8")) == there

    (tree.root / "work" / NAME).unlink()
    mine = tree.root / "work/ch01_sample/mine.py"
    mine.write_text("x = 1")
    other = tree.root / "work/ch01_sample/exercises-Copy1.ipynb"
    other.write_bytes((tree.notebooks / NAME).read_bytes())
    assert [said.partition(",")[0] for said in start(tree)] == ["ch01_sample/exercises-Copy1.ipynb: a copy of yours"]
    other.unlink()
    assert start(tree) == []
    assert (tree.root / "work" / NAME).is_file() and mine.read_text() == "x = 1"


def test_a_copy_that_cannot_be_read_is_kept_and_its_cells_are_found(tree):
    start(tree)
    fill_in(tree)
    path = tree.root / "work" / NAME
    path.write_bytes(path.read_bytes()[:-300])
    broken = path.read_bytes()
    said = start(tree)
    assert "It could not be read;" in said[0] and "cells were found in it" in said[0]
    kept = tree.root / re.search(r"work/kept/\S+ipynb", " ".join(said))[0]
    assert kept.read_bytes() == broken and RIGHT in texts(tree)
    path.write_bytes(b"")
    assert "0 cells were found" in start(tree)[0]
    assert path.read_bytes() == (tree.notebooks / NAME).read_bytes()


def test_a_stop_while_writing_leaves_the_file_and_one_between_copy_and_base_does_no_harm(tree, monkeypatch):
    start(tree)
    fill_in(tree)
    course_changes(tree)
    before = {p: p.read_bytes() for p in tree.root.rglob("*") if p.is_file()}

    def killed(path, data=b""):
        if ".released" in path.parts or not data:
            raise KeyboardInterrupt
        replace_file(path, data)

    for module, name in ((os, "replace"), (following, "replace_file")):
        assert before == {p: p.read_bytes() for p in tree.root.rglob("*") if p.is_file()}
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(module, name, killed if module is following else lambda *_: killed(tree.root))
            start(tree)
    once = texts(tree)
    assert start(tree) == [] and texts(tree) == once and RIGHT in once


def test_an_edited_start_page_is_kept(tree):
    start(tree)
    page = tree.root / "work/README.md"
    page.write_text("My plan")
    [said] = start(tree)
    assert (tree.root / re.search(r"work/kept/\S+md", said)[0]).read_text() == "My plan"
    assert page.read_text(encoding="utf-8").startswith("# Rooflines to Racks\n\n**Begin: [") and start(tree) == []


def test_the_start_page_shows_what_is_passed_and_is_no_edit(tree):
    row = "| [1.1](ch01_sample/exercises.ipynb#ex-1-1) One | core | ★☆☆ | 1/5 | 5 min | 1 |"
    (tree.notebooks / "README.md").write_text(f"# Start\n\n{row} |\n", encoding="utf-8")
    start(tree)
    (tree.root / "work/progress.json").write_text(PASSED)
    for _ in range(2):
        assert start(tree) == []
        assert f"{row} passed 2026-11-02 |" in (tree.root / "work/README.md").read_text(encoding="utf-8")
    course_changes(tree)
    start(tree)
    assert (tree.root / "work/progress.json").read_text() == PASSED


def test_make_check_grades_the_copies_begun_and_first_says_if_walls_lack(tree, monkeypatch, capsys):
    shutil.copytree(ROOT / "tests/autograder/sample/solutions", tree.root / "solutions")
    shutil.copy(tree.root / "solutions/ch01_sample.md", tree.root / "solutions/ch02_other.md")
    shutil.copytree(tree.notebooks / "ch01_sample", tree.notebooks / "ch02_other")
    assert grade_own.own_notebooks(tree)["ch01_sample"] == tree.notebooks / NAME
    start(tree)
    assert grade_own.own_notebooks(tree)["ch01_sample"] == tree.root / "work" / NAME

    def row(topic, path, tree):
        said = capsys.readouterr()
        assert not said.out
        told.append(said.err)
        return class_summary.Result(topic, scores={"ch01-q01": (1, 2)}), ["too large."], [Standing("1.1", 2, 1)]

    told = []
    monkeypatch.setattr(grade_own, "row", row)
    assert grade_own.main([], tree) == 0 and told == []
    assert capsys.readouterr().out == "In all: 0 of 10 points, 0 of 4 exercises passed.\n"
    fill_in(tree)
    for walls in (True, False):
        host = Host(walls, walls, 0, walls, "", root=False)
        monkeypatch.setattr(grade_own, "available", lambda host=host: host)
        assert grade_own.main([], tree) == 0
        *warned, checking = told.pop().split("\n\n")
        assert checking == f"Checking work/{NAME} …\n" and told == []
        assert walls == (not warned) and all("could read and change your files" in w for w in warned)
        assert capsys.readouterr().out.startswith("In all: 1 of 7 points")


def test_a_start_without_news_imports_nothing_that_takes_long(tree):
    start(tree)
    code = (
        "import sys; from pathlib import Path; from autograder.own_work import __main__ as m; from autograder.places import Tree\n"
        "m.main(['copies'], Tree(Path(sys.argv[1])))\n"
        "print(sorted({n.partition('.')[0] for n in sys.modules} & {'nbgrader', 'nbformat', 'jax', 'yaml'}))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tree.root)], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
