"""Honest students with damaged notebooks: what they wrote is found again, before anything runs."""

import json
import os
import sys

import nbformat
import pytest

from autograder.grading import intake, which_notebook
from autograder.grading.rebuild import rebuild
from autograder.making import in_process_grading
from tests.autograder.attacks import edits, files, kinds, target

ENGINE = "magics awaits_at_the_top names_of_the_shell pictures_and_pages own_cell_that_is_slow warnings_on_stderr"
"""These need more than Python to run: the batch has them."""

STUDENTS = [s for s in kinds.honest() if s.kind == "honest" and s.name.removeprefix("damaged-") not in ENGINE.split()]
KEPT = [name for name in files.KEPT if not any(w in name for w in ("pipe", "link", "many_files"))]


@pytest.fixture(scope="module")
def chapter(tmp_path_factory):
    """The released notebook, and the checks with their hidden tests."""
    folder = tmp_path_factory.mktemp("chapter")
    from autograder import release

    tree = target.tree(folder / "tree")
    release.generate(tree, folder / "course", folder / "notebooks", database=False)
    nb = nbformat.read(folder / "course" / "release" / target.TOPIC / "exercises.ipynb", as_version=4)
    solved = in_process_grading.solved(target.TOPIC, tree).cells
    return nb, {c.id: c.source for c in solved if edits.grade_id(c).endswith("-check")}


@pytest.fixture(scope="module")
def release_of(chapter, tmp_path_factory):
    """The released notebook as a file."""
    path = tmp_path_factory.mktemp("release") / "exercises.ipynb"
    nbformat.write(chapter[0], path)
    return path


def judged(chapter, data: bytes) -> dict[str, float]:
    """The points of a submitted file: rebuilt, its short checks run in this process."""
    released, full = chapter
    nb, notes = rebuild(intake.opened(data)[0], released)
    assert all(n.endswith(".") for n in notes)
    nbformat.validate(nb)
    assert len({c.id for c in nb.cells}) == len(nb.cells)
    short = [f"{k}-check" for k in kinds.SHORT]
    cells = [c for c in nb.cells if c.id not in full or c.id in short]
    courses = {c.id: c.source for c in released.cells if not c.metadata.get("nbgrader", {}).get("solution")} | full
    for cell in cells:  # a check sees the course's own cells, whatever became of them
        cell.source = courses.get(cell.id, cell.source)
    nb.cells = [c for c in cells if c.id not in ("ch01-q06", "ch01-q07")]
    return {in_process_grading.exercise_of(k): v.score for k, v in in_process_grading.judge(nb).items()}


def submitted(chapter, one: kinds.Student) -> bytes:
    return one.text(json.loads(json.dumps(chapter[0])), ())


@pytest.mark.parametrize("one", STUDENTS, ids=lambda s: s.name)
@pytest.mark.sample(quick=6)
def test_what_was_written_counts(chapter, one, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where cells write
    got = judged(chapter, submitted(chapter, one))
    assert got == {k: one.worth[k] for k in kinds.SHORT}


@pytest.mark.parametrize("name", edits.EDITS)
@pytest.mark.sample(quick=6)
def test_the_same_damage_wins_nothing(chapter, name):
    wrong = kinds.Student("x", "edit", {k: kinds.WRONG[k] for k in kinds.SHORT}, edit=edits.EDITS[name])
    assert not any(judged(chapter, submitted(chapter, wrong)).values())


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "submitted" / "ada" / target.TOPIC
    made.mkdir(parents=True)
    return made


posix = pytest.mark.skipif(sys.platform == "win32", reason="links and pipes are made")


@posix
@pytest.mark.parametrize("name", KEPT)
def test_odd_folders_are_read(chapter, release_of, name, folder, tmp_path):
    one = kinds.Student("ada", "kept", kinds.RIGHT)
    files.KEPT[name](folder, submitted(chapter, one).decode(), tmp_path)
    data, note = which_notebook.taken(folder, release_of)
    assert (intake.opened(data)[0], note) == (intake.opened(submitted(chapter, one))[0], "")


@posix
@pytest.mark.parametrize("name", files.FILES)
@pytest.mark.sample(quick=8)
def test_no_notebook_is_a_sentence(chapter, release_of, name, folder, tmp_path):
    files.FILES[name](folder, submitted(chapter, kinds.Student("ada", "file", kinds.RIGHT)).decode(), tmp_path)
    with pytest.raises(intake.Refused, match=r"^[A-Z][^\n]*\.$"):
        intake.cells(intake.opened(which_notebook.taken(folder, release_of)[0])[0])


def test_a_file_that_may_not_be_read_is_a_sentence(folder, monkeypatch):
    """Root may read every file, so the refusal is made here."""

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    (folder / "exercises.ipynb").write_text("{}")
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(intake.Refused, match="cannot be opened: permission denied"):
        intake.read(folder)
