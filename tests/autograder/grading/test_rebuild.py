"""A submission is built anew from the release, whatever happened to it; more of that: tests/autograder/attacks, edits and damaged."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell

from autograder.grading.rebuild import rebuild


@pytest.fixture
def released(generated):
    return nbformat.read(generated / "course/release/ch01_sample/exercises.ipynb", as_version=4)


@pytest.fixture
def submitted(released):
    nb = nbformat.from_dict(released)
    cell(nb, "ch01-q01").source = "def seconds(V, W):\n    return V / W"
    return nb


def cell(nb, cell_id):
    return next(c for c in nb.cells if c.id == cell_id)


def sources(nb):
    return [c.source for c in nb.cells]


def test_answers_are_taken(submitted, released):
    nb, notes = rebuild(submitted, released)
    assert sources(nb) == sources(submitted)
    assert notes == []
    assert [c.metadata.released for c in nb.cells if c.id in ("ch01-q01", "ch01-q02")] == [False, True]


def test_tags_and_metadata_are_not(submitted, released):
    for c in submitted.cells:
        c.metadata["tags"] = ["skip-execution"]
        if "nbgrader" in c.metadata:
            c.metadata["nbgrader"] |= {"points": 99, "schema_version": 99, "solution": True}
    nb, _ = rebuild(submitted, released)
    for new, old in zip(nb.cells, released.cells, strict=True):
        del new.metadata["released"]
        assert new.metadata == old.metadata
    assert "return V / W" in cell(nb, "ch01-q01").source


def test_changed_test_is_put_back(submitted, released):
    cell(submitted, "ch01-q01-check").source = "2.0"
    nb, notes = rebuild(submitted, released)
    assert cell(nb, "ch01-q01-check").source == cell(released, "ch01-q01-check").source
    assert notes == ["The cell ch01-q01-check was changed; the released one was used."]


def test_deleted_cells_come_back_in_their_places(submitted, released):
    submitted.cells = [c for c in submitted.cells if c.id not in ("ch01-q01", "ch01-q01-check", "ch01-setup")]
    nb, notes = rebuild(submitted, released)
    assert [c.id for c in nb.cells] == [c.id for c in released.cells]
    assert len(notes) == 3
    assert "NotImplementedError" in cell(nb, "ch01-q01").source


def test_doubled_answer_counts_once_and_last(submitted, released):
    i = submitted.cells.index(cell(submitted, "ch01-q01"))
    again = nbformat.from_dict(submitted.cells[i])
    again.source, again.id = "def seconds(V, W):\n    return W", "copy"
    submitted.cells.insert(i + 1, again)
    nb, notes = rebuild(submitted, released)
    assert cell(nb, "ch01-q01").source == again.source
    assert [c.metadata.get("nbgrader", {}).get("grade_id") for c in nb.cells].count("ch01-q01") == 1
    assert "stood there twice" in notes[0]


def test_own_cells_stay_behind_their_neighbour(submitted, released):
    i = submitted.cells.index(cell(submitted, "ch01-q01"))
    submitted.cells.insert(i, new_code_cell("helper = 1", id="mine"))
    nb, _ = rebuild(submitted, released)
    assert sources(nb)[i] == "helper = 1"
    assert len({c.id for c in nb.cells}) == len(nb.cells)
