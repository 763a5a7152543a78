"""Who sent a file, by the name that Canvas or Moodle gave it in the archive of an assignment's submissions.

A student chooses the end of such a name and nothing before it, so the first mark of a platform counts.
Only a name that the class list has, of the person or of the group, lets a later mark count: Canvas does not close a
group's name, so in `team_1_11_900_exercises.ipynb` either 1 or 11 can be the number of a person.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

# Canvas's number of the person, that of the file, the file's own name; the person's name stands before
CANVAS = re.compile(r"(?=_(?P<number>[0-9]+)_(?P<file_id>[0-9]+)_(?P<rest>.+))", re.S)
HIDDEN = re.compile(r"(?P<late>LATE_)?(?P<number>anon(?:ymous)?_[A-Za-z0-9]+)_(?P<file_id>[0-9]+)_(?P<rest>.+)", re.S)
TEXT = re.compile(r"(?P<name>.*)_(?P<number>[0-9]+)_(?P<rest>(?:text|link)\.html)", re.S)
HIDDEN_TEXT = re.compile(r"(?P<late>LATE_)?(?P<number>anon(?:ymous)?_[A-Za-z0-9]+)_(?P<rest>(?:text|link)\.html)")
LATE = ("_LATE", "_late")  # the second by old versions, and at the end of a group's name
# name, Moodle's number of the person in this assignment, what was asked for, the file's own name if there are no folders
MOODLE = re.compile(
    r"(?P<name>.*?)_(?P<number>[0-9]+)_assignsubmission_(?P<kind>[a-z][a-z0-9]*?)(?:_(?P<rest>.*))?", re.S
)
MOST = 8  # marks that are looked at in one name


@dataclass(frozen=True)
class Sender:
    """Whom a platform names: its number of the person, and what it made of the name."""

    platform: str
    number: str
    name: str = ""
    late: bool = False


@dataclass(frozen=True)
class Claim:
    """A file's sender, its place among what the sender sent, and its number: the larger, the newer.

    others  whom else the same name may name
    """

    sender: Sender
    path: tuple[str, ...]
    file_id: int = 0
    others: tuple[Sender, ...] = ()


def nobody(sender: Sender) -> bool:
    return False


def claim(
    path: tuple[str, ...], known: Callable[[Sender], bool] = nobody, named: Callable[[Sender], bool] = nobody
) -> Claim | None:
    """Who sent the file at this place of the archive.

    known  whether the class has this sender: a folder with a date in its name looks like one of Canvas's
    named  whether the class has this number, for a person or a group of this very name

    >>> claim(("lovelaceada_LATE_12_345_my_work-1.ipynb",)).sender
    Sender(platform='Canvas', number='12', name='lovelaceada', late=True)
    >>> found = claim(("Ada Lovelace_77_assignsubmission_file_", "hw", "exercises.ipynb"))
    >>> found.sender, found.path
    (Sender(platform='Moodle', number='77', name='Ada Lovelace', late=False), ('hw', 'exercises.ipynb'))
    >>> claim(("exercises.ipynb",))
    >>> claim(("team_1_11_900_a.ipynb",)).sender.number
    '1'
    >>> claim(("team_1_11_900_a.ipynb",), named=lambda s: (s.name, s.number) == ("team_1", "11")).path
    ('a.ipynb',)
    """
    doubtful = None
    for i, part in enumerate(path):
        found = list(_claims(part, path[i + 1 :]))
        if not found:
            continue
        best = next((c for c in found if named(c.sender)), found[0])
        best = replace(best, others=tuple(c.sender for c in found if c.sender.number != best.sender.number))
        if best.sender.platform == "Moodle" or i == len(path) - 1 or known(best.sender):
            return best
        doubtful = doubtful or best
    return doubtful


def _claims(part: str, below: tuple[str, ...]) -> Iterator[Claim]:
    """All that a file's or a folder's name may say, the first mark first."""
    hidden, moodle = HIDDEN.fullmatch(part), MOODLE.fullmatch(part)
    marks = list(islice(CANVAS.finditer(part), MOST))
    if moodle and not hidden and not (marks and marks[0].start("number") < moodle.start("number")):
        rest = moodle["rest"] or ""
        at = (rest, *below) if rest else below or (moodle["kind"],)
        yield Claim(Sender("Moodle", moodle["number"], moodle["name"]), at)
        return
    if m := hidden:
        yield Claim(Sender("Canvas", m["number"], late=bool(m["late"])), (m["rest"], *below), int(m["file_id"][:18]))
    for m in marks:
        for name, late in _late(part[: m.start()]):
            yield Claim(Sender("Canvas", m["number"], name, late), (m["rest"], *below), int(m["file_id"][:18]))
    if below:
        return
    if m := HIDDEN_TEXT.fullmatch(part):
        yield Claim(Sender("Canvas", m["number"], late=bool(m["late"])), (m["rest"],))
    elif m := TEXT.fullmatch(part):
        for name, late in _late(m["name"]):
            yield Claim(Sender("Canvas", m["number"], name, late), (m["rest"],))


def _late(name: str) -> Iterator[tuple[str, bool]]:
    """The name, and whether it is followed by the mark of late work; a group's own may end like that."""
    if name.endswith(LATE):
        yield name[: -len(LATE[0])], True
    if not name.endswith(LATE[0]):  # Canvas writes names in small letters
        yield name, False
