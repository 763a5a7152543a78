"""Graded once: what is known is kept, what has changed is graded again, and what a person gave stays."""

import dataclasses
import gc
import shutil

import nbformat
import pytest
from nbformat.v4 import new_code_cell
from nbgrader import nbgraderformat as validation

from autograder import course, demo, grade, release
from autograder.engine.host import Host
from autograder.grading import gradebook_writer, hidden_values, nbgrader_steps, one_submission
from autograder.places import ROOT, Tree
from tests.autograder.grading.serial import Serial
from tests.skip_conditions import needs

SAMPLE = ROOT / "tests" / "autograder" / "sample"
TOPIC = "ch01_sample"
RIGHT = "def seconds(V, W):\n    return V / W"
WRONG = "def seconds(V, W):\n    return W / V"
SECOND = "def longer(a, b):\n    return max(a, b), max(a, b) / min(a, b)"

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.xdist_group("resume")]  # they share a release


@pytest.fixture(scope="module")
def opened(tmp_path_factory) -> grade.Class:
    """A class of three, with one that is no notebook: released once, which takes nbgrader seconds."""
    folder = tmp_path_factory.mktemp("opened")
    with pytest.MonkeyPatch.context() as patch:
        elsewhere(patch, folder)
        made = demo.open_class(TOPIC, Tree(SAMPLE), folder / "course")
    hand_in(made, "ada", RIGHT, SECOND, "Latency.")
    hand_in(made, "bob", WRONG, SECOND)
    release.write(made.notebook("submitted", "eve"), "{")
    return made


def elsewhere(monkeypatch, folder) -> None:
    for name in ("HOME", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(folder / "home"))


@pytest.fixture
def what(opened, tmp_path, monkeypatch) -> grade.Class:
    """A copy of that class."""
    needs(grade.available().refusal is None, grade.available().refusal or "")
    elsewhere(monkeypatch, tmp_path)
    monkeypatch.setenv("COURSE_SECRET", "not a secret")
    monkeypatch.setattr(grade, "pool", Serial)
    monkeypatch.setattr(grade, "write_feedback", lambda *_: None)
    Serial.jobs = []
    shutil.copytree(opened.root, tmp_path / "course")
    return dataclasses.replace(opened, scratch=tmp_path / "course")


def hand_in(what, student, *answers):
    nb = nbformat.read(what.notebook("release"), as_version=4)
    for name, answer in zip(("ch01-q01", "ch01-q02", "ch01-q03"), answers, strict=False):
        next(c for c in nb.cells if c.id == name).source = answer
    release.write(what.notebook("submitted", student), nbformat.writes(nb, version=4))


def scores(what) -> dict[str, float]:
    return {r.student: r.total for r in grade.grade(what, progress=False)}


def jobs() -> dict[str, set[str] | None]:
    """Student -> checks that were run in the last grading; None for all."""
    done, Serial.jobs = Serial.jobs, []
    return {j.student: None if j.only is None else set(j.only) for j in done}


@pytest.mark.slow("grades a class five times")
def test_nothing_is_graded_twice(what):
    assert scores(what) == {"ada": 5, "bob": 3, "eve": 0}
    assert jobs() == {"ada": None, "bob": None, "eve": None}
    assert scores(what) == {"ada": 5, "bob": 3, "eve": 0}
    assert jobs() == {}


@pytest.mark.slow
def test_a_new_submission_is_a_new_attempt(what):
    scores(what)
    first = {j.student: j.values for j in Serial.jobs}
    hand_in(what, "bob", RIGHT, SECOND)
    jobs()
    assert scores(what) == {"ada": 5, "bob": 5, "eve": 0}
    [again] = Serial.jobs
    assert again.only is None and again.values != first["bob"]
    assert len(set(first.values())) == 3
    assert (what.root / "gradebook.db").is_file()


def test_a_mended_check_is_run_alone(what):
    scores(what)
    jobs()
    with grade_of(what, "ada", "ch01-q03") as one:
        one.manual_score, one.needs_manual_grade = 3.5, False
    with grade_of(what, "ada", "ch01-q01-check") as one:
        one.manual_score, one.extra_credit, one.needs_manual_grade = 1.5, 0.25, False
    source = what.notebook("source")
    nb = nbformat.read(source, as_version=4)
    check = next(c for c in nb.cells if c.id == "ch01-q02-check")
    check.source = check.source.replace("check.report(", "0 * check.report(", 1)
    assert "0 * check" in check.source
    nbformat.write(nb, source)
    assert scores(what) == {"ada": 1.75 + 3.5, "bob": 0, "eve": 0}
    assert jobs() == {"ada": {"ch01-q02-check"}, "bob": {"ch01-q02-check"}, "eve": None}
    with grade_of(what, "ada", "ch01-q03") as one:
        assert (one.manual_score, one.needs_manual_grade) == (3.5, False)
    with grade_of(what, "ada", "ch01-q01-check") as one:
        assert (one.manual_score, one.auto_score, one.needs_manual_grade) == (1.5, 2, False)
    graded = nbformat.read(what.notebook("autograded", "ada"), as_version=4)
    assert "2 of 2 points" in str(next(c for c in graded.cells if c.id == "ch01-q01-check").outputs)


class grade_of:
    """One grade in the gradebook, to look at or to change."""

    def __init__(self, what, student, cell):
        self.at, self.gradebook = (cell, "exercises", what.topic, student), what.gradebook()

    def __enter__(self):
        return self.gradebook.find_grade(*self.at)

    def __exit__(self, *_):
        self.gradebook.db.commit()
        self.gradebook.close()


def test_a_lost_gradebook_is_filled_without_running_anything(what):
    scores(what)
    jobs()
    shutil.rmtree(what.root / "autograded")
    with what.gradebook() as book:
        book.remove_submission(what.topic, "bob")
    assert scores(what) == {"ada": 5, "bob": 3, "eve": 0}
    assert jobs() == {"ada": set(), "bob": set(), "eve": None}


def test_stopped_in_the_middle(what, monkeypatch):
    """What was graded stays graded, what was executed is not executed again."""
    run = grade.Run.take
    calls = []

    def stopped(self, found):
        calls.append(found.student)
        if len(calls) == 2:
            monkeypatch.setattr(self.writer, "write", interrupted)
        run(self, found)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(grade.Run, "take", stopped)
    with pytest.raises(KeyboardInterrupt):
        scores(what)
    assert jobs() == {"ada": None, "bob": None}
    monkeypatch.setattr(grade.Run, "take", run)
    assert scores(what) == {"ada": 5, "bob": 3, "eve": 0}
    assert jobs() == {"bob": set(), "eve": None}


@pytest.mark.parametrize("moment", ["before the gradebook is written", "after it"])
@pytest.mark.parametrize(
    "change, waiting",
    [
        ("time", {"ch01-q01-check": False, "ch01-q03": False}),  # the same work and the same verdicts
        ("check", {"ch01-q01-check": True, "ch01-q03": False}),
        ("submission", {"ch01-q01-check": True, "ch01-q03": True}),
    ],
)
@pytest.mark.sample(quick=1, kind="moment")
def test_stopped_at_work_that_a_person_graded(what, monkeypatch, change, waiting, moment):
    """What waits for a person is what would, had nobody stopped it."""
    scores(what)
    with grade_of(what, "ada", "ch01-q03") as one:
        one.manual_score, one.needs_manual_grade = 3.5, False
    with grade_of(what, "ada", "ch01-q01-check") as one:
        one.manual_score, one.needs_manual_grade = 1.5, False
    if change == "time":
        what.notebook("submitted", "ada").with_name("timestamp.txt").write_text("2030-01-02 12:00:00 UTC")
    elif change == "check":
        nb = nbformat.read(what.notebook("source"), as_version=4)
        check = next(c for c in nb.cells if c.id == "ch01-q01-check")
        check.source = check.source.replace("check.report(", "0 * check.report(", 1)
        nbformat.write(nb, what.notebook("source"))
    else:
        hand_in(what, "ada", WRONG, SECOND, "Bandwidth.")
    steps = gradebook_writer.course.run

    def stopped(*words, **more):
        if moment == "after it":
            assert steps(*words, **more) == (True, "")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(gradebook_writer.course, "run", stopped)
        with pytest.raises(KeyboardInterrupt):
            scores(what)
    scores(what)
    for cell, waits in waiting.items():
        with grade_of(what, "ada", cell) as one:
            assert (one.manual_score, one.needs_manual_grade) == (3.5 if cell == "ch01-q03" else 1.5, waits)


@pytest.mark.slow("waits for an engine that fails")
def test_a_fault_of_ours_is_tried_again(what, monkeypatch):
    def broken(*_, **__):
        raise OSError("no more sockets")

    monkeypatch.setattr(one_submission, "_outputs", broken)
    rows = {r.student: r for r in grade.grade(what, progress=False)}
    assert "Grading failed, and not by this notebook: OSError: no more sockets" in rows["ada"].why
    assert rows["ada"].total == 0
    monkeypatch.undo()
    monkeypatch.setattr(grade, "pool", Serial)
    monkeypatch.setattr(grade, "write_feedback", lambda *_: None)
    monkeypatch.setenv("COURSE_SECRET", "not a secret")
    jobs()
    assert scores(what) == {"ada": 5, "bob": 3, "eve": 0}
    assert jobs() == {"ada": None, "bob": None}


def test_damaged_records_are_made_anew(what):
    scores(what)
    jobs()
    for path in (what.root / ".grading" / TOPIC).glob("*.json"):
        path.write_text(path.read_text()[:50])
    assert scores(what) == {"ada": 5, "bob": 3, "eve": 0}
    assert jobs() == {"ada": None, "bob": None, "eve": None}


def test_the_time_of_submission_is_kept(what):
    folder = what.notebook("submitted", "ada").parent
    (folder / "timestamp.txt").write_text("2030-01-01 12:00:00 UTC")
    scores(what)
    with what.gradebook() as book:
        assert str(book.find_submission(TOPIC, "ada").timestamp) == "2030-01-01 12:00:00"
    jobs()
    (folder / "timestamp.txt").write_text("2030-01-02 12:00:00 UTC")
    scores(what)
    assert jobs() == {"ada": set()}
    with what.gradebook() as book:
        assert str(book.find_submission(TOPIC, "ada").timestamp) == "2030-01-02 12:00:00"


def test_walls_are_wanted(what, monkeypatch, capsys):
    """A host that cannot isolate grades nothing, unless told, and neither does stock nbgrader; nothing is lost."""
    scores(what)

    for module in (grade, nbgrader_steps):
        monkeypatch.setattr(module, "available", lambda: Host(False, False, 0, True, "", False))
    with pytest.raises(grade.SourceError, match="neither user namespaces nor Landlock 6.*COURSE_SANDBOX=off"):
        grade.grade(what)
    before = what.notebook("autograded", "ada").read_bytes()
    result = course.api(what.config()).autograde(TOPIC, "ada", force=True)  # as the Formgrader's button does
    assert not result["success"]
    assert result["log"].strip() == f"[ERROR] {nbgrader_steps.available().refused}"
    assert what.notebook("autograded", "ada").read_bytes() == before
    monkeypatch.setenv("COURSE_SANDBOX", "off")
    assert not what.assignment().isolated


def test_secret_is_made_once_outside_of_the_course(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("COURSE_SECRET", raising=False)
    monkeypatch.setattr(hidden_values.platformdirs, "user_config_path", lambda name: tmp_path / name)
    made = hidden_values.secret()
    path = tmp_path / "rooflines-to-racks/secret"
    assert made == path.read_text() == hidden_values.secret()
    assert len(made) == 64 and path.stat().st_mode & 0o77 == 0
    assert made not in capsys.readouterr().out


@pytest.mark.slow
def test_one_validator_for_all_notebooks():
    """nbgrader reads its schema anew for each: what was compiled for one must not be kept beside that of the next."""
    gradebook_writer.faster()

    def validators() -> int:
        gc.collect()
        return sum(type(o).__name__ == "Draft4Validator" for o in gc.get_objects())

    cell = new_code_cell(metadata={"nbgrader": {"grade_id": "a", "solution": True, "grade": False, "locked": False}})
    cell.metadata.nbgrader.update(schema_version=3, task=False, cell_type="code")
    validation.MetadataValidator().validate_cell(cell)
    known = validators()
    for _ in range(5):
        validation.MetadataValidator().validate_cell(cell)
    assert validators() == known
    cell.metadata.nbgrader["grade"] = "yes"
    with pytest.raises(validation.ValidationError, match="'yes' is not of type 'boolean'"):
        validation.MetadataValidator().validate_cell(cell)
