"""Attackers with honest students between them: nobody wins, nothing leaks, and nobody honest loses."""

import csv
import os
import re
import sys

import pytest

from autograder import grade
from autograder.engine.sandbox import available
from autograder.grading import class_summary
from autograder.making import in_process_grading
from tests.autograder.attacks import batch, edits, kinds, target
from tests.skip_conditions import needs

pytestmark = [pytest.mark.filterwarnings("default")]  # nbgrader's use of others is not ours to judge

SAMPLE = """
    eq_override patch_assert_allclose settrace_jump patch_run_cell one_reply_ahead session_lies program_nan
    read_outside_file gradebook_trigger xss_output os_exit kill_everything infinite_loop_in_answer infinite_loop_uninterruptible
    tag_skip_execution meta_solution_true xss_markdown symlink_to_source corrupt_json no_notebook_dir
""".split()
HONEST = "whole one-half damaged-metadata_garbage damaged-duplicate_tests shadow_numpy_module shadow_ipykernel_launcher".split()

GOOD = ["ada", "Ada", "Zoë", "张伟", "o.brien@school.example", "a b", "long-" + "a" * 115]
EITHER = ["-rf", "+1+1", "@SUM", "..a", ".hidden", "x ", "--help", "~"]  # graded or refused, and harmless in both cases
ODD = ["=1+1", "<script>alert(1)", "new\nline", "\x1b[2J", "\x1b]0;x\x07", "\u202elive", "a'; drop table grade; --", " x", "a\\b",
       "{x}", "%s", "$(id)", "`id`", "x\u200by", "long-" + "a" * 200]  # fmt: skip


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    """Nothing goes into the home folder."""
    needs(sys.platform == "linux", "classes are graded on Linux only")
    needs(not available().refusal, available().refusal)
    for name in ("HOME", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    (tmp_path / "home").mkdir()


def named() -> list[kinds.Student]:
    """Honest students whose ids are formulas, options, markup, paths or nearly each other's."""
    short = {k: kinds.RIGHT[k] for k in kinds.SHORT}
    worth = {k: kinds.POINTS[k] for k in kinds.SHORT}
    return [kinds.Student(n, "honest", short, worth=worth) for n in GOOD + EITHER + ODD]


def hold(found: batch.Graded) -> None:
    """All that must hold after a class was graded."""
    refused = found.students.keys() - found.results.keys()
    assert refused <= {*ODD, *EITHER} and sorted(found.what.strangers) == sorted(ascii(n) for n in refused)
    for name in refused:
        del found.students[name]
    broken = {
        "missing": batch.missing(found),
        "scores": batch.wrong_scores(found),
        "leaks": batch.leaks(found),
        "unsafe": batch.unsafe(found),
        "changed": batch.changed(found),
        "left": found.left + os.listdir(os.environ["HOME"]),
    }
    assert not any(broken.values()), "\n".join(f"{k}: {v}" for k, vs in broken.items() for v in vs)


@pytest.mark.slow
def test_a_sample_of_the_batch(tmp_path, monkeypatch):
    """Whoever is graded is graded right, in files of their own; nobody else is lost without a word."""
    monkeypatch.setenv("COURSE_WORKERS", "1")
    attackers = [s for i, s in enumerate(kinds.attackers()) if s.name in SAMPLE or i % 10 == 0]
    honest = [s for s in kinds.honest() if s.name in HONEST]
    assert {*SAMPLE} <= {s.name for s in attackers} and len(honest) == len(HONEST)
    assert {s.kind for s in attackers} == {s.kind for s in kinds.attackers()}
    found = batch.graded(tmp_path, batch.among(attackers, honest) + named(), monkeypatch)
    hold(found)
    assert not found.students.keys() & {*ODD}
    of = {student.partition("-")[2]: row for student, row in found.results.items()}
    assert "used more than 15 s of a processor" in str(of["infinite_loop_in_answer"].said)
    assert "There is no notebook exercises.ipynb in the submission" in of["no_notebook_dir"].why
    shown = class_summary.table(list(found.results.values())) + "".join(found.what.strangers)
    assert "\x1b" not in shown and re.search(r"\\x1b\]0;x\\x07", shown)
    with open(found.what.root / "grades.csv", newline="", encoding="utf-8") as f:
        listed = {row["student_id"].removeprefix("'") for row in csv.DictReader(f)}
    assert not listed & {*ODD}


@pytest.mark.full
def test_the_whole_batch(tmp_path, monkeypatch):
    found = batch.graded(tmp_path, batch.among(kinds.attackers(), kinds.honest()), monkeypatch)
    assert len(found.students) > 300
    hold(found)
    again = {r.student: r for r in grade.grade(found.what, progress=False)}
    assert {s: r.scores for s, r in again.items()} == {s: r.scores for s, r in found.results.items()}


@pytest.mark.slow
def test_what_honest_answers_are_worth(tmp_path):
    """The points that the batch expects are those that the checks give in one process."""
    tree = target.tree(tmp_path / "tree")
    solved = in_process_grading.solved(target.TOPIC, tree)
    wanted = [("whole", kinds.RIGHT, kinds.POINTS), *kinds.PARTLY]
    for name, answers, worth in wanted:
        nb = in_process_grading.blank(solved)
        for cell in nb.cells:
            cell.source = answers.get(edits.grade_id(cell), cell.source)
        got = {in_process_grading.exercise_of(k): v.score for k, v in in_process_grading.judge(nb).items()}
        assert got == worth, name
    most = {f"{k}-check": v for k, v in kinds.POINTS.items()}
    assert {k: v.points for k, v in in_process_grading.judge(solved).items()} == most
