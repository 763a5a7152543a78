"""A right answer passes in any kernel: one whose set-up was not run, one whose names mean something else, and JupyterLab's own."""

import builtins
import os
import re
import runpy
import time
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from jupyter_client.manager import start_new_kernel

from autograder.engine.cell_names import defined, free_names
from autograder.making import in_process_grading as trial
from autograder.making.exercises import meta
from autograder.places import ROOT, Tree
from helpers.check import answer_checks, notebook_cells, solutions

TOPICS = {path.stem[:4]: path.stem for path in Tree().exercises}


@cache
def chapter(topic: str) -> list:
    return [c for c in trial.solved(TOPICS[topic]).cells if c.cell_type == "code" and meta(c).get("grade_id")]


# Read from the text: to make the notebooks takes seconds of each process that collects tests.
GRADED = re.compile(r"grade_id: (\S+), solution: false, grade: true")
CHECKS = sorted(g for path in Tree().exercises for g in GRADED.findall(path.read_text(encoding="utf-8")))


def cells(grade_id: str) -> tuple[list, object]:
    """The answers that a check reads, those first that they build on, and the check."""
    check = next(c for c in chapter(grade_id[:4]) if meta(c)["grade_id"] == grade_id)
    answers = [c for c in chapter(grade_id[:4]) if meta(c)["solution"] and not meta(c)["grade"]]
    read, more = set(), free_names(check.source)
    while more - read:
        read |= more
        more = set().union(*(free_names(c.source) for c in answers if defined(c.source) & read))
    return [c for c in answers if defined(c.source) & read], check


def run(cell, names: dict) -> tuple:
    """(value, what was said) as a kernel runs the cell."""
    value, said, fault = trial.execute(cell.source, f"<{meta(cell)['grade_id']}>", names)
    return value, said * (not fault) + fault


@pytest.mark.sample(quick=1, slow=8, draw=3, kind="others")
@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("grade_id", CHECKS)
def test_the_right_answer_passes_and_counts_no_try(grade_id, others, monkeypatch):
    (answers, check), (given, _) = cells(grade_id), notebook_cells.given(grade_id.replace("-", "_"))
    names = dict(given) if others else {"__name__": "__main__"}
    for module in (answer_checks, notebook_cells):
        monkeypatch.setattr(module, "notebook", lambda: SimpleNamespace(user_ns=names))
    for module, known in ((solutions, "_tries"), *((notebook_cells, n) for n in ("_broken", "_gone", "_makers"))):
        monkeypatch.setattr(module, known, {})
    if any(failed := [said for cell in answers if (said := run(cell, names)[1])]):  # a signature needs the set-up,
        assert not others and all("NameError" in said for said in failed)
        assert run(check, names)[1].endswith("Nothing is judged.\n")  # which the check brings
        assert [said for cell in answers if (said := run(cell, names)[1])] == []
    if others:
        own = {n: value for n, value in names.items() if given.get(n) is not value and n[0] != "_"}
        names = {n: 7 for n in [*given, *dir(builtins), "helpers", "a", "f"] if n[0] != "_"} | own
        assert names["math"] == names["sum"] == names["check"] == 7
    value, said = run(check, names)
    assert value == meta(check)["points"] and solutions._tries == {}, said


@contextmanager
def lab(folder):
    """A function that runs a cell, stops it after so many seconds if it is told so, and gives all that the cell put out."""
    with pytest.MonkeyPatch.context() as m:  # as JupyterLab's server starts it
        m.delenv("PYTHONSTARTUP", raising=False)
        runpy.run_path(str(ROOT / "autograder/jupyter_lab_config.py"), {"get_config": MagicMock})
        manager, client = start_new_kernel(cwd=str(folder), env={**os.environ, "PYTHONPATH": str(ROOT)})

    def run(source: str, cell: str, stop: float = 0) -> str:
        content = dict(code=source, silent=False, store_history=True, user_expressions={}, allow_stdin=True)
        message, said = client.session.msg("execute_request", content, metadata={"cellId": cell}), ""
        client.shell_channel.send(message)
        if stop:
            time.sleep(stop)
            manager.interrupt_kernel()
        while True:
            reply = client.get_iopub_msg(timeout=120)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                got = reply["content"]
                if got.get("execution_state") == "idle":
                    return said
                said += got.get("text", "") + str(got.get("data", {}).get("text/plain", "")) + got.get("evalue", "")

    try:
        yield run
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.mark.slow("starts kernels")
@pytest.mark.parametrize("grade_id", ["ch01-q02-check", "ch02-q18-all-check", "ch05-q06-check"])
def test_a_right_answer_passes_where_nothing_else_has_run(grade_id, tmp_path):
    (answers, check), progress = cells(grade_id), tmp_path / "progress.json"
    with lab(tmp_path) as run:
        for _ in range(2):  # a signature may need the set-up, which the check brings
            failed = "".join(run(c.source, c.id) for c in answers)
            said = run(check.source, grade_id)
            first = "is not defined" in failed and "The first cells of this notebook have not run: run them" in failed
            assert first and "Nothing is judged" in said and not progress.exists() or not failed
        points = f"{check.metadata.nbgrader.points:g}"
        assert f"{points} of {points} points" in said and '"tries": 0' in progress.read_text()


DOT = "def dot_intensity(N, bytes_each=2):\n    "
KINDS = {
    "def mine(N):\n    return N": "The cell that defined dot_intensity defines mine now; the check calls dot_intensity. Nothing",
    "# nothing": "defines nothing now; the check calls dot_intensity.",
    f"class A:\n    {DOT}    return 1": "defines A now",
    f"%%writefile mine.py\n{DOT}return 1": "begins with %%writefile now",
    f"{DOT}x = 1\n  return x": "ended with IndentationError",
    f"{DOT}return nothing": "return nothing`. If a cell above defines nothing, run that one first. Nothing is judged",
    f"{DOT}while N: pass": "has not ended after a minute, at line 2",
}
NEVER_ENDS = f"import jax\n{DOT}return jax.lax.while_loop(lambda x: x >= 0, lambda x: 0 * x + 1, 1.0)"


@pytest.mark.slow("starts a kernel")
def test_every_end_of_an_answer_has_a_sentence_and_counts_no_try(tmp_path):
    with lab(tmp_path) as run:
        right, check = f"{DOT}return (2 * N - 1) / (bytes_each * (2 * N + 1))", cells("ch01-q01-check")[1].source
        run("import helpers.check.raised as t\nt.ENDS = 4", "other")

        def judged(wrong, says):
            assert run(f"%%time\n{right}", "ch01-q01") and "1 of 1 points" in run(check, "ch01-q01-check")
            run(wrong, "ch01-q01")
            said = " ".join(run(check, "ch01-q01-check").split())
            assert says in said and "is judged" in said, said

        for wrong, says in KINDS.items():
            judged(wrong, says)
        run(f"{DOT}while N: pass", "ch01-q01")
        said = run(check, "ch01-q01-check", stop=3)
        assert "running your function, 2 s, at line 2" in said and "You stopped this check, at line 2: `while N" in said
        # Last: what XLA never ends stays in the kernel, and whatever waits for one of its arrays waits for ever.
        judged(NEVER_ENDS, "cannot be stopped, at line 3")
        assert '"tries": 0' in (tmp_path / "progress.json").read_text()
