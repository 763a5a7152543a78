"""A written answer that stands outside of its cell waits for a person, wherever between two headings it stands."""

import copy
import json
import re
import sys

import nbformat
import pytest
from nbgrader.utils import determine_grade

from autograder.grading.rebuild import rebuild, role
from autograder.making.exercises import HEADING
from autograder.places import ROOT, Tree

SAID = "Latency: 42 transfers wait for one another."
SPLIT = "Memory"


def written(path) -> list[str]:
    nb = nbformat.read(path, as_version=4)
    return [c.id for c in nb.cells if c.cell_type == "markdown" and role(c) == "answer"]


RELEASED = {p.stem: ROOT / "notebooks" / p.stem / "exercises.ipynb" for p in Tree(ROOT).exercises}
ALL = [(topic, key) for topic, path in RELEASED.items() for key in written(path)]


def text(source, kind="markdown", **more):
    return (
        {"cell_type": kind, "metadata": {}, "source": source}
        | ({"outputs": [], "execution_count": None} if kind == "code" else {})
        | more
    )


def at(nb, key) -> int:
    return next(i for i, c in enumerate(nb["cells"]) if c.get("id") == key)


def heading(nb, key) -> int:
    return max(i for i, c in enumerate(nb["cells"][: at(nb, key)]) if HEADING.search(c["source"]))


def below_the_cell(nb, key):
    nb["cells"].insert(at(nb, key) + 1, text(SAID))


def below_the_statement(nb, key):
    nb["cells"].insert(heading(nb, key) + 1, text(SAID))


def in_two_cells(nb, key):
    nb["cells"].insert(at(nb, key) + 1, text("And more."))
    nb["cells"].insert(at(nb, key), text(SAID))


def before_the_next_heading(nb, key):
    i = next(
        (i for i in range(at(nb, key), len(nb["cells"])) if HEADING.search(nb["cells"][i]["source"])), len(nb["cells"])
    )
    nb["cells"].insert(i, text(SAID))


def in_place_of_the_cell(nb, key):
    nb["cells"][at(nb, key)] = text(SAID)


def below_an_emptied_cell(nb, key):
    nb["cells"][at(nb, key)]["source"] = " \n"
    below_the_cell(nb, key)


def below_a_copy_of_the_cell(nb, key):
    i = at(nb, key)
    nb["cells"].insert(i, copy.deepcopy(nb["cells"][i]) | {"id": "copy"})
    nb["cells"].insert(i + 1, text(SAID))


def as_a_copy_above_an_emptied_one(nb, key):
    i = at(nb, key)
    nb["cells"].insert(i, copy.deepcopy(nb["cells"][i]) | {"id": "copy", "source": SAID})
    nb["cells"][i + 1]["source"] = ""


def in_a_code_cell(nb, key):
    nb["cells"].insert(at(nb, key) + 1, text(SAID, "code"))


def in_a_comment_of_code(nb, key):
    nb["cells"].insert(at(nb, key) + 1, text(f"# {SAID}", "code"))


def in_a_raw_cell(nb, key):
    nb["cells"].insert(at(nb, key) + 1, text(SAID, "raw"))


def in_the_statement(nb, key):
    nb["cells"][heading(nb, key)]["source"] += f"\n\n{SAID}"


def in_the_last_line_of_the_statement(nb, key):
    nb["cells"][heading(nb, key)]["source"] += f" {SAID}"


def merged_with_the_statement(nb, key):
    in_the_statement(nb, key)
    del nb["cells"][at(nb, key)]


def in_an_own_statement(nb, key):
    """Cut, typed over and pasted: nothing of its metadata is left."""
    i = heading(nb, key)
    nb["cells"][i] = text(nb["cells"][i]["source"] + f"\n\n{SAID}")
    del nb["cells"][at(nb, key)]


def above_the_heading(nb, key):
    nb["cells"].insert(heading(nb, key), text(f"To {number(key)}: {SAID}"))


def at_the_end_of_the_notebook(nb, key):
    nb["cells"].append(text(f"**Exercise {number(key)}.** {SAID}"))


def at_the_top_of_the_notebook(nb, key):
    nb["cells"].insert(0, text(f"{number(key)}) {SAID}"))


def in_the_cell_above_the_heading(nb, key):
    i = heading(nb, key) - 1
    if nb["cells"][i]["cell_type"] == "markdown":
        nb["cells"][i]["source"] += f"\n\n{SAID}"
    else:
        nb["cells"].insert(i + 1, text(f"{number(key)} {SAID}"))


def in_the_next_cell(nb, key):
    i = at(nb, key) + 1
    if i == len(nb["cells"]):
        nb["cells"].append(text(SAID))
    else:
        nb["cells"][i]["source"] += f"\n\n{SAID}"


def at_the_top_of_the_next_cell(nb, key):
    i = at(nb, key) + 1
    if i == len(nb["cells"]):
        nb["cells"].append(text(SAID))
    else:
        nb["cells"][i]["source"] = f"{SAID}\n\n{nb['cells'][i]['source']}"


def under_the_next_heading(nb, key):
    later = [i for i in range(at(nb, key), len(nb["cells"])) if HEADING.search(nb["cells"][i]["source"])]
    if later:
        nb["cells"][later[0]]["source"] += f"\n\n{SAID}"
    else:
        nb["cells"].append(text(SAID))


def with_the_whole_exercise_gone(nb, key):
    i, end = heading(nb, key), at(nb, key) + 1
    while end < len(nb["cells"]) and not HEADING.search(nb["cells"][end]["source"]):
        end += 1
    nb["cells"][i:end] = [text(SAID)]


def without_any_metadata(nb, key):
    nb["cells"][at(nb, key)]["source"] = SAID
    bare(nb)


def below_the_cell_without_any_metadata(nb, key):
    below_the_cell(nb, key)
    bare(nb)


def in_the_statement_without_any_metadata(nb, key):
    merged_with_the_statement(nb, key)
    bare(nb)


def split_by_an_editor_that_keeps_one_metadata(nb, key):
    i = at(nb, key)
    nb["cells"].insert(i + 1, text(SAID))
    nb["cells"][i]["source"] = "> YOUR ANSWER HERE"


def under_a_comment(nb, key):
    nb["cells"][at(nb, key)]["source"] = "<!-- to do -->"
    below_the_cell(nb, key)


def with_a_quotation(nb, key):
    lines = nb["cells"][heading(nb, key)]["source"].split("\n")
    nb["cells"].insert(at(nb, key) + 1, text("\n".join(f"> {line}" for line in lines) + f"\n\n{SAID}"))


def bare(nb):
    for c in nb["cells"]:
        c["metadata"] = {}
        c.pop("id", None)
    nb["metadata"], nb["nbformat_minor"] = {}, 4


def number(key) -> str:
    return "{}.{}".format(*map(int, re.findall(r"\d+", key)[:2]))


PLACES = [
    below_the_cell, below_the_statement, in_two_cells, before_the_next_heading, in_place_of_the_cell, below_an_emptied_cell,
    below_a_copy_of_the_cell, as_a_copy_above_an_emptied_one, in_a_code_cell, in_a_comment_of_code, in_a_raw_cell, in_the_statement,
    in_the_last_line_of_the_statement, merged_with_the_statement, in_an_own_statement, above_the_heading, at_the_end_of_the_notebook,
    at_the_top_of_the_notebook, in_the_cell_above_the_heading, in_the_next_cell, at_the_top_of_the_next_cell, under_the_next_heading,
    with_the_whole_exercise_gone, without_any_metadata, below_the_cell_without_any_metadata, in_the_statement_without_any_metadata,
    split_by_an_editor_that_keeps_one_metadata, under_a_comment, with_a_quotation,
]  # fmt: skip


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


def test_there_are_some():
    assert len(ALL) >= 5 and len({topic for topic, _ in ALL}) >= 5


@pytest.mark.sample(quick=1, kind="put")
@pytest.mark.parametrize("put", PLACES, ids=lambda f: f.__name__)
@pytest.mark.parametrize(("topic", "key"), ALL)
def test_a_person_decides(topic, key, put):
    nb = one(topic)
    put(nb, key)
    cell, grade, notes, made = found(nb, RELEASED[topic], key)
    assert grade is None, "nobody would have seen it"
    assert SAID in cell.source and not cell.metadata.released
    assert len(notes) == 1
    others = [c for c in made.cells if c.cell_type == "markdown" and role(c) == "answer" and c.id != key]
    assert all(determine_grade(c)[0] == 0 for c in others)


def untouched(nb, key):
    pass


def a_comment_only(nb, key):
    nb["cells"].insert(at(nb, key) + 1, text("<!-- I do not know -->\n\n<!-- nor\nhere -->"))


def a_quotation_only(nb, key):
    lines = nb["cells"][heading(nb, key)]["source"].split("\n")
    nb["cells"].insert(at(nb, key) + 1, text("\n".join(f"> {line}" for line in lines)))


def a_copy_of_the_statement(nb, key):
    nb["cells"].insert(at(nb, key), text(nb["cells"][heading(nb, key)]["source"]))


def a_split_statement(nb, key):
    i = heading(nb, key)
    first, middle, rest = nb["cells"][i]["source"].rpartition("\n")
    nb["cells"][i]["source"] = first
    nb["cells"].insert(i + 1, text(rest))


def empty_cells(nb, key):
    nb["cells"][at(nb, key) + 1 : at(nb, key) + 1] = [text(""), text(" \n\n"), text("---"), text("", "code")]


def a_copy_of_the_empty_cell(nb, key):
    nb["cells"].insert(at(nb, key), text("YOUR ANSWER HERE"))


def the_cell_deleted(nb, key):
    del nb["cells"][at(nb, key)]


def all_metadata_lost(nb, key):
    bare(nb)


def code_in_other_exercises(nb, key):
    nb["cells"].insert(2, text("x = 1", "code"))
    nb["cells"].insert(2, text("My notes for the exam."))


NOTHING = [
    untouched, a_comment_only, a_quotation_only, a_copy_of_the_statement, a_split_statement, empty_cells, a_copy_of_the_empty_cell,
    the_cell_deleted, all_metadata_lost, code_in_other_exercises,
]  # fmt: skip


@pytest.mark.sample(quick=1, kind="put")
@pytest.mark.parametrize("put", NOTHING, ids=lambda f: f.__name__)
@pytest.mark.parametrize(("topic", "key"), ALL)
def test_nothing_is_written(topic, key, put):
    nb = one(topic)
    put(nb, key)
    cell, grade, notes, _ = found(nb, RELEASED[topic], key)
    assert (grade, notes, cell.source) == (0, [], "YOUR ANSWER HERE")


def test_a_filled_cell_counts_and_other_text_stays():
    topic, key = ALL[0]
    nb = one(topic)
    nb["cells"][at(nb, key)]["source"] = "Memory."
    below_the_cell(nb, key)
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
    nb["cells"][i : i + 3] = [
        nb["cells"][i] | {"source": f"First.\n\n{''.join(nb['cells'][i + 1]['source'])}\n\nSecond."}
    ]
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
