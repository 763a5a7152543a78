"""Canvas and Moodle as far as a course meets them: how they name what they zip, what they export, whom an import finds.

Written from what their sources do, not from ours:

- instructure/canvas-lms, lib/content_zipper.rb (names of submissions), lib/gradebook_exporter.rb (columns),
  lib/gradebook_importer.rb (header, students), app/models/assignment.rb (titles with numbers)
- moodle/moodle, mod/assign/classes/downloader.php (names of submissions), lib/classes/param.php (characters),
  lib/classes/formatting.php (names of groups), mod/assign/gradingtable.php (columns of the
  worksheet), mod/assign/feedback/offline/importgradeslib.php and locallib.php (whose grade is taken),
  grade/import/csv/classes/load_data.php (the gradebook's import)
"""

import csv
import io
import re
import unicodedata
import zipfile
from dataclasses import dataclass
from pathlib import Path

TOPIC = "ch01_rooflines"


@dataclass(frozen=True)
class Member:
    first: str
    last: str
    number: int  # Canvas's of the person, or Moodle's of the person in the assignment
    login: str = ""
    email: str = ""

    @property
    def sortable(self) -> str:
        return f"{self.last}, {self.first}" if self.last else self.first


def word(text: str) -> str:
    """Letters, marks, digits and _ of every script: what Ruby's [[:word:]] keeps."""
    return "".join(c for c in text if unicodedata.category(c)[0] in "LM" or unicodedata.category(c) in ("Nd", "Pc"))


def canvas_name(who: Member, file: str, file_id: int = 9000, late: bool = False, anonymous: str = "") -> str:
    """`file` "text.html" and "link.html" with file_id 0 are what was typed on the page."""
    user = None if anonymous else re.sub(r"_(\d+)_", r"\1", who.sortable).lower()
    number = f"anon_{anonymous}" if anonymous else str(who.number)
    prefix = word("_".join(p for p in (user, "LATE" if late else None, number) if p is not None))
    return f"{prefix}_{file_id}_{file}" if file_id else f"{prefix}_{file}"


def moodle_name(
    who: Member, file: str, folders: bool = True, kind: str = "file", blind: bool = False, old: bool = False
):
    """`old`: until Moodle 3.x the name of a folder ended with _."""
    full = "Participant" if blind else f"{who.first} {who.last}".strip()
    return _moodle(full, who.number, file, folders, kind, old)


def moodle_group_name(team: str, number: int | None, file: str, folders: bool = True) -> str:
    """Of a group; the members of none are "Default group", without a number. format_string() writes HTML."""
    return _moodle(team.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"), number, file, folders)


def _moodle(name: str, number: int | None, file: str, folders: bool, kind: str = "file", old: bool = False) -> str:
    prefix = name.replace("_", " ") + (f"_{number}" if number is not None else "") + f"_assignsubmission_{kind}"
    prefix = re.sub(r"""[\x00-\x1f\x7f&<>"`|':\\/]""", "", prefix)  # clean_param() of PARAM_FILE
    return f"{prefix}{'_' * old}/{file}" if folders else f"{prefix}_{file}"


def zipped(to: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in files.items():
            z.writestr(name, data)
    return to


def csv_text(rows, between: str = ",") -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=between).writerows(rows)
    return out.getvalue()


def canvas_gradebook(
    members, title: str = f"{TOPIC} (4711)", points: str = "5.00", sis: bool = True
) -> list[list[str]]:
    """Canvas's export: a header, a row of "Manual Posting", the points possible, a row for each, and the student of Student View."""
    head = ["Student", "ID", *["SIS User ID"] * sis, "SIS Login ID", "Section", "Notes", "Another (12)", title,
            f"{TOPIC} Current Score", "Current Score", "Final Score"]  # fmt: skip
    fill = [""] * (2 + sis)
    rows = [head, ["", *fill, "", "", "", "Manual Posting", "", "", ""],
            ["    Points Possible", *fill, "", "", "10.00", points, "(read only)", "(read only)", "(read only)"]]  # fmt: skip
    for m in members:
        ids = [str(m.number), *[f"sis{m.number}"] * sis, m.login]
        rows.append([m.sortable, *ids, "Spring, group 1", "", "7.5", "", "75", "75", "75"])
    rows.append(["Student, Test", "99999", *[""] * sis, "f00ba4", "Spring, group 1", "", "", "", "", "", ""])
    return rows


WORKSHEET = ["Identifier", "Full name", "Email address", "Status", "Grade", "Maximum grade", "Grade can be changed",
             "Last modified (submission)", "Last modified (grade)", "Feedback comments"]  # fmt: skip


def worksheet(members, most: str = "5.00", late=()) -> list[list[str]]:
    rows = [WORKSHEET]
    for m in members:
        status = "Submitted for grading - 2 hours late" if m in late else "Submitted for grading"
        rows.append([f"Participant {m.number}", f"{m.first} {m.last}".strip(), m.email, status, "", most, "Yes",
                     "Monday, 4 February 2030, 3:04 PM", "-", ""])  # fmt: skip
    return rows


def canvas_import(text: str, members, assignments: dict[int, str]) -> tuple[dict[tuple[int, int], str], list[str]]:
    """(number of the student, number of the assignment) -> grade, and the students and assignments that Canvas would make."""
    rows = list(csv.reader(io.StringIO(text)))
    head = rows[0]
    assert "Student" in head[0] and "ID" in head[1] and len(head) > 3
    info, login, sis = 3, None, None
    if head[2] == "SIS Login ID":
        login, info = 2, 4
    elif head[2] == "SIS User ID" and head[3] == "SIS Login ID":
        sis, login, info = 2, 3, 5
    assert "Section" in head[info - 1], "Invalid header row"
    columns, made = {}, []
    for i, name in enumerate(head[info:], info):
        m = re.fullmatch(r"(.*)\s\((\d+)\)", name)
        number = int(m[2]) if m and int(m[2]) in assignments else None
        number = number or next((n for n, t in assignments.items() if t == name), None)
        if number is None:
            made.append(name)
        else:
            columns[i] = number
    grades = {}
    for row in rows[1:]:
        if "Points Possible" in row[0]:
            continue
        who = next((m for m in members if row[1].strip().isdecimal() and m.number == int(row[1])), None)
        who = who or next((m for m in members if sis and row[sis] and row[sis] == f"sis{m.number}"), None)
        who = who or next((m for m in members if login and row[login] and row[login] == m.login), None)
        who = who or next((m for m in members if row[0] in (m.sortable, f"{m.first} {m.last}")), None)
        if who is None:
            made.append(row[0])
            continue
        for i, number in columns.items():
            if row[i].strip():
                grades[who.number, number] = row[i].strip()
    return grades, made


def moodle_worksheet_import(text: str, members, most: float) -> dict[int, tuple[float, str]]:
    """Number of the participant -> grade and feedback: those that "Upload grading worksheet" takes."""
    rows = list(csv.reader(io.StringIO(text.lstrip("\ufeff"))))
    head = rows[0]
    assert all(len(row) == len(head) for row in rows), "csvweirdcolumns"
    at = {name: head.index(name) for name in ("Identifier", "Grade", "Last modified (grade)", "Feedback comments")}
    found = {}
    for row in rows[1:]:
        number = row[at["Identifier"]][len("Participant ") :]
        grade = row[at["Grade"]].strip()
        if any(str(m.number) == number for m in members) and grade and 0 <= float(grade) <= most:
            found[int(number)] = float(grade), row[at["Feedback comments"]]
    return found


def moodle_gradebook_import(text: str, emails: set[str], item: str) -> dict[str, float]:
    """E-mail address -> grade, mapped from "Email address" to it; one that Moodle does not know stops all of it."""
    rows = list(csv.DictReader(io.StringIO(text)))
    found = {}
    for row in rows:
        if row["Email address"] not in emails:
            return {}
        found[row["Email address"]] = float(row[item])
    return found
