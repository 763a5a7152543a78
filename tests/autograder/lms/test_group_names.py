"""Groups and people with names that look like what a platform adds: zips as Canvas and Moodle make them, read back."""

from dataclasses import replace

import pytest

from autograder import collect
from autograder.lms.archives import place
from autograder.lms.class_list import Person
from autograder.lms.roster import Roster
from autograder.lms.senders import claim

from .platforms import (
    Member,
    canvas_gradebook,
    canvas_name,
    csv_text,
    moodle_group_name,
    moodle_name,
    worksheet,
    zipped,
)
from .test_collect import A, B, lies

ADA = Member("Ada", "Lovelace", 11, "ada", "ada@example.org")
BOB = Member("Bob", "Noyce", 12, "bob", "bob@example.org")
EVE = Member("Eve", "One", 1, "eve", "eve@example.org")
CLASS = [ADA, BOB, EVE]

TEAMS = [
    *"Team_1|Team_01_2_3|Team _1 _2|_1|1_1|12|a_11_12|text_5|1_text|Straße_7".split("|"), "x" * 120 + "_1",
    *"LATE|Team_late|Team_LATE_1|anon_7|Anonymous_X_1|α-β_2|チーム_2|فريق_٣|Team ②|Team_½_4|★|🚀_🚀|Ⅳ".split("|"),
]  # fmt: skip
FILES = ["exercises.ipynb", "1_2_exercises.ipynb", "12_900_exercises.ipynb", "text.html", "Упражнения-" * 9 + ".ipynb"]


def groups(rows, teams):
    """A platform's export with a column for the group."""
    blank = [""] * (len(rows) - 1 - len(CLASS) - 1)
    names = ["Group", *blank, *teams, ""] if blank else ["Group", *teams]
    return csv_text([[*row, team] for row, team in zip(rows, names, strict=True)])


@pytest.fixture
def canvas(tmp_path):
    def list_of(*teams):
        (tmp_path / "canvas.csv").write_text(groups(canvas_gradebook(CLASS), teams), encoding="utf-8")
        return tmp_path / "canvas.csv"

    return list_of


def team(name: str, who: Member) -> Member:
    """The member of a group whose number Canvas gives, under the group's name."""
    return Member(name, "", who.number)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("name", TEAMS)
def test_the_sender_is_the_group_that_canvas_names(name, late):
    """Its name ends as a number does, or says that it is late, or has no letter at all."""
    people = {m.login: Person((m.login,), m.first, m.last, canvas=str(m.number)) for m in CLASS}
    people |= {s: replace(people[s], team=name) for s in ("ada", "bob")}
    known = Roster(people, set(people))
    known.index()
    for file, number in (*((f, 900) for f in FILES), ("text.html", 0)):
        path = place(canvas_name(team(name, ADA), file, number, late))
        found = claim(path, lambda s: known.find(s) is not None, known.named)
        assert (found.path, found.sender.late) == ((file,), late)
        assert known.members(found.sender) == ["ada", "bob"]


@pytest.mark.parametrize("name", ["Team_1", "Team_late", "★"])
def test_a_group_of_canvas_is_placed(name, what, tmp_path, canvas):
    files = {canvas_name(team(name, ADA), f, 900 + i): f.encode() for i, f in enumerate(FILES)}
    files |= {canvas_name(team(name, ADA), "text.html", 0): b"typed", canvas_name(EVE, "a.ipynb", late=True): B}
    found = collect.collect(what, zipped(tmp_path / "s.zip", files), canvas(name, name, ""))
    assert [r.student for r in found.rows] == ["ada", "bob", "eve"] and not (found.strangers or found.unclaimed)
    assert sorted(lies(what, "ada").values()) == sorted([*map(str.encode, FILES), b"typed"])
    assert lies(what, "ada") == lies(what, "bob") and list(lies(what, "eve").values()) == [B]
    assert ["late, by Canvas" in r.notes for r in found.rows] == [False, False, True]


def test_two_groups_of_signs_are_two(what, tmp_path, canvas):
    files = {canvas_name(team("★", ADA), "exercises.ipynb"): A, canvas_name(team("☂", BOB), "exercises.ipynb"): B}
    collect.collect(what, zipped(tmp_path / "s.zip", files), canvas("★", "☂", "★"))
    assert [lies(what, s)["exercises.ipynb"] for s in ("ada", "bob", "eve")] == [A, B, A]


@pytest.mark.parametrize("name", ["Team_1", "Team_7"])
def test_without_groups_the_other_reading_is_named(name, what, tmp_path, canvas):
    """1 is Eve's number and 7 nobody's: either way it is said whose it may be, and nobody gets it by a guess."""
    files = {canvas_name(team(name, ADA), "exercises.ipynb"): A}
    found = collect.collect(what, zipped(tmp_path / "s.zip", files), canvas("", "", ""))
    (row,) = found.rows
    assert row.student == ("eve" if name == "Team_1" else "7") and "ada" in found.missing
    assert any(n.startswith(f"it may be from ada, for a group {name.lower()}:") for n in row.notes)


@pytest.mark.parametrize(
    "file", ["11_900_exercises.ipynb", "11_text.html", "12_assignsubmission_file_a.ipynb", "_11_1_.ipynb"]
)
def test_nobody_hands_in_for_another_by_the_name_of_a_file(file, what, tmp_path, canvas):
    for who in (EVE, Member("Mallory", "", 99)):
        found = collect.collect(what, zipped(tmp_path / "s.zip", {canvas_name(who, file): A}), canvas("t", "t", ""))
        assert [r.student for r in found.rows] == [who.login or "99"] and not lies(what, "ada")


@pytest.mark.parametrize("last", ["Lovelace_1", "_1", "1_2", "LATE", "Roe_late", "1_LATE", "O'Neill-2 _3", "anon_1"])
@pytest.mark.sample(quick=4)
def test_people_with_such_names(last, what, tmp_path):
    """Also with groups by the same number, and with a file whose name goes on like that."""
    who = Member("A", last, 11, "a")
    (tmp_path / "c.csv").write_text(csv_text(canvas_gradebook([who, BOB, EVE])), encoding="utf-8")
    files = {canvas_name(who, f, 900 + i): f.encode() for i, f in enumerate(FILES)} | {canvas_name(BOB, "a.ipynb"): B}
    found = collect.collect(what, zipped(tmp_path / "s.zip", files), tmp_path / "c.csv")
    assert [(r.student, [n for n in r.notes if "notebooks" not in n]) for r in found.rows] == [("a", []), ("bob", [])]
    assert sorted(lies(what, "a").values()) == sorted(map(str.encode, FILES))


@pytest.mark.parametrize("folders", [True, False])
@pytest.mark.parametrize(
    "name", "R&D|A < B|Team_1|Team_1_2|1_7_assignsubmission_file|★|🚀_☂|Equipe d'été|LATE|קבוצה_1|Q: <3?".split("|")
)
@pytest.mark.sample(quick=4)
def test_a_group_of_moodle_is_read_whole(name, folders, what, tmp_path):
    (tmp_path / "m.csv").write_text(csv_text([[*r, t] for r, t in zip(worksheet(CLASS), ("Group", name, name, "♥"))]))
    files = {moodle_group_name(name, 77, f, folders): f.encode() for f in FILES}
    files |= {moodle_group_name("♥", 1, "exercises.ipynb", folders): A}
    files |= {moodle_group_name("Default group", None, "exercises.ipynb", folders): B}
    found = collect.collect(what, zipped(tmp_path / "s.zip", files), tmp_path / "m.csv")
    assert [r.student for r in found.rows] == [ADA.email, BOB.email, EVE.email] and len(found.unclaimed) == 1
    assert sorted(lies(what, ADA.email).values()) == sorted(map(str.encode, FILES))
    assert lies(what, ADA.email) == lies(what, BOB.email) and lies(what, EVE.email) == {"exercises.ipynb": A}


def test_another_plugin_of_moodle():
    found = claim(tuple(moodle_name(ADA, "a.ipynb", kind="files2go").split("/")))
    assert found.sender.number == "11" and found.path == ("a.ipynb",)
