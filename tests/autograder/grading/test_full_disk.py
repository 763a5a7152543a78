"""A disk that fills in the midst of grading: one sentence, nothing lost, and the next `make grade` goes on (slow)."""

import dataclasses
import os
import shutil
import sqlite3
from contextlib import closing

import pytest

from autograder import grade
from autograder.grading import feedback_pages, gradebook_writer, one_submission, records
from autograder.places import FULL
from tests.autograder.disks import disk, fill  # noqa: F401  a fixture
from tests.autograder.grading.test_faults import run
from tests.autograder.grading.test_resume import TOPIC, jobs, opened, scores, what  # noqa: F401  fixtures

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.xdist_group("resume")]
STAGES = {
    "records": (records.Records, "save"),
    "gradebook": (gradebook_writer.Writer, "write"),
    "exports": (grade, "export"),
    "feedback": (grade, "write_feedback"),
}
ROOM = 200_000  # bytes: more than a page of feedback, and less than two


def kept(course) -> tuple[str, int]:
    """Whether the gradebook is whole, and how many grades it has."""
    with closing(sqlite3.connect(course / "gradebook.db")) as book:
        (count,) = book.execute("select count(*) from grade").fetchone()
        return book.execute("pragma integrity_check").fetchone()[0], count


@pytest.fixture
def graded(monkeypatch):
    """What workers find, once for all stages: the engine is not what is tried here."""
    found = {}
    once = one_submission.graded

    def known(assignment, job):
        key = job.student, job.only is not None
        found.setdefault(key, None) or found.update({key: once(assignment, job)})
        return dataclasses.replace(found[key])

    monkeypatch.setattr(one_submission, "graded", known)


@pytest.mark.slow("grades a class of three, nine times, and writes its pages")
def test_a_disk_that_fills_while_something_is_written(what, disk, graded, monkeypatch, capsys):  # noqa: F811
    before = {p.relative_to(what.root): p.read_bytes() for p in (what.root / "submitted").rglob("*") if p.is_file()}
    for stage, (holder, name) in STAGES.items():
        scratch = disk / stage / "course"
        shutil.copytree(what.root, scratch)
        course = dataclasses.replace(what, scratch=scratch)
        if stage == "exports":
            (scratch / "grades.csv").write_text("those of the week before")
        jobs()
        with monkeypatch.context() as patched:
            if stage == "feedback":  # pages take a while: the other stages have none
                patched.setattr(grade, "write_feedback", feedback_pages.write_feedback)
            real = getattr(holder, name)

            def late(*args, real=real, stage=stage, **kwargs):
                fill(disk, ROOM if stage == "feedback" else 0)
                return real(*args, **kwargs)

            patched.setattr(holder, name, late)
            status, said = run(course, patched, capsys)
        lines = [
            x for x in said.splitlines() if x.strip() and not x.startswith(("Walls", "Missing")) and "it/s" not in x
        ]
        assert (status, lines[-1]) == (1, FULL) and FULL not in lines[:-1] and "Traceback" not in said, (stage, said)
        assert "could not be" not in said
        started = jobs()
        assert len(started) == (1 if stage in ("records", "gradebook") else 3), stage
        assert kept(scratch) == ("ok", {"records": 0, "gradebook": 0}.get(stage, 9))
        if stage == "exports":
            assert (scratch / "grades.csv").read_text() == "those of the week before"

        os.remove(disk / "filler")
        with monkeypatch.context() as patched:
            if stage == "feedback":
                patched.setattr(grade, "write_feedback", feedback_pages.write_feedback)
            status, said = run(course, patched, capsys)
        assert (status, kept(scratch)) == (0, ("ok", 9)), (stage, said)
        again = [s for s, checks in jobs().items() if checks != set()]  # an empty set: verdicts are kept
        assert sorted(again) == {"records": ["ada", "bob", "eve"], "gradebook": ["bob", "eve"]}.get(stage, [])
        pages = [course.page(s) for s in course.students if stage == "feedback"]
        assert all(p.read_text("utf-8").rstrip().endswith("</html>") for p in pages)
        assert scores(course) == {"ada": 5, "bob": 3, "eve": 0} and not jobs()
        after = {p.relative_to(scratch): p.read_bytes() for p in (scratch / "submitted").rglob("*") if p.is_file()}
        assert after == before
        shutil.rmtree(disk / stage)
