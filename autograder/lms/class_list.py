"""Who is in a class, by Canvas's gradebook, Moodle's grading worksheet, Gradescope's roster, or any list of people.

Columns are found by their names. The rows are kept as they came, because the platform wants some of them back.
"""

import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from autograder.grading import own_tables
from autograder.grading.class_summary import plain
from autograder.grading.whole_files import replace
from autograder.places import SourceError

KEPT = Path("collected")
"""Beside the gradebook, a folder for each assignment: the class lists, what was replaced, what nobody claimed."""

PARTICIPANT = "Participant "
"""Before Moodle's number of a person in an assignment: the id of those of whom nothing else is known."""

CANVAS, WORKSHEET, PEOPLE = "Canvas's gradebook", "Moodle's grading worksheet", "a list of people"
FILES = {CANVAS: "class-canvas.json", WORKSHEET: "class-moodle.json", PEOPLE: "class.json"}
"""Of each kind a list: an assignment may come from two platforms, and each wants its own columns back."""

NAMES = {
    "id": ("id", "studentid"),
    "first": ("firstname", "givenname"),
    "last": ("lastname", "surname", "familyname"),
    "full": ("fullname", "student", "name"),
    "email": ("emailaddress", "email"),
    "number": ("idnumber", "sid"),
    "user": ("username",),
    "login": ("sisloginid", "loginid"),
    "lms": ("lmsuserid", "canvasuserid"),
    "identifier": ("identifier",),
    "grade": ("grade",),
    "most": ("maximumgrade",),
    "comment": ("feedbackcomments",),
    "status": ("status",),
    "team": ("group", "groupname"),
    "section": ("section",),
    "role": ("role",),
}
"""What a column says -> how the platforms name it, without case, spaces and marks."""


@dataclass(frozen=True)
class Person:
    """One row: the names that a student may have here, best first, and what the gradebook notes."""

    ids: tuple[str, ...]
    first: str = ""
    last: str = ""
    email: str = ""
    canvas: str = ""  # Canvas's number of the person
    moodle: str = ""  # Moodle's number of the person in this assignment
    late: bool = False
    team: str = ""  # the group that hands in, where the assignment is one of groups


@dataclass
class ClassList:
    """A list as it came, and the id that each of its rows has in the gradebook ("" for what is no student)."""

    kind: str
    columns: list[str]
    rows: list[list[str]]
    students: list[str] = field(default_factory=list)

    def place(self, what: str) -> int | None:
        """Which column says this: one of NAMES."""
        found = [re.sub(r"[\W_]", "", c.casefold()) for c in self.columns]
        return next((found.index(n) for n in NAMES[what] if n in found), None)

    def save(self, course: Path, topic: str) -> None:
        to = course / KEPT / topic / FILES[self.kind]
        to.parent.mkdir(parents=True, exist_ok=True)
        replace(to, json.dumps(self.__dict__, ensure_ascii=False, indent=1))


def saved(course: Path, topic: str) -> list[ClassList]:
    """The lists that came with an assignment, the newest of each kind, in the order in which they came; an error if one is not whole."""
    found = {}
    for file in sorted((course / KEPT / topic).glob("class*.json"), key=lambda p: p.stat().st_mtime):
        try:
            one = ClassList(**json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            raise SourceError(
                f"The class list kept in {course.name}/{KEPT}/{topic}/{file.name} is not whole: collect again with CLASS=…, "
                "or remove it."
            ) from None
        found.pop(one.kind, None)
        found[one.kind] = one
    return [*found.values()]


def newest(course: Path, kind: str, topics: list[str]) -> ClassList | None:
    """The last list of this kind: that of one of these assignments, else of any."""
    files = sorted((course / KEPT).glob("*/class*.json"), key=lambda p: (p.parent.name in topics, p.stat().st_mtime))
    found = (one for file in reversed(files) for one in saved(course, file.parent.name))
    return next((one for one in found if one.kind == kind), None)


def read(path: Path) -> ClassList:
    """A class list from a CSV file, in any encoding and with any separator that Excel may have saved it with."""
    try:
        data = path.read_bytes()
    except OSError as e:
        raise SourceError(
            f"The class list {plain(str(path))} cannot be read: {str(e.strerror or e).lower()}."
        ) from None
    if data[:4] == b"PK\x03\x04":
        raise SourceError(f"The class list {plain(path.name)} is a spreadsheet: save it as CSV.")
    table = [row for _, row in own_tables.lines(data, f"The class list {plain(path.name)}")]
    columns = [c.strip() for c in table[0]] if table else []
    rows = [[c.replace("\0", "") for c in r[: len(columns)]] + [""] * (len(columns) - len(r)) for r in table[1:]]
    found = ClassList("", columns, rows)
    found.kind = _kind(found, path)
    return found


def person(of: Callable[[str], str], *more: str) -> Person | None:
    """The person of a row of any list of people; None for a teacher.

    of    what a column says, one of NAMES
    more  ids of the person
    """
    ids = tuple(filter(None, [*map(of, ("id", "email", "number", "user", "login")), *more])) or (of("lms"),)
    first, last = of("first"), of("last")
    if not (first or last):
        first, _, last = of("full").rpartition(" ")
    if ids[0] and of("role").casefold() in ("", "student"):
        return Person(ids, first, last, of("email"), of("lms"), team=of("team") if of("lms") else "")


def _kind(found: ClassList, path: Path) -> str:
    has = {what for what in NAMES if found.place(what) is not None}
    if not has & {"identifier", "first", "last", "full", "email", "number", "user"} and _translated(found):
        raise SourceError(
            f"The class list {plain(path.name)} looks like Moodle's worksheet in another language, with the columns "
            f"{_seen(found)}: choose English in Moodle (Preferences, Preferred language), and download it again."
        )
    if {"identifier", "grade"} <= has:
        return WORKSHEET
    if {"id", "section"} <= has and ("full" in has or {"first", "last"} <= has) and "lms" not in has:
        return CANVAS
    if has & {"id", "email", "number", "user", "identifier", "lms"}:
        return PEOPLE
    raise SourceError(
        f"The class list {plain(path.name)} has the columns {_seen(found)}: it needs Canvas's (Student, ID, Section), those of "
        f"Moodle in English (Identifier, Full name, Email address), or id, first_name, last_name, email, lms_user_id."
    )


def _seen(found: ClassList) -> str:
    return ", ".join(plain(c, 40) for c in found.columns[:8]) or "nothing"


def _translated(found: ClassList) -> bool:
    """Whether the first column says "Participant" and a number in another language: a word, the same in each row, and a number."""
    parts = [re.fullmatch(r"([^\d@]*[^\W\d][^\d@]*)([0-9]+)", row[0].strip()) for row in found.rows if row[0].strip()]
    return len(found.columns) > 4 and bool(parts) and all(parts) and len({m[1] for m in parts}) == 1


def key(name: str) -> str:
    """A name as two platforms may both write it: letters and digits only, without case.

    >>> key("O'Neill, José"), key("O\u2019NEILL Jose\u0301")
    ('oneilljosé', 'oneilljosé')
    """
    return "".join(c for c in unicodedata.normalize("NFKC", name).casefold() if c.isalnum())


def signs(name: str) -> str:
    """A group's name as two places may both write it; one of signs alone, such as \u2605, is its signs."""
    return key(name) or "".join(name.replace("_", " ").split())
