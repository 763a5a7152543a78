"""Students whose ids are formulas, options, markup, paths or nearly each other's."""

import csv
import re

import pytest

from autograder.grading import class_summary
from tests.autograder.attacks import batch, kinds
from tests.autograder.attacks.test_batch import apart  # noqa: F401  (a fixture)

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

GOOD = ["ada", "Ada", "Zoë", "张伟", "o.brien@school.example", "a b", "x_1", "NUL", "long-" + "a" * 115]
ODD = ["=1+1", "<script>alert(1)", "new\nline", "\x1b[2J", "\u202elive", "a'; drop table grade; --", " x", "a\\b", "{x}", "%s",
       "$(id)", "`id`", "x\u200by", "long-" + "a" * 200]  # fmt: skip
EITHER = ["-rf", "+1+1", "@SUM", "..a", ".hidden", "x ", "--help", "~"]  # graded or refused, and harmless in both cases


def test_odd_ids(tmp_path, monkeypatch):
    """Whoever is graded is graded right, in files of their own; nobody else is lost without a word."""
    names = GOOD + ODD + EITHER
    one = {k: kinds.RIGHT[k] for k in kinds.SHORT}
    worth = {k: kinds.POINTS[k] for k in kinds.SHORT}
    students = [kinds.Student(n, "honest", one, worth=worth) for n in names]
    found = batch.graded(tmp_path, students, monkeypatch)
    refused = set(found.students) - set(found.results)
    assert refused <= {*ODD, *EITHER} and set(ODD) <= refused
    assert sorted(found.what.strangers) == sorted(ascii(n) for n in refused)
    for name in refused:
        del found.students[name]
    broken = [
        *batch.missing(found),
        *batch.wrong_scores(found),
        *batch.unsafe(found),
        *batch.changed(found),
        *found.left,
    ]
    assert not broken, "\n".join(broken)


def test_the_screen_and_the_exports_show_ids_as_text(tmp_path, monkeypatch):
    students = [kinds.Student("ada", "honest", kinds.WRONG), kinds.Student("\x1b]0;x\x07", "honest")]
    found = batch.graded(tmp_path, students, monkeypatch)
    shown = class_summary.table(list(found.results.values())) + "".join(found.what.strangers)
    assert "\x1b" not in shown and re.search(r"\\x1b\]0;x\\x07", shown)
    with open(found.what.root / "grades.csv", newline="", encoding="utf-8") as f:
        assert [row["student_id"] for row in csv.DictReader(f)] == ["ada"]
