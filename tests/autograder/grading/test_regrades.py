"""What decides a grade is known by its content: a change of it counts at the next grading, for whom it concerns, and is said."""

import os
import random
import shutil
import subprocess
import sys
from importlib import metadata

import nbformat
import pytest

from autograder import course, grade
from autograder.engine.bundle import bundle
from autograder.engine.importable_helpers import HELPERS, modules
from autograder.grading import accepted, deciding_code, extensions, hidden_values, one_submission, records
from autograder.making import in_process_grading
from autograder.places import ROOT, SourceError, Tree
from tests.autograder import classes
from tests.autograder.classes import TOPIC, checks_run
from tests.autograder.grading.test_resume import POINTS, mend, scores
from tests.tiers import some

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


CHANGED = {  # what comes in place of the last line, if anything, and the penalties that are others then
    "rule": ("1 if student_id == 'bob' else 2", {"bob": 1}),
    "file": ("max(0, 2 - more)", {"bob": 0}),
    "score": ("score / 2", {"ada": 2.5, "bob": 1.5}),
    "fault": ("1 / 0", {}),
}


@pytest.mark.parametrize("change", CHANGED)
@pytest.mark.sample(quick=2)
def test_the_late_rule_is_asked_anew(graded, tmp_path, monkeypatch, change):
    """The class keeps its name; its file changes, or one that it reads, or the score of which it takes a part."""
    rule = tmp_path / f"rule_{change}.py"
    rule.write_text(RULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # two versions of one second look the same
    c = graded.config()
    c.AssignLatePenalties.plugin_class = f"{rule.stem}.Rule"
    monkeypatch.setattr(classes.Strict, "config", lambda self: c.copy())
    for student in ("ada", "bob"):
        classes.stamp(graded, student, "2030-02-02 12:00:00 UTC")
    scores(graded)
    before = classes.penalties(graded)
    assert before == {"ada": 2, "bob": 2, "eve": 0} and checks_run()
    now, moved = CHANGED[change]
    rule.write_text(RULE.replace("max(0, 2 - more)", now))
    if change == "file":
        rule.with_name("extensions.csv").write_text("bob,7 days\n")
    sys.modules.pop(rule.stem)  # as for another process
    _, said = regrade(graded)
    late = classes.penalties(graded)
    assert late == before | moved
    assert {s: e[0] for s, e in classes.exports(graded).items()} == {s: POINTS[s] - late[s] for s in late}
    assert checks_run() == dict.fromkeys(moved or ("ada", "bob"), set())  # for the others nothing moves
    if change == "rule":
        assert said[2] == "since the last grading: 1 gained 1 point for the time of submission (bob)."
    if change == "score":
        with graded.gradebook() as book:
            book.find_grade("ch01-q02-check", "exercises", TOPIC, "ada").manual_score = 1
            book.db.commit()
        scores(graded)
        assert classes.penalties(graded)["ada"] == 1.5


# -- what verdicts depend on


def edit(what, chosen) -> None:
    """Another text in the first cell of the course that is so."""
    nb = nbformat.read(what.notebook("source"), as_version=4)
    next(c for c in nb.cells if c.cell_type == "code" and chosen(c)).source += "\n# another"
    nbformat.write(nb, what.notebook("source"))


VERSIONS = {name: metadata.version(name) for name in ("jax", "jaxlib", "numpy")}
DECIDES = {
    "jax 99 (was": lambda patch, what: patch.setattr(one_submission.metadata, "version", {**VERSIONS, "jax": "99"}.get),
    "Python 4.0 (was": lambda patch, what: patch.setattr(one_submission.platform, "python_version", lambda: "4.0"),
    "COURSE_SEED spring (was 0)": lambda patch, what: patch.setenv("COURSE_SEED", "spring"),
    "COURSE_SANDBOX off (was on)": lambda patch, what: patch.setenv("COURSE_SANDBOX", "off"),
    "the secret": lambda patch, what: patch.setenv("COURSE_SECRET", "another secret of the same length"),
    "the limits": lambda patch, what: patch.setattr(one_submission.Limits, "cell", 7),
    "exercise 1.2": lambda patch, what: edit(what, lambda c: c.id == "ch01-q02-check"),
    "cells that the course gives": lambda patch, what: edit(what, lambda c: c.metadata.nbgrader.locked),
    "the time of submission": lambda patch, what: classes.stamp(what, "ada", "2030-01-01 00:00:00 UTC"),
    "how submissions are read": lambda patch, what: patch.setattr(records, "taking", lambda: "another"),
}


@pytest.mark.parametrize("named", DECIDES)
def test_each_thing_that_decides_is_named(graded, monkeypatch, named):
    """And nothing else is: of a check its exercise, of versions and settings both values."""
    known = records.Records(graded.root / ".grading" / TOPIC).load("ada")

    def reasons() -> list[str]:
        return records.reasons(records.Decides(graded.assignment(), hidden_values.secret()), graded.sent("ada"), known)

    assert reasons() == []
    DECIDES[named](monkeypatch, graded)
    [why] = reasons()
    assert why.startswith(named)


@pytest.mark.slow("follows all imports of two chapters, ten times each")
def test_code_that_decides_no_verdict_regrades_nobody(tmp_path):
    """In a copy of `helpers`, by chapter: drawings, films and the planner are no matter, and what checks import is."""
    shutil.copytree(HELPERS, tmp_path / "helpers", ignore=shutil.ignore_patterns("__pycache__"))
    helpers, chance = tmp_path / "helpers", random.Random(os.environ.get("SEED", "0"))
    for path in some(Tree().exercises, 2):
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
            again = deciding_code.deciding_files(full, helpers)
            assert records.differing(now, again) == [mended.relative_to(tmp_path).as_posix()]


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
    assert said[:2] == ["graded or written again, and why:", "  3: exercise 1.2"]
    assert said[2:] == ["since the last grading: 2 lost 3 points in 1.2 (ada, bob)."]
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
    with pytest.raises(SourceError, match='no check of an exercise "1.9"; it has 1.1, 1.2'):
        grade.grade(graded, progress=False, again="1.9")


def write(what, *rows: str) -> None:
    (what.root / extensions.NAME).write_text("\n".join(["student,assignment,until", *rows]) + "\n", encoding="utf-8")


def test_an_extension_counts_is_named_and_goes(graded, capsys):
    for student in ("ada", "bob"):
        classes.stamp(graded, student, "2030-02-01 13:30:00 UTC")
    scores(graded)
    assert classes.penalties(graded) == {"ada": 2, "bob": 2, "eve": 0} and checks_run()
    write(graded, f"bob,{TOPIC},2030-02-01 14:00", f"nan,{TOPIC},2030-02-03")
    with graded.gradebook() as book:
        before = book.find_submission(TOPIC, "bob").extension
    regrade(graded, dry=True)
    assert classes.penalties(graded)["bob"] == 2 and before is None
    _, said = regrade(graded)
    assert classes.penalties(graded) == {"ada": 2, "bob": 0, "eve": 0} and checks_run() == {"bob": set()}
    assert said[-1] == "since the last grading: 1 gained 2 points for the time of submission (bob)."
    with graded.gradebook() as book:  # nbgrader's own pages know it, too
        assert book.find_submission(TOPIC, "bob").total_seconds_late == 0
    grade.print_results(graded, [])
    told = " ".join(capsys.readouterr().out.split())
    assert (
        "extensions: bob until 2030-02-01 14:00 UTC, nan until 2030-02-03 23:59 UTC (in no class list: is that the id?)."
        in told
    )
    write(graded, f"bob,{TOPIC},2030-02-01 13:00")
    scores(graded)
    assert classes.penalties(graded)["bob"] == 1
    write(graded)
    scores(graded)
    assert classes.penalties(graded) == {"ada": 2, "bob": 2, "eve": 0}


@pytest.mark.parametrize(("name", "text", "says"), [
    (extensions.NAME, "who,until\n", "has no column student: its first line is student,assignment,until"),
    (extensions.NAME, f"student,assignment,until\nbob,{TOPIC},soon\n", 'line 2, has "soon" where a day such as 2027-03-20'),
    (extensions.NAME, f"student,assignment,until\nbob,{TOPIC},0001-01-01 00:00 +01:00\n", 'line 2, has "0001-01-01'),
    (extensions.NAME, f"student,assignment,until\nbob,{TOPIC},9999-12-31 23:00 -02:00\n", 'line 2, has "9999-12-31'),
    (extensions.NAME, "student;assignment;until\n\nZoë;ch99;2030-02-02\n", 'line 3, names "ch99", which is no released'),
    (accepted.NAME, "exercise,told,points\n1.1,,2\n", "line 2, has no words"),
    (accepted.NAME, "exercise,told,points\n1.1,its inverse,nan\n", 'line 2, has "nan" where points belong'),
])  # fmt: skip
def test_a_file_that_cannot_be_read_stops_the_grading(graded, name, text, says):
    """Also one that Excel saved in another encoding, with another separator."""
    (graded.root / name).write_text(text, encoding="cp1252")
    with pytest.raises(SourceError, match=says):
        regrade(graded)
