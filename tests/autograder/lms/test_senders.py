"""Names of Canvas and Moodle read back: in every script, with every oddity of a student's own name for a file."""

import pytest

from autograder.lms.archives import Sender
from autograder.lms.senders import claim

from .platforms import Member, canvas_name, moodle_name

NAMES = [
    ("Ada", "Lovelace"), ("Zoë", "Œuvré-Müller"), ("Мария", "Склодовская"), ("伟", "张"), ("さくら", "山田"), ("지민", "박"),
    ("محمد", "الخوارزمي"), ("דנה", "כהן"), ("प्रिया", "शर्मा"), ("Αλέξης", "Παππάς"), ("Nguyễn", "Thị Ánh"), ("ณัฐ", "ศรีสุข"),
    ("Madonna", ""), ("X Æ A-12", "O'Neill"), ("Late", "Late"), ("_", "_7_"), ("assignsubmission", "file"),
]  # fmt: skip
FILES = ["exercises.ipynb", "exercises-1.ipynb", "my_12_34_work.ipynb", "x_77_assignsubmission_file_y.ipynb", "1.ipynb",
         "LATE_5_6_a.ipynb", "作业 (1).ipynb", "anon_abcde_1_a.ipynb", "no_suffix"]  # fmt: skip


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("first, last", NAMES)
@pytest.mark.sample(quick=40)
def test_the_sender_is_whom_the_platform_names(first, last, file):
    who = Member(first, last, 1234)
    for late in (False, True):
        found = claim((canvas_name(who, file, 5678, late),))
        assert (found.sender.platform, found.sender.number, found.sender.late) == ("Canvas", "1234", late)
        assert found.path == (file,) and found.file_id == 5678
        found = claim((canvas_name(who, file, 5678, late, anonymous="aB3xZ"),))
        assert found.sender == Sender("Canvas", "anon_aB3xZ", late=late) and found.path == (file,)
    for folders in (True, False):
        for blind in (True, False):
            for old in (True, False) if folders else (False,):
                found = claim(tuple(moodle_name(who, file, folders, blind=blind, old=old).split("/")))
                assert (found.sender.platform, found.sender.number) == ("Moodle", "1234")
                assert found.path == (file,)


def test_text_typed_on_the_page():
    who = Member("Ada", "Lovelace", 1234)
    assert claim((canvas_name(who, "text.html", 0, late=True),)).sender.late
    assert claim((canvas_name(who, "link.html", 0),)).path == ("link.html",)
    assert claim((canvas_name(who, "text.html", 0, anonymous="abcde"),)).sender.number == "anon_abcde"
    for folders in (True, False):
        found = claim(tuple(moodle_name(who, "onlinetext.html", folders, "onlinetext").split("/")))
        assert found.sender.number == "1234" and found.path == ("onlinetext.html",)


def test_nobody_can_send_for_another_in_a_folder_of_theirs():
    theirs = ("Eve_9_assignsubmission_file_", "Ada_1_assignsubmission_file_", "a_1_2_exercises.ipynb")
    assert claim(theirs, lambda s: s.number == "1").sender.number == "9"
    assert claim(("eve_9_2_work", "a_1_2_exercises.ipynb"), lambda s: True).sender.number == "9"


def test_a_folder_with_a_date_is_no_sender():
    found = claim(("backup_2030_11_25", "lovelaceada_1234_5678_exercises.ipynb"), lambda s: s.number == "1234")
    assert found.sender.number == "1234"


@pytest.mark.parametrize(
    "name", ["exercises.ipynb", "ada_exercises.ipynb", "ada_12.ipynb", "Default group_assignsubmission_file_"]
)
def test_what_names_nobody(name):
    assert claim((name,)) is None
