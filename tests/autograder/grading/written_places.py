"""Where students write an answer in words, other than into its cell, and what is none: each changes a notebook in place."""

import copy
import re

from autograder.making.exercises import HEADING
from tests.autograder.attacks.edits import named

SAID = "Latency: 42 transfers wait for one another."
SPLIT = "Memory"


def text(source, kind="markdown", **more):
    ran = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {}, "source": source} | ran | more


def at(nb, key) -> int:
    return next(i for i, c in enumerate(nb["cells"]) if c.get("id") == key)


def heading(nb, key) -> int:
    return max(i for i, c in enumerate(nb["cells"][: at(nb, key)]) if HEADING.search(c["source"]))


def in_two_cells(nb, key):
    nb["cells"].insert(at(nb, key) + 1, text("And more."))
    nb["cells"].insert(at(nb, key), text(SAID))


def before_the_next_heading(nb, key):
    later = (i for i in range(at(nb, key), len(nb["cells"])) if HEADING.search(nb["cells"][i]["source"]))
    nb["cells"].insert(next(later, len(nb["cells"])), text(SAID))


def in_place_of_the_cell(nb, key):
    nb["cells"][at(nb, key)] = text(SAID)


def below_an_emptied_cell(nb, key):
    nb["cells"][at(nb, key)]["source"] = " \n"
    inserted("cell", SAID)(nb, key)


def below_a_copy_of_the_cell(nb, key):
    i = at(nb, key)
    nb["cells"].insert(i, copy.deepcopy(nb["cells"][i]) | {"id": "copy"})
    nb["cells"].insert(i + 1, text(SAID))


def as_a_copy_above_an_emptied_one(nb, key):
    i = at(nb, key)
    nb["cells"].insert(i, copy.deepcopy(nb["cells"][i]) | {"id": "copy", "source": SAID})
    nb["cells"][i + 1]["source"] = ""


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


def in_the_cell_above_the_heading(nb, key):
    i = heading(nb, key) - 1
    if nb["cells"][i]["cell_type"] == "markdown":
        nb["cells"][i]["source"] += f"\n\n{SAID}"
    else:
        nb["cells"].insert(i + 1, text(f"{number(key)} {SAID}"))


def in_the_next_cell(nb, key, order=1):
    i = at(nb, key) + 1
    if i == len(nb["cells"]):
        nb["cells"].append(text(SAID))
    else:
        nb["cells"][i]["source"] = "\n\n".join([nb["cells"][i]["source"], SAID][::order])


def at_the_top_of_the_next_cell(nb, key):
    in_the_next_cell(nb, key, order=-1)


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


def split_by_an_editor_that_keeps_one_metadata(nb, key):
    i = at(nb, key)
    nb["cells"].insert(i + 1, text(SAID))
    nb["cells"][i]["source"] = "> YOUR ANSWER HERE"


def under_a_comment(nb, key):
    nb["cells"][at(nb, key)]["source"] = "<!-- to do -->"
    inserted("cell", SAID)(nb, key)


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


def inserted(place, source, kind="markdown"):
    """A cell more: behind or above the answer's, behind or above the heading's, or at an end of the notebook."""

    def put(nb, key):
        cell, statement = at(nb, key), heading(nb, key)
        i = {"cell": cell + 1, "above": cell, "statement": statement + 1, "heading": statement}.get(place, place)
        nb["cells"].insert(i, text(source.replace("N.N", number(key)), kind))

    return put


def in_place(source):
    def put(nb, key):
        nb["cells"][at(nb, key)]["source"] = source

    return put


def then_bare(put):
    """And the metadata of all cells lost."""
    return lambda nb, key: (put(nb, key), bare(nb))


END = 10**6  # behind the last cell
PLACES = {
    "below_the_cell": inserted("cell", SAID),
    "below_the_statement": inserted("statement", SAID),
    "in_a_code_cell": inserted("cell", SAID, "code"),
    "in_a_comment_of_code": inserted("cell", f"# {SAID}", "code"),
    "in_a_raw_cell": inserted("cell", SAID, "raw"),
    "above_the_heading": inserted("heading", f"To N.N: {SAID}"),
    "at_the_end_of_the_notebook": inserted(END, f"**Exercise N.N.** {SAID}"),
    "at_the_top_of_the_notebook": inserted(0, f"N.N) {SAID}"),
    "without_any_metadata": then_bare(in_place(SAID)),
    "below_the_cell_without_any_metadata": then_bare(inserted("cell", SAID)),
    "in_the_statement_without_any_metadata": then_bare(merged_with_the_statement),
} | named(
    in_two_cells, before_the_next_heading, in_place_of_the_cell, below_an_emptied_cell, below_a_copy_of_the_cell,
    as_a_copy_above_an_emptied_one, in_the_statement, in_the_last_line_of_the_statement, merged_with_the_statement,
    in_an_own_statement, in_the_cell_above_the_heading, in_the_next_cell, at_the_top_of_the_next_cell, under_the_next_heading,
    with_the_whole_exercise_gone, split_by_an_editor_that_keeps_one_metadata, under_a_comment, with_a_quotation,
)  # fmt: skip


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


def code_in_other_exercises(nb, key):
    nb["cells"].insert(2, text("x = 1  # bytes\n# for y in range(x):\n#     x += y * 1.5e9 + 3 * x\n'seconds'", "code"))
    in_another_answer("# return bytes_moved / bandwidth + latency")(nb, key)


def in_another_answer(said):
    """In the code of the first exercise, which is far from the one in words."""

    def put(nb, key):
        code = (c for c in nb["cells"] if c["cell_type"] == "code")
        first = next(c for c in code if c["metadata"].get("nbgrader", {}).get("solution"))
        first["source"] = first["source"].replace("raise NotImplementedError()", f"{said}\n    return 1")

    return put


def below_another_statement(nb, key):
    nb["cells"][next(i for i, c in enumerate(nb["cells"]) if HEADING.search(c["source"]))]["source"] += f"\n\n{SAID}"


STRAY = {
    "at_the_top": inserted(0, SAID),
    "in_code_at_the_top": inserted(2, SAID, "code"),
    "printed_at_the_top": inserted(2, f"print({SAID!r})", "code"),
    "in_another_exercise": lambda nb, key: nb["cells"].insert(at(nb, f"{key[:4]}-q02"), text(SAID)),
    "in_a_comment_of_another_answer": in_another_answer(f"# {SAID}"),
    "in_a_comment_of_two_lines": in_another_answer("# Latency: 42 transfers\n    # wait for one another."),
    "in_a_string_of_another_answer": in_another_answer(f'"""{SAID}"""'),
} | named(below_another_statement)  # fmt: skip
"""Where nothing says for which answer it is meant."""

NOTHING = {
    "untouched": lambda nb, key: None,
    "a_comment_only": inserted("cell", "<!-- I do not know -->\n\n<!-- nor\nhere -->"),
    "a_copy_of_the_empty_cell": inserted("above", "YOUR ANSWER HERE"),
    "the_cell_deleted": lambda nb, key: nb["cells"].pop(at(nb, key)),
    "all_metadata_lost": lambda nb, key: bare(nb),
} | named(
    a_quotation_only, a_copy_of_the_statement, a_split_statement, empty_cells, code_in_other_exercises,
)  # fmt: skip
