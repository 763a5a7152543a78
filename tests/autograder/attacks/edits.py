"""What can happen to a notebook as a file of JSON: to win by it, or by accident. Each function changes a notebook in place,
or returns another one (or a text, or bytes).

The same edit is made to wrong answers, which must win nothing, and to right ones, which must lose nothing.
"""

import copy
import json


def named(*functions):
    return {f.__name__: f for f in functions}


def graded(nb, suffix="-check"):
    return [c for c in nb["cells"] if grade_id(c).endswith(suffix)]


def grade_id(cell) -> str:
    return cell["metadata"].get("nbgrader", {}).get("grade_id", "")


def cell(nb, name):
    return next(c for c in nb["cells"] if grade_id(c) == name)


def answers(nb):
    return [c for c in nb["cells"] if c["metadata"].get("nbgrader", {}).get("solution")]


def marks(nb, **changes):
    for c in nb["cells"]:
        if "nbgrader" in c["metadata"]:
            c["metadata"]["nbgrader"] |= changes


def code(source, **metadata):
    return {"cell_type": "code", "metadata": metadata, "source": source, "outputs": [], "execution_count": None}


def typed(c, kind):
    c["cell_type"] = kind
    for key in ("outputs", "execution_count"):
        c.pop(key, None)
    if kind == "code":
        c |= {"outputs": [], "execution_count": None}


# -- tests, tags, points


def tag_skip_execution(nb):
    for c in nb["cells"]:
        c["metadata"]["tags"] = ["skip-execution"]


def meta_solution_true(nb):
    for c in graded(nb):
        c["metadata"]["nbgrader"] |= {"solution": True, "locked": False}
        c["source"] = "9.0"


def meta_points_odd(nb):
    for c, points in zip(graded(nb), ("9" * 400, -5, None, [9], True)):
        c["metadata"]["nbgrader"]["points"] = points


def edited_tests(nb):
    for c in graded(nb):
        c["source"] = "9.0"


def edited_setup(nb):
    for c in nb["cells"]:
        if grade_id(c).endswith("-setup") or "import check" in c["source"]:
            fake = "report = run = staticmethod(lambda *a, **k: 9)\n    Answer = Program = lambda *a, **k: check"
            c["source"] = f"class check:\n    {fake}"


def stored_outputs(nb):
    for c in graded(nb):
        result = {"output_type": "execute_result", "data": {"text/plain": "9.0"}, "metadata": {}, "execution_count": 1}
        c["outputs"] = [result]
        c["execution_count"] = 1
        c["metadata"]["nbgrader"] |= {"auto_score": 9, "manual_score": 9, "score": 9, "checksum": "0" * 32}


def ids_of_the_next(nb):
    ids = [c["id"] for c in nb["cells"]]
    for c, other in zip(nb["cells"], ids[1:] + ids[:1]):
        c["id"] = other


def own_cells_that_collide(nb):
    nb["cells"] = [x for i, c in enumerate(nb["cells"]) for x in (c, code("0", **{}) | {"id": f"own-{i}"})]
    nb["cells"] += [code("9.0") | {"id": "not-graded"}, code("9.0") | {"id": "ch01-q01-check"}]


def grade_ids_of_checks(nb):
    """Own cells that say that they are the checks, the answers that they are nothing."""
    for i in range(1, 8):
        mark = {"grade_id": f"ch01-q0{i}-check", "grade": True, "points": 9, "schema_version": 3}
        nb["cells"].append(code("9.0", nbgrader=mark))


# -- metadata and the format


def schema_too_old(nb):
    for c in nb["cells"]:
        if "nbgrader" in c["metadata"]:
            c["metadata"]["nbgrader"].pop("schema_version")
            c["metadata"]["nbgrader"]["checksum"] = "x"


def metadata_and_ids_lost(nb):
    for c in nb["cells"]:
        c["metadata"] = {}
        c.pop("id", None)
    nb["metadata"], nb["nbformat_minor"] = {}, 4


def metadata_garbage(nb):
    for c, odd in zip(nb["cells"], ["nbgrader", [], None, 5, {"nbgrader": "x"}, {"nbgrader": [1]}, {"nbgrader": {"grade_id": 5}},
                                    {"nbgrader": {"grade_id": ["ch01-q01"]}}, {"tags": {"a": 1}}] * 9):  # fmt: skip
        c["metadata"] = odd
    nb["metadata"] = "none"


def kernelspec_changed(nb):
    nb["metadata"]["kernelspec"] = {"name": "../../evil", "display_name": "R", "language": "R"}
    nb["metadata"]["language_info"] = {"name": "R"}


def nbformat_3(nb):
    sheet = []
    for c in nb["cells"]:
        c = copy.deepcopy(c)
        if c["cell_type"] == "code":
            c["input"], c["language"] = c.pop("source"), "python"
            c["prompt_number"] = c.pop("execution_count", None)
        sheet.append(c)
    metadata = {"name": "exercises"} | nb["metadata"]
    return {"metadata": metadata, "nbformat": 3, "nbformat_minor": 0, "worksheets": [{"cells": sheet, "metadata": {}}]}


def widgets_and_attachments(nb):
    state = {"state": {"x": {"model_name": "<script>"}}}
    nb["metadata"]["widgets"] = {"application/vnd.jupyter.widget-state+json": state}
    for c in nb["cells"]:
        if c["cell_type"] == "markdown":
            c["attachments"] = {
                "x.png": {"image/svg+xml": "<svg onload=alert(1)>"},
                "../../x": {"text/html": "<script>"},
            }
            c["source"] += "\n\n![x](attachment:x.png)"


def outputs_of_10_mb(nb):
    cell(nb, "ch01-q01")["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["x" * 99 + "\n"] * 100_000}]
    cell(nb, "ch01-q02")["outputs"] = [{"output_type": "nothing known", "data": 5}]


def source_as_lines(nb):
    for c in nb["cells"]:
        c["source"] = c["source"].splitlines(keepends=True)


def source_of_odd_types(nb):
    nb["cells"] += [code(odd) for odd in (5, None, True, {"a": 1}, [1, None, ["x"]], 1e999)]
    nb["cells"] += [5, None, "cell", [], {}, {"cell_type": 5}, {"cell_type": "code"}]
    nb["cells"].append({"cell_type": ["code"], "source": []})


def unknown_cell_types(nb):
    nb["cells"].insert(3, {"cell_type": "heading", "level": 1, "source": "# x", "metadata": {}})
    nb["cells"].insert(3, {"cell_type": "<script>", "source": "9", "metadata": {}})


def xss_markdown(nb):
    live = "<script>alert(1)</script><img src=x onerror=alert(2)>[x](javascript:alert(3))<svg><a href='javascript:alert(4)'>"
    text = {"cell_type": "markdown", "metadata": {"released": True, "deletable": False}, "source": live}
    nb["cells"] = [dict(text), *nb["cells"], dict(text), dict(text, cell_type="raw", metadata={"format": "text/html"})]
    cell(nb, "ch01-q03")["source"] = live


def script_in_names(nb):
    nb["metadata"] |= {"title": "<script>alert(1)</script>", "authors": [{"name": "<script>alert(2)</script>"}]}
    for c in nb["cells"]:
        c["metadata"]["name"] = c["metadata"]["collapsed"] = "<script>alert(3)</script>"
    nb["cells"].append(code("1", **{}) | {"id": '"><script>alert(4)</script>'})


def html_magic(nb):
    nb["cells"].append(code("%%html\n<script>alert(1)</script>"))
    nb["cells"].append(code("%%javascript\nalert(2)"))


def unknown_keys(nb):
    nb["extra"] = {"__proto__": 1}
    for c in nb["cells"]:
        c["outputs2"], c["trusted"] = [], True


def duplicated_keys(nb):
    """The last of two keys counts in JSON, as everywhere."""
    text = json.dumps(nb)
    return text[:-1] + ', "nbformat": 4, "metadata": {}, "cells": ' + json.dumps(nb["cells"]) + "}"


# -- encodings


def carriage_returns(nb):
    for c in nb["cells"]:
        c["source"] = c["source"].replace("\n", "\r\n")
    return json.dumps(nb, indent=1).replace("\n", "\r\n").encode()


def lone_surrogates(nb):
    nb["cells"].append(code("x = '\ud800\udfff\udc00'"))
    nb["cells"].append({"cell_type": "markdown", "metadata": {"name": "\udfff"}, "source": "\ud83d and \ude00"})


def null_characters(nb):
    nb["cells"].append(code("x = 1\0\0"))
    nb["cells"].append({"cell_type": "markdown", "metadata": {}, "source": "a\0b\x01\x1b[2J"})


# -- in one line


def all_typed(nb, kind):
    for c in graded(nb):
        typed(c, kind)


def without(nb, suffix):
    nb["cells"] = [c for c in nb["cells"] if not grade_id(c).endswith(suffix)]


def more_cells(nb, cells):
    nb["cells"] += copy.deepcopy(cells)


SHORT = {
    "tests_as_markdown": lambda nb: all_typed(nb, "markdown"),
    "deleted_graded_cells": lambda nb: without(nb, "-check"),
    "deleted_setup": lambda nb: without(nb, "-setup"),
    "duplicate_cell_ids": lambda nb: more_cells(nb, nb["cells"]),
    "duplicate_tests": lambda nb: more_cells(nb, [code("9.0", **c["metadata"]) for c in graded(nb)]),
    "same_answer_thousand_times": lambda nb: more_cells(nb, [cell(nb, "ch01-q02")] * 1000),
    "tests_moved_before_answers": lambda nb: nb["cells"].sort(key=lambda c: not grade_id(c).endswith("-check")),
    "reversed_cells": lambda nb: nb["cells"].reverse(),
    "nbformat_99": lambda nb: nb.update(nbformat=99, nbformat_minor=0),
    "zeros_behind_it": lambda nb: json.dumps(nb).encode() + bytes(4096),
}

EDITS = SHORT | named(
    tag_skip_execution, meta_solution_true, meta_points_odd, edited_tests, edited_setup, stored_outputs, ids_of_the_next,
    own_cells_that_collide, grade_ids_of_checks, schema_too_old, metadata_and_ids_lost, metadata_garbage, kernelspec_changed,
    nbformat_3, widgets_and_attachments, outputs_of_10_mb, source_as_lines, source_of_odd_types, unknown_cell_types, xss_markdown,
    script_in_names, html_magic, unknown_keys, duplicated_keys, carriage_returns, lone_surrogates, null_characters,
)  # fmt: skip
