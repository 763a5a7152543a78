"""Two thousand submissions: everybody has what is due, and no process needs more memory for more of them (slow)."""

import os
import subprocess
import sys
from collections import defaultdict

import nbformat
import psutil
import pytest

from autograder import release
from autograder.engine import sandbox
from autograder.grading.gradebook_writer import Writer
from autograder.places import ROOT
from tests.autograder import classes
from tests.autograder.classes import RIGHT, SECOND, TOPIC, WRONG, cell
from tests.skip_conditions import needs
from tests.tiers import repeats

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
MANY, FEW = repeats(150, 2000), repeats(80, 500)
MAY_GROW = repeats(4e6, 8e6)  # bytes that a process may have more after MANY submissions than after FEW
MOST = 500e6  # bytes that any of them may have, also while the gradebook is exported


@pytest.fixture
def what(opened, tmp_path):
    """A class in which every tenth answer to 1.1 is wrong, and no two notebooks are the same."""
    found = classes.copied(opened, tmp_path)
    nb = nbformat.read(found.notebook("release"), as_version=4)
    cell(nb, "ch01-q02").source, cell(nb, "ch01-q03").source = SECOND, "Latency."
    for i in range(MANY):
        cell(nb, "ch01-q01").source = f"{RIGHT if i % 10 else WRONG}  # {i}"
        release.write(found.notebook("submitted", f"s{i:04}"), nbformat.writes(nb, version=4))
    return found


def test_two_thousand(what, tmp_path, monkeypatch):
    host = sandbox.available()
    needs(not host.refusal, host.refusal)
    monkeypatch.setenv("COURSE_SECRET", classes.SECRET)
    monkeypatch.setenv("HOME", str(tmp_path))
    words = str(what.root), TOPIC, "2", str(tmp_path / "log"), "no-pages"
    run = subprocess.Popen(
        [sys.executable, "-m", "tests.autograder.grading.killed", *words],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    few, many, end = (defaultdict(int) for _ in range(3))  # role -> most bytes: before FEW, after, exporting
    with run:
        while run.poll() is None:
            done = len(os.listdir(folder)) if (folder := what.root / ".grading" / TOPIC).is_dir() else 0
            for role, size in memory(run.pid):
                if done >= 50:  # everything is warm
                    seen = few if done <= FEW else many if done < MANY else end
                    seen[role] = max(seen[role], size)
            try:
                run.wait(1)
            except subprocess.TimeoutExpired:
                pass
        said = run.stderr.read()
    assert run.returncode == 0, said
    print({r: f"{few[r] / 1e6:.0f} MB, then {many[r] / 1e6:.0f} MB, then {end[r] / 1e6:.0f} MB" for r in many})
    assert few.keys() == many.keys() == {"coordinator", "worker", "zygote", "checker"}
    assert {r: many[r] - few[r] for r in many if many[r] - few[r] > MAY_GROW} == {}
    assert max(*few.values(), *many.values(), *end.values()) < MOST
    grades = Writer(what.root, TOPIC, what.config()).grades()
    assert len(grades) == MANY
    for i in range(MANY):
        cells = grades[f"s{i:04}"]
        assert (cells["ch01-q01-check"].auto, cells["ch01-q02-check"].auto) == (2 if i % 10 else 0, 3)
    assert len([*(what.root / "autograded").glob(f"*/{TOPIC}/exercises.ipynb")]) == MANY


def memory(coordinator: int) -> list[tuple[str, int]]:
    """Role and resident bytes of a grading's processes."""
    found = []
    try:
        below = psutil.Process(coordinator).children(recursive=True)
        for process in [psutil.Process(coordinator), *below]:
            try:
                words = process.cmdline()
                found.append((role(process.pid == coordinator, words), process.memory_info().rss))
            except psutil.Error:
                pass
    except psutil.Error:
        pass
    return [(r, size) for r, size in found if r]


def role(first: bool, words: list[str]) -> str:
    if first:
        return "coordinator"
    names = ("autograder.grading.jobs", "worker"), ("engine.zygote", "zygote"), ("engine.checker", "checker")
    for word, name in names:
        if any(word in w for w in words) and words[0] not in ("bwrap", "/bin/sh"):
            return name
    return ""
