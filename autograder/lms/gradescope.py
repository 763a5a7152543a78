"""Gradescope's export of an assignment: `submission_metadata.yml`, and beside it a folder for each submission that it names.

The file says who handed in, several of a group, and when, so that the rule for late work counts. Of a programming assignment
Gradescope imports no grades: those of `grades.csv` go by e-mail address to wherever the class's grades are kept.
"""

import datetime
import re
from dataclasses import dataclass

import yaml

from autograder.grading.intake import LARGEST
from autograder.places import SourceError

from .archives import Archive, Claim, Sender, Unreadable

NAME = "Gradescope"
METADATA = "submission_metadata.yml"
COLUMNS = ("Full name", "SID", "Email")


@dataclass(frozen=True)
class Submission:
    """Who handed in, a tuple of COLUMNS for each, and when, in UTC as nbgrader writes it."""

    people: tuple[tuple[str, ...], ...]
    stamp: str


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """YAML of Ruby: objects of its own are nothing here."""


Loader.add_multi_constructor("!ruby/", lambda *_: None)


def submissions(archive: Archive) -> dict[str, Submission]:
    """Place of a submission's folder -> what is said of it; nothing if this is no export of Gradescope."""
    files = [e for e in archive.entries if e.path[-1] == METADATA]
    if not files:
        return {}
    top = min(files, key=lambda e: len(e.path))  # deeper ones are a student's own
    try:
        with top.open() as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise ValueError("it is too large")
        rows = yaml.load(data, Loader)
        found = {"/".join((*top.path[:-1], str(name))): _submission(row) for name, row in rows.items()}
    except (Unreadable, OSError, ValueError, TypeError, AttributeError, LookupError, yaml.YAMLError) as e:
        why = str(e).splitlines()[0]
        raise SourceError(f"{METADATA} of this export of Gradescope cannot be read: {why}.") from None
    archive.entries.remove(top)
    return found


def _submission(row: dict) -> Submission:
    keys = ":name", ":sid", ":email"
    people = tuple(tuple(str(one.get(k) or "").strip() for k in keys) for one in row[":submitters"])
    when = row.get(":created_at")
    if not isinstance(when, datetime.datetime):
        return Submission(people, "")
    when = when.astimezone(datetime.UTC) if when.tzinfo else when
    return Submission(people, f"{when:%Y-%m-%d %H:%M:%S} UTC")


def claim(path: tuple[str, ...], known: dict[str, Submission]) -> Claim | None:
    """Who sent the file at this place of the archive."""
    places = ("/".join(path[:i]) for i in range(1, len(path)))
    found = next((place for place in places if place in known), None)
    if not found:
        return None
    stamp = known[found].stamp
    return Claim(Sender(NAME, found, stamp=stamp), path[found.count("/") + 1 :], int(re.sub(r"\D", "", stamp) or 0))
