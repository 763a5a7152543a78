"""Of several notebooks in a folder the one that is filled in counts, and a note says so."""

import json
import os

import pytest
from nbformat.v4 import new_code_cell

from autograder.grading import intake
from autograder.grading.records import Sent
from autograder.grading.which_notebook import taken
from tests.autograder.classes import RIGHT, SECOND

OTHER = "def seconds(V, W):\n    return W"
COPY = "exercises-Copy1.ipynb"


@pytest.fixture
def release(generated):
    return generated / "course/release/ch01_sample/exercises.ipynb"


@pytest.fixture
def put(folder, release):
    """Puts a notebook with these answers into the folder, and returns its bytes."""

    def written(name, *answers, change=lambda nb: None):
        nb = json.loads(release.read_text(encoding="utf-8"))
        for key, answer in zip(("ch01-q01", "ch01-q02"), answers, strict=False):
            next(c for c in nb["cells"] if c["id"] == key)["source"] = answer
        change(nb)
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(nb))
        return (folder / name).read_bytes()

    return written


def bare(nb):
    for c in nb["cells"]:
        c["metadata"] = {}
        c.pop("id", None)


def own(source):
    """An own cell, everything else as released."""
    return lambda nb: nb["cells"].append(new_code_cell(source))


@pytest.mark.parametrize("name", [COPY, "ch01_emmy.ipynb", "sub/exercises.ipynb", "exercises (1).ipynb"])
@pytest.mark.parametrize("change", [lambda nb: None, bare], ids=["whole", "bare"])
def test_a_filled_one_beside_an_untouched_one(put, folder, release, name, change):
    put("exercises.ipynb")
    wanted = put(name, RIGHT, change=change)
    assert taken(folder, release) == (wanted, f"exercises.ipynb is not filled in; {name} is, so it was graded.")


def test_answers_in_own_cells_are_answers(put, folder, release):
    put("exercises.ipynb", change=own("1 + 1"))
    wanted = put(COPY, change=own(RIGHT))
    assert taken(folder, release)[0] == wanted


@pytest.mark.parametrize("broken", [b"", b"{", b"\x89PNG"])
def test_a_filled_one_beside_a_broken_one(put, folder, release, broken):
    (folder / "exercises.ipynb").write_bytes(broken)
    wanted = put(COPY, RIGHT)
    assert taken(folder, release)[0] == wanted
    (folder / COPY).unlink()
    assert taken(folder, release) == (broken, "")


def test_the_rightly_named_one_counts_if_it_is_filled(put, folder, release):
    wanted = put("exercises.ipynb", RIGHT)
    put("a.ipynb", OTHER)
    put("b.ipynb", OTHER)
    assert taken(folder, release) == (wanted, "")
    put("c.ipynb", RIGHT, SECOND)
    more = "exercises.ipynb was graded; c.ipynb beside it has more answers, 2 against 1."
    assert taken(folder, release) == (wanted, more)


def test_of_several_none_so_named_the_filled_one_counts(put, folder, release):
    put("a.ipynb")
    wanted = put("ch01_emmy.ipynb", RIGHT)
    assert taken(folder, release) == (wanted, "Only ch01_emmy.ipynb is filled in, so it was graded.")


@pytest.mark.parametrize("named", [True, False])
def test_several_filled_ones_are_a_question(put, folder, release, named):
    if named:
        put("exercises.ipynb")
    put("a.ipynb", RIGHT)
    put("b.ipynb", OTHER)
    with pytest.raises(intake.Refused, match=r"several others are.*: a.ipynb, b.ipynb; keep the one that counts"):
        taken(folder, release)


def test_copies_of_one_are_one(put, folder, release):
    """The same answers twice, whatever else was saved with them."""
    put("exercises.ipynb")
    put("a.ipynb", RIGHT)
    put("b.ipynb", RIGHT, change=lambda nb: nb.update(metadata={}))
    assert "a.ipynb is, so it was graded" in taken(folder, release)[1]


def test_nothing_filled_is_as_before(put, folder, release):
    wanted = put("exercises.ipynb")
    put(COPY)
    assert taken(folder, release) == (wanted, "")
    (folder / "exercises.ipynb").unlink()
    put("other.ipynb")
    with pytest.raises(intake.Refused, match="there are several"):
        taken(folder, release)


def test_other_notebooks_are_no_answers(put, folder, release):
    """The reading beside it, another assignment's, a checkpoint, one that is broken."""
    wanted = put("exercises.ipynb")
    put("reading.ipynb", RIGHT)
    put(".ipynb_checkpoints/exercises-checkpoint.ipynb", RIGHT)
    own = {"cells": [{"cell_type": "code", "source": RIGHT, "metadata": {}}, {"cell_type": "markdown", "source": "x"}]}
    (folder / "mine.ipynb").write_text(json.dumps(own))
    (folder / "broken.ipynb").write_text("{")
    assert taken(folder, release) == (wanted, "")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="links and pipes are made")
def test_guards_hold_for_each_of_them(put, folder, release, tmp_path):
    put("exercises.ipynb")
    put("../../outside.ipynb", RIGHT)
    (folder / COPY).symlink_to(tmp_path / "outside.ipynb")
    os.mkfifo(folder / "pipe.ipynb")
    with open(folder / "large.ipynb", "wb") as f:
        f.truncate(intake.LARGEST + 1)
    (folder / "deep.ipynb").write_text("[" * 200_000)
    assert taken(folder, release)[1] == ""
    (folder / "exercises.ipynb").unlink()
    (folder / "exercises.ipynb").symlink_to(tmp_path / "nowhere")
    put("good.ipynb", RIGHT)
    with pytest.raises(intake.Refused, match="is a link"):
        taken(folder, release)
    (tmp_path / "eve").symlink_to(tmp_path / "ada")
    with pytest.raises(intake.Refused, match="link or no folder"):
        taken(tmp_path / "eve/ch01_sample", release)


def test_no_student_text_is_parsed(put, folder, release, monkeypatch):
    """This runs where the gradebook is."""
    import ast

    parsed = []
    parse = ast.parse
    monkeypatch.setattr(ast, "parse", lambda source, *a, **k: parsed.append(source) or parse(source, *a, **k))
    put("exercises.ipynb")
    put(COPY, "evil = 1\n" + RIGHT, change=own(RIGHT))
    assert taken(folder, release)[1]
    assert not any("evil" in p or p == RIGHT for p in parsed)


def test_another_choice_is_another_submission():
    same = Sent("ada", b"x", "", None)
    assert same.submission == Sent("ada", b"x", "", b"stamp").submission
    assert same.submission != Sent("ada", b"x", "", None, "exercises.ipynb is not filled in").submission
