"""Class lists as Canvas, Moodle, Excel and people write them."""

import pytest

from autograder.lms import roster
from autograder.lms.class_list import CANVAS, PEOPLE, WORKSHEET, ClassList, newest, read, saved
from autograder.places import SourceError

from .platforms import TOPIC, Member, canvas_gradebook, csv_text, worksheet

CLASS = [Member("Ada", "Lovelace", 11, "ada", "ada@example.org"), Member("伟", "张", 12, "wei", "wei@example.org"),
         Member("José", "Muñoz; Díaz", 13, "jose", "jose@example.org")]  # fmt: skip


def people(path):
    return [p for p in roster.people(read(path)) if p]


@pytest.mark.parametrize("between", [",", ";", "\t"])
@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "utf-16"])
def test_any_encoding_and_separator(coding, between, tmp_path):
    (tmp_path / "c.csv").write_text(csv_text(canvas_gradebook(CLASS), between), encoding=coding)
    found = read(tmp_path / "c.csv")
    assert found.kind == CANVAS
    assert [(p.ids, p.first, p.last, p.canvas) for p in roster.people(found) if p] == [
        ((m.login, str(m.number)), m.first, m.last, str(m.number)) for m in CLASS
    ]
    (tmp_path / "m.csv").write_text(csv_text(worksheet(CLASS, late=CLASS[:1]), between), encoding=coding)
    assert read(tmp_path / "m.csv").kind == WORKSHEET
    found = people(tmp_path / "m.csv")
    assert [(p.email, p.moodle, p.late) for p in found] == [(m.email, str(m.number), m is CLASS[0]) for m in CLASS]
    assert found[0].ids == ("ada@example.org", "Participant 11") and (found[0].first, found[0].last) == (
        "Ada",
        "Lovelace",
    )


def test_what_excel_leaves(tmp_path):
    (tmp_path / "c.csv").write_bytes(
        "sep=;\r\nID number;Surname;First name;Email address\r\n7;Müller;Zoë;z@x.org\r\n".encode("cp1252")
    )
    (found,) = people(tmp_path / "c.csv")
    assert (found.ids, found.first, found.last) == (("z@x.org", "7"), "Zoë", "Müller")


def test_a_list_of_ones_own(tmp_path):
    (tmp_path / "c.csv").write_text("lms_user_id,id,last_name,first_name,email\n5,ada,Lovelace,Ada,\n\n,,,,\n6,bob\n")
    found = read(tmp_path / "c.csv")
    assert found.kind == PEOPLE
    assert [(p.ids, p.canvas, p.last) for p in roster.people(found)] == [
        (("ada",), "5", "Lovelace"),
        (("bob",), "6", ""),
    ]


@pytest.mark.parametrize("data, said", [
    (b"", "has the columns nothing: it needs"), (b"a,b\n1,2\n", "has the columns a, b: it needs"),
    (b"PK\x03\x04rest", "is a spreadsheet: save it as CSV"), (b"Kennung,Bewertung\nTeilnehmer 1,\n", "of Moodle in English"),
])  # fmt: skip
def test_what_is_no_class_list(data, said, tmp_path):
    (tmp_path / "c.csv").write_bytes(data)
    with pytest.raises(SourceError, match=said):
        read(tmp_path / "c.csv")


def test_lists_are_kept_and_that_of_the_assignment_is_preferred(tmp_path):
    assert saved(tmp_path, TOPIC) == [] and newest(tmp_path, CANVAS, [TOPIC]) is None
    mine, other = (ClassList(CANVAS, ["ID"], [[n]], [n]) for n in "12")
    mine.save(tmp_path, TOPIC)
    other.save(tmp_path, "ch02_sharding")
    assert saved(tmp_path, TOPIC) == [mine]
    assert newest(tmp_path, CANVAS, [TOPIC]) == mine and newest(tmp_path, CANVAS, []) == other
    assert newest(tmp_path, WORKSHEET, [TOPIC]) is None
    kept = tmp_path / "collected" / TOPIC / "class-canvas.json"
    for damaged in (b"", b"{", kept.read_bytes()[:-1], bytes(100)):
        kept.write_bytes(damaged)
        for read_again in (lambda: saved(tmp_path, TOPIC), lambda: newest(tmp_path, CANVAS, [TOPIC])):
            with pytest.raises(SourceError, match="class-canvas.json is not whole: collect again"):
                read_again()


def test_a_worksheet_in_another_language_is_told_from_a_list_of_people(tmp_path):
    """Moodle writes "Teilnehmer/in77" under "ID", which is no id of the course's."""
    german = ["ID", "Vollständiger Name", "E-Mail-Adresse", "Status", "Bewertung", "Bestwertung"]
    rows = [[f"Teilnehmer/in{m.number}", f"{m.first} {m.last}", m.email, "", "-", "5,00"] for m in CLASS]
    (tmp_path / "w.csv").write_text(csv_text([german, *rows]), encoding="utf-8")
    with pytest.raises(SourceError, match="in another language, with the columns ID, Vollst.*choose English"):
        read(tmp_path / "w.csv")
    ours = [
        ["id", "first_name", "last_name", "email", "group"],
        *([f"s{i}", "A", "B", f"{i}@x.org", "1"] for i in (1, 20)),
    ]
    (tmp_path / "p.csv").write_text(csv_text(ours), encoding="utf-8")
    assert [p.ids[0] for p in people(tmp_path / "p.csv")] == ["s1", "s20"]
