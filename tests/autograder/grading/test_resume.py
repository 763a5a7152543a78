"""Graded once: what is known is kept, what has changed is graded again, and what a person gave stays."""

import gc
import shutil

import nbformat
import pytest
from nbformat.v4 import new_code_cell
from nbgrader import nbgraderformat as validation

from autograder import course, grade
from autograder.engine.host import Host
from autograder.grading import gradebook_writer, nbgrader_internals, one_submission, records
from tests.autograder import classes
from tests.autograder.classes import RIGHT, SECOND, TOPIC, WRONG, checks_run, hand_in

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.xdist_group("resume")]  # they share a class

POINTS = {"ada": 5, "bob": 3, "eve": 0}


def scores(what) -> dict[str, float]:
    return {r.student: r.total for r in grade.grade(what, progress=False)}


class grade_of:
    """One grade in the gradebook, to look at or to change."""

    def __init__(self, what, student, cell):
        self.at, self.gradebook = (cell, "exercises", what.topic, student), what.gradebook()

    def __enter__(self):
        return self.gradebook.find_grade(*self.at)

    def __exit__(self, *_):
        self.gradebook.db.commit()
        self.gradebook.close()


def mend(what, check: str) -> None:
    """The check passes nobody any more."""
    nb = nbformat.read(what.notebook("source"), as_version=4)
    mended = classes.cell(nb, check)
    mended.source = mended.source.replace("check.report(", "0 * check.report(", 1)
    assert "0 * check" in mended.source
    nbformat.write(nb, what.notebook("source"))


def test_nothing_is_graded_twice(graded):
    assert scores(graded) == POINTS and checks_run() == {}


def test_a_new_submission_is_a_new_attempt(graded, graded_once):
    first = {j.student: j.values for j in graded_once[1]}
    hand_in(graded, "bob", RIGHT, SECOND)
    assert scores(graded) == POINTS | {"bob": 5}
    [again] = classes.Serial.jobs
    assert again.student == "bob" and again.only is None and again.values != first["bob"]
    assert len(set(first.values())) == 3


def test_a_mended_check_is_run_alone(graded):
    """What a person gave stays, and counts everywhere."""
    with grade_of(graded, "ada", "ch01-q03") as written:
        written.manual_score, written.needs_manual_grade = 3.5, False
    with grade_of(graded, "ada", "ch01-q01-check") as overruled:
        overruled.manual_score, overruled.extra_credit, overruled.needs_manual_grade = 1.5, 0.25, False
    with graded.gradebook() as book:
        book.find_comment("ch01-q03", "exercises", TOPIC, "ada").manual_comment = "Which of them?"
        book.db.commit()
    mend(graded, "ch01-q02-check")
    assert scores(graded) == {"ada": 1.75 + 3.5, "bob": 0, "eve": 0}
    assert checks_run() == {"ada": {"ch01-q02-check"}, "bob": {"ch01-q02-check"}, "eve": None}
    with grade_of(graded, "ada", "ch01-q03") as written:
        assert (written.manual_score, written.needs_manual_grade) == (3.5, False)
    with grade_of(graded, "ada", "ch01-q01-check") as overruled:
        assert (overruled.manual_score, overruled.auto_score, overruled.needs_manual_grade) == (1.5, 2, False)
    with graded.gradebook() as book:
        assert book.find_comment("ch01-q03", "exercises", TOPIC, "ada").comment == "Which of them?"
    nb = nbformat.read(graded.notebook("autograded", "ada"), as_version=4)
    assert "2 of 2 points" in str(classes.cell(nb, "ch01-q01-check").outputs)
    assert classes.exports(graded) == {"ada": (5.25,) * 2, "bob": (0, 0), "eve": (0, 0)}


def test_a_lost_gradebook_is_filled_without_running_anything(graded):
    shutil.rmtree(graded.root / "autograded")
    with graded.gradebook() as book:
        book.remove_submission(graded.topic, "bob")
    assert scores(graded) == POINTS
    assert checks_run() == {"ada": set(), "bob": set(), "eve": None}


def test_another_way_to_read_submissions_is_no_new_submission(graded, monkeypatch):
    """What was graded before is found: no check is run, and a text that was taken for none waits for a person."""
    with grade_of(graded, "ada", "ch01-q03") as written:
        written.auto_score, written.needs_manual_grade = 0, False
    with grade_of(graded, "bob", "ch01-q03") as by_hand:
        by_hand.manual_score, by_hand.needs_manual_grade = 2, False
    monkeypatch.setattr(records, "taking", lambda: "another")
    again = {r.student: r for r in grade.grade(graded, progress=False)}
    assert checks_run() == {"ada": set(), "bob": set(), "eve": None}
    assert again["ada"].open == {"ch01-q03"} and again["bob"].total == 5 and not again["bob"].open


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
    assert checks_run() == {"ada": None, "bob": None}
    monkeypatch.setattr(grade.Run, "take", run)
    assert scores(what) == POINTS
    assert checks_run() == {"bob": set(), "eve": None}


@pytest.mark.parametrize("moment", ["before the gradebook is written", "after it"])
@pytest.mark.parametrize("change, waiting", [
    ("time", {"ch01-q01-check": False, "ch01-q03": False}),  # the same work and the same verdicts
    ("check", {"ch01-q01-check": True, "ch01-q03": False}),
    ("submission", {"ch01-q01-check": True, "ch01-q03": True}),
])  # fmt: skip
@pytest.mark.sample(quick=2)
def test_stopped_at_work_that_a_person_graded(graded, monkeypatch, change, waiting, moment):
    """What waits for a person is what would, had nobody stopped it."""
    with grade_of(graded, "ada", "ch01-q03") as written:
        written.manual_score, written.needs_manual_grade = 3.5, False
    with grade_of(graded, "ada", "ch01-q01-check") as overruled:
        overruled.manual_score, overruled.needs_manual_grade = 1.5, False
    if change == "time":
        classes.stamp(graded, "ada", "2030-01-02 12:00:00 UTC")
    elif change == "check":
        mend(graded, "ch01-q01-check")
    else:
        hand_in(graded, "ada", WRONG, SECOND, "Bandwidth.")
    steps = gradebook_writer.course.run

    def stopped(*words, **more):
        if moment == "after it":
            assert steps(*words, **more) == (True, "")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(gradebook_writer.course, "run", stopped)
        with pytest.raises(KeyboardInterrupt):
            scores(graded)
    scores(graded)
    for key, waits in waiting.items():
        with grade_of(graded, "ada", key) as found:
            assert (found.manual_score, found.needs_manual_grade) == (3.5 if key == "ch01-q03" else 1.5, waits)


@pytest.mark.slow("waits for an engine that fails")
def test_a_fault_of_ours_is_tried_again(what, monkeypatch):
    def broken(*_, **__):
        raise OSError("no more sockets")

    with monkeypatch.context() as patch:
        patch.setattr(one_submission, "_outputs", broken)
        rows = {r.student: r for r in grade.grade(what, progress=False)}
    assert "Grading failed, and not by this notebook: OSError: no more sockets" in rows["ada"].why
    assert rows["ada"].total == 0
    checks_run()
    assert scores(what) == POINTS
    assert checks_run() == {"ada": None, "bob": None}


def test_the_time_of_submission_is_kept_and_the_deadline_counts(graded):
    """An hour and a half late costs two points in every export; when the deadline moves a day, none."""
    classes.stamp(graded, "ada", "2030-02-01 13:30:00 UTC")
    assert scores(graded) == POINTS and checks_run() == {"ada": set()}  # the table is of work, not of lateness
    with graded.gradebook() as book:
        assert str(book.find_submission(TOPIC, "ada").timestamp) == "2030-02-01 13:30:00"
    assert classes.penalties(graded) == {"ada": 2, "bob": 0, "eve": 0} and classes.exports(graded)["ada"] == (3, 3)
    with graded.gradebook() as book:
        book.update_or_create_assignment(TOPIC, duedate="2030-02-02 12:00:00 UTC")
    assert scores(graded) == POINTS and checks_run() == {"ada": set()}  # nothing moves for the others
    assert not any(classes.penalties(graded).values()) and classes.exports(graded)["ada"] == (5, 5)


def test_walls_are_wanted(graded, monkeypatch):
    """A host that cannot isolate grades nothing, unless told; stock nbgrader names the one command; nothing is lost."""
    monkeypatch.setattr(grade, "available", lambda: Host(False, False, 0, True, "", False))
    with pytest.raises(grade.SourceError, match="neither user namespaces nor Landlock 6.*COURSE_SANDBOX=off"):
        grade.grade(graded)
    before = graded.notebook("autograded", "ada").read_bytes()
    result = course.api(graded.config()).autograde(TOPIC, "ada", force=True)  # as the Formgrader's button does
    assert not result["success"]
    assert result["log"].strip() == f"[ERROR] {nbgrader_internals.ONE_WAY}"
    assert graded.notebook("autograded", "ada").read_bytes() == before
    monkeypatch.setenv("COURSE_SANDBOX", "off")
    assert not graded.assignment().isolated


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
