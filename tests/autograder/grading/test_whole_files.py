"""Files that a power cut, a full disk or somebody left in part: whole again at the next grading, or a sentence."""

import gc
import json
import os
import random
import shutil

import pytest
from sqlalchemy import Engine

from autograder import grade
from autograder.engine.bundle import seed
from autograder.grading import hidden_values, whole_files
from autograder.grading.records import Record, Records
from autograder.places import SourceError
from tests.autograder import classes
from tests.autograder.classes import TOPIC, checks_run
from tests.autograder.grading.test_faults import run
from tests.autograder.grading.test_resume import POINTS

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.xdist_group("resume")]
DAMAGES = {
    "cut": lambda data, where: data[: int(len(data) * where)],
    "emptied": lambda data, where: b"",
    "zeroed": lambda data, where: data[: int(len(data) * where)].ljust(len(data), b"\0"),
}
STUDENTS = ["ada", "bob", "eve"]


@pytest.fixture(scope="module")
def with_pages(graded_once, tmp_path_factory):
    """The class, graded, with pages and a student's secret of the exchange: everything that grading writes."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        classes.apart(patch, folder)
        what = classes.copied(graded_once[0], folder)
        for student in STUDENTS:
            what.notebook("submitted", student).with_name("submission_secret.txt").write_text(f"of {student}")
        grade.grade(what, progress=False)
    return what


def written(what) -> dict:
    """Every file that grading made, but the gradebook."""
    folders = [what.root / f for f in ("autograded", "feedback", ".grading")]
    files = [*what.root.glob("*.csv"), *(p for f in folders for p in f.rglob("*") if p.is_file())]
    return {p.relative_to(what.root).as_posix(): p.read_bytes() for p in files}


@pytest.mark.slow("makes pages of feedback")
@pytest.mark.parametrize("how", DAMAGES)
def test_every_kind_of_file_is_whole_again(with_pages, tmp_path, monkeypatch, capsys, how):
    """One of each kind, of another student each time: what there was is there again, byte for byte, and it is said."""
    classes.apart(monkeypatch, tmp_path)
    what, chance = classes.copied(with_pages, tmp_path), random.Random(f"{how} {os.environ.get('SEED', 0)}")
    before, (a, b, c) = written(what), chance.sample(STUDENTS, 3)
    table, notes = what.root / chance.choice(["grades.csv", "canvas.csv", "moodle.csv"]), what.root / ".grading"
    places = [
        what.notebook("autograded", a), what.page(b), what.notebook("autograded", b).with_name("submission_secret.txt"),
        grade.Records(notes / TOPIC).path(c), table,
    ]  # fmt: skip
    for damaged in (places, [notes / "exports.json"]):
        for path in damaged:
            data = path.read_bytes()
            path.write_bytes(DAMAGES[how](data, chance.uniform(0.05, 0.95)))
            assert path.read_bytes() != data
        lines = []
        found = grade.grade(what, progress=False, show=lambda rows, changes, lines=lines: lines.extend(changes.lines()))
        assert {r.student: r.total for r in found} == POINTS
        assert written(what) == before
        said, of_notebook = capsys.readouterr().err, "  1: the graded notebook is not as it was written"
        if damaged is places:
            assert {*checks_run()} == {a, c} and of_notebook in lines
            assert f"made again: the feedback pages of {b}." in said and f"made again: {table.name}." in said
    assert not checks_run() and not lines and "made again" not in said


def test_a_record_of_another_form_is_none(tmp_path):
    kept, known = Records(tmp_path), Record("ada", 1, "", {})
    kept.save(known)
    assert kept.load("ada") == known
    odd = [vars(known) | {key: None} for key in vars(known)]
    for text in ("[" * 100_000, *map(json.dumps, [[], 5, None, "student", {}, ["student"], *odd])):
        kept.path("ada").write_text(text)
        assert kept.load("ada") is None, text[:80]


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("step", ["source", "release"])
def test_a_notebook_of_the_course_is_a_sentence(graded, monkeypatch, capsys, step, how):
    path = graded.notebook(step)
    path.write_bytes(DAMAGES[how](path.read_bytes(), 0.5))
    status, said = run(graded, monkeypatch, capsys)
    said = [line for line in said.splitlines() if not line.startswith(("Walls", "Missing"))]
    place = f"{step}/{TOPIC}/exercises.ipynb"
    assert (status, said) == (1, [f"The course's own {place} is not a whole notebook: run `make release` again."])
    assert not checks_run()


def test_a_gradebook_that_is_gone_may_have_a_copy(graded, monkeypatch, capsys):
    for advice in ("graded before: put your copy of the gradebook in its place", "run `make release` first"):
        (graded.root / "gradebook.db").unlink()
        for engine in (e for e in gc.get_objects() if isinstance(e, Engine)):
            engine.dispose()  # another process would find no file
        status, said = run(graded, monkeypatch, capsys)
        assert status == 1 and advice in said and "Traceback" not in said and not checks_run()
        shutil.rmtree(graded.root / ".grading" / TOPIC, ignore_errors=True)


# -- the secret of the course


@pytest.fixture
def secret_file(tmp_path, monkeypatch):
    monkeypatch.delenv("COURSE_SECRET", raising=False)
    monkeypatch.setattr(hidden_values.platformdirs, "user_config_path", lambda name: tmp_path / name)
    return tmp_path / "rooflines-to-racks" / "secret"


def test_the_secret_is_made_once_outside_of_the_course(secret_file, capsys):
    made = hidden_values.secret()
    assert made == secret_file.read_text() == hidden_values.secret() and len(made) == 64
    assert secret_file.stat().st_mode & 0o77 == 0 and os.listdir(secret_file.parent) == ["secret"]
    assert "can read" not in (told := capsys.readouterr().out) and made not in told
    for mode in (0o640, 0o604):
        secret_file.chmod(mode)
        assert hidden_values.secret() == made and "chmod 600" in capsys.readouterr().out


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "killed"])
@pytest.mark.parametrize("step", ["mkstemp", "_written", "fsync", "link", "replace", "unlink"])
def test_a_secret_that_is_not_written_to_its_end(secret_file, monkeypatch, step, error):
    """Stopped before or after any step, there is no secret or a whole one, and whoever comes next has the same for ever."""

    def stopped(real, before):
        def call(*args, **kwargs):
            if before:
                raise error
            real(*args, **kwargs)
            raise error

        return call

    for before in (True, False):
        with monkeypatch.context() as patch:
            holder = {"mkstemp": whole_files.tempfile, "_written": whole_files}.get(step, os)
            real = getattr(holder, step) if step != "_written" else lambda number, text: os.write(number, b"half")
            patch.setattr(holder, step, stopped(real, before))
            for _ in range(2):
                try:
                    first = hidden_values.secret()
                except (SourceError, KeyboardInterrupt):
                    first = None
                assert not secret_file.exists() or len(secret_file.read_text()) == 64
        assert len(hidden_values.secret()) == 64 and first in (None, hidden_values.secret())
        secret_file.unlink()


def test_a_secret_that_is_not_whole_is_refused(secret_file, monkeypatch):
    """Each beginning of it, zeros from anywhere on, and a COURSE_SECRET that says little or nothing."""
    whole = hidden_values.secret().encode()
    for where in range(64):
        for damaged in (whole[:where], whole[:where].ljust(64, b"\0")):
            secret_file.write_bytes(damaged)
            with pytest.raises(SourceError, match="is not whole.*put your copy in its place"):
                hidden_values.secret()
    for given in ("", " " * 40, "hush", "x" * 31):
        monkeypatch.setenv("COURSE_SECRET", given)
        with pytest.raises(SourceError, match="COURSE_SECRET has [0-9]+ characters and needs 32"):
            hidden_values.secret()
    monkeypatch.setenv("COURSE_SECRET", "x" * 32)
    assert seed(hidden_values.secret(), TOPIC, "ada", 1)
