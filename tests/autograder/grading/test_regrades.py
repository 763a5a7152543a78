"""What decides a grade is known by its content: a change of it counts at the next grading, for whom it concerns, and is said."""

import dataclasses
import os
import random
import shutil
import subprocess
import sys

import nbformat
import pytest

from autograder import course, grade
from autograder.engine.importable_helpers import HELPERS, modules
from autograder.engine.run_submission import bundle
from autograder.grading import deciding_code, hidden_values, one_submission, records
from autograder.making import in_process_grading
from autograder.places import ROOT, SourceError, Tree
from tests.autograder import classes
from tests.autograder.classes import TOPIC, checks_run
from tests.autograder.grading.test_resume import POINTS, mend, scores

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.xdist_group("resume")]


def regrade(what, **how) -> tuple[dict[str, float], list[str]]:
    """Student -> points, and what the grading says of its changes."""
    said = []
    found = grade.grade(what, progress=False, show=lambda rows, changes: said.extend(changes.lines()), **how)
    return {r.student: r.total for r in found}, said


# -- the rule for late work

RULE = """
import pathlib
from nbgrader.plugins import BasePlugin
EXTENSIONS = pathlib.Path(__file__).with_name("extensions.csv")
class Rule(BasePlugin):
    def late_submission_penalty(self, student_id, score, total_seconds_late):
        more = 7 if EXTENSIONS.exists() and student_id in EXTENSIONS.read_text() else 0
        return max(0, 2 - more)
"""


@pytest.mark.parametrize("change", ["rule", "file that it reads", "score that it reads", "broken"])
def test_the_late_rule_is_asked_anew(graded, tmp_path, monkeypatch, change):
    """The class keeps its name; its file changes, one that it reads, or the score of which it takes a part."""
    name = f"rule_{change.replace(' ', '_')}"
    rule = tmp_path / f"{name}.py"
    rule.write_text(RULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    c = graded.config()
    c.AssignLatePenalties.plugin_class = f"{name}.Rule"
    monkeypatch.setattr(classes.Strict, "config", lambda self: c.copy())
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # two versions of one second look the same
    for student in ("ada", "bob"):
        classes.stamp(graded, student, "2030-02-02 12:00:00 UTC")
    scores(graded)
    assert classes.penalties(graded) == {"ada": 2, "bob": 2, "eve": 0} and checks_run()
    if change == "rule":
        rule.write_text(RULE.replace("max(0, 2 - more)", "1 if student_id == 'bob' else 2"))
    elif change == "file that it reads":
        rule.with_name("extensions.csv").write_text("bob,7 days\n")
    elif change == "score that it reads":
        rule.write_text(RULE.replace("max(0, 2 - more)", "score / 2"))
    else:
        rule.write_text(RULE.replace("max(0, 2 - more)", "1 / 0"))
    sys.modules.pop(name)  # as for another process
    now = {
        "rule": {"bob": 1},
        "file that it reads": {"bob": 0},
        "score that it reads": {"ada": 2.5, "bob": 1.5},
        "broken": {},
    }
    found, said = regrade(graded)
    assert classes.penalties(graded) == {"ada": 2, "bob": 2, "eve": 0} | now[change]
    assert checks_run() == dict.fromkeys(
        now[change] or ("ada", "bob"), set()
    )  # for the others nothing moves, and nothing is run
    assert {s: e[0] for s, e in classes.exports(graded).items()} == {
        s: POINTS[s] - p for s, p in classes.penalties(graded).items()
    }
    if change == "rule":
        assert said[1:] == [
            "  1: points that lateness costs",
            "since the last grading: 1 gained 1 point for the time of submission (bob).",
        ]
    if change == "score that it reads":
        with graded.gradebook() as book:
            book.find_grade("ch01-q02-check", "exercises", TOPIC, "ada").manual_score = 1
            book.db.commit()
        scores(graded)
        assert classes.penalties(graded)["ada"] == 1.5


# -- what verdicts depend on


@pytest.mark.parametrize(
    "what_changes", ["jax", "Python", "COURSE_SEED", "COURSE_SANDBOX", "the limits", "the secret", "check", "given"]
)
def test_each_thing_that_decides_is_named(graded, monkeypatch, what_changes):
    """And nothing else is: of a check its exercise, of versions and settings both values."""
    before = records.Decides(graded.assignment(), hidden_values.secret())
    known = records.Records(graded.root / ".grading" / TOPIC).load("ada")
    sent, named = graded.sent("ada"), what_changes
    assert records.reasons(before, sent, known) == []
    real = one_submission.metadata.version
    if what_changes == "jax":
        monkeypatch.setattr(one_submission.metadata, "version", lambda name: "99.1" if name == "jax" else real(name))
        named = f"jax 99.1 (was {real('jax')})"
    elif what_changes == "Python":
        named = f"Python 4.0 (was {one_submission.platform.python_version()})"
        monkeypatch.setattr(one_submission.platform, "python_version", lambda: "4.0")
    elif what_changes == "COURSE_SEED":
        monkeypatch.setenv("COURSE_SEED", "spring")
        named = "COURSE_SEED spring (was 0)"
    elif what_changes == "COURSE_SANDBOX":
        monkeypatch.setenv("COURSE_SANDBOX", "off")
        named = "COURSE_SANDBOX off (was on)"
    elif what_changes == "the limits":
        graded = dataclasses.replace(graded, timeout=9)
    elif what_changes == "the secret":
        monkeypatch.setenv("COURSE_SECRET", "another secret of the same length")
    else:
        nb = nbformat.read(graded.notebook("source"), as_version=4)
        cell = (
            classes.cell(nb, "ch01-q02-check")
            if what_changes == "check"
            else next(
                c
                for c in nb.cells
                if c.cell_type == "code" and c.metadata.nbgrader.locked and not c.metadata.nbgrader.grade
            )
        )
        cell.source += "\n# another"
        nbformat.write(nb, graded.notebook("source"))
        named = "exercise 1.2" if what_changes == "check" else "cells that the course gives"
    assert records.reasons(records.Decides(graded.assignment(), hidden_values.secret()), sent, known) == [named]


def test_code_that_decides_no_verdict_regrades_nobody(tmp_path):
    """In a copy of `helpers`, for every chapter: drawings, films and the planner are no matter, and what checks import is."""
    shutil.copytree(HELPERS, tmp_path / "helpers", ignore=shutil.ignore_patterns("__pycache__"))
    helpers, chance = tmp_path / "helpers", random.Random(os.environ.get("SEED", "0"))
    for path in Tree().exercises:
        full = bundle(in_process_grading.solved(path.stem))
        assert not [i for i, kind, source, _ in full.cells if kind == "check" and "plot." in source]
        before, imported = deciding_code.deciding_files(full, helpers), deciding_code.imported(full, helpers)
        others = sorted(modules(helpers).keys() - imported)
        assert {n.split(".")[1] for n in others} >= {"figures", "live", "plan", "plot"}
        for name in chance.sample(others, 5) + ["helpers.plan", "helpers.plot.charts"]:
            with open(modules(helpers)[name], "a") as file:
                file.write("\n# mended")
        assert deciding_code.deciding_files(full, helpers) == before
        for name in [*chance.sample(sorted(imported), 3), "helpers.check.compare", *full.helpers]:
            now, mended = deciding_code.deciding_files(full, helpers), modules(helpers)[name]
            with open(mended, "a") as file:
                file.write("\n# mended")
            assert records.differing(now, deciding_code.deciding_files(full, helpers)) == [
                mended.relative_to(tmp_path).as_posix()
            ]


LOADED = """
import sys
from unittest.mock import MagicMock
import helpers
helpers.plot = sys.modules["helpers.plot"] = MagicMock()
from helpers.check import compare
compare.CLOSED, compare._load = (), lambda jax: None  # no formula has to be closed, as in the checker
import nbformat
from autograder.making import in_process_grading
in_process_grading.judge(nbformat.reads(sys.stdin.read(), as_version=4))
print(*sorted(n for n in sys.modules if n.split(".")[0] == "helpers"))
"""


@pytest.mark.slow("runs a chapter's answers and checks")
@pytest.mark.sample(quick=0, slow=1)
@pytest.mark.parametrize("topic", [p.stem for p in Tree().exercises])
def test_all_that_a_run_imports_decides(topic):
    """What Python loads of `helpers` while our answers are judged and nothing can be drawn."""
    nb = in_process_grading.solved(topic)  # here: text is made of numbers, and so of all cost functions
    run = subprocess.run(
        [sys.executable, "-c", LOADED], input=nbformat.writes(nb), cwd=ROOT, check=True, capture_output=True, text=True
    )
    loaded = run.stdout.split()
    assert len(loaded) > 20
    assert {*loaded} - {deciding_code.DRAWS} <= deciding_code.imported(bundle(nb))


# -- what a regrade says, and when it is only asked


def test_a_dry_run_says_what_a_regrade_then_does(graded):
    """A check that passes nobody any more: who loses what, and not a byte is written before it is meant."""
    scores(graded), checks_run()
    mend(graded, "ch01-q02-check")
    before = {p: p.read_bytes() for p in graded.root.rglob("*") if p.is_file()}
    would, said = regrade(graded, dry=True)
    assert {p: p.read_bytes() for p in graded.root.rglob("*") if p.is_file()} == before
    assert would == {"ada": 2, "bob": 0, "eve": 0}
    assert said == [
        "graded or written again, and why:", "  3: exercise 1.2", "since the last grading: 2 lost 3 points in 1.2 (ada, bob).",
    ]  # fmt: skip
    assert regrade(graded) == (would, said)
    assert regrade(graded) == (would, [])


def test_what_a_stopped_grading_changed_is_said_by_the_next(graded, monkeypatch):
    mend(graded, "ch01-q02-check")
    with monkeypatch.context() as patch:
        patch.setattr(grade, "results", lambda run: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            regrade(graded)
    assert regrade(graded)[1] == ["since the last grading: 2 lost 3 points in 1.2 (ada, bob)."]


def test_points_of_an_exercise_change(graded):
    """More for those who have it, and another maximum."""
    nb = nbformat.read(graded.notebook("source"), as_version=4)
    check = classes.cell(nb, "ch01-q01-check")
    check.source, check.metadata.nbgrader.points = check.source.replace("points=2", "points=4"), 4
    nbformat.write(nb, graded.notebook("source"))
    assert course.run(course.api(graded.config()).generate_assignment, TOPIC, force=True) == (True, "")
    found, said = regrade(graded)
    assert found == POINTS | {"ada": 7}
    assert "1 gained 2 points in 1.1 (ada); maximum 9 to 11." in " ".join(" ".join(said).split())


def test_an_exercise_judged_anew_on_request(graded):
    """Only for those who miss points in it; the others keep theirs, also where its check has changed."""
    assert regrade(graded, again="1.1")[0] == POINTS
    assert checks_run() == {"bob": {"ch01-q01-check"}}
    mend(graded, "ch01-q02-check")
    assert regrade(graded, again="1.2")[0] == POINTS
    assert checks_run() == {"ada": set(), "bob": set(), "eve": None}
    assert regrade(graded) == (POINTS, []) and not checks_run()
    with pytest.raises(SourceError, match='no check of an exercise "1.9"; it has those of 1.1, 1.2'):
        grade.grade(graded, progress=False, again="1.9")
