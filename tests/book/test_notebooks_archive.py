"""notebooks.zip: what learners get, and nothing else."""

import json
import zipfile

import pytest

from autograder.places import Tree
from tests.book.conftest import ROOT, extension
from tools.check_site import LEAKS

archive = extension("notebooks_archive")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    to = tmp_path_factory.mktemp("archive") / archive.NAME
    archive.write(to)
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
    archive.write(tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == made.read_bytes()


def test_own_answers_and_outputs_stay_out(tmp_path):
    folder = tmp_path / "notebooks/ch01_x"
    folder.mkdir(parents=True)
    (tmp_path / "notebooks/README.md").write_text("start")
    cell = {"cell_type": "code", "source": "1 + 1", "outputs": [{"text": "2"}], "execution_count": 7, "metadata": {}}
    (folder / "reading.ipynb").write_text(json.dumps({"cells": [cell]}))
    text = archive.files(tmp_path)["notebooks/ch01_x/reading.ipynb"]
    assert json.loads(text)["cells"][0]["outputs"] == [] and '"2"' not in text
