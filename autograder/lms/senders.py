"""Who sent a file, by the name that Canvas or Moodle gave it in the archive of an assignment's submissions.

A student chooses the end of such a name and nothing before it, so the first mark of a platform counts.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

# name, Canvas's number of the person, that of the file, the file's own name
CANVAS = re.compile(r"(?P<name>.*?)(?P<late>_LATE|_late)?_(?P<number>[0-9]+)_(?P<file_id>[0-9]+)_(?P<rest>.+)", re.S)
HIDDEN = re.compile(r"(?P<late>LATE_)?(?P<number>anon(?:ymous)?_[A-Za-z0-9]+)_(?P<file_id>[0-9]+)_(?P<rest>.+)", re.S)
TEXT = re.compile(
    r"(?:(?P<name>.*?)(?P<late>_LATE|_late)?_(?P<number>[0-9]+)|(?P<late2>LATE_)?(?P<hidden>anon(?:ymous)?_[A-Za-z0-9]+))"
    r"_(?P<rest>(?:text|link)\.html)", re.S
)  # fmt: skip
# name, Moodle's number of the person in this assignment, what was asked for, the file's own name if there are no folders
MOODLE = re.compile(r"(?P<name>.*?)_(?P<number>[0-9]+)_assignsubmission_(?P<kind>[a-z]+?)(?:_(?P<rest>.*))?", re.S)


@dataclass(frozen=True)
class Sender:
    """Whom a platform names: its number of the person, and what it made of the name."""

    platform: str
    number: str
    name: str = ""
    late: bool = False


@dataclass(frozen=True)
class Claim:
    """A file's sender, its place among what the sender sent, and its number: the larger, the newer."""

    sender: Sender
    path: tuple[str, ...]
    file_id: int = 0


def claim(path: tuple[str, ...], known: Callable[[Sender], bool] = lambda sender: False) -> Claim | None:
    """Who sent the file at this place of the archive.

    known  whether the class has this sender: a folder with a date in its name looks like one of Canvas's

    >>> claim(("lovelaceada_LATE_12_345_my_work-1.ipynb",)).sender
    Sender(platform='Canvas', number='12', name='lovelaceada', late=True)
    >>> claim(("Ada Lovelace_77_assignsubmission_file_", "hw", "exercises.ipynb"))
    Claim(sender=Sender(platform='Moodle', number='77', name='Ada Lovelace', late=False), path=('hw', 'exercises.ipynb'), file_id=0)
    >>> claim(("exercises.ipynb",))
    """
    doubtful = None
    for i, part in enumerate(path):
        found = _claim(part, path[i + 1 :])
        if found and (found.sender.platform == "Moodle" or i == len(path) - 1 or known(found.sender)):
            return found
        doubtful = doubtful or found
    return doubtful


def _claim(part: str, below: tuple[str, ...]) -> Claim | None:
    if m := HIDDEN.fullmatch(part):
        return Claim(Sender("Canvas", m["number"], late=bool(m["late"])), (m["rest"], *below), int(m["file_id"][:18]))
    found = [m for m in (CANVAS.fullmatch(part), MOODLE.fullmatch(part)) if m]
    if not found:
        if (m := TEXT.fullmatch(part)) and not below:
            late = bool(m["late"] or m["late2"])
            return Claim(Sender("Canvas", m["number"] or m["hidden"], m["name"] or "", late), (m["rest"],))
        return None
    m = min(found, key=lambda m: m.start("number"))
    if m.re is MOODLE:
        rest = m["rest"] or ""
        return Claim(Sender("Moodle", m["number"], m["name"]), (rest, *below) if rest else below or (m["kind"],))
    return Claim(Sender("Canvas", m["number"], m["name"], bool(m["late"])), (m["rest"], *below), int(m["file_id"][:18]))
