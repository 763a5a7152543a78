"""Take a platform's archive of submissions: `python -m autograder.collect ch01_rooflines --from submissions.zip`.

The zip of Canvas, Moodle or Gradescope as it was downloaded, or a folder that it was unpacked into, goes into submitted/; so does
any folder with one for each student, named by the student's id.
Nothing is lost: an earlier submission that differs is kept in collected/, and so are files that belong to nobody.

Of the three only Gradescope says when something was handed in; the times of an archive's files are those of the download.
"""

import argparse
import contextlib
import shutil
import sys
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

from autograder.grading.class_summary import ROWS, fitted, plain, wrapped
from autograder.lms import canvas, class_list, folders, gradescope
from autograder.lms.archives import Archive, Claim, Entry, Sender, Unreadable, opened
from autograder.lms.class_list import KEPT, Person
from autograder.lms.placing import OURS, Folder, contents, free, in_order
from autograder.lms.roster import Roster, enter, roster
from autograder.lms.senders import claim

from .grade import Class, alone
from .places import FULL, SourceError, is_full

UNCLAIMED = 1_000  # files that belong to nobody and are kept all the same


@dataclass
class Row:
    """What one student sent."""

    student: str
    files: list[str]
    state: str  # new, same, replaced, or not taken
    notes: list[str] = field(default_factory=list)


@dataclass
class Collected:
    """Who sent what, who sent nothing, and what belongs to nobody."""

    rows: list[Row] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    by_name: list[str] = field(default_factory=list)  # a student may choose the name that a platform shows
    missing: list[str] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)  # in the gradebook, and neither in a list nor in this archive
    lists: list[str] = field(default_factory=list)  # files of the class lists, where there are several
    earlier: list[str] = field(default_factory=list)  # not in this archive, but collected before
    unclaimed: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


def collect(what: Class, source: Path, given: Path | None = None) -> Collected:
    """Put what an archive holds into submitted/, and the class lists into the gradebook.

    given  a class list, which takes the place of one of its kind that came with the assignment before; the others stay
    """
    from autograder.grading.gradebook_writer import Writer

    Writer(what.root, what.topic, what.config())  # says so if the gradebook does not know the assignment
    people = class_list.read(given) if given else None
    lists = class_list.saved(what.root, what.topic)
    if people:
        lists = [one for one in lists if one.kind != people.kind] + [people]
    kept = what.root / KEPT / what.topic
    found = Collected()
    with what.gradebook() as gradebook, contextlib.ExitStack() as stack:
        archive = stack.enter_context(opened(source))
        submissions = gradescope.submissions(archive)
        before = {s.id for s in gradebook.students}
        known = roster(gradebook, lists, what.fit, submissions)
        before = before - known.listed if lists else set()
        for one in lists:
            one.save(what.root, what.topic)
        others = {a.name for a in gradebook.assignments} - {what.topic}
        sent, nobodys = _sorted(archive, known, submissions, what.topic, others)
        if not sent:
            raise SourceError(
                f"None of the {len(nobodys)} files in {plain(str(source))} has a name that Canvas or Moodle gives, like "
                "lovelaceada_12_345_exercises.ipynb or `Ada Lovelace_12_assignsubmission_file/exercises.ipynb`, or lies in "
                f"a submission's folder of Gradescope's export or, for {what.topic}, in a folder with a student's id."
            )
        senders, files = _by_student(sent, known, what, found)
        enter(gradebook, known.people)
        shutil.rmtree(kept / "staged", ignore_errors=True)
        found.rows = [_take(what, kept, s, senders[s], known, files[s]) for s in sorted(senders) if what.fit(s)]
        nobodys += [entry for s in senders if not what.fit(s) for _, entry in files[s]]
        found.unclaimed = _keep(nobodys, kept)
        found.unclaimed += [f"{name} (its name leads out of the archive)" for name in archive.refused]
    taken, there = {row.student for row in found.rows}, set(what.students)
    found.earlier = sorted(there - taken)
    found.unlisted = sorted(before - taken)
    found.lists = [class_list.FILES[one.kind] for one in lists] if len(lists) > 1 else []
    found.missing = sorted((known.listed or known.people.keys()) - taken - there)
    found.complaints = known.complaints
    shutil.rmtree(kept / "staged", ignore_errors=True)
    return found


Files = list[tuple[Claim, Entry]]


def _sorted(
    archive: Archive, known: Roster, submissions: dict, topic: str, others: set[str]
) -> tuple[dict[Sender, Files], list[Entry]]:
    """The files of each sender, and those of nobody.

    submissions  of Gradescope
    others       the course's other assignments
    """
    sent: dict[tuple[str, str], Files] = defaultdict(list)
    nobodys = []
    for entry in archive.entries:
        found = gradescope.claim(entry.path, submissions)
        found = found or claim(entry.path, lambda s: known.find(s) is not None, known.named)
        if found := found or folders.claim(entry.path, known.people.keys(), topic, others):
            sent[found.sender.platform, found.sender.number].append((found, entry))
        else:
            nobodys.append(entry)
    return {files[0][0].sender: files for files in sent.values()}, nobodys


def _by_student(
    sent: dict[Sender, Files], known: Roster, what: Class, found: Collected
) -> tuple[dict[str, Sender], dict[str, Files]]:
    """Sender and files of each student; those whom nobody knows are added, under the platform's number."""
    known.index(s for s in sent if s.platform)
    senders: dict[str, Sender] = {}
    files: dict[str, Files] = defaultdict(list)
    for sender in sent:
        if not sender.platform:
            students = [sender.number]
        else:
            students = known.members(sender) or [known.stranger(sender)]
        number = sender.number if sender.platform == canvas.NAME and sender.number.isdecimal() else ""
        for student in students:
            person = known.people.get(student)
            if sender.platform and student not in known.listed and (known.listed or person is None):
                found.strangers.append(student)
            if what.fit(student):
                person = person or Person((student,))
                known.people[student] = replace(person, canvas=person.canvas or number)
            if student in known.by_name.values() and (sender.platform, sender.number) not in known.by_number:
                found.by_name.append(f"{student} (number {sender.number})")
            senders[student] = max(senders.get(student, sender), sender, key=lambda s: s.stamp)
            files[student] += sent[sender]
    return senders, files


def _take(what: Class, kept: Path, student: str, sender: Sender, known: Roster, files: Files) -> Row:
    """Put one student's files into submitted/; what goes wrong with one stops no other."""
    folder = Folder(kept / "staged" / "student")
    shutil.rmtree(folder.at, ignore_errors=True)
    folder.at.mkdir(parents=True)
    claims = {entry: c for c, entry in sorted(files, key=lambda f: -f[0].file_id)}  # the newest keeps its name
    for entry in in_order([*claims]):
        folder.add(claims[entry].path, entry, claims[entry].file_id)
    folder.name_notebook(what.topic)
    if sender.late or known.people[student].late:
        folder.notes.append(f"late, by {sender.platform or 'the class list'}")
    if known.renamed(sender, student):
        said = f"Canvas says it is from {sender.name or 'a name without letters'}"
        if len(known.members(sender)) > 1:
            folder.notes.append(said)
        elif not known.grouped:
            folder.notes.append(
                f"{said}: if that is a group, its other members get nothing here until the class list has a column Group"
            )
        elif team := known.people[student].team:
            folder.notes.append(f"{said}, and the class list of the group {team}")
    if other := next((o for c in claims.values() for o in c.others if known.by_number.get(("Canvas", o.number))), None):
        if not known.named(sender):
            who = known.by_number["Canvas", other.number]
            folder.notes.append(f"it may be from {who}, for a group {other.name}: the list's column Group would say so")
    names = sorted(f.relative_to(folder.at).as_posix() for f in folder.files)
    if not names:
        return Row(student, [], "not taken", folder.notes)
    if sender.stamp:
        (folder.at / OURS[0]).write_text(sender.stamp)
    try:
        state = folder.place(what.notebook("submitted", student).parent, kept / "replaced" / student)
    except OSError as e:
        if is_full(e):
            raise
        folder.notes.insert(0, f"it cannot be placed: {(e.strerror or str(e)).lower()}")
        return Row(student, names, "not taken", folder.notes)
    return Row(student, names, state, folder.notes)


def _keep(entries: list[Entry], kept: Path) -> list[str]:
    """Copy what belongs to nobody into collected/, once; the names of all of it."""
    said, top = [], kept / "unclaimed"
    before = set(contents(top).values()) if top.is_dir() else set()
    for n, entry in enumerate(entries):
        name = "/".join(entry.path)
        staged = Folder(kept / "staged" / "unclaimed")
        staged.at.mkdir(parents=True, exist_ok=True)
        try:
            if n >= UNCLAIMED:
                raise Unreadable(f"the first {UNCLAIMED:,} are kept, this one is in the archive only")
            entry.copy(staged.at / "file")
            if not before >= set(contents(staged.at).values()):
                shutil.move(staged.at / "file", free(top, entry.path))
        except Unreadable as e:
            name += f" ({e})"
        shutil.rmtree(staged.at)
        said.append(name)
    return said


def table(found: Collected, topic: str, all_rows: bool = False) -> str:
    """Who handed in what; of a large class the rows with something to say."""
    rows = found.rows if all_rows or len(found.rows) <= ROWS else [r for r in found.rows if r.notes]
    lines = []
    for row in rows:
        files = ", ".join(plain(f, 60) for f in row.files[:3])
        files += f" and {len(row.files) - 3} more" * (len(row.files) > 3)
        said = "; ".join(filter(None, (files, row.state, *row.notes[:5], "…" * (len(row.notes) > 5))))
        head, *rest = wrapped(said, 26).split("\n")
        lines += [f"{fitted(plain(row.student), 24)}  {head.strip()}", *rest]
    states = [f"{sum(r.state == s for r in found.rows)} {s}" for s in ("new", "replaced", "same", "not taken")]
    lines += [*[""] * bool(lines), f"{len(found.rows)} submissions: {', '.join(states)}."]
    here = f"autograder/{KEPT}/{topic}"
    if any(r.state == "replaced" for r in found.rows):
        lines.append(f"What was replaced is in {here}/replaced.")
    if found.lists:
        lines.append(wrapped(f"Class lists that count, in {here}: {', '.join(found.lists)}; delete a wrong one.", 0))
    gone = "`nbgrader db student remove ID` in autograder/, and its folder in submitted/"
    most = None if all_rows else ROWS
    for head, names in (
        ("Nothing from", found.missing),
        ("Not in this archive, but collected before", found.earlier),
        ("Not in the class list, so taken under the platform's number", found.strangers),
        (f"In the gradebook, but in no class list; if a wrong list brought them, remove each: {gone}", found.unlisted),
        ("Found by the name, for want of a number in the class list", found.by_name),
        (f"Belongs to nobody, kept in {here}/unclaimed", found.unclaimed),
        ("Rows of the class list without an id of their own", found.complaints),
    ):
        if names:
            more = f" and {len(names) - ROWS} more, in {here}/table.txt" if most and len(names) > most else ""
            lines += ["", wrapped(f"{head} ({len(names)}): {', '.join(plain(n, 120) for n in names[:most])}{more}", 0)]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m autograder.collect", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("assignment", help="for example ch01_rooflines")
    parser.add_argument(
        "--from", dest="source", type=Path, required=True, help="the zip of Canvas, Moodle or Gradescope, or a folder"
    )
    parser.add_argument("--class", dest="given", type=Path, help="a class list as CSV, of one of these, or your own")
    args = parser.parse_args(argv)
    what = Class(args.assignment)
    sys.stdout.reconfigure(errors="replace")  # names, on a terminal that is not UTF-8
    try:
        with alone(what):
            found = collect(what, args.source.expanduser(), args.given and args.given.expanduser())
        (what.root / KEPT / what.topic).mkdir(parents=True, exist_ok=True)
        full = table(found, what.topic, True) + "\n"
        (what.root / KEPT / what.topic / "table.txt").write_text(full, encoding="utf-8")
    except SourceError as error:
        print(error, file=sys.stderr)
        return 1
    except Exception as error:
        if not is_full(error):
            raise
        print(FULL, file=sys.stderr)
        return 1
    print(table(found, what.topic))
    return 0


if __name__ == "__main__":
    sys.exit(main())
