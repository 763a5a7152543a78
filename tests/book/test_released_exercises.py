"""Pages of exercises show the release, not what somebody wrote into the notebook."""

import json
from types import SimpleNamespace

from tests.book.conftest import ROOT, extension

released = extension("released_exercises")

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
    app = SimpleNamespace(builder=SimpleNamespace(format="html"), outdir=tmp_path / "html")
    released.finish(app, None)
    copy = (tmp_path / "html/_sources/notebooks/ch01_rooflines/exercises.ipynb").read_text(encoding="utf-8")
    assert json.loads(copy) == json.loads(released.emptied(json.dumps(NOTEBOOK))) and "my o" not in copy
