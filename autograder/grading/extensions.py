"""Later deadlines for single students: `autograder/extensions.csv`, with the columns student, assignment, until.

A row's `until` is a day, which counts whole, or a day with a time, in UTC where it names no other zone.
The file is read at each grading and says all of an assignment's extensions; without it those of the gradebook stay as they are.
"""

import datetime
from pathlib import Path

from autograder.places import SourceError

from . import own_tables

NAME = "extensions.csv"
Until = dict[str, datetime.datetime]


def until(root: Path, topic: str) -> Until | None:
    """Student -> the moment, in UTC, until when this assignment is in time for them; None if there is no such file."""
    if not (root / NAME).is_file():
        return None
    found, known = {}, {p.name for p in (root / "release").glob("*")}
    for where, (student, assignment, moment) in own_tables.rows(root / NAME, ("student", "assignment", "until")):
        if assignment == topic:
            found[student] = _moment(moment, where)
        elif assignment not in known and (student or assignment):
            raise SourceError(f'{where} names "{assignment}", which is no released assignment.')
    return found


def _moment(text: str, where: str) -> datetime.datetime:
    """
    >>> print(_moment("2027-03-20", ""), "|", _moment("2027-03-20 18:00 +01:00", ""), "|", _moment("20270320", ""))
    2027-03-20 23:59:59 | 2027-03-20 17:00:00 | 2027-03-20 23:59:59
    """
    try:
        found = datetime.datetime.fromisoformat(text.removesuffix(" UTC"))
        if len(text) <= len("2027-03-20"):  # also 20270320, which is a day as well
            found = found.replace(hour=23, minute=59, second=59)
        found = found.astimezone(datetime.UTC).replace(tzinfo=None) if found.tzinfo else found
        if found.year < 1970:
            raise ValueError  # before a database's time begins
    except (ValueError, OverflowError):  # the second near the first and the last year there are
        raise SourceError(f'{where} has "{text}" where a day such as 2027-03-20 or 2027-03-20 18:00 belongs.') from None
    return found


def lines(known: Until | None, handed_in: list[str], absent: list[str]) -> list[str]:
    """Who has until when, the latest last, and who of these has not handed in, or is in no class list: a slip, perhaps.

    >>> known = {"bob": datetime.datetime(2027, 3, 20, 23, 59, 59), "eve": datetime.datetime(2027, 3, 19, 12)}
    >>> lines(known, ["bob"], ["eve"]) == ["extensions: eve until 2027-03-19 12:00 UTC (has not handed in), "
    ...                                    "bob until 2027-03-20 23:59 UTC."]
    True
    >>> lines({"eva": known["eve"]}, ["bob"], ["eve"])
    ['extensions: eva until 2027-03-19 12:00 UTC (in no class list: is that the id?).']
    """
    why = dict.fromkeys(handed_in, "") | dict.fromkeys(absent, " (has not handed in)")
    latest = sorted((known or {}).items(), key=lambda pair: pair[1])
    said = [
        f"{s} until {moment:%Y-%m-%d %H:%M} UTC{why.get(s, ' (in no class list: is that the id?)')}"
        for s, moment in latest
    ]
    return [f"extensions: {', '.join(said)}."] if said else []
