"""A copy becomes that of a new release: what stays, what comes, and that nothing is lost on the way."""

import random
from copy import deepcopy
from itertools import pairwise

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from nbgrader.utils import compute_checksum

from autograder.own_work.by_cell import as_released, brought, held, keyed, partners
from autograder.own_work.damaged import parsed
from autograder.own_work.versions import is_release
from tests.scratch import ROOT
from tests.tiers import repeats, some

RIGHT = "def seconds(V, W):\n    return V / W"


@pytest.fixture
def old(generated):
    return nbformat.read(generated / "notebooks/ch01_sample/exercises.ipynb", as_version=4)


@pytest.fixture
def new(old):
    """A release in which everything says something else."""
    nb = deepcopy(old)
    for c in nb.cells:
        c.source += "\n\nNew words." if c.cell_type == "markdown" else "\n# New words."
        if "nbgrader" in c.metadata:
            c.metadata.nbgrader.checksum = compute_checksum(c)
    return nb


@pytest.fixture
def copy(old):
    nb = deepcopy(old)
    cell(nb, "ch01-q01").source = RIGHT
    cell(nb, "ch01-q01").outputs = [new_output("stream", text="ran\n")]
    return nb


def cell(nb, cell_id):
    return next(c for c in nb.cells if c.id == cell_id)


def put(nb, behind, made):
    nb.cells.insert(nb.cells.index(cell(nb, behind)) + 1, made)
    return made


def texts(nb):
    return [c.source for c in nb.cells]


def test_answers_and_what_they_printed_stay_and_checks_are_new(copy, old, new):
    cell(copy, "ch01-q01-check").outputs = [new_output("stream", text="passed\n")]
    nb, notes = brought(copy, old, new)
    assert cell(nb, "ch01-q01").source == RIGHT and cell(nb, "ch01-q01").outputs[0].text == "ran\n"
    assert cell(nb, "ch01-q01-check") == cell(new, "ch01-q01-check")  # what an older check said is gone
    assert cell(nb, "ch01-q02") == cell(new, "ch01-q02")
    said = "The course has changed what it gives for exercise 1.1; what you wrote stays, and notebooks/ has what is given now."
    assert notes == [said]


def test_own_cells_stay_as_they_are_where_they_are(copy, old, new):
    mine = put(copy, "ch01-q01", new_code_cell("mine = 1", metadata={"tags": ["mine"]}))
    mine.outputs = [new_output("stream", text="1\n")]
    new.cells.insert(1, new_markdown_cell("In front", id="in-front"))
    nb, notes = brought(copy, old, new)
    at = nb.cells.index(cell(nb, "ch01-q01"))
    assert nb.cells[at + 1] == mine


def test_pictures_and_widgets_stay(copy, old, new):
    picture = {"a.png": {"image/png": "AAAA"}}
    written = cell(copy, "ch01-q03")
    written.source, written.attachments = "See ![a](attachment:a.png)", picture
    put(copy, "ch01-q01", new_markdown_cell("![a](attachment:a.png)")).attachments = picture
    copy.metadata.widgets = {"state": 1}
    nb, _ = brought(copy, old, new)
    assert [c.get("attachments") for c in nb.cells].count(picture) == 2
    assert nb.metadata.widgets == {"state": 1} and cell(nb, "ch01-q03").source == written.source


def test_edited_text_stays_until_the_course_changes_it_too(copy, old, new):
    copy.cells[0].source = "My heading"
    nb, notes = brought(deepcopy(copy), old, old)
    assert (nb.cells[0].source, notes) == ("My heading", [])
    nb, notes = brought(copy, old, new)
    assert texts(nb)[:2] == [new.cells[0].source, "My heading"]
    assert nb.cells[0].id == new.cells[0].id != nb.cells[1].id
    assert "was changed; the course's stands there, and yours below it." in notes[0]


def test_an_edited_check_is_shown_and_does_not_run(copy, old, new):
    cell(copy, "ch01-q01-check").source = "print(seconds(1, 2))"
    nb, notes = brought(copy, old, new)
    at = nb.cells.index(cell(nb, "ch01-q01-check"))
    assert nb.cells[at] == cell(new, "ch01-q01-check")
    assert (nb.cells[at + 1].cell_type, nb.cells[at + 1].source) == ("markdown", "```\nprint(seconds(1, 2))\n```")


def test_an_answer_stays_with_its_exercise_under_another_number_and_at_another_place(copy, old):
    """The first exercise leaves the course with its untouched statement and check, the other two move up and change places."""
    answer = cell(copy, "ch01-q02").source = "def longer(a, b):\n    return max(a, b), 2"
    put(copy, "ch01-q02", new_code_cell("tried = 2"))
    new = deepcopy(old)
    starts = [i for i, c in enumerate(new.cells) if "### Exercise 1." in c.source]
    head, _, second, third = (new.cells[a:b] for a, b in pairwise([0, *starts, len(new.cells)]))
    new.cells = [*head, *third, *second]
    for c in new.cells:
        for before, now in ((2, 1), (3, 2)):
            c.id = c.id.replace(f"q0{before}", f"q0{now}")
            c.source = c.source.replace(f"Exercise 1.{before}", f"Exercise 1.{now}").replace(f"q0{before}", f"q0{now}")
        if "nbgrader" in c.metadata:
            c.metadata.nbgrader |= {"grade_id": c.id, "checksum": compute_checksum(c)}
    nb, notes = brought(copy, old, new)
    mine = cell(nb, "ch01-q01")
    assert mine.source == answer and mine.metadata == cell(new, "ch01-q01").metadata
    assert nb.cells[nb.cells.index(mine) + 1].source == "tried = 2"
    assert notes == ["The course has left out exercise 1.1; what you wrote there stays as a cell of your own."]
    left = next(c for c in nb.cells if c.source == RIGHT)
    assert "nbgrader" not in left.metadata and left.id != "ch01-q01"
    assert len(nb.cells) == len(new.cells) + 2 and texts(brought(nb, new, new)[0]) == texts(nb)


def test_a_deleted_cell_is_back_with_the_answer_that_stood_elsewhere(copy, old, new):
    copy.cells.remove(cell(copy, "ch01-q01"))
    put(copy, "ch01-q01-check", new_code_cell(RIGHT))
    nb, notes = brought(copy, old, new)
    assert cell(nb, "ch01-q01").source == RIGHT and texts(nb).count(RIGHT) == 1
    assert notes == ["The answer ch01-q01 stood in a cell of its own; that one counts.",
                     "The cell ch01-q01 was missing; it was put back."]  # fmt: skip


def test_nothing_is_too_long_and_no_double_gets_lost(copy, old, new):
    long = put(copy, "ch01-q01", new_code_cell("# " + "x" * 400_000)).source
    tries = "def seconds(V, W):\n    # not yet\n    raise NotImplementedError()", "def seconds(V, W):\n    return 0"
    for text in tries:
        double = deepcopy(cell(copy, "ch01-q01"))
        double.source, double.id = text, f"double-{len(text)}"
        put(copy, "ch01-q01", double)
    nb, _ = brought(copy, old, new)
    assert {long, RIGHT, *tries} <= {*texts(nb)}
    assert len({c.id for c in nb.cells}) == len(nb.cells)


def test_a_copy_that_nobody_knows_the_release_of(copy, new):
    """As one fetched before there was work/.released: checksums tell empty answers, text is left alone, nothing is doubled."""
    nb, notes = brought(copy, None, new)
    assert cell(nb, "ch01-q01").source == RIGHT
    for known in ("ch01-q02", "ch01-q01-check", "ch01-setup"):
        assert cell(nb, known) == cell(new, known)
    assert len(nb.cells) == len(new.cells) and nb.cells[0].source == copy.cells[0].source


def test_cells_without_ids_and_marks_are_found_by_their_text(copy, old, new):
    for c in copy.cells:
        c.id = f"x{hash(c.id) % 10**8}"
        if c.source != RIGHT:
            c.metadata = {}
    nb, _ = brought(nbformat.from_dict(copy), old, new)
    assert cell(nb, "ch01-q01").source == RIGHT and len(nb.cells) == len(new.cells)


def shuffled(nb, draw):
    """A notebook after a few of the things that happen to one."""
    nb = deepcopy(nb)
    for n in range(draw.randint(1, 8)):
        at = draw.randrange(len(nb.cells))
        one = nb.cells[at]
        kind = draw.choice(["edit", "add", "delete", "move", "double", "retype"])
        if kind == "edit":
            one.source = f"{one.source}\n# typed {n}" if draw.random() < 0.5 else f"f{n} = {n}"
        elif kind == "add":
            made = draw.choice([new_code_cell, new_markdown_cell])(
                f"added {n}", id=f"added-{n}-{draw.randrange(10**9)}"
            )
            nb.cells.insert(at, made)
        elif kind == "delete" and len(nb.cells) > 3:
            del nb.cells[at]
        elif kind == "move":
            nb.cells.insert(draw.randrange(len(nb.cells)), nb.cells.pop(at))
        elif kind == "double":
            nb.cells.insert(at, deepcopy(one))
        elif kind == "retype" and one.cell_type == "markdown" and "nbgrader" not in one.metadata:
            nb.cells[at] = new_code_cell(one.source, id=one.id)
    return nb


def test_whatever_happens_to_both_no_text_of_the_learner_s_is_lost(old):
    for seed in range(repeats(60, 3000)):
        draw = random.Random(seed)
        release = shuffled(old, draw)
        seen = set()
        for n, c in enumerate(release.cells):  # a release has each cell once
            if c.id in seen:
                c.id, c.metadata = f"again-{n}", nbformat.from_dict({})
            seen.add(c.id)
        for c in release.cells:
            if "nbgrader" in c.metadata:
                c.metadata.nbgrader.checksum = compute_checksum(c)
        copy = shuffled(old, draw)
        course = {*texts(old), *texts(release)}
        nb, _ = brought(copy, old, release)
        assert all(held(c, nb) for c in copy.cells if c.source not in course), seed
        ids = [c.id for c in nb.cells]
        assert len(set(ids)) == len(ids), seed
        assert [i for i in ids if i in seen] == [c.id for c in release.cells], seed
        assert texts(brought(nb, release, release)[0]) == texts(nb), seed
        unknown, _ = brought(copy, None, release)
        assert all(held(c, unknown) for c in copy.cells if c.source not in course and not as_released(c)), seed


@pytest.mark.parametrize(
    "path", some(sorted(ROOT.glob("notebooks/ch*/*.ipynb")), 4), ids=lambda p: f"{p.parent.name}-{p.stem}"
)
def test_the_course_s_own_notebooks_are_releases_and_their_cells_their_own_partners(path):
    nb = parsed(path.read_bytes())
    assert is_release(nb)
    cells = keyed(nb)
    assert partners(cells, cells) == {k: k for k in cells}
    code = next(c for c in nb.cells if c.cell_type == "code")
    code.outputs = [new_output("stream", text="ran\n")]
    assert not is_release(nb)
