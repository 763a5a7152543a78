"""The command `course`: what is next, how far one is, one exercise anew, the newest course, and where JupyterLab opens."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from autograder.own_work import __main__ as command, doctor, lab
from autograder.own_work.copies import Work
from autograder.places import Tree
from helpers import study_time
from helpers.check import progress, record
from helpers.check.record import as_line
from tests.scratch import ROOT

CHAPTER = "ch01_rooflines"


@pytest.fixture
def tree(tmp_path):
    """A course whose path has a space and letters beyond ASCII; the copies of one chapter are made."""
    root = tmp_path / "Meine Kurse ü"
    for folder in (f"notebooks/{CHAPTER}", "solutions", "book"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("_*", "results", "data"))
    shutil.copy(ROOT / "notebooks/README.md", root / "notebooks")
    assert command.main(["copies"], Tree(root)) == 0
    return Tree(root)


def said(tree, capsys, *words) -> str:
    capsys.readouterr()
    command.main([*words], tree)
    return capsys.readouterr().out


def read(tree, *labels):
    return record.note_sections(tree.root / "work/progress.json", labels)


def test_next_goes_along_the_path_that_was_chosen_from_where_one_was(tree, capsys):
    assert "Two times" in said(tree, capsys, "next") and "#sec-bounds" in said(tree, capsys, "next")
    read(tree, "sec-bounds", "sec-matmul")
    assert "#sec-sampling" in said(tree, capsys, "next")  # goes on there, and back later
    read(tree, *study_time.PATHS["45 minutes"].split()[3:])
    assert "#sec-intensity" in said(tree, capsys, "next")
    read(tree, "sec-intensity")
    assert "#sec-critical" in said(tree, capsys, "next")  # behind 45 minutes, everything in order
    assert "#ex-1-3" in said(tree, capsys, "next", "training")
    assert "Next on the path training: " in said(tree, capsys, "next")  # it is kept, also where one did something else
    read(tree, "sec-critical")
    assert "#ex-1-3" in said(tree, capsys, "next")
    assert command.main(["next", "trainign"], tree) == 1
    assert "45, training, inference, all" in capsys.readouterr().out


def test_what_next_names_is_there_though_course_never_ran(tree, capsys):
    shutil.rmtree(tree.root / "work")
    named = said(tree, capsys, "next").rpartition(": ")[2].partition("#")[0]
    assert named == f"work/{CHAPTER}/reading.ipynb" and (tree.root / named).is_file()


def test_every_step_leads_to_a_place_in_a_notebook():
    for name in {s for path in (*study_time.PATHS, study_time.ALL) for s in study_time.steps(path)}:
        notebook, _, place = study_time.step(name).link.partition("#")
        text = (ROOT / "notebooks" / notebook).read_text(encoding="utf-8")
        assert f'id=\\"{place}\\"' in text or f'"id": "{place}"' in text, study_time.step(name)


def test_status_counts_what_is_kept(tree, capsys):
    assert "0 of 22 exercises" in said(tree, capsys, "status")
    read(tree, "sec-bounds")
    path = tree.root / "work/progress.json"
    found = json.loads(path.read_text())
    found["exercises"]["1.1"] = {"f": {"won": 1, "of": 1, "tries": 0, "begun": "2026-11-01", "passed": "2026-11-02"}}
    path.write_text(json.dumps(found))
    first = said(tree, capsys, "status").splitlines()[0]
    assert first.startswith("Chapter 1 ▰▱") and " 1 of " in first and first.endswith("1 of 22 exercises")


def test_a_line_is_taken_in_and_what_cannot_be_written_is_not_said_to_be_kept(tree, capsys, monkeypatch):
    assert "1 of its 1 words was news" in said(tree, capsys, "carry", "r2r1 1 s:sec-bounds=300")
    assert "known here" in said(tree, capsys, "carry", "r2r1", "1", "s:sec-bounds=300")
    monkeypatch.setattr(progress.os, "replace", lambda *_: exec("raise OSError(28, 'No space left on device')"))
    out = said(tree, capsys, "carry", "r2r1 1 s:sec-matmul=300")
    assert "is not kept" in out and "news" not in out and "known" not in out
    assert as_line(record.read(tree.root / "work/progress.json")) == "r2r1 1 s:sec-bounds=300"


def test_reset_gives_one_exercise_anew_and_keeps_what_was_written(tree, capsys):
    path = tree.root / f"work/{CHAPTER}/exercises.ipynb"
    nb = nbformat.read(path, as_version=4)
    for cell in nb.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = f"mine = {cell.id!r}"
    nbformat.write(nb, path)
    assert "is as it was given" in said(tree, capsys, "reset", "1.4")
    given = {c.id: c.source for c in nbformat.read(tree.notebooks / CHAPTER / "exercises.ipynb", as_version=4).cells}
    now = {c.id: c.source for c in nbformat.read(path, as_version=4).cells}
    assert now["ch01-q04"] == given["ch01-q04"] and now["ch01-q05"] == "mine = 'ch01-q05'"
    (kept,) = (tree.root / "work/kept").rglob("exercises.ipynb")
    assert "mine = 'ch01-q04'" in kept.read_text()
    text = path.read_text(encoding="utf-8")
    path.write_bytes(
        text.replace("ch01-q05'", "ch01-q05' again").encode("utf-8-sig")
    )  # an editor of Windows, which Jupyter cannot read
    assert "is as it was given" in said(tree, capsys, "reset", "1.5") and "q06'" in path.read_text(encoding="utf-8")
    path.write_text(text.replace('"cells": [', '"cells": [5,', 1), encoding="utf-8")
    assert "cells that are none" in said(tree, capsys, "reset", "1.5")
    for words, told in ((["1.99"], "no exercise 1.99"), (["9.1"], "no chapter 9"), ([], "Name one exercise")):
        assert told in said(tree, capsys, "reset", *words)


def test_jupyterlab_opens_the_start_page_first_and_then_where_one_goes_on(tree, monkeypatch):
    work = Work(tree)
    assert lab.address(work) == "/lab/workspaces/course/tree/work/README.md"
    read(tree, "sec-bounds")
    assert lab.address(work) == f"/lab/workspaces/course/tree/work/{CHAPTER}/reading.ipynb"
    called = []
    monkeypatch.setattr(os, "execve", lambda *args: called.append(args))
    monkeypatch.chdir(tree.root)
    assert command.main(["--port=9000"], tree) == 0
    [(python, words, environment)] = called
    assert words[:3] == [python, "-m", "jupyterlab"] and {"--port=9000"} < {*words} and "reading.ipynb" in words[3]
    first, *_ = environment["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert json.loads((Path(first) / "labconfig/page_config.json").read_text())["disabledExtensions"]


def test_a_kernel_that_misses_a_name_says_which_cell_makes_it(tmp_path, monkeypatch, capsys):
    from IPython.core.interactiveshell import InteractiveShell

    shell, notebook = InteractiveShell(), tmp_path / "a notebook ü.ipynb"
    cells = ["%matplotlib inline\nimport numpy as np, jax", "def f(", "f(x)  # reads it", "y = 2"]
    nbformat.write(nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, cells)]), notebook)
    exec(lab.KERNEL_START.read_text(encoding="utf-8"), {})  # as Python in a terminal does, where there is no such shell
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.setenv("JPY_SESSION_NAME", str(notebook))
    before = {*shell.user_ns}
    shell.safe_execfile(lab.KERNEL_START, shell.user_ns)
    assert {*shell.user_ns} == before  # it leaves no name of its own
    for code, said in (
        ("np.ones(3)", "`%matplotlib inline` makes np: run"),
        ("y", "`y = 2` makes y"),
        ("x", ""),
        ("1 / 0", ""),
    ):
        capsys.readouterr()
        shell.run_cell(code)
        out = capsys.readouterr().out
        assert "Error" in out and ((said in out) if said else "The cell that" not in out), out
    notebook.unlink()
    shell.run_cell("np")
    assert "The cell that" not in capsys.readouterr().out


def git(folder, *words):
    own = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True)


def test_update_fetches_what_only_adds_and_says_what_stands_in_the_way(tree, tmp_path, capsys):
    assert "follows no repository" in said(tree, capsys, "update")
    origin, clone = tree.root, tmp_path / "a clone"
    git(origin, "init", "-q", "-b", "main")
    git(origin, "add", "notebooks", "solutions", "book")
    git(origin, "commit", "-qm", "a")
    git(tmp_path, "clone", "-q", str(origin), str(clone))
    own = Tree(clone)
    assert "newest course" in said(own, capsys, "update")
    page = origin / f"notebooks/{CHAPTER}/reading.ipynb"
    page.write_text(page.read_text().replace("Rooflines: where", "Roofs: where", 1))
    git(origin, "commit", "-qam", "b")
    assert "The course has moved on" in said(own, capsys, "update")
    assert "Roofs: where" in (clone / f"work/{CHAPTER}/reading.ipynb").read_text()
    page.write_text(page.read_text() + "\n")
    git(origin, "commit", "-qam", "c")
    (clone / f"notebooks/{CHAPTER}/reading.ipynb").write_text("{}")
    assert "`course rescue`" in said(own, capsys, "update")
    git(clone, "remote", "set-url", "origin", str(tmp_path / "gone"))
    assert "is there a network" in said(own, capsys, "update")


def test_the_doctor_names_what_ails(tree, capsys, monkeypatch):
    monkeypatch.setattr(doctor, "packages", lambda work: (True, "packages"))
    monkeypatch.setattr(doctor, "program", lambda *_: (True, "JAX computes"))
    assert command.main(["doctor"], tree) == 0 and "All is well." in capsys.readouterr().out
    (tree.root / f"work/{CHAPTER}/reading.ipynb").write_text("{")
    (tree.root / "work/progress.json").write_text("[]")
    assert command.main(["doctor"], tree) == 1
    ill = [line for line in capsys.readouterr().out.splitlines() if line.startswith("✗")]
    assert len(ill) == 2 and "reading.ipynb" in ill[0] and "progress.json" in ill[1]
    monkeypatch.undo()
    (tree.root / "requirements.txt").write_text("pytest==0.1\nnumpy\nno-such-thing==1 ; python_version < '3'\n")
    fine, words = doctor.packages(Work(tree))
    assert not fine and "pytest" in words and "numpy" not in words and "no-such" not in words
    assert doctor.program("adds", "print(1 + 1)", "2") == (True, "adds")
    fine, words = doctor.program("adds", "import nothing_of_that_name", "2")
    assert not fine and "nothing_of_that_name" in words


@pytest.mark.parametrize("words", [["nxet"], ["status", "1"], ["doctor", "all"]])
def test_a_word_that_is_none_is_refused_with_those_there_are(tree, capsys, words):
    with pytest.raises(SystemExit):
        command.main(words, tree)
    assert words[-1] in capsys.readouterr().err


def test_pip_installs_the_command_and_it_runs_from_any_folder(tmp_path):
    scripts = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'scripts = {course = "helpers.check.learner_command:main"}' in scripts
    code = "import sys; sys.argv = ['course', '--help']; from helpers.check.learner_command import main; main()"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0 and all(
        word in done.stdout for word in ("course next", "course doctor", "course reset")
    )
