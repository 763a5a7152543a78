"""Which student of the gradebook a platform's sender is, and the class list put into the gradebook."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from nbgrader.api import Gradebook

from . import canvas, class_list, gradescope, moodle
from .archives import Sender
from .class_list import CANVAS, NAMES, PARTICIPANT, PEOPLE, ClassList, Person, key, signs


@dataclass
class Roster:
    """Student's id -> what is known of the person, and the ways from a sender to an id."""

    people: dict[str, Person] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)  # those whom a class list names
    grouped: bool = False  # a class list has a column for the group
    complaints: list[str] = field(default_factory=list)
    by_number: dict[tuple[str, str], str] = field(default_factory=dict)
    by_name: dict[tuple[str, str], str] = field(default_factory=dict)
    submitters: dict[str, list[str]] = field(default_factory=dict)  # of a submission of Gradescope

    def members(self, sender: Sender) -> list[str]:
        """The students for whom something was sent: one, or a group.

        Moodle writes the group's name and number; Canvas the group's name, and the number of the member who sent it.
        """
        if sender.platform == gradescope.NAME:
            return self.submitters[sender.number]
        student = self.find(sender)
        if sender.platform == "Moodle" and any(p.team and p.moodle for p in self.people.values()):
            own = moodle.own_names(self.people[student]) if student else set()  # else the number may be a group's
            found = [s for s, p in self.people.items() if p.team and signs(sender.name) in moodle.in_folder(p.team)]
            return found or [student] * (key(sender.name) in own)
        team = self.people[student].team if student else ""
        if sender.platform == "Canvas" and team and canvas.in_file(team) == key(sender.name):
            return [s for s, p in self.people.items() if signs(p.team) == signs(team)]
        return [student] if student else []

    def named(self, sender: Sender) -> bool:
        """Whether Canvas's number is that of somebody who has this very name, or hands in for a group of this name."""
        student = self.by_number.get((sender.platform, sender.number))
        p = self.people.get(student or "", Person(()))
        return bool(key(sender.name)) and key(sender.name) in {*canvas.own_names(p), canvas.in_file(p.team)}

    def renamed(self, sender: Sender, student: str) -> bool:
        """Whether Canvas gives this student's work another name than the student's: that of a group, most often."""
        own = canvas.own_names(self.people[student])
        return sender.platform == "Canvas" and own != {""} and key(sender.name) not in own

    def find(self, sender: Sender) -> str | None:
        """A student's id by the platform's number, or by a name that nobody else has."""
        number = sender.platform, sender.number
        return self.by_number.get(number) or self.by_name.get((sender.platform, key(sender.name)))

    def index(self, senders: Iterable[Sender] = ()) -> None:
        """Learn who is who; names count for people whose number is not known, and only where one sender has them."""
        self.by_number = {("Canvas", p.canvas): s for s, p in self.people.items() if p.canvas}
        self.by_number |= {("Moodle", p.moodle): s for s, p in self.people.items() if p.moodle}
        unknown = [s for s in set(senders) if (s.platform, s.number) not in self.by_number]
        sent = Counter((s.platform, key(s.name)) for s in {replace(s, late=False) for s in unknown})
        named: dict[tuple[str, str], list[str]] = {}
        for student, p in self.people.items():
            for platform, number, own in (
                ("Canvas", p.canvas, canvas.own_names(p)),
                ("Moodle", p.moodle, moodle.own_names(p)),
            ):
                for name in own - {""}:
                    if not number:
                        named.setdefault((platform, name), []).append(student)
        self.by_name = {n: who[0] for n, who in named.items() if len(who) == 1 and sent[n] == 1}
        for student in self.people:  # who was taken under a number before keeps it
            if student.startswith(PARTICIPANT):
                self.by_number.setdefault(("Moodle", student.removeprefix(PARTICIPANT)), student)

    def stranger(self, sender: Sender) -> str:
        """The id of somebody whom nobody knows: the platform's number, which is no other student's."""
        if sender.platform == "Moodle":
            return f"{PARTICIPANT}{sender.number}"
        taken = self.people.get(sender.number)
        return f"Canvas {sender.number}" if taken and (taken.first or taken.last or taken.email) else sender.number


def roster(
    gradebook: Gradebook, lists: list[ClassList], fit: Callable[[str], bool], sent: dict | None = None
) -> Roster:
    """The students of the gradebook, and those of the class lists, whose rows learn their ids here.

    sent  what Gradescope says of its submissions: it names people itself
    """
    found = Roster(grouped=any(one.place("team") is not None for one in lists))
    for s in gradebook.students:
        facts = (x or "" for x in (s.first_name, s.last_name, s.email, s.lms_user_id))
        found.people[s.id] = Person((s.id,), *facts)
    for one in lists:
        found.listed |= _take(found, one, fit)
    if sent:
        named = dict.fromkeys(p for s in sent.values() for p in s.people)
        one = ClassList(PEOPLE, [*gradescope.COLUMNS], [*map(list, named)])
        _take(found, one, fit)
        ids = dict(zip(map(tuple, one.rows), one.students))
        found.submitters = {name: list(filter(None, (ids[p] for p in s.people))) for name, s in sent.items()}
    found.index()
    return found


def people(given: ClassList) -> Iterator[Person | None]:
    """A person for each row; None for a row that is none, like Canvas's points possible."""
    numbered = given.place("identifier") is not None  # as Moodle's are
    person = canvas.person if given.kind == CANVAS else moodle.person if numbered else class_list.person
    at = {what: given.place(what) for what in NAMES}
    for row in given.rows:
        yield person(lambda what, row=row: "" if at[what] is None else row[at[what]].strip())


def _take(found: Roster, given: ClassList, fit: Callable[[str], bool]) -> set[str]:
    """Merge a list with who is known; the ids of those whom it names."""
    by_canvas = {p.canvas: s for s, p in found.people.items() if p.canvas}
    by_email = {p.email.casefold(): s for s, p in found.people.items() if p.email}
    taken: set[str] = set()  # by a row of this list
    given.students = []
    for row, person in zip(given.rows, people(given)):
        ids = [i for i in person.ids if fit(i)] if person else []
        # The id that the gradebook has for a person, else the first that it may have.
        known = [by_canvas.get(person.canvas), *(i for i in ids if i in found.people),
                 by_email.get(person.email.casefold())] if person else []  # fmt: skip
        student = next((i for i in (*known, *ids) if i and i not in taken), "")
        given.students.append(student)
        if student and person:
            old = found.people.get(student, person)
            found.people[student] = Person(
                (student,), person.first or old.first, person.last or old.last, person.email or old.email,
                person.canvas or old.canvas, person.moodle or old.moodle, person.late or old.late, person.team or old.team,
            )  # fmt: skip
            taken.add(student)
        elif person:
            found.complaints.append(", ".join(filter(None, row))[:60])
    return taken


def enter(gradebook: Gradebook, people: dict[str, Person]) -> None:
    """Put people into the gradebook; what is not known of them stays as it is there."""
    there = {s.id: s for s in gradebook.students}
    for student, p in people.items():
        facts = {"first_name": p.first, "last_name": p.last, "email": p.email, "lms_user_id": p.canvas}
        facts = {k: v[:128] for k, v in facts.items() if v}
        if student not in there or any(getattr(there[student], k) != v for k, v in facts.items()):
            gradebook.update_or_create_student(student, **facts)
