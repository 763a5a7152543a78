"""The course's text in an edition: exercises are cut, and a chapter counts those that are there.

No sentence is changed: what names an exercise or a section that is left out leads to a page that says so.
"""

import re
from collections.abc import Collection
from itertools import takewhile

from autograder.places import SourceError

from .data_line import LINE, data_line

START = re.compile(r"^\(ex-(\d+)-(\d+)\)=\s*$")
FENCE = re.compile(r"^(`{3,}|:{3,})")
BY_HAND = re.compile(r'solution"?: true, "?grade"?: true')
OPENING = re.compile(r"^\{ref\}`Exercises \d+ <ex-\d+-\d+>`.*(?:\n.+)*", re.M)  # of a chapter's section of that name
POINTS = re.compile(r"(?<![\w.])(\"?points\"?(?:: |=))(\d+(?:\.\d+)?)")


def blocks(text: str) -> list[tuple[str | None, list[str]]]:
    """Lines of a source in order, with the exercise that they belong to, if any.

    >>> blocks("a\\n(ex-1-2)=\\nb\\n## c")
    [(None, ['a']), ('1.2', ['(ex-1-2)=', 'b']), (None, ['## c'])]
    """
    found: list[tuple[str | None, list[str]]] = [(None, [])]
    fence = None
    for line in text.split("\n"):
        mark = FENCE.match(line)
        if fence:
            fence = None if line.strip() == fence else fence
        elif mark:
            fence = mark[1]
        elif m := START.match(line):
            found.append((f"{m[1]}.{m[2]}", []))
        elif line.startswith("## "):
            found.append((None, []))
        found[-1][1].append(line)
    return found


def needs(text: str) -> dict[str, set[str]]:
    """For each exercise of a source, those that its data line says it needs."""
    found = {number: data_line("\n".join(lines)) for number, lines in blocks(text) if number}
    return {number: set(data.needs) if data else set() for number, data in found.items()}


def by_hand(text: str) -> list[str]:
    """Exercises of a source that a person grades."""
    return [number for number, lines in blocks(text) if number and BY_HAND.search("\n".join(lines))]


def cut(text: str, left_out: Collection[str]) -> str:
    """A source without these exercises; what they name by `% let` stays, for later ones may use it."""
    if not left_out:
        return text
    found, out = blocks(text), []
    for i, (number, lines) in enumerate(found):
        gone = number in left_out or _hollow(found[i:], left_out)
        out += [line for line in lines if line.startswith("% let ")] if gone else lines
    return "\n".join(out).rstrip("\n") + "\n"


def _hollow(found: list[tuple[str | None, list[str]]], left_out: Collection[str]) -> bool:
    """Whether the first block opens a section of which nothing is left: words about exercises that are all gone.

    >>> _hollow([(None, ["## On rings"]), ("1.2", []), (None, ["## On trees"]), ("1.3", [])], ["1.2"])
    True
    """
    number, lines = found[0]
    if number or not lines[0].startswith("## ") or any("{code-cell}" in line for line in lines):
        return False
    numbers = [n for n, _ in takewhile(lambda block: block[0], found[1:])]
    return bool(numbers) and set(numbers) <= set(left_out)


def weighed(text: str, points: dict[str, float]) -> str:
    """A source in which these exercises have these points; their parts keep their shares.

    SourceError where a part would not get quarters of a point, in which checks give credit.

    >>> print(weighed("(ex-1-2)=\\n★☆☆ · 5 min · 3 points: 1 for a, 2 for b\\na = check.Answer(f, points=1)", {"1.2": 1.5}))
    (ex-1-2)=
    ★☆☆ · 5 min · 1.5 points
    a = check.Answer(f, points=0.5)
    """
    pieces = [(number, "\n".join(lines)) for number, lines in blocks(text) if lines]
    return "\n".join(_weighed(piece, number, points[number]) if number in points else piece for number, piece in pieces)


def _weighed(text: str, number: str, points: float) -> str:
    data = LINE.search(text)
    factor = points / float(data["points"])
    for part in (float(m[2]) * factor for m in POINTS.finditer(text)):
        if part * 4 % 1:
            raise SourceError(
                f"Exercise {number} cannot have {points:g} points: a part of it would get {part:g}, and checks give quarters."
            )
    said = re.sub(r"[\d.]+ points?(?:: [^·\n]+?)?(?= · |$)", _many(points, "point"), data[0], count=1)
    return POINTS.sub(lambda m: f"{m[1]}{float(m[2]) * factor:g}", text.replace(data[0], said))


def opened(chapter: str, source: str | None, due: str | None) -> str:
    """A chapter whose section of exercises counts those of this edition and says when they are due.

    source  the chapter's exercises as this edition has them; None if it has none
    """
    if source is None:
        none = "## Exercises\n\nThis edition has no exercises for this chapter.\n\n"
        return re.sub(r"^## Exercises\n.*?(?=^\(|^## |\Z)", none, chapter, flags=re.M | re.S)
    found = [n for n, _ in blocks(source) if n]
    points, hand = sum(float(m["points"]) for m in LINE.finditer(source)), len(BY_HAND.findall(source))
    said = f"{_many(len(found), 'exercise')}, {_many(points, 'point')}"
    said += f"; a person grades {'one' if hand == 1 else f'{hand:g}'} of them" if hand else ""
    label = found[0].replace(".", "-")
    lines = [f"{{ref}}`Exercises {found[0].split('.')[0]} <ex-{label}>`: {said}."]
    lines += [f"Due on {due}."] if due else []
    there = {n.replace(".", "-") for n in found}

    def kept(m: re.Match) -> str:
        """What the section says of its exercises, but for advice to do one that is left out."""
        more = [line for line in m[0].split("\n")[1:] if there >= set(re.findall(r"<ex-(\d+-\d+)>", line))]
        return "\n".join([*lines, *more])

    return OPENING.sub(kept, chapter, count=1)


def _many(n: float, what: str) -> str:
    """`1 exercise`, `2 exercises`."""
    return f"{n:g} {what}{'' if n == 1 else 's'}"


def headed(source: str, due: str | None) -> str:
    """A chapter's exercises whose head says when they are due."""
    return re.sub(r"^# .+\n", lambda m: f"{m[0]}\n**Due on {due}.**\n", source, count=1, flags=re.M) if due else source
