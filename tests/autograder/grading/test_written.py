"""A written answer that stands outside of its cell waits for a person, wherever between two headings it stands."""

import copy
import json
import sys

import nbformat
import pytest
from nbgrader.utils import determine_grade

from autograder.grading.rebuild import rebuild, role
from autograder.places import ROOT, Tree

from .written_places import NOTHING, PLACES, SAID, STRAY, at, bare, text


def written(path) -> list[str]:
    nb = nbformat.read(path, as_version=4)
    return [c.id for c in nb.cells if c.cell_type == "markdown" and role(c) == "answer"]


RELEASED = {p.stem: ROOT / "notebooks" / p.stem / "exercises.ipynb" for p in Tree(ROOT).exercises}
ALL = [(topic, key) for topic, path in RELEASED.items() for key in written(path)]


def found(nb: dict, path, key: str):
    """The rebuilt cell of an answer, its grade before a person sees it, and what is noted of it."""
    for c in nb["cells"]:
        c["source"] = "".join(c["source"])
    made, notes = rebuild(nb, nbformat.read(path, as_version=4))
    nbformat.validate(made)
    cell = next(c for c in made.cells if c.id == key)
    return cell, determine_grade(cell)[0], [n for n in notes if key in n and "person" in n], made


def one(topic) -> dict:
    nb = json.loads(RELEASED[topic].read_text(encoding="utf-8"))
    for c in nb["cells"]:
        c["source"] = "".join(c["source"])
    return nb


@pytest.mark.sample(quick=10)
@pytest.mark.parametrize("put", PLACES)
@pytest.mark.parametrize(("topic", "key"), ALL)
def test_a_person_decides(topic, key, put):
    nb = one(topic)
    PLACES[put](nb, key)
    cell, grade, notes, made = found(nb, RELEASED[topic], key)
    assert grade is None, "nobody would have seen it"
    assert SAID in cell.source and not cell.metadata.released
    assert len(notes) == 1
    others = [c for c in made.cells if c.cell_type == "markdown" and role(c) == "answer" and c.id != key]
    assert all(determine_grade(c)[0] == 0 for c in others)


@pytest.mark.sample(quick=1, slow=1, kind="put")
@pytest.mark.parametrize("put", NOTHING)
@pytest.mark.parametrize(("topic", "key"), ALL)
def test_nothing_is_written(topic, key, put):
    nb = one(topic)
    NOTHING[put](nb, key)
    cell, grade, notes, _ = found(nb, RELEASED[topic], key)
    assert (grade, notes, cell.source) == (0, [], "YOUR ANSWER HERE")


@pytest.mark.sample(quick=1, slow=1, kind="put")
@pytest.mark.parametrize("put", STRAY)
@pytest.mark.parametrize(("topic", "key"), ALL)
def test_stray_text_is_shown_where_an_answer_is_missing(topic, key, put):
    nb = one(topic)
    STRAY[put](nb, key)
    cell, grade, notes, made = found(nb, RELEASED[topic], key)
    assert grade is None and len(notes) == 1 and SAID in " ".join(cell.source.split())
    assert ("*At the top of the notebook:*" if "top" in put else f"*In exercise {int(key[2:4])}.") in cell.source


def test_a_filled_cell_counts_and_other_text_stays():
    topic, key = ALL[0]
    nb = one(topic)
    nb["cells"][at(nb, key)]["source"] = "Memory."
    PLACES["below_the_cell"](nb, key)
    cell, grade, notes, made = found(nb, RELEASED[topic], key)
    assert (cell.source, grade, notes) == ("Memory.", None, [])
    assert [c.source for c in made.cells].count(SAID) == 1


def test_own_text_is_moved_and_code_stays():
    topic, key = ALL[0]
    nb = one(topic)
    nb["cells"].insert(at(nb, key) + 1, text("kept = 1  # ```", "code"))
    nb["cells"].insert(at(nb, key) + 1, text(SAID))
    cell, _, _, made = found(nb, RELEASED[topic], key)
    assert [c.source for c in made.cells if c.cell_type == "code"].count("kept = 1  # ```") == 1
    assert not any(c.source == SAID for c in made.cells)
    assert "````\nkept = 1  # ```\n````" in cell.source


def test_what_has_no_room_stays_where_it_is():
    topic, key = ALL[0]
    nb = one(topic)
    nb["cells"][at(nb, key) + 1 : at(nb, key) + 1] = [text(f"{SAID}\n\n{'x' * 70_000}") for _ in range(2)]
    cell, grade, notes, made = found(nb, RELEASED[topic], key)
    assert grade is None and notes and SAID in cell.source
    assert sum(c.source.endswith("x" * 70_000) for c in made.cells) == 2


@pytest.fixture
def two(generated):
    """An edition's notebook with two such exercises, one behind the other."""
    nb = nbformat.read(generated / "course/release/ch01_sample/exercises.ipynb", as_version=4)
    statement, answer = nb.cells[-2:]
    again = copy.deepcopy([statement, answer])
    again[0].source = again[0].source.replace("1.3", "1.9").replace("ex-1-3", "ex-1-9")
    again[1].metadata.nbgrader.grade_id = again[1].id = "ch01-q09"
    again[0].id = "exercise-1-9"
    nb.cells += again
    return nb


def answers(nb, submitted) -> dict[str, str]:
    made, _ = rebuild(submitted, nb)
    return {c.id: c.source for c in made.cells if c.id in ("ch01-q03", "ch01-q09")}


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("said", [("First.", "Second."), ("First.", ""), ("", "Second.")])
def test_two_in_a_row(two, lost, said):
    """Each gets its own text, also where both empty cells look the same."""
    nb = json.loads(nbformat.writes(two))
    for key, answer in zip(("ch01-q03", "ch01-q09"), said, strict=True):
        if answer:
            nb["cells"].insert(at(nb, key) + 1, text(answer))
    if lost:
        bare(nb)
    for key, answer, other in zip(("ch01-q03", "ch01-q09"), said, reversed(said), strict=True):
        got = answers(two, nb)[key]
        assert (answer in got and (not other or other not in got)) if answer else got == "YOUR ANSWER HERE"


@pytest.mark.parametrize(("code", "check", "found"), [
    ("def longer(a, b):\n    return max(a, b), max(a, b) / min(a, b)", "check.earlier(release)", ""),
    (SAID, None, SAID),
    ("def longer(a, b):\n    # YOUR CODE HERE\n    raise NotImplementedError()", None, ""),
])  # fmt: skip
def test_code_and_words_in_one_exercise(two, code, check, found):
    """Code for the other answer is none for this one, nor is a check; words in its place are."""
    i = next(i for i, c in enumerate(two.cells) if c.id == "ch01-q02-check")
    why = copy.deepcopy(two.cells[-1])
    why.metadata.nbgrader.grade_id = why.id = "ch01-q02-why"
    two.cells.insert(i + 1, why)
    nb = json.loads(nbformat.writes(two))
    nb["cells"][at(nb, "ch01-q02")]["source"] = code
    if check:
        nb["cells"][at(nb, "ch01-q02-check")]["source"] = check
    made, _ = rebuild(nb, two)
    cell = next(c for c in made.cells if c.id == "ch01-q02-why")
    assert (found in cell.source) if found else cell.source == "YOUR ANSWER HERE"


def test_merged_with_all_below(two):
    """JupyterLab's merge of an answer, the next statement and its answer, under the first one's metadata."""
    nb = json.loads(nbformat.writes(two))
    i = at(nb, "ch01-q03")
    statement = "".join(nb["cells"][i + 1]["source"])
    nb["cells"][i : i + 3] = [nb["cells"][i] | {"source": f"First.\n\n{statement}\n\nSecond."}]
    got = answers(two, nb)
    assert got["ch01-q03"].startswith("First.") and "Second." in got["ch01-q09"] and "First." not in got["ch01-q09"]


@pytest.mark.parametrize("hostile", ["<!--" * 20_000, "> " * 40_000, "`" * 90_000, "### Exercise 1.3 — x\n" * 4_000, "(" * 90_000],
                         ids=["comments", "quotations", "fences", "headings", "brackets"])  # fmt: skip
@pytest.mark.parametrize("kind", ["markdown", "code"])
def test_hostile_text_ends_soon(generated, hostile, kind):
    """Work grows with the text and not with its square; what is too much is cut."""
    path = generated / "course/release/ch01_sample/exercises.ipynb"
    nb = json.loads(nbformat.writes(nbformat.read(path, as_version=4)))
    nb["cells"] += [text(hostile, kind) for _ in range(6)]
    steps = 0

    def count(frame, event, _):
        nonlocal steps
        steps += 1

    sys.setprofile(count)
    try:
        cell, *_ = found(nb, path, "ch01-q03")
    finally:
        sys.setprofile(None)
    assert steps < 3_000_000 and len(cell.source) <= 110_000
