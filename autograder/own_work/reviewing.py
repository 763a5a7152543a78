"""`course review`: the cards of today, one after the other, in a terminal."""

import textwrap
from collections.abc import Callable

from helpers.check import record, review

from .copies import Work
from .standing import file

WIDTH = 96


def run(work: Work, ask: Callable[[str], str] = input, today: int | None = None) -> None:
    """Ask until nothing is due, or nobody answers any more; every answer is kept at once."""
    today = record.today() if today is None else today
    cards = review.deck(work.tree.notebooks)
    before = record.read(file(work))
    waiting = review.waiting(cards, before, today)
    if not waiting:
        return work.said.append(nothing(cards, before, today))
    print(
        f"{len(waiting)} to review. An empty line says that you do not know; Ctrl+C ends and keeps what you answered."
    )
    known = 0
    for count, card in enumerate(waiting, 1):
        try:
            right = one(review.shown(card, review.times(before, card["name"])), f"{count} of {len(waiting)}", ask)
        except (EOFError, KeyboardInterrupt):
            count -= 1
            print()
            break
        record.change(file(work), lambda r: review.answered(r, card["name"], right, today))  # noqa: B023
        known += right
    left = len(review.waiting(cards, record.read(file(work)), today))
    more = f"; {left} are left for today" if left else ""
    work.said.append(f"{known} of {count} known{more}. {nothing(cards, record.read(file(work)), today)}")


def one(card: review.Shown, place: str, ask: Callable[[str], str]) -> bool:
    """Ask one card until there is an answer; whether it was known."""
    print(f"\n{place} · {card.card['where']}\n\n{filled(card.text)}\n")
    if card.kind == "choice":
        choices = [filled(f"({chr(ord('a') + i)}) {value}") for i, (value, _) in enumerate(card.replies)]
        print("\n".join(choices), end="\n\n")
    wants = card.card.get("unit") or card.card.get("asks") or "letter"
    while True:
        answer = ask(f"{wants} = ").strip()
        told = review.judged(card, answer) if answer else (False, "")
        if told:
            break
        number = "That is no answer: write a number, such as 100, 1e5 or 1/6."
        print("Write one of the letters." if card.kind == "choice" else number)
    right, why = told
    print(filled(f"✓ Right. {why}" if right else f"Not this: {why}" if why else "It comes again tomorrow."))
    if not right and card.replies:
        value, reason = card.replies[card.right]
        print(filled(f"It is {value}: {reason}"))
    elif not right:
        print(f"Work it out again in exercise {card.card['name']}.")
    return right


def filled(text: str) -> str:
    """Text as wide as a terminal; what is indented stays as it is."""
    return "\n".join(line if line.startswith(" ") else textwrap.fill(line, WIDTH) for line in text.split("\n"))


def nothing(cards: list[dict], known: record.Record, today: int) -> str:
    """When the next review is."""
    days = [day for card in cards if (day := review.due(card, known)) is not None and day > today]
    if not days:
        return "Nothing waits for review: what you read and pass comes the next day."
    return f"Next review: {record.iso(min(days))}, {days.count(min(days))} of them."
