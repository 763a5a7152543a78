"""Canvas: who sent a file by the name that it has in the zip, who a row of its gradebook is, and grades as it imports them.

A student chooses the end of a file's name and nothing before it, so the first mark of Canvas counts.
Only a name that the class list has, of the person or of the group, lets a later mark count: Canvas does not close a
group's name, so in `team_1_11_900_exercises.ipynb` either 1 or 11 can be the number of a person.
"""

import csv
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory
from nbgrader.plugins import ExportPlugin

from autograder.grading.own_tables import number

from .archives import Claim, Sender
from .class_list import CANVAS as LIST, ClassList, Person, key, newest, saved
from .tables import cell, chosen, score, submissions

NAME = "Canvas"
# Canvas's number of the person, that of the file, the file's own name; the person's name stands before
CANVAS = re.compile(r"(?=_(?P<number>[0-9]+)_(?P<file_id>[0-9]+)_(?P<rest>.+))", re.S)
HIDDEN = re.compile(r"(?P<late>LATE_)?(?P<number>anon(?:ymous)?_[A-Za-z0-9]+)_(?P<file_id>[0-9]+)_(?P<rest>.+)", re.S)
TEXT = re.compile(r"(?P<name>.*)_(?P<number>[0-9]+)_(?P<rest>(?:text|link)\.html)", re.S)
HIDDEN_TEXT = re.compile(r"(?P<late>LATE_)?(?P<number>anon(?:ymous)?_[A-Za-z0-9]+)_(?P<rest>(?:text|link)\.html)")
LATE = ("_LATE", "_late")  # the second by old versions, and at the end of a group's name
MOST = 8  # marks that are looked at in one name


def claims(part: str, below: tuple[str, ...]) -> Iterator[Claim]:
    """All that a file's or a folder's name may say, the first mark first."""
    if m := HIDDEN.fullmatch(part):
        yield Claim(Sender(NAME, m["number"], late=bool(m["late"])), (m["rest"], *below), int(m["file_id"][:18]))
    for m in islice(CANVAS.finditer(part), MOST):
        for name, late in _late(part[: m.start()]):
            path = m["rest"], *below
            yield Claim(Sender(NAME, m["number"], name, late), path, int(m["file_id"][:18]), at=m.start("number"))
    if below:
        return
    if m := HIDDEN_TEXT.fullmatch(part):
        yield Claim(Sender(NAME, m["number"], late=bool(m["late"])), (m["rest"],))
    elif m := TEXT.fullmatch(part):
        for name, late in _late(m["name"]):
            yield Claim(Sender(NAME, m["number"], name, late), (m["rest"],), at=m.start("number"))


def _late(name: str) -> Iterator[tuple[str, bool]]:
    """The name, and whether it is followed by the mark of late work; a group's own may end like that."""
    if name.endswith(LATE):
        yield name[: -len(LATE[0])], True
    if not name.endswith(LATE[0]):  # Canvas writes names in small letters
        yield name, False


def person(of: Callable[[str], str]) -> Person | None:
    """The person of a row of Canvas's gradebook; None for the points possible, and for the student of "Student View"."""
    name = of("full")
    if not re.fullmatch(r"[0-9]+", of("id")) or name == "Student, Test":
        return None
    last, _, first = name.partition(", ")
    first, last = of("first") or first, of("last") or last
    return Person((of("login"), of("id")), first, last, of("email"), canvas=of("id"), team=of("team"))


def own_names(p: Person) -> set[str]:
    """What Canvas may leave of a person's name, as a key."""
    return {in_file(p.first + p.last), in_file(p.last + p.first)}


def in_file(name: str) -> str:
    """The key of what Canvas leaves of a name in that of a file: letters, marks and decimal digits; neither \u2461 nor \u00b2.

    >>> in_file("Team \u2461: R\u00e4d_1"), in_file("\u2605")
    ('teamr\xe4d1', '')
    """
    return key("".join(c for c in name if unicodedata.category(c)[0] in "LM" or unicodedata.category(c) == "Nd"))


FIXED = ("Student", "ID", "SIS Login ID", "Section")
OWN = ("Student", "LastName", "FirstName", "ID", "SIS User ID", "SIS Login ID", "Integration ID", "Root Account",
       "Section")  # fmt: skip
"""What Canvas says of a person: its import wants these columns first, in the order of its export."""

COMPUTED = re.compile(r"\b(Current|Final|Override) (Score|Points|Grade|Status)\b")


class Canvas(ExportPlugin):
    """A row for each student and a column for each assignment, after a row with the points possible.

    Canvas matches a student by `ID` (nbgrader's lms_user_id), else by its SIS ids.
    If its own export was collected as class list, the columns before the grades are those of the export, and so is an
    assignment's title, whose number Canvas knows it by; Canvas makes a column that it lacks.
    An assignment that was not handed in stays empty, which Canvas reads as "no grade yet".
    """

    def export(self, gradebook: Gradebook) -> None:
        assignments, students = chosen(self, gradebook)
        root = Path(CourseDirectory(parent=self).root)
        given = newest(root, LIST, [a.name for a in assignments])
        columns = [c for c in given.columns if c in OWN] if given else list(FIXED)
        rows = dict(zip(given.students, given.rows)) if given else {}
        if given:  # those of another platform are nobody in Canvas
            lists = [one for a in assignments for one in saved(root, a.name) if one.kind != LIST]
            others = {student for one in lists for student in one.students} - rows.keys()
            students = [s for s in students if s.lms_user_id or s.id not in others]
        titles = [title(given, a.name) for a in assignments]
        with open(self.to or "canvas.csv", "w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow([*columns, *map(cell, titles)])
            most = [f"{a.max_score:g}" for a in assignments]
            table.writerow(["    Points Possible", *[""] * (len(columns) - 1), *most])
            sent = [submissions(gradebook, a) for a in assignments]
            for s in students:
                name = ", ".join(part for part in (s.last_name, s.first_name) if part) or s.id
                own = {"Student": name, "LastName": s.last_name, "FirstName": s.first_name, "ID": s.lms_user_id,
                       "SIS Login ID": s.id}  # fmt: skip
                if s.id in rows:
                    own = dict(zip(given.columns, rows[s.id]))
                scores = (f"{score(of[s.id]):.10g}" if s.id in of else "" for of in sent)
                table.writerow([*(cell(own.get(c)) for c in columns), *scores])
        for a, name in zip(assignments, titles):
            if (points := possible(given, name)) not in (None, a.max_score):
                said = f"{a.name} has {a.max_score:g} points here and {points:g} in Canvas: give it as many there."
                print(said, file=sys.stderr)


def title(given: ClassList | None, name: str) -> str:
    """What Canvas calls an assignment: the column of its export that has the name, or alone begins with it; else the name."""
    found = [(m[1], c) for c in (given.columns if given else ()) if (m := re.fullmatch(r"(.*)\s\([0-9]+\)", c, re.S))]
    found = [(key(text), c) for text, c in found if not COMPUTED.search(text)]
    same = [c for text, c in found if text == key(name)]
    begin = [c for text, c in found if text.startswith(key(name))]
    return same[0] if same else begin[0] if len(begin) == 1 else name


def possible(given: ClassList | None, name: str) -> float | None:
    """The points possible of a column, as Canvas exported them."""
    if given is None or name not in given.columns:
        return None
    row = next((r for r in given.rows if "Points Possible" in r[0]), None)
    return number(row[given.columns.index(name)]) if row else None
