"""Folders named like students, and Gradescope's export: everybody is placed or named."""

import pytest

from autograder import collect
from autograder.places import SourceError

from .platforms import TOPIC, Member, csv_text, zipped
from .test_collect import ADA, BOB, CLASS, WEI, A, B, C, canvas_list, lies


def test_each_student_has_a_folder(what, tmp_path):
    """In it the files, or a folder of the assignment; a folder of nobody in the class is named and kept."""
    files = {"hw/ada/exercises.ipynb": A, f"hw/bob/{TOPIC}/exercises.ipynb": B, "hw/eve/exercises.ipynb": C}
    found = collect.collect(what, zipped(tmp_path / "s.zip", files), canvas_list(tmp_path))
    assert lies(what, "ada") == {"exercises.ipynb": A} and lies(what, "bob") == {"exercises.ipynb": B}
    assert found.missing == ["wei"] and found.unclaimed == ["hw/eve/exercises.ipynb"]


def test_work_for_another_assignment_is_not_taken_for_this_one(what, tmp_path):
    source = zipped(tmp_path / "s.zip", {"ada/ch02_sharded_matmuls/exercises.ipynb": A})
    with what.gradebook() as g:
        g.add_assignment("ch02_sharded_matmuls")
    with pytest.raises(SourceError, match="in a folder with a student's id"):
        collect.collect(what, source, canvas_list(tmp_path))
    assert not lies(what, "ada")


def export(tmp_path, sent, more=""):
    """What Gradescope zips.

    sent  (number, members, day of the month, file's name, data)
    """
    text, files = "---\n", {}
    for number, members, day, name, data in sent:
        text += f"submission_{number}:\n  :submitters:\n"
        person = "  - :name: {0.first} {0.last}\n    :sid: '{0.number}'\n    :email: {0.email}\n"
        text += "".join(map(person.format, members))
        text += f"  :created_at: 2030-02-{day} 23:30:00.123456000 -08:00\n  :score: 0.0\n  :results: !ruby/object:Odd {{}}\n"
        files[f"assignment_7_export/submission_{number}/{name}"] = data
    return zipped(tmp_path / "s.zip", files | {"assignment_7_export/submission_metadata.yml": (text + more).encode()})


def own_list(tmp_path):
    rows = [["id", "First Name", "Last Name", "Email", "Role"], ["pat", "Pat", "Odd", "pat@example.org", "Instructor"]]
    rows += [[m.login, m.first, m.last, m.email, "Student"] for m in CLASS]
    (tmp_path / "c.csv").write_text(csv_text(rows), encoding="utf-8")
    return tmp_path / "c.csv"


def stamp(what, student):
    return (what.notebook("submitted", student).parent / "timestamp.txt").read_text()


def test_gradescopes_export(what, tmp_path):
    """It says who and when: a group of two, and what a student names like its own file stays the student's."""
    sent = [(1, [ADA, BOB], "03", "exercises.ipynb", A), (2, [WEI], "04", "submission_metadata.yml", b"x: y")]
    found = collect.collect(what, export(tmp_path, sent), own_list(tmp_path))
    assert [(r.student, r.state) for r in found.rows] == [("ada", "new"), ("bob", "new"), ("wei", "new")]
    assert {n: d for n, d in lies(what, "bob").items() if n != "timestamp.txt"} == {"exercises.ipynb": A}
    assert stamp(what, "ada") == stamp(what, "bob") == "2030-02-04 07:30:00 UTC"
    assert lies(what, "wei")["submission_metadata.yml"] == b"x: y"
    assert not (found.missing or found.strangers or found.unclaimed or found.complaints)
    again = collect.collect(what, export(tmp_path, [(3, [ADA], "05", "exercises.ipynb", B)]))
    assert [(r.state, r.notes) for r in again.rows] == [("replaced", [])] and stamp(what, "ada").startswith(
        "2030-02-06"
    )


def test_gradescope_needs_no_class_list_and_who_is_in_none_is_named(what, tmp_path):
    eve = Member("Eve", "Odd", 99, "", "eve@example.org")
    with what.gradebook() as g:
        g.add_student("ada", email=ADA.email)
    found = collect.collect(what, export(tmp_path, [(i, [m], "03", "a.ipynb", A) for i, m in enumerate((ADA, eve))]))
    assert [r.student for r in found.rows] == ["ada", eve.email] and not found.strangers
    with what.gradebook() as g:
        assert g.find_student(eve.email).last_name == "Odd"
    found = collect.collect(what, export(tmp_path, [(5, [eve], "04", "a.ipynb", B)]), own_list(tmp_path))
    assert found.strangers == [eve.email] and sorted(found.missing) == sorted(m.login for m in CLASS[1:])


def test_one_who_handed_in_twice_keeps_the_newest(what, tmp_path):
    sent = [(1, [ADA], "05", "exercises.ipynb", A), (2, [ADA, BOB], "03", "exercises.ipynb", B)]
    collect.collect(what, export(tmp_path, sent), own_list(tmp_path))
    assert lies(what, "ada")["exercises.ipynb"] == A and stamp(what, "ada").startswith("2030-02-06")
    assert lies(what, "bob")["exercises.ipynb"] == B and stamp(what, "bob").startswith("2030-02-04")


@pytest.mark.parametrize("more", ["x: [", "submission_9: 3\n", "submission_9: {}\n", "? [a]\n: 1\n"])
def test_a_damaged_export_of_gradescope_says_so(more, what, tmp_path):
    with pytest.raises(SourceError, match="submission_metadata.yml of this export of Gradescope cannot be read"):
        collect.collect(what, export(tmp_path, [(1, [ADA], "03", "a.ipynb", A)], more))
    assert not what.students
