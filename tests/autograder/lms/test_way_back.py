"""Grades back to the platforms: each student's points are found by what imitates the import, and by nobody else's row.

From an archive to its points in one go: tests/autograder/grading/test_class.py.
"""

import csv
import io

import pytest

from autograder import collect, grade
from autograder.lms.canvas import title
from autograder.lms.class_list import CANVAS, PEOPLE, ClassList
from autograder.lms.moodle import Moodle

from .platforms import (
    TOPIC,
    Member,
    canvas_gradebook,
    canvas_import,
    canvas_name,
    csv_text,
    moodle_gradebook_import,
    moodle_name,
    moodle_worksheet_import,
    worksheet,
    zipped,
)
from .test_collect import A, canvas_list, moodle_list
from .test_senders import NAMES

# nbgrader's own add_submission makes SQLAlchemy warn.
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")

CLASS = [Member(first, last, 100 + i, f"u{i}", f"u{i}@example.org") for i, (first, last) in enumerate(NAMES)]
CLASS.append(Member("=1+1", '=HYPERLINK("x")', 200, "=cmd", "=cmd@example.org"))
CLASS.append(Member("+", "-", 201, "u201", "u201@example.org"))
ASSIGNMENTS = {12: "Another", 4711: TOPIC}


def graded(what: grade.Class, points: dict[str, float]) -> None:
    """As if graded: each of these students has so many points of five, and one answer waits for a person."""
    with what.gradebook() as g:
        for name, most in (("ch01-q01-check", 4), ("ch01-q02", 1)):
            g.add_grade_cell(name, "exercises", TOPIC, max_score=most, cell_type="code")
        for student, score in points.items():
            g.add_submission(TOPIC, student)
            g.find_grade("ch01-q01-check", "exercises", TOPIC, student).auto_score = score
        g.db.commit()
    grade.export(what)


def said(points: float) -> str:
    return f"Points by exercise: 1.1: {points:g} of 4, 1.2: 0 of 1. A person still has to look at some of it."


def collected(what, tmp_path, name, given):
    """Everybody but the first two handed in; student -> points."""
    source = zipped(tmp_path / "s.zip", {name(m, "exercises.ipynb"): A for m in CLASS[2:]})
    found = collect.collect(what, source, given)
    assert not found.strangers and len(found.missing) == 2
    return {r.student: 0.25 * (i % 17) for i, r in enumerate(found.rows)}


@pytest.mark.parametrize("sis", [True, False])
@pytest.mark.sample(quick=1)
def test_canvas_finds_everybody(sis, what, tmp_path):
    (tmp_path / "c.csv").write_text(csv_text(canvas_gradebook(CLASS, sis=sis)), encoding="utf-8")
    points = collected(what, tmp_path, canvas_name, tmp_path / "c.csv")
    graded(what, points)
    text = (what.root / "canvas.csv").read_text(encoding="utf-8")
    grades, made = canvas_import(text, CLASS, ASSIGNMENTS)
    assert not made
    ids = {m.login: m for m in CLASS} | {"200": CLASS[-2]}  # `=cmd` is no id of ours, so the number is
    assert {key: float(g) for key, g in grades.items()} == {(ids[s].number, 4711): p for s, p in points.items()}
    safe(text)


def test_canvas_finds_those_of_whom_no_list_is_there(what, tmp_path):
    collect.collect(what, zipped(tmp_path / "s.zip", {canvas_name(m, "exercises.ipynb"): A for m in CLASS}))
    graded(what, {str(m.number): 0.25 * i for i, m in enumerate(CLASS)})
    grades, made = canvas_import((what.root / "canvas.csv").read_text(encoding="utf-8"), CLASS, ASSIGNMENTS)
    assert {n: float(g) for (n, _), g in grades.items()} == {
        m.number: 0.25 * i for i, m in enumerate(CLASS)
    } and not made


def test_a_stranger_has_a_row_beside_the_export(what, tmp_path):
    source = zipped(tmp_path / "s.zip", {canvas_name(m, "x.ipynb"): A for m in CLASS})
    collect.collect(what, source, canvas_list(tmp_path, CLASS[1:]))
    graded(what, {str(CLASS[0].number): 3, CLASS[1].login: 2})
    grades, made = canvas_import((what.root / "canvas.csv").read_text(encoding="utf-8"), CLASS, ASSIGNMENTS)
    assert not made and grades == {(100, 4711): "3", (101, 4711): "2"}


@pytest.mark.parametrize("columns, wanted", [
    (["ch01_rooflines (5)", "ch01_rooflines, again (6)"], "ch01_rooflines (5)"),
    (["Ch01 Rooflines: exercises (5)", "Other (6)"], "Ch01 Rooflines: exercises (5)"),
    (["ch01_rooflines a (5)", "ch01_rooflines b (6)"], TOPIC),
    (["ch01_rooflines Current Score (2030)", "Homework 1 (5)"], TOPIC),
])  # fmt: skip
def test_what_canvas_calls_the_assignment(columns, wanted):
    assert title(ClassList(CANVAS, ["Student", "ID", "Section", *columns], []), TOPIC) == wanted


def test_other_points_in_canvas_are_said(what, tmp_path, capsys):
    (tmp_path / "c.csv").write_text(csv_text(canvas_gradebook(CLASS, points="100,00")), encoding="utf-8")
    graded(what, collected(what, tmp_path, canvas_name, tmp_path / "c.csv"))
    assert f"{TOPIC} has 5 points here and 100 in Canvas" in capsys.readouterr().err


@pytest.mark.parametrize("folders", [True, False])
@pytest.mark.sample(quick=1)
def test_moodles_worksheet_takes_everybodys_grade(folders, what, tmp_path, capsys):
    points = collected(what, tmp_path, lambda *a: moodle_name(*a, folders=folders), moodle_list(tmp_path, CLASS))
    graded(what, points)
    text = (what.root / "moodle.csv").read_text(encoding="utf-8")
    found = moodle_worksheet_import(text, CLASS, 5)
    ids = {m.email: m for m in CLASS} | {"Participant 200": CLASS[-2]}
    assert {n: g for n, (g, _) in found.items()} == {ids[s].number: p for s, p in points.items()}
    assert found[103][1] == said(points["u3@example.org"]) and "Moodle" not in capsys.readouterr().err
    given = worksheet(CLASS)
    for row, old in zip(csv.reader(io.StringIO(text)), given, strict=True):
        kept = [i for i, c in enumerate(given[0]) if c not in ("Grade", "Feedback comments")]
        assert [row[i].removeprefix("'") for i in kept] == [old[i] for i in kept]
    safe(text)


def test_moodles_worksheet_in_blind_marking(what, tmp_path):
    rows = [[c for i, c in enumerate(row) if i not in (1, 2)] for row in worksheet(CLASS)]
    (tmp_path / "m.csv").write_text(csv_text(rows), encoding="utf-8")
    points = collected(what, tmp_path, lambda *a: moodle_name(*a, blind=True), tmp_path / "m.csv")
    graded(what, points)
    found = moodle_worksheet_import((what.root / "moodle.csv").read_text(encoding="utf-8"), CLASS, 5)
    assert {f"Participant {n}": g for n, (g, _) in found.items()} == points


def test_what_a_person_wrote_stays(what, tmp_path, capsys):
    rows = worksheet(CLASS, most="3,00")
    rows[3][-1], rows[4][-1] = "- well done!\nMostly.", "<p>Points by exercise: of last week.</p>"
    (tmp_path / "m.csv").write_text(csv_text(rows, ";"), encoding="utf-8")
    points = collected(what, tmp_path, moodle_name, tmp_path / "m.csv")
    graded(what, points)
    found = list(csv.reader(io.StringIO((what.root / "moodle.csv").read_text(encoding="utf-8"))))
    assert found[3][-1] == "- well done!\nMostly." and found[4][-1] == said(points["u3@example.org"])
    assert "5 points here and a maximum grade of 3 in Moodle" in capsys.readouterr().err


def test_moodles_gradebook_without_a_worksheet(what, tmp_path, capsys):
    with what.gradebook() as g:
        for m in CLASS[:5]:
            g.add_student(m.login, first_name=m.first, last_name=m.last, email=m.email)
        g.add_student("nobody")
    ClassList(PEOPLE, ["id"], [], []).save(what.root, TOPIC)
    graded(what, {m.login: i for i, m in enumerate(CLASS[:4])} | {"nobody": 1})
    text = (what.root / "moodle.csv").read_text(encoding="utf-8")
    found = moodle_gradebook_import(text, {m.email for m in CLASS}, TOPIC)
    assert found == {m.email: i for i, m in enumerate(CLASS[:4])}
    assert "Not in moodle.csv, for want of an e-mail address: nobody." in capsys.readouterr().err


def test_moodles_file_of_several_assignments(what, tmp_path):
    with what.gradebook() as g:
        g.add_assignment("ch02_sharding")
        g.add_student("ada", email="ada@example.org")
    graded(what, {"ada": 2})
    with what.gradebook() as g:
        Moodle(to=str(tmp_path / "m.csv"), config=what.config()).export(g)
    assert (tmp_path / "m.csv").read_text(encoding="utf-8").splitlines() == [
        "First name,Last name,Student id,Email address,ch01_rooflines,ch02_sharding", ",,ada,ada@example.org,2,"]  # fmt: skip


def test_grading_names_who_handed_nothing_in(what, tmp_path):
    points = collected(what, tmp_path, canvas_name, canvas_list(tmp_path, CLASS))
    assert grade.missing(what) == ["u0", "u1"]
    graded(what, {**points, "u1": 1})  # another grader has this one, with the same gradebook
    assert grade.missing(what) == ["u0"]


def safe(text: str) -> None:
    """No cell is a formula; a bare "-", Moodle's "no date", is none."""
    for row in csv.reader(io.StringIO(text)):
        assert not any(c.lstrip()[:1] in ("=", "+", "@") or (c.startswith("-") and c != "-") for c in row), row


@pytest.mark.parametrize("first", ["canvas", "moodle"])
@pytest.mark.sample(quick=1)
def test_two_platforms_each_get_their_own_back(first, what, tmp_path):
    """Half of the class is in Canvas and half in Moodle; neither list takes the other's columns or people away."""
    halves, lists = {"canvas": CLASS[:6], "moodle": CLASS[6:12]}, {"canvas": canvas_list, "moodle": moodle_list}
    names, points = {"canvas": canvas_name, "moodle": moodle_name}, {}
    for platform in (first, *(halves.keys() - {first})):
        files = {names[platform](m, "exercises.ipynb"): A for m in halves[platform]}
        given = lists[platform](tmp_path, halves[platform])
        found = collect.collect(what, zipped(tmp_path / "s.zip", files), given)
        assert len(found.rows) == 6 and not (found.strangers or found.missing or found.unlisted)
        points |= {r.student: 0.5 * i for i, r in enumerate(found.rows, 1)}
    assert {*found.lists} == {"class-canvas.json", "class-moodle.json"}
    graded(what, points)
    grades, made = canvas_import((what.root / "canvas.csv").read_text(encoding="utf-8"), CLASS, ASSIGNMENTS)
    assert {n for n, a in grades if a == 4711} == {m.number for m in halves["canvas"]} and not made
    text = (what.root / "moodle.csv").read_text(encoding="utf-8")
    assert moodle_worksheet_import(text, CLASS, 5).keys() == {m.number for m in halves["moodle"]}


def test_the_strangers_of_a_wrong_list_can_go(what, tmp_path):
    """A worksheet whose people are others', then the right one: who stays behind is named, and how each goes."""
    others = [Member("No", f"Body{i}", 9000 + i, email=f"no{i}@example.org") for i in range(3)]
    source = zipped(tmp_path / "s.zip", {moodle_name(m, "exercises.ipynb"): A for m in CLASS[:3]})
    assert len(collect.collect(what, source, moodle_list(tmp_path, others)).strangers) == 3
    # Names of groups in a list make nobody a stranger whose work has the own name.
    rows = [[*row, team] for row, team in zip(worksheet(CLASS[:3]), ("Group", "Red", "Red", ""))]
    (tmp_path / "right.csv").write_text(csv_text(rows), encoding="utf-8")
    found = collect.collect(what, source, tmp_path / "right.csv")
    assert len(found.rows) == 3 and not found.strangers and {*found.unlisted} == {m.email for m in others}
    assert "nbgrader db student remove" in collect.table(found, TOPIC)
    with what.gradebook() as gradebook:
        for student in found.unlisted:
            gradebook.remove_student(student)
    assert not collect.collect(what, source).unlisted
