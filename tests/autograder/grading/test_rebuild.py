"""What is said of a submission that is built anew, and where its cells stand; what it wins and loses: tests/autograder/attacks."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell

from autograder.grading.rebuild import rebuild
from tests.autograder.classes import RIGHT, cell


@pytest.fixture
def submitted(released):
    nb = nbformat.from_dict(released)
    cell(nb, "ch01-q01").source = RIGHT
    return nb


def test_answers_are_taken_and_metadata_are_not(submitted, released):
    for c in submitted.cells:
        c.metadata["tags"] = ["skip-execution"]
        if "nbgrader" in c.metadata:
            c.metadata["nbgrader"] |= {"points": 99, "schema_version": 99, "solution": True}
    submitted.cells.insert(3, new_code_cell("helper = 1", id="mine"))
    nb, notes = rebuild(submitted, released)
    assert [c.source for c in nb.cells] == [c.source for c in submitted.cells] and notes == []
    assert [c.metadata.released for c in nb.cells if c.id in ("ch01-q01", "ch01-q02")] == [False, True]
    assert len({c.id for c in nb.cells}) == len(nb.cells)
    for new, old in zip(nb.cells[:3] + nb.cells[4:], released.cells, strict=True):
        assert {**new.metadata, "released": 0} == {**old.metadata, "released": 0}


def test_what_is_put_right_is_said(submitted, released):
    cell(submitted, "ch01-q01-check").source = "2.0"
    double = nbformat.from_dict(cell(submitted, "ch01-q01"))
    double.source, double.id = "def seconds(V, W):\n    return W", "copy"
    unfilled = nbformat.from_dict(cell(released, "ch01-q01") | {"id": "stub"})
    at = submitted.cells.index(cell(submitted, "ch01-q01")) + 1
    submitted.cells[at:at] = [double, unfilled]
    submitted.cells = [c for c in submitted.cells if c.id not in ("ch01-q02", "ch01-setup")]
    nb, notes = rebuild(submitted, released)
    assert [c.id for c in nb.cells if c.id[:4] != "own-"] == [c.id for c in released.cells]
    assert cell(nb, "ch01-q01").source == double.source and cell(nb, "ch01-q01-check").source != "2.0"
    assert sorted(notes) == [
        "The answer ch01-q01 stood there twice; the last one counts.",
        "The cell ch01-q01 stood there twice; the one that was filled in counts.",
        "The cell ch01-q01-check was changed; the released one was used.",
        "The cell ch01-q02 was missing; it was put back.",
        "The cell ch01-setup was missing; it was put back.",
    ]
