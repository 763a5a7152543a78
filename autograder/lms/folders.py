"""Folders named like students: what lies in a folder that has a student's id is of that student, whatever system wrote it."""

from collections.abc import Collection

from .archives import Claim, Sender

NAME = ""


def claim(path: tuple[str, ...], students: Collection[str], topic: str, others: Collection[str]) -> Claim | None:
    """Who sent the file at this place; a folder of the assignment in the student's is gone into.

    others  the course's other assignments: what lies in a folder of that name is not for this one

    >>> claim(("hw", "ada", "ch01_rooflines", "a.ipynb"), {"ada"}, "ch01_rooflines", set()).path
    ('a.ipynb',)
    >>> claim(("ada", "ch02_sharding", "a.ipynb"), {"ada"}, "ch01_rooflines", {"ch02_sharding"})
    """
    for i, part in enumerate(path[:-1]):
        if part in students:
            rest = path[i + 1 :]
            if rest[0] in others and len(rest) > 1:
                return None
            return Claim(Sender(NAME, part), rest[1:] if len(rest) > 1 and rest[0] == topic else rest)
    return None
