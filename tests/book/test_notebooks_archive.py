"""What learners get of notebooks, in notebooks.zip and on pages of exercises: the release, and nothing else."""

import json
import zipfile
from types import SimpleNamespace

import pytest

from autograder.places import Tree
from tests.book.conftest import ROOT, extension
from tools.check_site import LEAKS

released = extension("notebook_files")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    to = tmp_path_factory.mktemp("archive") / released.NAME
    released.archive(to)
    return to


def test_every_released_notebook_is_in_it_without_outputs(made):
    with zipfile.ZipFile(made) as found:
        assert found.testzip() is None
        names = {n for n in found.namelist() if n.endswith(".ipynb")}
        for name in names:
            there, here = json.loads(found.read(name)), json.loads((ROOT / name).read_text(encoding="utf-8"))
            assert [c["source"] for c in there["cells"]] == [c["source"] for c in here["cells"]]
            assert not any(c.get("outputs") for c in there["cells"])
            assert not LEAKS.search(found.read(name).decode())
        checks = {f"notebooks/{p.stem}/checks.json" for p in Tree().exercises}
        assert set(found.namelist()) - names == {"README.txt", "notebooks/README.md"} | checks
    assert names == {p.relative_to(ROOT).as_posix() for p in (ROOT / "notebooks").glob("ch*/*.ipynb")}


def test_the_same_sources_give_the_same_bytes(made, tmp_path):
    released.archive(tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == made.read_bytes()


def test_own_answers_and_outputs_stay_out(tmp_path):
    folder = tmp_path / "notebooks/ch01_x"
    folder.mkdir(parents=True)
    (tmp_path / "notebooks/README.md").write_text("start")
    cell = {"cell_type": "code", "source": "1 + 1", "outputs": [{"text": "2"}], "execution_count": 7, "metadata": {}}
    (folder / "reading.ipynb").write_text(json.dumps({"cells": [cell]}))
    text = released.files(tmp_path)["notebooks/ch01_x/reading.ipynb"]
    assert json.loads(text)["cells"][0]["outputs"] == [] and '"2"' not in text


NOTEBOOK = json.loads((ROOT / "notebooks/ch01_rooflines/exercises.ipynb").read_text(encoding="utf-8"))
PAGE = "notebooks/ch01_rooflines/exercises"


def shown(notebook, monkeypatch, root) -> str:
    monkeypatch.setattr(released, "ROOT", root)
    source = [json.dumps(notebook)]
    released.restore(SimpleNamespace(), PAGE, source)
    return source[0]


def edited():
    mine = json.loads(json.dumps(NOTEBOOK))
    cell = next(c for c in mine["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == "ch01-q01")
    cell["source"] = "my own answer"
    cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "my output"}]
    return mine


def test_answers_and_outputs_stay_off_the_page(tmp_path, monkeypatch):
    made = tmp_path / "autograder/release/ch01_rooflines/exercises.ipynb"
    made.parent.mkdir(parents=True)
    made.write_text(json.dumps(NOTEBOOK), encoding="utf-8")
    assert "my own answer" not in shown(edited(), monkeypatch, tmp_path)
    assert "my output" not in shown(edited(), monkeypatch, tmp_path)


def test_another_release_is_not_taken_for_this_one(tmp_path, monkeypatch):
    made = tmp_path / "autograder/release/ch01_rooflines/exercises.ipynb"
    made.parent.mkdir(parents=True)
    other = json.loads(json.dumps(NOTEBOOK))
    next(c for c in other["cells"] if "nbgrader" in c["metadata"])["metadata"]["nbgrader"]["checksum"] = "another"
    made.write_text(json.dumps(other), encoding="utf-8")
    page = shown(edited(), monkeypatch, tmp_path)
    assert "my own answer" in page and "my output" not in page


def test_the_copies_to_download_hold_no_answers_either(tmp_path, monkeypatch):
    for folder, notebook in (
        ("autograder/release/ch01_rooflines", NOTEBOOK),
        ("html/_sources/notebooks/ch01_rooflines", edited()),
    ):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "exercises.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    monkeypatch.setattr(released, "ROOT", tmp_path)
    app = SimpleNamespace(builder=SimpleNamespace(format="html"), srcdir=tmp_path, outdir=tmp_path / "html")
    released.finish(app, None)
    copy = (tmp_path / "html/_sources/notebooks/ch01_rooflines/exercises.ipynb").read_text(encoding="utf-8")
    assert json.loads(copy) == json.loads(released.released("", json.dumps(NOTEBOOK))) and "my o" not in copy
