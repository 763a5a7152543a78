"""The course's text in an edition: exercises are cut, and no sentence counts or names one that is gone."""

import re
from collections.abc import Collection
from itertools import takewhile

from autograder.places import SourceError

from .data_line import ASSUME, LINE, data_line

START = re.compile(r"^\(ex-(\d+)-(\d+)\)=\s*$")
FENCE = re.compile(r"^(`{3,}|:{3,})")
BY_HAND = re.compile(r'solution"?: true, "?grade"?: true')
GONE = " (not in this edition)"

LINK = r"\{ref\}`[^`<]*<ex-\d+-\d+>`"
LINKS = re.compile(rf"{LINK}(?:(?:, | and ){LINK})*")
LABEL = re.compile(r"<ex-(\d+)-(\d+)>")
OPENING = re.compile(r"^\{ref\}`Exercises (\d+) <ex-\d+-\d+>`.*$", re.M)  # of a chapter's section of that name
NOT_PROSE = re.compile(r"`[^`]*`|\{\{.*?\}\}|\$[^$]*\$")


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
    found = {}
    for number, lines in blocks(text):
        if number:
            data = data_line("\n".join(lines))
            found[number] = set(data.needs) if data else set()
    return found


def cut(text: str, left_out: Collection[str], name: str = "the source") -> str:
    """A source without these exercises; what they name by `% let` stays, for later ones may use it.

    SourceError, with a line of the file `name`, if an exercise that stays is about one that is gone.
    """
    if not left_out:
        return text
    found, out, at = blocks(text), [], 0
    for i, (number, lines) in enumerate(found):
        if number in left_out or _hollow(found[i:], left_out):
            out += [line for line in lines if line.startswith("% let ")]
        else:
            later = [n for n, _ in found[i + 1 :] if n]
            out += _mended(number, lines, left_out, later, name, at)
        at += len(lines)
    return unlinked("\n".join(out).rstrip("\n") + "\n", left_out)


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


def _mended(
    number: str | None, lines: list[str], left_out: Collection[str], later: list[str], name: str, at: int
) -> list[str]:
    """Lines of a block whose hints and messages say what is not there.

    number  the block's exercise, if any; its question must not speak of an exercise that is gone
    later   exercises that follow in the source
    at      lines in front of the block
    """
    gone = "|".join(map(re.escape, left_out))
    plain = re.compile(rf"(?<![\w.§-])({gone})(?![\d%\w]|\.\d)")
    coded = re.compile(rf"\b[Ee]xercise ({gone})(?!\d)|\bcheck\.(?!own\b)\w+\(\"({gone})\"")
    out, fence, question = [], None, bool(number)
    for i, line in enumerate(lines, at + 1):
        if fence:
            question &= "solution: true" not in line
            fence = None if line.strip() == fence else fence
            line = re.sub(rf",? as in ({gone})(?!\d)", "", line)
            if m := coded.search(line):
                raise SourceError(_about(name, i, m[1] or m[2], number))
        elif line.startswith("```"):
            fence = FENCE.match(line)[1]
        elif not line.startswith(("% ", "★", "☆", "###")):
            question &= "{dropdown}" not in line and not line.startswith("+++")
            bare = NOT_PROSE.sub(lambda m: " " * len(m[0]), line)
            ends = [(m.end(), m[1]) for m in plain.finditer(bare)]
            for m in re.finditer(r"\bthe next (two )?exercises?\b", bare):
                ends += [(m.end(), n) for n in later[: 2 if m[1] else 1] if n in left_out][:1]
            if ends and question and not line.startswith(ASSUME):
                raise SourceError(_about(name, i, ends[0][1], number))
            for end, _ in sorted(ends, reverse=True):
                line = f"{line[:end]}{GONE}{line[end:]}"
        out.append(line)
    return out


def _about(name: str, line: int, gone: str, number: str | None) -> str:
    """Why an exercise cannot be left out.

    >>> _about("ch02_sharding.md", 9, "2.21", "2.26")
    'Exercise 2.26 is about 2.21 (ch02_sharding.md, line 9): leave it out as well, or keep 2.21.'
    """
    if number:
        return f"Exercise {number} is about {gone} ({name}, line {line}): leave it out as well, or keep {gone}."
    return f"{name}, line {line}, is about exercise {gone}: keep {gone}."


def unlinked(text: str, left_out: Collection[str]) -> str:
    """Text in which nothing points to an exercise that is not there; lists of exercises get shorter.

    >>> unlinked("Practice: {ref}`Exercise 2.1 <ex-2-1>`.\\nSee {ref}`2.1 <ex-2-1>`.", ["2.1"])
    'See 2.1 (not in this edition).'
    >>> unlinked("Practice: {ref}`Exercise 2.1 <ex-2-1>`, {ref}`Exercise 2.2 <ex-2-2>`.", ["2.1"])
    'Practice: {ref}`Exercise 2.2 <ex-2-2>`.'
    """
    if not left_out:
        return text
    gone = "|".join(f"ex-{n.replace('.', '-')}" for n in left_out)
    link = re.compile(r"\{ref\}`([^`<]*\S)\s*<(?:" + gone + r")>`")
    kept, section = [], ""
    for line in text.split("\n"):
        section = line if line.startswith("## ") else section
        advice = line.startswith("Practice: ") or section == "## Exercises" and not OPENING.match(line)
        if advice and link.search(line):
            line = _shorter(line, left_out)
            if not line:
                continue
        kept.append(line if OPENING.match(line) else link.sub(rf"\1{GONE}", line))
    return "\n".join(kept)


def _shorter(line: str, left_out: Collection[str]) -> str:
    """A sentence that lists exercises without those that are gone; empty if none is left.

    >>> _shorter("If you can, do {ref}`a <ex-1-1>`, {ref}`b <ex-1-2>` and {ref}`c <ex-1-3>`; or else {ref}`d <ex-1-4>`.", ["1.2", "1.4"])
    'If you can, do {ref}`a <ex-1-1>` and {ref}`c <ex-1-3>`.'
    >>> _shorter("Practice: {ref}`a <ex-1-1>`, and the contest, {ref}`b <ex-1-2>`.", ["1.1"])
    'Practice: the contest, {ref}`b <ex-1-2>`.'
    >>> _shorter("With half an hour, do {ref}`a <ex-1-1>`; with an evening, {ref}`b <ex-1-2>`.", ["1.1"])
    'With an evening, do {ref}`b <ex-1-2>`.'
    """
    _, _, rest = line.partition("Practice: ") if line.startswith("Practice: ") else ("", "", line)
    practice, clauses = rest != line, []
    every = re.split(r"; |, and (?=\S)" if practice else r"; ", rest.rstrip("."))
    for i, clause in enumerate(every):
        runs = []
        for run in LINKS.findall(clause):
            links = re.findall(LINK, run)
            left = [one for one in links if ".".join(LABEL.search(one).groups()) not in left_out]
            runs.append(left)
            if left and len(left) < len(links):
                joined = ", ".join(left) if " and " not in run else _listed(left)
                clause = clause.replace(run, joined)
        if i and not clauses and not practice:  # the verb went with the first clause
            clause = re.sub(r", (?=\{ref\})", ", do ", clause, count=1)
        if all(runs):
            clauses.append(clause)
    if not clauses:
        return ""
    text = (", and " if practice else "; ").join(clauses)
    return f"Practice: {text}." if practice else f"{text[0].upper()}{text[1:]}."


def _listed(items: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def opened(chapter: str, source: str | None, due: str | None) -> str:
    """A chapter whose section of exercises counts those of this edition and says when they are due.

    source  the chapter's exercises as this edition has them; None if it has none
    """
    if source is None:
        return re.sub(
            r"^## Exercises\n.*?(?=^\(|^## |\Z)",
            "## Exercises\n\nThis edition has no exercises for this chapter.\n\n",
            chapter,
            flags=re.M | re.S,
        )
    found = [n for n, _ in blocks(source) if n]
    points, hand = sum(float(m["points"]) for m in LINE.finditer(source)), len(BY_HAND.findall(source))
    said = f"{_many(len(found), 'exercise')}, {_many(points, 'point')}"
    said += f"; a person grades {'one' if hand == 1 else f'{hand:g}'} of them" if hand else ""
    label = found[0].replace(".", "-")
    lines = [f"{{ref}}`Exercises {found[0].split('.')[0]} <ex-{label}>`: {said}."]
    lines += [f"Due on {due}."] if due else []
    return OPENING.sub(lambda _: "\n".join(lines), chapter, count=1)


def _many(n: float, what: str) -> str:
    """`1 exercise`, `2 exercises`."""
    return f"{n:g} {what}{'' if n == 1 else 's'}"


def headed(source: str, due: str | None) -> str:
    """A chapter's exercises whose head says when they are due."""
    return re.sub(r"^# .+\n", lambda m: f"{m[0]}\n**Due on {due}.**\n", source, count=1, flags=re.M) if due else source
