"""Review: what was read and passed comes again after 1, 3, 7 and 21 days, with other numbers each time.

A card is a question of a chapter, or an exercise to work out for given numbers; notebooks/review.json has them. It enters once its
section was read, its question answered or its exercise passed, and comes first on the next day. Who knows it sees it after the next
of these spans, who does not sees it tomorrow; known four times in a row, it is known for good. book/_static/review.js decides alike.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from .questions import hashed, number, verdict
from .record import Entry, Record

SPANS = 1, 3, 7, 21
"""Days until a card comes again, by how often in a row it was known."""

A_DAY, QUESTION, EXERCISE = 300, 25, 100
"""Seconds of review in a day, and what a card takes of them; what does not fit in waits for tomorrow."""

SLOT = "\x01"
NEAR = 1e-3  # how far a number may be off, as in checks


def deck(notebooks: Path) -> list[dict]:
    """All cards, in the order of the book; none where notebooks were copied without them."""
    path = notebooks / "review.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


def since(card: dict, record: Record) -> int | None:
    """The day on which a card's section was read, its question answered or its exercise passed; None before."""
    name = card["name"]
    sources = record.passed, record.questions, record.sections
    days = [kind[key].day for kind, key in zip(sources, (name, name, name.rpartition(".")[0])) if key in kind]
    return min(days, default=None)


def due(card: dict, record: Record) -> int | None:
    """The day on which a card comes next; None if it has not entered, or is known for good.

    >>> record = Record(sections={"sec-a": Entry(10)})
    >>> due({"name": "sec-a.1"}, record), due({"name": "sec-b.1"}, record)
    (11, None)
    >>> record.reviews["sec-a.1"] = Entry(11, 1)
    >>> due({"name": "sec-a.1"}, record)
    14
    """
    entry = record.reviews.get(card["name"])
    if entry is None:
        day = since(card, record)
        return None if day is None else day + SPANS[0]
    return entry.day + SPANS[entry.state] if entry.state < len(SPANS) else None


def seconds(card: dict) -> int:
    """What a card takes."""
    return EXERCISE if "call" in card else QUESTION


def waiting(cards: Sequence[dict], record: Record, today: int) -> list[dict]:
    """Cards that are left for today, those first that have waited longest; of equals those of the book's order."""
    days = [(day, i) for i, card in enumerate(cards) if (day := due(card, record)) is not None and day <= today]
    asked = [card for card in cards if (entry := record.reviews.get(card["name"])) and entry.day == today]
    queue = [cards[i] for _, i in sorted(days)]
    spent = accumulate(map(seconds, queue), initial=sum(map(seconds, asked)))
    return [card for card, until in zip(queue, [*spent][1:]) if until <= A_DAY]


def answered(record: Record, name: str, was_known: bool, today: int) -> None:
    """Move a card on that was known, and one that was not to tomorrow."""
    before = record.reviews.get(name, Entry(0))
    record.reviews[name] = Entry(today, min(before.state + 1, len(SPANS)) if was_known else 0, before.asked + 1)


def times(record: Record, name: str) -> int:
    """How often a card was asked."""
    return record.reviews.get(name, Entry(0)).asked


def setting(card: dict, times_asked: int) -> int:
    """Which of a card's settings it has after it was asked so often: the next one each time, however long somebody stays away.

    >>> [setting({"name": "sec-a.1", "fills": [[], [], [], []]}, asked) for asked in range(5)]
    [0, 1, 2, 3, 0]
    """
    return (times_asked + sum(map(ord, card["name"]))) % len(card["fills"])


@dataclass(frozen=True)
class Shown:
    """A card with its numbers.

    replies  (value, what is told) of each reply; none for an exercise
    right    the index of the right one
    """

    card: dict
    text: str
    replies: tuple[tuple[str, str], ...]
    right: int
    index: int

    @property
    def kind(self) -> str:
        return "exercise" if "call" in self.card else "number" if "unit" in self.card else "choice"


def shown(card: dict, times_asked: int) -> Shown:
    """A card as it comes after it was asked so often."""
    index = setting(card, times_asked)
    fills = iter(card["fills"][index])
    if "call" in card:
        call = ", ".join(f"{name}={value}" for name, value in zip(card["given"], fills))
        statement, doc = card["texts"]
        return Shown(card, f"{statement}\n\n{doc}\n\n{card['call']}({call})", (), 0, index)
    text, *said = ("".join(next(fills) if c == SLOT else c for c in t) for t in card["texts"])
    replies = list(zip(said[::2], said[1::2]))
    right = replies[card["right"][index]]
    if "unit" not in card:  # choices stand in another order, too
        turn = times_asked % len(replies)
        replies = replies[turn:] + replies[:turn]
    return Shown(card, text, tuple(replies), replies.index(right), index)


def judged(card: Shown, answer: str) -> tuple[bool, str] | None:
    """(whether an answer is right, what it is told); None if it is no answer: not a number, or none of the letters."""
    if card.kind == "choice":
        i = ord(answer.strip().lower()[:1] or " ") - ord("a")
        return (i == card.right, card.replies[i][1]) if 0 <= i < len(card.replies) else None
    try:
        given = number(answer.strip().removesuffix(card.card.get("unit") or "%").replace(" ", ""))
        if math.isnan(given):
            return None
    except (ValueError, ZeroDivisionError):
        return None
    if card.kind == "number":
        replies = {number(value): told for value, told in card.replies}
        return verdict(given, replies, number(card.replies[card.right][0]), card.card["within"])
    hash_, salt = card.card["hashes"][card.index]
    known = any(hashed(x, salt) == hash_ for x in (given, given * (1 - NEAR), given * (1 + NEAR)))
    return (True, "") if known else (False, "not this.")
