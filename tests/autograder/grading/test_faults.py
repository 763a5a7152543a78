"""Disks and gradebooks that fail: one sentence, nothing lost, and the next `make grade` goes on."""

import dataclasses
import gc
import os
import shutil
import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import Engine

from autograder import grade
from autograder.engine.answer_proxy import Opaque
from autograder.grading import feedback_pages, gradebook_writer, one_submission, records
from autograder.places import FULL, SourceError
from tests.autograder.classes import TOPIC, checks_run
from tests.autograder.disks import disk, fill  # noqa: F401  a fixture
from tests.autograder.grading.test_resume import scores

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.xdist_group("resume")]


def run(what, monkeypatch, capsys) -> tuple[int, str]:
    """`make grade` for this class: its status and what it complains of."""
    monkeypatch.setattr(grade, "Class", lambda topic: what)
    capsys.readouterr()
    return grade.main([TOPIC]), capsys.readouterr().err


DAMAGES = {
    "cut": lambda data: data[: len(data) // 2],
    "corrupted": lambda data: data[:100] + os.urandom(len(data) - 100),
    "something else": lambda data: b"no database" * 1000,
}


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.sample(quick=1)
def test_a_damaged_gradebook(graded, monkeypatch, capsys, how):
    """It is said before anything runs; with a copy in its place nothing is graded a second time."""
    book = graded.root / "gradebook.db"
    whole = book.read_bytes()
    book.write_bytes(DAMAGES[how](whole))
    status, said = run(graded, monkeypatch, capsys)
    assert status == 1 and "Traceback" not in said and "gradebook" in said
    assert not checks_run()
    book.write_bytes(whole)
    for engine in (e for e in gc.get_objects() if isinstance(e, Engine)):
        engine.dispose()  # another process would open the file anew
    assert scores(graded) == {"ada": 5, "bob": 3, "eve": 0} and not checks_run()


def test_a_course_that_cannot_be_written(tmp_path):
    (tmp_path / ".grading").write_text("a file where the folder should be")
    with pytest.raises(SourceError, match="cannot be written"), grade.alone(grade.Class(TOPIC, tmp_path)):
        pass


def test_a_name_that_an_answer_gives_itself_is_short_and_plain():
    assert Opaque(None, 0, "\x1b[31mf\x07" + "x" * 4_000_000).__name__ == "f" + "x" * 73
    assert Opaque(None, 0, "<lambda>").__name__ == "<lambda>"


def test_a_gradebook_that_can_only_be_read(what, monkeypatch, capsys):
    """It is found out before anything runs."""
    c = what.config()
    c.CourseDirectory.db_url = f"sqlite:///file:{what.root / 'gradebook.db'}?mode=ro&uri=true"
    monkeypatch.setattr(grade.Class, "config", lambda self: c)
    status, said = run(what, monkeypatch, capsys)
    assert status == 1 and "readonly" in said and "run the same command again" in said
    assert not checks_run()


# -- a disk that fills in the midst of grading

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
def known(monkeypatch):
    """What workers find, once for all stages: the engine is not what is tried here."""
    found = {}
    once = one_submission.graded

    def graded(assignment, job):
        key = job.student, job.only is not None
        found.setdefault(key, None) or found.update({key: once(assignment, job)})
        return dataclasses.replace(found[key])

    monkeypatch.setattr(one_submission, "graded", graded)


@pytest.mark.slow("grades a class of three, nine times, and writes its pages")
def test_a_disk_that_fills_while_something_is_written(what, disk, known, monkeypatch, capsys):  # noqa: F811
    before = {p.relative_to(what.root): p.read_bytes() for p in (what.root / "submitted").rglob("*") if p.is_file()}
    for stage, (holder, name) in STAGES.items():
        scratch = disk / stage / "course"
        shutil.copytree(what.root, scratch)
        course = dataclasses.replace(what, scratch=scratch)
        if stage == "exports":
            (scratch / "grades.csv").write_text("those of the week before")
        checks_run()
        with monkeypatch.context() as patched:
            if stage == "feedback":  # pages take a while: the other stages have none
                patched.setattr(grade, "write_feedback", feedback_pages.write_feedback)
            real = getattr(holder, name)

            def late(*args, real=real, stage=stage, **kwargs):
                fill(disk, ROOM if stage == "feedback" else 0)
                return real(*args, **kwargs)

            patched.setattr(holder, name, late)
            status, said = run(course, patched, capsys)
        lines = [x for x in said.splitlines() if x.strip() and "it/s" not in x]
        lines = [x for x in lines if not x.startswith(("Walls", "Missing"))]
        assert (status, lines[-1]) == (1, FULL) and FULL not in lines[:-1] and "Traceback" not in said, (stage, said)
        assert "could not be" not in said
        started = checks_run()
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
        again = [s for s, checks in checks_run().items() if checks != set()]  # an empty set: verdicts are kept
        assert sorted(again) == {"records": ["ada", "bob", "eve"], "gradebook": ["bob", "eve"]}.get(stage, [])
        pages = [course.page(s) for s in course.students if stage == "feedback"]
        assert all(p.read_text("utf-8").rstrip().endswith("</html>") for p in pages)
        assert scores(course) == {"ada": 5, "bob": 3, "eve": 0} and not checks_run()
        after = {p.relative_to(scratch): p.read_bytes() for p in (scratch / "submitted").rglob("*") if p.is_file()}
        assert after == before
        shutil.rmtree(disk / stage)
