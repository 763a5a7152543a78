"""Disks and gradebooks that fail: one sentence, nothing lost, and the next `make grade` goes on."""

import gc
import os

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from autograder import grade
from autograder.engine.answer_proxy import Opaque
from autograder.grading import gradebook_writer
from autograder.grading.records import Records
from autograder.places import SourceError
from tests.autograder.grading.test_resume import TOPIC, jobs, opened, scores, what  # noqa: F401  fixtures

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.xdist_group("resume")]


def run(what, monkeypatch, capsys) -> tuple[int, str]:  # noqa: F811
    """`make grade` for this class: its status and what it complains of."""
    monkeypatch.setattr(grade, "Class", lambda topic: what)
    capsys.readouterr()
    return grade.main([TOPIC]), capsys.readouterr().err


def damage(path, how: str) -> None:
    data = path.read_bytes()
    if how == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif how == "corrupted":
        path.write_bytes(data[:100] + os.urandom(len(data) - 100))
    else:
        path.write_bytes(b"no database" * 1000)


@pytest.mark.slow("grades a class of three, three times")
@pytest.mark.parametrize("how", ["cut", "corrupted", "something else"])
def test_a_damaged_gradebook(what, monkeypatch, capsys, how):  # noqa: F811
    """It is said before anything runs; with a copy in its place nothing is graded a second time."""
    before = scores(what)
    jobs()
    book = what.root / "gradebook.db"
    whole = book.read_bytes()
    damage(book, how)
    status, said = run(what, monkeypatch, capsys)
    assert status == 1 and "Traceback" not in said and "gradebook" in said
    assert not jobs()
    book.write_bytes(whole)
    for engine in (e for e in gc.get_objects() if isinstance(e, Engine)):
        engine.dispose()  # another process would open the file anew
    assert scores(what) == before and not jobs()


@pytest.mark.slow("grades a class of three, three times")
def test_a_gradebook_that_is_lost_in_a_run(what, monkeypatch, capsys):  # noqa: F811
    """What was executed by then is not executed again."""

    def lost(self, *_):
        raise OperationalError("SELECT", {}, Exception("server closed the connection unexpectedly"))

    with monkeypatch.context() as patched:
        patched.setattr(gradebook_writer.Writer, "penalties", lost)
        status, said = run(what, patched, capsys)
    assert status == 1 and "server closed the connection" in said and "run the same command again" in said
    assert set(jobs()) == {"ada", "bob", "eve"}
    assert run(what, monkeypatch, capsys)[0] == 0
    assert not jobs()


@pytest.mark.slow("grades a class of three, twice")
def test_a_full_disk(what, monkeypatch, capsys):  # noqa: F811
    """A result that cannot be kept is named, and tried again."""

    def full(self, record):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Records, "save", full)
        status, said = run(what, patched, capsys)
    assert status == 1 and "Traceback" not in said
    jobs()
    assert run(what, monkeypatch, capsys)[0] == 0
    assert set(jobs()) == {"ada", "bob", "eve"}


def test_a_course_that_cannot_be_written(tmp_path):
    (tmp_path / ".grading").write_text("a file where the folder should be")
    with pytest.raises(SourceError, match="cannot be written"), grade.alone(grade.Class(TOPIC, tmp_path)):
        pass


def test_a_name_that_an_answer_gives_itself_is_short_and_plain():
    assert Opaque(None, 0, "\x1b[31mf\x07" + "x" * 4_000_000).__name__ == "[31mf" + "x" * 73
    assert Opaque(None, 0, "<lambda>").__name__ == "<lambda>"


def test_a_gradebook_that_can_only_be_read(what, monkeypatch, capsys):  # noqa: F811
    """It is found out before anything runs."""
    c = what.config()
    c.CourseDirectory.db_url = f"sqlite:///file:{what.root / 'gradebook.db'}?mode=ro&uri=true"
    monkeypatch.setattr(grade.Class, "config", lambda self: c)
    status, said = run(what, monkeypatch, capsys)
    assert status == 1 and "readonly" in said and "run the same command again" in said
    assert not jobs()
