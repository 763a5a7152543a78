"""What students send is read without trust: refused with a sentence, or taken as text.

More of what happens to a notebook: tests/autograder/attacks, edits and damaged.
"""

import json
import os
import random
import time

import nbformat
import pytest
from nbformat.v4 import new_code_cell
from nbgrader.utils import parse_utc

from autograder.engine.bundle import Bundle
from autograder.engine.sandbox import Limits
from autograder.grading import intake, one_submission
from autograder.grading.rebuild import rebuild
from tests.autograder.classes import RIGHT, cell


def why(folder) -> str:
    with pytest.raises(intake.Refused) as e:
        intake.opened(intake.read(folder))[0]
    return str(e.value)


def submitted(released, **answers) -> dict:
    """The release as plain JSON, with answers by grade_id (underscores for hyphens)."""
    nb = json.loads(nbformat.writes(released))
    for c in nb["cells"]:
        c["source"] = answers.get(c["id"].replace("-", "_"), c["source"])
    return nb


def answer(nb) -> str:
    return next(c for c in nb.cells if c.metadata.get("nbgrader", {}).get("grade_id") == "ch01-q01").source


def test_files_that_are_too_large(folder):
    for size, said in ((intake.LARGEST + 1, "20 MB without its outputs"), (intake.FILE + 1, "at most 100 MB")):
        with open(folder / "exercises.ipynb", "wb") as f:
            f.truncate(size)
        assert said in why(folder)


DRAWN = random.Random(os.environ.get("SEED", "0"))
TEXTS = ['"outputs": [', "\\", "]", "}]", '"', "é\u2028", "\n" * 9, "x" * 50]


def value():
    """Texts, lists and names that look like what is skipped."""
    texts = ["".join(DRAWN.choices(TEXTS, k=3)) for _ in range(DRAWN.randrange(4))]
    return {DRAWN.choice([*TEXTS, "output"]): DRAWN.choice([text, [text, None], [[text]]]) for text in texts}


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "cp1252"])
def test_outputs_are_skipped_and_nothing_else(folder, indent, coding, monkeypatch):
    cells = [{"source": value(), "outputs": [value(), {"outputs": [value()]}], "more": value()} for _ in range(60)]
    bare = {"cells": [c | {"outputs": []} for c in cells]}
    whole = json.dumps({"cells": cells}, indent=indent, ensure_ascii=coding == "cp1252").encode(coding)
    (folder / "exercises.ipynb").write_bytes(whole)
    assert intake.read(folder) == whole  # one of an ordinary size stays as it is
    monkeypatch.setattr(intake, "LARGEST", len(whole) - 1)
    assert intake.opened(intake.read(folder))[0] == bare


def test_32_megabytes_of_outputs_are_no_fault(folder, released):
    nb = submitted(released, ch01_q01=RIGHT)
    outputs = [{"text": ['"x]\n'] * 100_000, "png": "A" * 32_000_000}]
    next(c for c in nb["cells"] if c["cell_type"] == "code")["outputs"] = outputs
    (folder / "exercises.ipynb").write_text(json.dumps(nb))
    data = intake.read(folder)
    assert len(data) < 100_000 and answer(rebuild(intake.opened(data)[0], released)[0]) == RIGHT


BOMBS = [b'"', b'"\\"', b"\\", b"[", b"[]", b'"outputs":[', b'"outputs":[],', b'"outputs"' + b" " * 20, b"{},", b"\0"]


@pytest.mark.parametrize("part", BOMBS)
@pytest.mark.sample(quick=4)
def test_bombs_end(part, monkeypatch):
    """Each byte is looked at once, up to a number of steps."""
    monkeypatch.setattr(intake, "TOKENS", 200_000)
    data, before = b'{"cells": [{"outputs": [' + part * (20_000_000 // len(part)), time.process_time()
    assert len(intake.without_outputs(data)) <= len(data)
    assert time.process_time() - before < 10


@pytest.mark.parametrize(("data", "said"), [
    (b"", "is empty"),
    (b"\x89PNG\r\n\x1a\n\xff\xd9", "no text"),
    (b"PK\x03\x04" + b"x" * 99, "but an archive or a document: hand in the notebook itself"),
    (b"%PDF-1.7\n\xff", "but a PDF: hand in"),
    (b"\n<!DOCTYPE html><html>", "but a web page: hand in"),
    (b"import jax\nprint('\xe9')", "no text"),
    (b'{"cells": [', "breaks off or is wrong in line 1"),
    (b"[" * 200_000, "nested too deep"),
    (b"[1, 2]", "has no cells"),
    (b'{"cells": {}}', "has no cells"),
    (b"9" * 5000, "breaks off or is wrong"),
    (b'{"cells": [' + b"{}," * 2000 + b"{}]}", "2001 cells"),
])  # fmt: skip
def test_bytes_that_are_no_notebook(data, said):
    with pytest.raises(intake.Refused, match=said):
        intake.cells(intake.opened(data)[0])


@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_of_editors(released, coding):
    data = json.dumps(submitted(released, ch01_q01=RIGHT + "  # Ä")).encode(coding)
    nb, notes = rebuild(intake.opened(data)[0], released)
    assert answer(nb).endswith("# Ä") and notes == []


@pytest.mark.parametrize("coding", ["cp1252", "latin-1", "mac-roman"])
def test_encodings_of_old_editors(released, coding):
    """What is not ASCII may be wrong; nothing else is, and a note says so."""
    text = json.dumps(submitted(released, ch01_q01=RIGHT, ch01_q03="Größe"), ensure_ascii=False)
    data = text.encode(coding, "xmlcharrefreplace")
    nb, notes = intake.opened(data)
    assert len(notes) == 1 and "older encoding" in notes[0]
    assert answer(rebuild(nb, released)[0]) == RIGHT
    assert ("Größe" in str(nb)) == (coding != "mac-roman")
    [note] = one_submission.graded(sample(released), one_submission.Job("ada", data, only=frozenset())).notes[:1]
    assert note == notes[0]


def sample(released) -> one_submission.Assignment:
    """An assignment that has nothing to run."""
    return one_submission.Assignment("ch01_sample", nbformat.writes(released), Bundle("key", ()), "0", Limits(), True)


@pytest.mark.parametrize(("names", "said"), [
    ([], "and no other file"),
    (["timestamp.txt", ".DS_Store"], "and no other file"),
    (["answers.py"], "only answers.py (Python code); hand in"),
    (["exercises.html"], "only exercises.html (a web page); hand in"),
    (["a.pdf", "b.docx", "c.zip", "d.png", "e.png"], "only a.pdf (a PDF), b.docx (a document), c.zip (an archive) and 2 more; hand in"),
    (["Ada's \x1b[31m work\u202e.py"], "only Ada's ??31m work?.py (Python code)"),
    (["deep/er/answers.py"], "only deep/er/answers.py (Python code)"),
    ([f"{'x' * 200}.py"], f"only {'x' * 40}...{'x' * 13}.py (Python code)"),
    (["notes"], "only notes; hand in"),
])  # fmt: skip
def test_what_lies_there_instead_is_named(folder, names, said):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    assert f"there is none, {said}" in why(folder)
    assert why(folder).endswith(
        "hand in the notebook itself, a file that ends in .ipynb (in a clone it lies in work/)."
    )


def test_cells_of_any_shape():
    cells = intake.cells({"cells": [
        None, 7, {}, {"cell_type": "code", "source": ["a\n", "b", 3]}, {"source": 5, "metadata": []},
        {"cell_type": "code", "source": "x", "metadata": {"nbgrader": {"grade_id": ["q"]}}, "id": 4},
    ]})  # fmt: skip
    assert [c.text for c in cells] == ["", "a\nb", "", "x"]
    assert {(c.grade_id, c.id) for c in cells} == {(None, None)}


def test_long_cells_are_left_out():
    [cell] = intake.cells({"cells": [{"cell_type": "code", "source": "x" * 200_000}]})
    assert len(cell.text) < 200 and "200,000 characters" in cell.text


def test_answer_in_a_cell_of_ones_own(released):
    """Its cell deleted, or left as it was: the definition counts, wherever it stands."""
    for keep_stub in (True, False):
        nb = submitted(released)
        if not keep_stub:
            nb["cells"] = [c for c in nb["cells"] if c["id"] != "ch01-q01"]
        nb["cells"].insert(0, {"cell_type": "code", "id": "mine", "metadata": {}, "outputs": [], "source": RIGHT})
        made, notes = rebuild(nb, released)
        assert answer(made) == RIGHT
        assert "The answer ch01-q01 stood in a cell of its own; that one counts." in notes
        assert sum(c.source == RIGHT for c in made.cells) == 1


@pytest.mark.parametrize(("text", "hour"), [
    (b"2030-01-01 12:00:00.5 UTC", 12), (b"2030-01-01 12:00:00", 12), (b"2030-01-01T12:00:00 UTC\n", 12),
    (b"2030-01-01 12:00:00 Europe/Berlin", 11), (b"2030-01-01 12:00:00 +0100", 11), (b"2030-01-01 12:00:00 -05:00", 17),
    (b"2030-01-01 12:00:00 KST", None), (b"2030-01-01 12:00:00 +99:00", None),  # nbgrader knows no such zone
    (b"yesterday", None), (b"2030-13-45 12:00:00 UTC", None), (b"0000-00-00 00:00:00", None),
    (b"2030-01-01 12:00:00 " + b"x" * 99, None), (b"\xff\xfe", None),
])  # fmt: skip
def test_timestamps(folder, text, hour):
    (folder / "timestamp.txt").write_bytes(text)
    kept = intake.timestamp(folder)
    assert kept is None if hour is None else parse_utc(kept.decode().strip()).hour == hour
    (folder / "timestamp.txt").rename(folder / "t")
    (folder / "timestamp.txt").symlink_to(folder / "t")
    assert intake.timestamp(folder) is None


@pytest.fixture
def handed_in(released):
    nb = nbformat.from_dict(released)
    cell(nb, "ch01-q01").source = RIGHT
    return nb


def test_answers_are_taken_and_metadata_are_not(handed_in, released):
    for c in handed_in.cells:
        c.metadata["tags"] = ["skip-execution"]
        if "nbgrader" in c.metadata:
            c.metadata["nbgrader"] |= {"points": 99, "schema_version": 99, "solution": True}
    handed_in.cells.insert(3, new_code_cell("helper = 1", id="mine"))
    nb, notes = rebuild(handed_in, released)
    assert [c.source for c in nb.cells] == [c.source for c in handed_in.cells] and notes == []
    assert [c.metadata.released for c in nb.cells if c.id in ("ch01-q01", "ch01-q02")] == [False, True]
    assert len({c.id for c in nb.cells}) == len(nb.cells)
    for new, old in zip(nb.cells[:3] + nb.cells[4:], released.cells, strict=True):
        assert {**new.metadata, "released": 0} == {**old.metadata, "released": 0}


def test_what_is_put_right_is_said(handed_in, released):
    cell(handed_in, "ch01-q01-check").source = "2.0"
    double = nbformat.from_dict(cell(handed_in, "ch01-q01"))
    double.source, double.id = "def seconds(V, W):\n    return W", "copy"
    unfilled = nbformat.from_dict(cell(released, "ch01-q01") | {"id": "stub"})
    at = handed_in.cells.index(cell(handed_in, "ch01-q01")) + 1
    handed_in.cells[at:at] = [double, unfilled]
    handed_in.cells = [c for c in handed_in.cells if c.id not in ("ch01-q02", "ch01-setup")]
    nb, notes = rebuild(handed_in, released)
    assert [c.id for c in nb.cells if c.id[:4] != "own-"] == [c.id for c in released.cells]
    assert cell(nb, "ch01-q01").source == double.source and cell(nb, "ch01-q01-check").source != "2.0"
    assert sorted(notes) == [
        "The answer ch01-q01 stood there twice; the last one counts.",
        "The cell ch01-q01 stood there twice; the one that was filled in counts.",
        "The cell ch01-q01-check was changed; the released one was used.",
        "The cell ch01-q02 was missing; it was put back.",
        "The cell ch01-setup was missing; it was put back.",
    ]
