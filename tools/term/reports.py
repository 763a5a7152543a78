"""Students whose hand-ins are what public reports describe, of nbgrader, otter and the platforms that use them.

Each function makes, from a notebook with all answers, the files of one student. The answers are right unless the report is
about work that is not, so what is lost is lost on the way.
"""

import base64
import copy
import json
from collections.abc import Callable
from dataclasses import dataclass

from tests.autograder.attacks.edits import cell, code, grade_id, graded, nbformat_3, typed
from tests.autograder.attacks.kinds import POINTS, RIGHT, filled

NAME = "exercises.ipynb"
WRITTEN = "The slowest transfer: memory, network or latency."
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@dataclass(frozen=True)
class Report:
    """One student: what was reported where, and what has to come of it."""

    source: str  # repository#number, on GitHub
    change: Callable[[dict], dict | None]  # of the notebook, in place; or the files instead
    lost: tuple[str, ...] = ()  # exercises that are not answered
    read: bool = True  # the written answer waits for a person
    refused: str = ""  # what the sentence says where nothing can be graded
    beside: str = ""  # the notebook's name, where one that nobody touched has the right one

    @property
    def name(self) -> str:
        return self.change.__name__

    @property
    def worth(self) -> dict[str, float]:
        return {e: 0.0 if e in self.lost or self.refused else p for e, p in POINTS.items()}

    def files(self, released: dict) -> dict[str, bytes]:
        """What lies in the student's folder."""
        nb = filled(released, RIGHT | {"ch01-q03": WRITTEN})
        made = self.change(nb) or {self.beside or NAME: dumped(nb)}
        return ({NAME: dumped(released)} if self.beside else {}) | made


REPORTS: list[Report] = []


def report(source: str, **expected):
    """A report; what is expected of it where that is not "everything graded, and the text before a person"."""

    def noted(change):
        REPORTS.append(Report(source, change, **expected))
        return change

    return noted


def dumped(nb: dict) -> bytes:
    return json.dumps(nb).encode()


def at(nb: dict, name: str) -> int:
    return nb["cells"].index(cell(nb, name))


def text(source: str) -> dict:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


# -- cells copied, deleted, changed


@report("jupyter/nbgrader#1083")
def cells_copied_with_their_metadata(nb):
    for c in graded(nb):
        nb["cells"].insert(nb["cells"].index(c), copy.deepcopy(c))


@report("jupyter/nbgrader#108")
def answer_copied_and_filled_in_twice(nb):
    first = copy.deepcopy(cell(nb, "ch01-q01")) | {"source": "def seconds(V, W):\n    return V * W"}
    nb["cells"].insert(at(nb, "ch01-q01"), first)


@report("TU-Wien-dataLAB/grader-service#51")
def own_cells_made_by_copying_a_check(nb):
    nb["cells"].append(copy.deepcopy(cell(nb, "ch01-q01-check")) | {"source": "seconds(8, 2)"})


@report("jupyter/nbgrader#1682")
def checks_deleted(nb):
    nb["cells"] = [c for c in nb["cells"] if not grade_id(c).endswith("-check")]


@report("TU-Wien-dataLAB/grader-service#169")
def one_check_deleted_after_editing_its_metadata(nb):
    cell(nb, "ch01-q06-check")["metadata"]["deletable"] = True
    del nb["cells"][at(nb, "ch01-q06-check")]


@report("jupyter/nbgrader#1941")
def answers_turned_into_markdown_and_cells_inserted(nb):
    for name in ("ch01-q01", "ch01-q05"):
        typed(cell(nb, name), "markdown")
        nb["cells"].insert(at(nb, name), code("print('mine')"))


@report("jupyter/nbgrader#92")
def checks_turned_into_markdown(nb):
    for c in graded(nb):
        typed(c, "markdown")


@report("jupyter/nbgrader#981")
def answer_split_in_two(nb):
    i = at(nb, "ch01-q02")
    second = copy.deepcopy(nb["cells"][i]) | {"source": "print(longer(1, 2))"}
    nb["cells"].insert(i + 1, second)


# -- written answers in other places


@report("jupyter/nbgrader#424")
def text_retyped_without_metadata(nb):
    nb["cells"][at(nb, "ch01-q03")] = text(WRITTEN)


@report("jupyter/nbgrader#1546")
def text_in_an_added_cell(nb):
    i = at(nb, "ch01-q03")
    nb["cells"][i]["source"] = "YOUR ANSWER HERE"
    nb["cells"].insert(i, text(WRITTEN))


@report("moorepants/resonance#109")
def text_in_a_cell_below(nb):
    i = at(nb, "ch01-q03")
    nb["cells"][i]["source"] = "YOUR ANSWER HERE"
    nb["cells"].insert(i + 1, text(WRITTEN))


@report("jupyter/nbgrader#950")
def text_with_a_picture(nb):
    written = cell(nb, "ch01-q03")
    written["source"] = "![figure.png](attachment:figure.png)"
    written["attachments"] = {"figure.png": {"image/png": base64.b64encode(PICTURE).decode()}}


# -- metadata, formats, kernels


@report("jupyter/nbgrader#1398")
def notebook_without_any_metadata(nb):
    for c in nb["cells"]:
        c["metadata"] = {}
        c.pop("id", None)
    nb["nbformat_minor"] = 4


@report("jupyter/nbgrader#916")
def metadata_of_an_old_schema(nb):
    for c in nb["cells"]:
        if mine := c["metadata"].get("nbgrader"):
            mine.pop("task", None)
            mine["schema_version"] = 1


@report("ucbds-infra/otter-grader#340")
def cell_ids_in_format_4_4(nb):
    nb["nbformat_minor"] = 4


@report("jupyter/nbformat#73")
def unknown_properties_of_another_editor(nb):
    for c in nb["cells"]:
        c["outputExpanded"] = False


@report("jupyter/nbgrader#883")
def format_3(nb):
    return {NAME: dumped(nbformat_3(nb))}


@report("jupyter/nbgrader#417")
def kernel_of_anaconda(nb):
    nb["metadata"]["kernelspec"] = {"name": "Python [root]", "display_name": "Python [root]", "language": "python"}


@report("jupyter/nbgrader#1375")
def kernel_of_an_environment(nb):
    nb["metadata"]["kernelspec"] = {"name": "conda-env-mne-py", "display_name": "mne", "language": "python"}


# -- files


@report("ucbds-infra/otter-grader#433")
def downloaded_a_second_time(nb):
    return {"exercises (1).ipynb": dumped(nb)}


@report("jupyter/nbgrader#1302")
def named_after_the_student(nb):
    return {"WMS q3.ipynb": dumped(nb)}


@report("earthlab/abc-classroom#88")
def name_added_to_the_name(nb):
    return {"exercises-emmy-noether.ipynb": dumped(nb)}


@report("jupyter/nbgrader#1219")
def another_notebook_beside_it(nb):
    return {NAME: dumped(nb), "formulae.ipynb": dumped(nb | {"cells": [text("E = mc²")]})}


@report("ucbds-infra/otter-grader#722", beside="exercises-Copy1.ipynb")
def worked_in_a_copy(nb):
    """The file with the right name is as it was released."""


@report("jupyter/nbgrader#1234")
def files_of_the_file_manager(nb):
    return {NAME: dumped(nb), "desktop.ini": b"[.ShellClassInfo]\r\n", ".DS_Store": b"\0\0\0\1Bud1"}


@report("jupyter/help#67", refused="not a notebook", read=False)
def page_of_the_browser_saved_as_a_notebook(nb):
    return {NAME: b"<!DOCTYPE HTML>\n<html>\n<head><title>IPython Notebook</title></head></html>"}


@report("vivek3141/dl-visualization#2", refused="empty", read=False)
def file_of_no_bytes(nb):
    return {NAME: b""}


# -- cells that do not do what a grader waits for


@report("ucbds-infra/otter-grader#469", lost=("ch01-q01",))
def loop_that_never_ends(nb):
    cell(nb, "ch01-q01")["source"] = "def seconds(V, W):\n    while True:\n        pass\n    return V / W"


@report("jupyter/nbgrader#427", lost=("ch01-q02",))
def loop_that_fills_the_memory(nb):
    cell(nb, "ch01-q02")["source"] = (
        "def longer(a, b):\n    kept = []\n    while True:\n        kept.append([0] * 10**6)"
    )


@report("jupyter/nbgrader#915")
def own_simulation_that_takes_too_long(nb):
    nb["cells"].insert(at(nb, "ch01-q02"), code("import time\nfor day in range(10**6):\n    time.sleep(1)"))


@report("sagemathinc/cocalc#6137")
def magic_that_is_not_installed(nb):
    nb["cells"].insert(3, code("import qiskit.tools.jupyter\n%qiskit_version_table"))


@report("jupyter/nbgrader#1359")
def widgets(nb):
    nb["cells"].insert(3, code("from ipywidgets import widgets\nwidgets.RadioButtons(options=['pepperoni'])"))
    nb["metadata"]["widgets"] = {"application/vnd.jupyter.widget-state+json": {"version_major": 2}}


@report("jupyter/nbgrader#70")
def debugger_and_input_left_in(nb):
    nb["cells"].insert(3, code("name = input('Your name? ')"))
    nb["cells"].insert(4, code("%debug"))


@report("ipython/ipython#6516")
def printing_without_end(nb):
    nb["cells"].insert(at(nb, "ch01-q02"), code("while True:\n    print('again')"))


@report("jupyter/notebook#3572")
def values_too_large_to_show(nb):
    nb["cells"].insert(3, code("[[[0.5] * 224] * 224] * 3"))
