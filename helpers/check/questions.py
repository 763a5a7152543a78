"""Questions of the reading: what a reader is told who answers with a number or a choice.

A question stands in a chapter as

    :::{ask}
    :unit: tokens
    From how many tokens on is the product compute-bound?

    = 243: memory brings one byte while the chip does 243 FLOPs.
    ? 122: this halves the bytes of the weights, which are in bf16.
    :::

`=` marks the right answer, `?` a likely mistake; with a unit the answers are numbers, without one they are a choice.
The page checks it by a script that decides as `verdict` does, the notebook by `question`.
"""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from . import record

ITEM = re.compile(r"^([=?]) (.+?): (.+)$")
WITHIN = 0.02
"""A number counts as the answer up to this share of it: nobody has to type four figures."""


@dataclass(frozen=True)
class Reply:
    """One answer that a reader may give, and what it is told."""

    value: str
    text: str
    right: bool


@dataclass(frozen=True)
class Question:
    """text: lines of Markdown; unit: None for a choice; within: relative tolerance of a number."""

    text: str
    replies: tuple[Reply, ...]
    unit: str | None = None
    within: float = WITHIN

    @property
    def right(self) -> Reply:
        return next(r for r in self.replies if r.right)


GROUPS = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:,\d{3})+(?!\d)")


def number(text: str) -> float:
    """A number that was printed or typed; a comma that parts no groups of three digits is a decimal one.

    >>> number("1,820"), number("1.5e14"), number("1/6"), number("0,125"), number("2,43")
    (1820.0, 150000000000000.0, 0.16666666666666666, 0.125, 2.43)
    """
    over, _, under = GROUPS.sub(lambda m: m[0].replace(",", ""), text).replace(",", ".").partition("/")
    return float(over) / (float(under) if under else 1.0)


def parse(lines: Sequence[str], unit: str | None = None, tolerance: float = WITHIN) -> Question:
    """The question of a directive's body; ValueError says what its form lacks.

    >>> parse(["Is ReLU compute-bound?", "", "? yes: it does one FLOP for four bytes.", "= no: right at any size."]).right.value
    'no'
    """
    start = next((i for i, line in enumerate(lines) if ITEM.match(line)), len(lines))
    text = "\n".join(lines[:start]).strip()
    items: list[list[str]] = []
    for line in lines[start:]:
        if m := ITEM.match(line):
            items.append([*m.groups()])
        elif line.strip():
            items[-1][2] += "\n" + line.strip()
    replies = tuple(Reply(value, reply, mark == "=") for mark, value, reply in items)
    if not text or sum(r.right for r in replies) != 1 or len(replies) < 2:
        raise ValueError(
            'A question needs a text, one line "= answer: why" and at least one line "? mistake: what to tell"; '
            f"this one begins {text[:40]!r} and has {[r.value for r in replies]}."
        )
    found = Question(text, replies, unit, tolerance)
    if unit is not None:
        _apart(found)
    return found


def _apart(question: Question) -> None:
    """Refuse numbers that the tolerance cannot tell apart, and an answer printed so short that it misses its own value."""
    right = number(question.right.value)
    decimals = len(question.right.value.partition(".")[2].partition("e")[0])
    if decimals and question.within and 0.5 * 10.0**-decimals > question.within * abs(right):
        raise ValueError(f"The answer {question.right.value} is rounded by more than its tolerance: print more of it.")
    for reply in question.replies:
        if not reply.right and _near(number(reply.value), right, 2 * question.within):
            raise ValueError(
                f"The mistake {reply.value} counts as the answer {question.right.value}: another tolerance?"
            )


def _near(guess: float, value: float, tolerance: float) -> bool:
    """Whether a number counts as another: up to the tolerance, or as its two digits; a count (tolerance 0) only as itself."""
    rounded = tolerance > 0 and guess == float(f"{value:.2g}")
    return guess == value or rounded or abs(guess - value) <= tolerance * abs(value)


ROUNDS = 10_000
"""Of PBKDF2; book/_static/try_numbers.js has the same number."""


def canonical(x: float) -> str:
    """A number to three digits, as it is hashed; the page writes it alike.

    >>> canonical(262.7), canonical(-0.0004995), canonical(0), canonical(float("inf"))
    ('2.63e2', '-5.00e-4', '0', 'inf')
    """
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    digits, power = f"{x:.2e}".split("e")
    return f"{digits}e{int(power)}" if x else "0"


def hashed(x: float, salt: str) -> str:
    """PBKDF2 of a number's three digits, 16 bytes as hexadecimal digits: an answer that nobody reads by accident.

    salt  such as "ch01-q04-check 0 intensity": the check, the number of the draw, the entry of the result
    """
    return hashlib.pbkdf2_hmac("sha256", canonical(x).encode(), salt.encode(), ROUNDS, 16).hex()


PREFIX = "the digits are right and the power of ten is not: look at units and prefixes"


def verdict(guess: float, replies: Mapping[float, str], answer: float, tolerance: float = WITHIN) -> tuple[bool, str]:
    """(whether a number is the answer, what it is told).

    >>> verdict(240, {243: "C/W.", 122: "two bytes a weight."}, 243)
    (True, 'C/W.')
    >>> verdict(122, {243: "C/W.", 122: "two bytes a weight."}, 243)
    (False, 'two bytes a weight.')
    >>> verdict(243e3, {243: "C/W."}, 243), verdict(100, {243: "C/W."}, 243)
    ((False, 'the digits are right and the power of ten is not: look at units and prefixes.'), (False, 'too small.'))
    """
    if _near(guess, answer, tolerance):
        return True, replies[answer]
    for value, text in replies.items():
        if value != answer and _near(guess, value, tolerance):
            return False, text
    power = round(math.log10(guess / answer)) if 0 < guess < math.inf and 0 < answer < math.inf else 0
    if power and _near(guess, answer * 10.0**power, tolerance):
        return False, f"{PREFIX}."
    return False, f"too {'small' if guess < answer else 'large'}."


def names(text: str) -> list[str]:
    """Names of the questions of a source, in order: the label of the section that each stands in, and which of its questions it is.

    >>> names("(sec-a)=\\n## A\\n:::{ask}\\n:::\\n:::{ask}\\n:::\\n(sec-b)=\\n## B\\n:::{ask}\\n:::")
    ['sec-a.1', 'sec-a.2', 'sec-b.1']
    """
    named, label, count = [], "", 0
    for m in re.finditer(r"^\(([\w:.-]+)\)=$|^:{3,}\{ask\}", text, re.M):
        label, count = (m[1], 0) if m[1] else (label, count + 1)
        named += [f"{label}.{count}"] * (not m[1])
    return named


def question(guess, replies: Mapping, right, unit: str | None = None, within: float = WITHIN, name: str = "") -> None:
    """Print what a reader's guess is told, and keep it in the reader's record.

    guess    a number, or the letter of a choice; None before there is one
    replies  what each answer is told, by its number or letter
    name     of the question, such as "sec-matmul.1"

    >>> question(None, {"a": "It is.", "b": "Look again."}, "a")
    No guess yet: write "a" or "b" after guess =, and run both cells again.
    >>> question("b", {"a": "it is.", "b": "look again."}, "a")
    Not yet: look again.
    >>> question("x", {6: "two hops each way."}, 6, unit="hops")
    The guess is to be a number (hops), such as 100 or 1e5; it is 'x'.
    """
    wanted, example, found = _wanted(replies, unit), "", None
    if guess is None:
        print(f"No guess yet: write {wanted} after guess =, and run both cells again.")
        return
    if unit is None:
        letter = str(guess).strip().strip("()").lower()
        found = (letter == right, replies[letter]) if letter in replies else None
    else:
        example, value = ", such as 100 or 1e5", math.nan
        with suppress(TypeError, ValueError, ZeroDivisionError):
            value = number(guess) if isinstance(guess, str) else float(guess)
        if not math.isnan(value) and not isinstance(guess, bool):
            found = verdict(value, replies, right, within)
    if found is None:
        print(f"The guess is to be {wanted}{example}; it is {guess!r}.")
    else:
        print("Right:" if found[0] else "Not yet:", found[1])
        record.note_question(name, found[0])


def _wanted(replies: Mapping, unit: str | None) -> str:
    if unit is not None:
        return f"a number ({unit})" if unit else "a number"
    letters = [f'"{k}"' for k in replies]
    return f"{', '.join(letters[:-1])} or {letters[-1]}"
