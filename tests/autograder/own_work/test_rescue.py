"""A clone in which notebooks/ was edited: real git, its merges, stashes and rebases, and what it writes into the JSON."""

import errno
import json
import os
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_output
from nbgrader.utils import compute_checksum

from autograder.making import cells
from autograder.own_work import __main__ as command
from autograder.places import Tree

NAME = "ch01_sample/exercises.ipynb"
FIRST = 'def seconds(V, W):\n    """Seconds."""\n    return V / W'
TWICE = "def seconds(V, W):\n    return 2 * V / W"
SECOND = "def longer(a, b):\n    return max(a, b), max(a, b) / min(a, b)"
OWN = "mine = 12  # a try"
WRITTEN = "Latency, because nothing else is left."
ANSWERS = {"ch01_q01": FIRST, "ch01_q02": SECOND, "ch01_q03": WRITTEN, "own": OWN}


@pytest.fixture(autouse=True)
def identity(monkeypatch, tmp_path):
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "ada@example.org")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)


class Clone:
    """A learner's clone of a course that has one chapter."""

    def __init__(self, folder: Path, generated: Path):
        self.upstream, self.root = folder / "upstream", folder / "clone"
        shutil.copytree(generated / "notebooks", self.upstream / "notebooks")
        (self.upstream / ".gitignore").write_text("/work/\n")
        self.git("init", "--quiet", "--initial-branch=main", at=self.upstream)
        self.commit(self.upstream)
        self.git("clone", "--quiet", str(self.upstream), str(self.root), at=folder)

    def git(self, *words: str, at: Path | None = None, ok: bool = True) -> str:
        done = subprocess.run(["git", *words], cwd=at or self.root, capture_output=True, text=True)
        assert not ok or done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def commit(self, at: Path) -> None:
        self.git("add", "-A", at=at)
        self.git("commit", "--quiet", "-m", "work", at=at)

    def path(self, folder: str) -> Path:
        return self.root / folder / NAME

    def texts(self, folder: str = "work") -> dict[str, str]:
        return {c.id: c.source for c in nbformat.read(self.path(folder), as_version=4).cells}

    def change(self, folder: str = "notebooks", **texts: str) -> None:
        """Put text into cells (their ids with _ for -), and own cells below the setup."""
        nb = nbformat.read(self.path(folder), as_version=4)
        for cell in nb.cells:
            cell.source = texts.get(cell.id.replace("-", "_"), cell.source)
        if "own" in texts:
            nb.cells.insert(3, new_code_cell(texts["own"]))
            nb.cells[3].outputs = [new_output("stream", text="12\n")]
            nb.metadata.language_info.version = "3.12.3"
        nbformat.write(nb, self.path(folder))

    def course_changes(self) -> None:
        """Upstream: the same lines that a learner fills in say something else, and a text."""
        path = self.upstream / "notebooks" / NAME
        nb = nbformat.read(path, as_version=4)
        for cell in nb.cells:
            if cell.id in ("ch01-q01", "ch01-q02"):
                cell.source = cell.source.replace("# YOUR CODE HERE", "# YOUR CODE HERE, please")
            if cell.cell_type == "markdown":
                cell.source += "\n\nNew words."
            if "nbgrader" in cell.metadata:
                cell.metadata.nbgrader.checksum = compute_checksum(cell)
        path.write_text(cells.dumps(nb))
        self.commit(self.upstream)

    def run(self, *words: str, capsys) -> str:
        capsys.readouterr()
        assert command.main([*words] or ["copies"], Tree(self.root)) == 0
        return capsys.readouterr().out

    def is_rescued(self) -> None:
        """notebooks/ is upstream's, nothing waits in git, and the next pull works."""
        assert not self.git("status", "--porcelain")
        assert "rebase in progress" not in self.git("status") and "MERGE" not in self.git("status")
        self.git("pull", "--quiet", "--no-rebase")
        for path in self.upstream.glob("notebooks/**/*.*"):
            assert path.read_bytes() == (self.root / path.relative_to(self.upstream)).read_bytes()


@pytest.fixture
def clone(tmp_path, generated):
    return Clone(tmp_path, generated)


def worked(clone: Clone) -> None:
    clone.change(**ANSWERS)


def everything_is_there(clone: Clone) -> None:
    texts = clone.texts()
    assert (texts["ch01-q01"], texts["ch01-q02"], texts["ch01-q03"]) == (FIRST, SECOND, WRITTEN)
    assert list(texts.values()).count(OWN) == 1
    assert len(set(texts.values())) == len(texts)  # nothing stands there twice


STATES = {
    "edited": "work",
    "stash popped": "work; news; stash; pull --quiet; !stash pop",
    "stash popped and committed": "work; news; stash; pull --quiet; !stash pop; commit",
    "merged": "work; commit; news; !pull --quiet --no-rebase",
    "rebased": "work ch01_q01; commit; work ch01_q02 own; commit; work ch01_q03; commit; news; !pull --quiet --rebase",
    "autostashed": "work; news; !pull --rebase --autostash",
    "committed": "work; commit",
    "merged cleanly": "work; commit; news elsewhere; pull --quiet --no-rebase",
}
"""What a learner, and the course by its news, did before; the rest are words of git, behind "!" such as end in a conflict."""


def brought_into(clone: Clone, state: str) -> None:
    for step in STATES[state].split("; "):
        match step.split():
            case ["work", *names]:
                clone.change(**{name: ANSWERS[name] for name in names or ANSWERS})
            case ["commit"]:
                clone.commit(clone.root)
            case ["news"]:
                clone.course_changes()
            case ["news", "elsewhere"]:
                path = clone.upstream / "notebooks/README.md"
                path.write_text(path.read_text() + "\nNew words.\n")
                clone.commit(clone.upstream)
            case words:
                said = clone.git(*step.removeprefix("!").split(), ok=not step.startswith("!"))
                assert words[0][0] != "!" or "conflict" in said.lower()


@pytest.mark.parametrize("state", STATES)
@pytest.mark.sample(quick=2)
def test_nothing_is_lost_and_the_next_pull_works(clone, capsys, state):
    brought_into(clone, state)
    before = clone.path("notebooks").read_bytes()
    said = clone.run("rescue", capsys=capsys)
    everything_is_there(clone)
    assert any(p.read_bytes() == before for p in clone.root.glob("work/kept/*/notebooks/**/*.ipynb")), said
    clone.is_rescued()
    clone.run(capsys=capsys)
    everything_is_there(clone)
    assert "There is nothing to rescue" in clone.run("rescue", capsys=capsys) or "stash" in said


def test_the_first_start_brings_answers_over_and_touches_nothing_in_notebooks(clone, capsys):
    worked(clone)
    before = clone.path("notebooks").read_bytes()
    assert "`course rescue`" in clone.run(capsys=capsys)
    everything_is_there(clone)
    assert clone.path("notebooks").read_bytes() == before
    clone.change("work", ch01_q01=TWICE)
    assert "`course rescue`" in clone.run(capsys=capsys)  # still
    clone.run("rescue", capsys=capsys)
    texts = clone.texts()
    assert texts["ch01-q01"] == TWICE and FIRST not in "".join(texts.values())  # it was over in work/ already
    clone.is_rescued()


def test_two_answers_to_one_exercise_are_both_kept(clone, capsys):
    clone.run(capsys=capsys)
    clone.change("work", ch01_q01=TWICE)
    worked(clone)
    said = clone.run("rescue", capsys=capsys)
    assert "There were two versions of 1.1; the second stands below the first, as text." in said
    texts = [*clone.texts().values()]
    assert texts[texts.index(TWICE) + 1] == f"*Another version, of exercise 1.1:*\n\n```\n{FIRST}\n```"
    assert clone.texts()["ch01-q02"] == SECOND and OWN in texts


def test_a_stash_is_named_until_it_is_in_work(clone, capsys):
    brought_into(clone, "stash popped")
    clone.git("reset", "--hard", "--quiet")  # and everything seems gone
    said = clone.run("rescue", capsys=capsys)
    assert "stash@{0} holds work in notebooks/: type `git stash pop stash@{0}`, then `course rescue` again." in said
    clone.git("stash", "pop", "stash@{0}", ok=False)
    assert "stash@{0} holds nothing of notebooks/ that is not in work/ too." in clone.run("rescue", capsys=capsys)
    everything_is_there(clone)


def test_a_conflict_elsewhere_is_left_to_its_owner(clone, capsys):
    worked(clone)
    (clone.root / ".gitignore").write_text("/work/\n*.mine\n")
    clone.commit(clone.root)
    (clone.upstream / ".gitignore").write_text("/work/\n*.theirs\n")
    clone.course_changes()
    clone.git("pull", "--quiet", "--no-rebase", ok=False)
    said = clone.run("rescue", capsys=capsys)
    assert "git has a conflict in .gitignore too" in said
    everything_is_there(clone)
    (clone.root / ".gitignore").write_text("/work/\n")
    clone.git("add", ".gitignore")
    clone.git("commit", "--quiet", "--no-edit")
    clone.is_rescued()


def test_a_conflict_that_somebody_tried_to_settle_in_an_editor(clone, capsys):
    """Marks of git taken out by hand, both sides left in, nothing that git still knows: the JSON is broken."""
    brought_into(clone, "stash popped")
    clone.git("add", "-A")
    clone.git("stash", "drop")
    path = clone.path("notebooks")
    lines = path.read_text().split("\n")
    path.write_text("\n".join(x for x in lines if not x.startswith(("<<<<<<<", "=======", ">>>>>>>"))))
    with pytest.raises(ValueError):
        json.loads(path.read_text())
    clone.run("rescue", capsys=capsys)
    said = "\n".join(clone.texts().values())
    for text in (FIRST, SECOND, WRITTEN, OWN):
        for line in text.split("\n"):
            assert line in said
    clone.is_rescued()


def test_without_git_nothing_is_taken_away(clone, capsys):
    worked(clone)
    shutil.rmtree(clone.root / ".git")
    before = clone.path("notebooks").read_bytes()
    said = clone.run("rescue", capsys=capsys)
    assert "notebooks/ stays as it is here: git has no version of the course's." in said
    assert clone.path("notebooks").read_bytes() == before
    everything_is_there(clone)


@pytest.mark.parametrize("way", ["stash", "merge"])
def test_a_chapter_that_the_course_has_left_out_stays_in_work(clone, capsys, way):
    worked(clone)
    clone.git("stash") if way == "stash" else clone.commit(clone.root)
    clone.git("rm", "-r", "--quiet", "notebooks/ch01_sample", at=clone.upstream)
    clone.commit(clone.upstream)
    clone.git("pull", "--quiet", "--no-rebase", ok=False)
    if way == "stash":
        clone.git("stash", "pop", ok=False)
    mine = clone.root / "notebooks/ch01_sample/exercises-Copy1.ipynb"
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("{}")
    said = clone.run("rescue", capsys=capsys)
    assert "The course has no such notebook any more; yours stays in work/." in said
    assert "These files are yours alone and stay where they are: notebooks/ch01_sample/exercises-Copy1.ipynb." in said
    everything_is_there(clone)
    assert not clone.path("notebooks").exists()
    mine.unlink()
    clone.is_rescued()


def test_a_full_disk_stops_before_notebooks_is_restored(clone, capsys, monkeypatch):
    worked(clone)
    before = clone.path("notebooks").read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert command.main(["rescue"], Tree(clone.root)) == 1
    assert "the disk is full" in capsys.readouterr().out
    assert clone.path("notebooks").read_bytes() == before and not list(clone.root.rglob("*.new"))
