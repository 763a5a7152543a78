"""Archives of Canvas and Moodle put into a course: everybody is placed or named, and nothing is lost."""

import json
import random
import zipfile

import pytest
from nbgrader.api import Gradebook

from autograder import collect, grade
from autograder.lms import placing
from autograder.places import SourceError

from .platforms import TOPIC, Member, canvas_gradebook, canvas_name, csv_text, moodle_name, worksheet, zipped
from .test_senders import NAMES

# nbgrader's own add_submission makes SQLAlchemy warn.
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")

ADA = Member("Ada", "Lovelace", 11, "ada", "ada@example.org")
BOB = Member("Bob", "Noyce", 12, "bob", "bob@example.org")
WEI = Member("伟", "张", 13, "wei", "wei@example.org")
CLASS = [ADA, BOB, WEI]


def notebook(text: str) -> bytes:
    return json.dumps({"cells": [], "metadata": {"say": text}, "nbformat": 4, "nbformat_minor": 5}).encode()


A, B, C = (notebook(x) for x in "abc")


def canvas_list(tmp_path, members=CLASS):
    (tmp_path / "canvas.csv").write_text(csv_text(canvas_gradebook(members)), encoding="utf-8")
    return tmp_path / "canvas.csv"


def moodle_list(tmp_path, members=CLASS, **more):
    (tmp_path / "moodle.csv").write_text(csv_text(worksheet(members, **more)), encoding="utf-8-sig")
    return tmp_path / "moodle.csv"


def take(what, tmp_path, files, given=None):
    return collect.collect(what, zipped(tmp_path / "submissions.zip", files), given)


def lies(what, student) -> dict[str, bytes]:
    top = what.notebook("submitted", student).parent
    return {p.relative_to(top).as_posix(): p.read_bytes() for p in top.rglob("*") if p.is_file()}


def test_canvas_as_it_is(what, tmp_path):
    found = take(what, tmp_path, {
        canvas_name(ADA, "exercises.ipynb"): A,
        canvas_name(WEI, "ch01_张 (1).ipynb", late=True): B,
        canvas_name(WEI, "notes.pdf", 9001, late=True): b"%PDF",
    }, canvas_list(tmp_path))  # fmt: skip
    assert lies(what, "ada") == {"exercises.ipynb": A}
    assert lies(what, "wei") == {"exercises.ipynb": B, "notes.pdf": b"%PDF"}
    assert [(r.student, r.state) for r in found.rows] == [("ada", "new"), ("wei", "new")]
    assert found.rows[1].notes == ["late, by Canvas"] and not list(what.root.rglob("timestamp.txt"))
    assert found.missing == ["bob"]
    assert not (found.strangers or found.unclaimed or found.complaints or found.by_name)
    with what.gradebook() as g:
        known = {s.id: (s.first_name, s.last_name, s.lms_user_id) for s in g.students}
        assert known == {m.login: (m.first, m.last, str(m.number)) for m in CLASS}


@pytest.mark.parametrize("folders", [True, False])
def test_moodle_as_it_is(folders, what, tmp_path):
    files = {moodle_name(ADA, "Exercises.ipynb", folders): A, moodle_name(WEI, "exercises.ipynb", folders): B,
             moodle_name(WEI, "onlinetext.html", folders, "onlinetext"): b"<p>see file"}  # fmt: skip
    found = take(what, tmp_path, files, moodle_list(tmp_path, late=[WEI]))
    assert lies(what, ADA.email) == {"exercises.ipynb": A}
    assert lies(what, WEI.email) == {"exercises.ipynb": B, "onlinetext.html": b"<p>see file"}
    assert found.missing == [BOB.email] and found.rows[1].notes == ["late, by Moodle"]
    with what.gradebook() as g:
        assert g.find_student(WEI.email).email == WEI.email and g.find_student(WEI.email).last_name == WEI.last


def test_a_folder_does_as_well(what, tmp_path):
    files = {"CS 101/" + moodle_name(ADA, "exercises.ipynb"): A, "bob/x.ipynb": B}
    with zipfile.ZipFile(zipped(tmp_path / "s.zip", files)) as z:
        z.extractall(tmp_path / "folder")
    with what.gradebook() as g:
        g.add_student("bob")
    found = collect.collect(what, tmp_path / "folder")
    assert lies(what, "Participant 11") == {"exercises.ipynb": A} and lies(what, "bob") == {"exercises.ipynb": B}
    assert found.strangers == ["Participant 11"]


def test_anonymous_students_are_their_numbers(what, tmp_path):
    take(what, tmp_path, {canvas_name(ADA, "exercises.ipynb", anonymous="aB3xZ"): A})
    take(what, tmp_path, {moodle_name(ADA, "exercises.ipynb", blind=True): B})
    assert lies(what, "anon_aB3xZ") == {"exercises.ipynb": A} and lies(what, "Participant 11") == {"exercises.ipynb": B}


def test_who_is_not_in_the_list_is_taken_and_named(what, tmp_path):
    eve = Member("Eve", "New", 99)
    found = take(what, tmp_path, {canvas_name(eve, "exercises.ipynb"): A}, canvas_list(tmp_path))
    assert found.strangers == ["99"] and lies(what, "99") == {"exercises.ipynb": A}
    with what.gradebook() as g:
        assert g.find_student("99").lms_user_id == "99"
    late_entry = take(what, tmp_path, {canvas_name(eve, "exercises.ipynb"): A}, canvas_list(tmp_path, [*CLASS, eve]))
    assert not late_entry.strangers and [(r.student, r.state) for r in late_entry.rows] == [("99", "same")]


def test_a_participants_number_is_nobodys_matriculation_number(what, tmp_path):
    with what.gradebook() as g:
        g.add_student("11", first_name="Grace", last_name="Hopper")
    take(what, tmp_path, {moodle_name(ADA, "exercises.ipynb"): A, canvas_name(ADA, "exercises.ipynb"): B})
    assert lies(what, "Participant 11") == {"exercises.ipynb": A} and lies(what, "Canvas 11") == {"exercises.ipynb": B}
    assert not lies(what, "11")


def test_names_count_where_a_list_has_no_numbers(what, tmp_path):
    (tmp_path / "c.csv").write_text("First name,Last name,Email address\nAda,Lovelace,ada@x.org\nBob,Noyce,bob@x.org\n")
    twin = Member("Bob", "Noyce", 77)
    found = take(what, tmp_path, {moodle_name(m, "exercises.ipynb"): A for m in (ADA, BOB, twin)}, tmp_path / "c.csv")
    assert [r.student for r in found.rows] == ["Participant 12", "Participant 77", "ada@x.org"]
    assert found.strangers == ["Participant 12", "Participant 77"] and found.missing == ["bob@x.org"]
    assert found.by_name == ["ada@x.org (number 11)"]
    said = " ".join(collect.table(found, TOPIC).split())
    assert "Found by the name, for want of a number in the class list (1): ada@x.org" in said


def test_a_students_zip_is_unpacked_once(what, tmp_path):
    inner = zipped(tmp_path / "i.zip", {f"{TOPIC}/exercises.ipynb": A, "ch02_sharding/exercises.ipynb": B,
                                        "__MACOSX/._x": b"", "../../evil.ipynb": C}).read_bytes()  # fmt: skip
    twice = zipped(tmp_path / "t.zip", {"i.zip": inner, "exercises.ipynb": C}).read_bytes()
    found = take(what, tmp_path, {
        moodle_name(ADA, "my work.zip"): inner, moodle_name(BOB, "t.zip"): twice, moodle_name(WEI, "w.zip"): b"PK broken",
        moodle_name(WEI, "w.rar"): b"Rar!",
    }, moodle_list(tmp_path))  # fmt: skip
    assert lies(what, ADA.email) == {"exercises.ipynb": A, "ch02_sharding/exercises.ipynb": B}
    assert lies(what, BOB.email) == {"exercises.ipynb": C, "i.zip": inner}
    assert lies(what, WEI.email) == {"w.zip": b"PK broken", "w.rar": b"Rar!"}
    notes = {r.student: r.notes for r in found.rows}
    assert notes[ADA.email] == ["../../evil.ipynb is not taken: its name leads out", "2 notebooks"]
    assert notes[BOB.email] == ["i.zip is not unpacked: only a .zip is, and none inside another"]
    assert notes[WEI.email] == [
        "w.zip is not unpacked: it is no whole zip file", "w.rar is not unpacked: only a .zip is, and none inside another",
        "no notebook"]  # fmt: skip
    assert not list(tmp_path.rglob("evil*"))


def test_a_zip_that_grows_fills_nothing(what, tmp_path, monkeypatch):
    monkeypatch.setattr(placing, "LARGEST_FOLDER", 1_000_000)
    monkeypatch.setattr(placing, "FILES", 30)
    data = {f"{i}.bin": bytes(200_000) for i in range(20)} | {"exercises.ipynb": A}
    bomb, many = zipped(tmp_path / "b.zip", data), zipped(tmp_path / "m.zip", dict.fromkeys(map(str, range(31)), b""))
    found = take(what, tmp_path, {canvas_name(ADA, "b.zip"): bomb.read_bytes(), canvas_name(BOB, "m.zip"): many.read_bytes()},
                 canvas_list(tmp_path))  # fmt: skip
    there = lies(what, "ada")
    assert there["exercises.ipynb"] == A and sum(map(len, there.values())) < 1_000_000
    assert sum("together has more than 1 MB" in n for n in found.rows[0].notes) == 20 - (len(there) - 1)
    assert found.rows[1].notes[0].startswith("m.zip is not unpacked: it holds 31 files")


@pytest.mark.parametrize("files, wanted", [
    ([("exercises-1.ipynb", 5)], {"exercises.ipynb"}),
    ([("Kopie von Übung.ipynb", 5)], {"exercises.ipynb"}),
    ([("exercises.ipynb.txt", 5)], {"exercises.ipynb"}),
    ([("exercises-2.ipynb", 5), ("scratch.ipynb", 6)], {"exercises.ipynb", "scratch.ipynb"}),
    ([("exercises.ipynb", 5), ("exercises-1.ipynb", 6)], {"exercises.ipynb", "exercises-1.ipynb"}),
    ([("exercises-1.ipynb", 9), ("exercises (2).ipynb", 6)], {"exercises.ipynb", "exercises (2).ipynb"}),
    ([("a.ipynb", 5), ("b.ipynb", 6)], {"a.ipynb", "b.ipynb"}),
])  # fmt: skip
def test_which_notebook_is_meant(files, wanted, what, tmp_path):
    take(what, tmp_path, {canvas_name(ADA, f, n): notebook(str(n)) for f, n in files}, canvas_list(tmp_path))
    there = lies(what, "ada")
    assert set(there) == wanted
    if any(f.startswith("exercises-1") and n == 9 for f, n in files):
        assert there["exercises.ipynb"] == notebook("9")  # the newest


def test_the_newest_of_two_with_one_name_keeps_it(what, tmp_path):
    files = {canvas_name(ADA, "exercises.ipynb", n): notebook(str(n)) for n in (5, 7, 6)}
    take(what, tmp_path, files, canvas_list(tmp_path))
    assert lies(what, "ada")["exercises.ipynb"] == notebook("7") and len(lies(what, "ada")) == 3


def test_a_second_try_replaces_and_the_first_is_kept(what, tmp_path):
    given = canvas_list(tmp_path)
    place = what.notebook("submitted", "ada").parent
    for n, data in enumerate((A, A, B, B, C)):
        found = take(what, tmp_path, {canvas_name(ADA, "exercises.ipynb", n + 1): data}, given)
        assert found.rows[0].state == ("new", "same", "replaced", "same", "replaced")[n]
        if n == 0:
            (place / "timestamp.txt").write_text("2030-01-01 00:00:00 UTC")
        assert (place / "timestamp.txt").is_file() == (n < 2)
    assert lies(what, "ada") == {"exercises.ipynb": C}
    kept = what.root / "collected" / TOPIC / "replaced" / "ada"
    assert [(kept / n / "exercises.ipynb").read_bytes() for n in "12"] == [A, B]
    assert (kept / "1" / "timestamp.txt").is_file()
    found = take(what, tmp_path, {canvas_name(BOB, "exercises.ipynb"): A}, given)
    assert found.earlier == ["ada"] and found.missing == ["wei"] and lies(what, "ada") == {"exercises.ipynb": C}


def test_a_student_does_not_say_when(what, tmp_path):
    own = {"timestamp.txt": b"1990", "submission_secret.txt": b"x", "a.ipynb": A}
    files = {
        canvas_name(ADA, "i.zip"): zipped(tmp_path / "i.zip", own).read_bytes(),
        canvas_name(BOB, "timestamp.txt"): b"1990",
    }
    take(what, tmp_path, files, canvas_list(tmp_path))
    assert set(lies(what, "ada")) == {"exercises.ipynb", "student-timestamp.txt", "student-submission_secret.txt"}
    assert set(lies(what, "bob")) == {"student-timestamp.txt"}


def test_what_belongs_to_nobody_is_kept_and_named(what, tmp_path):
    files = {"exercises.ipynb": A, "Default group_assignsubmission_file_/exercises.ipynb": B, "../up.ipynb": C,
             f"{'9' * 130}_1_2_x.ipynb": C, f"a_{'9' * 130}_2_x.ipynb": C}  # fmt: skip
    for _ in range(2):
        found = take(what, tmp_path, files)
        assert sorted(found.unclaimed)[:3] == [
            "../up.ipynb (its name leads out of the archive)",
            "Default group_assignsubmission_file_/exercises.ipynb",
            f"a_{'9' * 130}_2_x.ipynb",
        ]
    top = what.root / "collected" / TOPIC / "unclaimed"
    assert sorted(p.read_bytes() for p in top.rglob("*") if p.is_file()) == sorted([A, B, C])
    assert [r.student for r in found.rows] == ["1"]


def test_what_cannot_be_read_is_not_nothing(what, tmp_path):
    link = zipfile.ZipInfo(canvas_name(ADA, "exercises.ipynb"))
    link.create_system, link.external_attr = 3, 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "s.zip", "w") as z:
        z.writestr(link, "/etc/passwd")
    found = collect.collect(what, tmp_path / "s.zip", canvas_list(tmp_path))
    (row,) = found.rows
    assert (row.student, row.state, row.notes[0]) == ("ada", "not taken", "exercises.ipynb is not taken: it is a link")
    assert found.missing == ["bob", "wei"] and not what.students


def test_a_groups_work_is_that_of_each_member(what, tmp_path):
    """Moodle names the group and its number, which may be somebody's own."""
    rows = worksheet(CLASS)
    rows = [[*row, team] for row, team in zip(rows, ("Group", "Team: red_1", "Team: red_1", ""))]
    (tmp_path / "m.csv").write_text(csv_text(rows), encoding="utf-8")
    group = Member("Team red_1", "", WEI.number)
    files = {moodle_name(group, "exercises.ipynb"): A, "Default group_assignsubmission_file/exercises.ipynb": B}
    found = take(what, tmp_path, files, tmp_path / "m.csv")
    assert lies(what, ADA.email) == lies(what, BOB.email) == {"exercises.ipynb": A}
    assert found.missing == [WEI.email] and len(found.unclaimed) == 1


def test_canvas_names_a_group_and_the_number_of_one_member(what, tmp_path):
    """app/models/assignment.rb: `representative.sortable_name = group_name`, where one grade is for all of the group."""
    files = {canvas_name(Member("Team: red 1", "", ADA.number), "exercises.ipynb"): A}
    found = take(what, tmp_path, files, canvas_list(tmp_path))
    assert [r.student for r in found.rows] == ["ada"] and found.missing == ["bob", "wei"]
    (note,) = found.rows[0].notes
    assert "teamred1" in note and "its other members get nothing here" in note and "column Group" in note

    rows = [[*r, t] for r, t in zip(canvas_gradebook(CLASS), ["Group", "", "", "Team: red 1", "Team: red 1", "", ""])]
    (tmp_path / "groups.csv").write_text(csv_text(rows), encoding="utf-8")
    found = take(what, tmp_path, files, tmp_path / "groups.csv")
    assert lies(what, "ada") == lies(what, "bob") == {"exercises.ipynb": A} and found.missing == ["wei"]
    assert found.rows[1].notes == ["Canvas says it is from teamred1"]
    alone = take(what, tmp_path, {canvas_name(ADA, "exercises.ipynb"): B}, tmp_path / "groups.csv")
    assert lies(what, "ada") == {"exercises.ipynb": B} and lies(what, "bob") == {"exercises.ipynb": A}
    assert not alone.rows[0].notes  # her own name: not the group's work
    odd = {canvas_name(Member("mllerzo", "", m.number), "exercises.ipynb"): C for m in (ADA, WEI)}
    notes = {r.student: r.notes for r in take(what, tmp_path, odd).rows}  # Canvas may drop letters of a name
    assert notes == {"ada": ["Canvas says it is from mllerzo, and the class list of the group Team: red 1"], "wei": []}


def test_canvas_s_export_of_a_group_set_is_a_class_list(what, tmp_path):
    """Its columns: developerdocs.instructure.com, Group Categories CSV Format."""
    rows = [["name", "canvas_user_id", "user_id", "login_id", "sections", "group_name", "canvas_group_id", "group_id"]]
    rows += [[f"{m.first} {m.last}", m.number, "", m.login, "1", t, "7", ""] for m, t in zip(CLASS, ("Red", "Red", ""))]
    (tmp_path / "set.csv").write_text(csv_text(rows), encoding="utf-8")
    found = take(what, tmp_path, {canvas_name(Member("Red", "", BOB.number), "a.ipynb"): A}, tmp_path / "set.csv")
    assert [r.student for r in found.rows] == ["ada", "bob"] and found.missing == ["wei"]


def test_one_that_cannot_be_placed_stops_no_other(what, tmp_path):
    (what.root / "submitted").mkdir()
    (what.root / "submitted" / "ada").write_text("a file where a folder should be")
    long = Member("伟" * 60, "", 15, "伟" * 128)
    files = {canvas_name(m, "exercises.ipynb"): A for m in (ADA, BOB, long)}
    found = take(what, tmp_path, files, canvas_list(tmp_path, [ADA, BOB, long]))
    assert {r.student: r.state for r in found.rows} == {"ada": "not taken", "bob": "new", long.login: "not taken"}
    (notes,) = (r.notes for r in found.rows if r.student == long.login)
    assert "it cannot be placed: file name too long" in notes and not found.missing


def test_one_id_twice_in_a_list(what, tmp_path):
    (tmp_path / "c.csv").write_text("id,email\nada,a@x.org\nada,\nb/d,\n")
    found = take(what, tmp_path, {"ada/exercises.ipynb": A}, tmp_path / "c.csv")
    assert found.complaints == ["ada", "b/d"] and [r.student for r in found.rows] == ["ada"]


@pytest.mark.parametrize("platform", ["Canvas", "Moodle"])
@pytest.mark.sample(quick=1)
def test_everybody_is_placed_or_named(platform, what, tmp_path):
    """Classes with names in ten scripts, a part of them in the list, files of every kind and in any order."""
    draw = random.Random(0)
    for turn in range(3):
        scratch = grade.Class(TOPIC, tmp_path / f"course{turn}")
        scratch.root.mkdir()
        with scratch.gradebook() as g:
            g.add_assignment(TOPIC)
        members = [Member(*draw.choice(NAMES), 1000 + i, f"u{i}", f"u{i}@example.org") for i in range(40)]
        listed, sent, files = members[:30], {}, {}
        for m in draw.sample(members, 30):
            for k in range(draw.choice((1, 1, 1, 2, 3))):
                data = notebook(f"{m.number} {k}")
                names = "exercises.ipynb", f"exercises-{k}.ipynb", "1_2_3.ipynb", "a.zip", "作业.ipynb", "a b.html"
                name = draw.choice(names)
                if name == "a.zip":
                    data = zipped(tmp_path / "i.zip", {"hw/x.ipynb": data}).read_bytes()
                if platform == "Canvas":
                    files[canvas_name(m, name, 50 + len(files), late=draw.random() < 0.3)] = data
                else:
                    at = moodle_name(m, name, folders=draw.random() < 0.5, old=draw.random() < 0.5)
                    files[at] = data
                sent.setdefault(m, {})[name] = f"{m.number} {k}"
        files["stray.txt"] = b"?"
        order = draw.sample(sorted(files), len(files))
        given = (canvas_list if platform == "Canvas" else moodle_list)(tmp_path, listed)
        found = take(scratch, tmp_path, {n: files[n] for n in order}, given)
        ids = {m: m.login if platform == "Canvas" else m.email for m in listed}
        ids |= {m: str(m.number) if platform == "Canvas" else f"Participant {m.number}" for m in members[30:]}
        assert {r.student for r in found.rows} == {ids[m] for m in sent}
        assert sorted(found.missing) == sorted(ids[m] for m in listed if m not in sent)
        assert sorted(found.strangers) == sorted(ids[m] for m in members[30:] if m in sent)
        assert found.unclaimed == ["stray.txt"]
        for m in sent:
            there = b"".join(lies(scratch, ids[m]).values())
            assert all(f'"say": "{text}"'.encode() in there for text in sent[m].values()), m
            assert not any(f'"say": "{other.number} '.encode() in there for other in members if other is not m)


def test_the_assignment_has_to_be_there(tmp_path):
    what = grade.Class("ch09_none", tmp_path)
    with Gradebook(f"sqlite:///{tmp_path}/gradebook.db"):
        pass
    with pytest.raises(SourceError, match="does not know ch09_none: run `make release` first"):
        collect.collect(what, tmp_path)


def test_another_archive_is_no_class(what, tmp_path):
    with pytest.raises(SourceError, match="None of the 1 files in .* has a name that Canvas or Moodle gives"):
        take(what, tmp_path, {"photos/1.jpg": b"x"}, canvas_list(tmp_path))
    assert not what.students and not list(what.root.rglob("1.jpg"))


def test_a_large_class_is_told_in_short(what, tmp_path):
    members = [Member("A", f"B{i}", 1000 + i, f"u{i}") for i in range(120)]
    files = {canvas_name(m, "exercises.ipynb", late=m.number == 1007): A for m in members[:60]}
    found = take(what, tmp_path, files, canvas_list(tmp_path, members))
    short, full = collect.table(found, TOPIC), collect.table(found, TOPIC, all_rows=True)
    assert short.startswith("u7  ") and len(short.splitlines()) < 15 and "and 20 more, in autograder/collected" in short
    assert all(f"u{i}" in full for i in range(120)) and len(full.splitlines()) > 60
