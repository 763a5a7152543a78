"""What a learner has won and tried, kept across days, and the start page that says so: progress.json and README.md beside the work.

A check writes it, and only where somebody sits before the notebook: never while work is graded, validated or built.
Points are kept by exercise and part; what an exercise is worth is always asked of its present page, so that a changed exercise
is at most not passed any more. The same sentence says where a learner stands after a check, from `course check` and on
the start page: notebooks/README.md lists chapters and exercises, progress.json says what of them is done.
"""

import contextlib
import json
import math
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from helpers.study_time import spent

from .notebook_cells import notebook

NAME = "progress.json"
Parts = dict[str, dict[str, dict]]
"""{exercise: {part: {"won", "of", "tries", "begun", "passed"}}}, days as 2026-11-26."""

REPLACED_BY = {"2.13": "2.11", "3.4": "3.5", "6.17": "6.19"}
"""Exercises that are gone, each with the one that replaces it. Their numbers are not given again: links to them lead to the
exercises that replace them, and a learner's pass counts for these. Points in a gradebook stay what they were; CHANGELOG.md says
what to regrade."""

ELSEWHERE = "elsewhere"
"""The part of an exercise that passed in another folder of work, which a line of text brought here (`record.of_line`)."""

PAGE = "README.md"
BY_HAND = "a person grades it"
ROW = re.compile(
    r"^(?P<kept>\| \[(?P<number>\d+\.\d+)\]\((?P<link>[^)]*)\) .* \| (?P<minutes>\d+) min \| (?P<points>[\d.]+) \|)(?P<state>.*)\|$",
    re.M,
)
SUM = re.compile(r"^(\| (?:(\d+) · .*?|\*\*in all\*\* .*?) \|)(?:[^|\n]*\|){5}$", re.M)

_said: set[str] = set()


def attended() -> bool:
    """Whether somebody sits before this notebook: commands that run one, to grade, validate or build it, take no input."""
    kernel = getattr(notebook(), "kernel", None)
    if kernel is None or "NBGRADER_EXECUTION" in os.environ:
        return False
    return bool((getattr(kernel, "get_parent", dict)() or {}).get("content", {}).get("allow_stdin"))


def place(folder: Path | None = None) -> Path:
    """The file for work in this folder: in work/ of the course, or beside the notebook where there is no course."""
    folder = (folder or Path.cwd()).resolve()
    course = folder.parent.parent
    if folder.parent.name in ("work", "notebooks") and (course / "notebooks" / "README.md").is_file():
        return course / "work" / NAME
    return folder / NAME


def _understood(content: object) -> bool:
    try:
        parts = [part for own in content["exercises"].values() for part in own.values()]
        numbers = [part[key] for part in parts for key in ("won", "of", "tries")]
        for part in parts:
            for day in (part["begun"], part.get("passed") or part["begun"]):
                date.fromisoformat(day)  # ValueError or TypeError for what is no day
        return all(0 <= n < 1000 for n in numbers)
    except (AttributeError, KeyError, TypeError, ValueError):
        return False


def whole(path: Path) -> dict:
    """All that a file holds, `helpers.check.record`'s part as well; nothing if there is none, ValueError if it is not such a file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {"exercises": {}}
    except RecursionError:
        raise ValueError(f"{path.name} is nested too deep") from None
    if not _understood(found):
        raise ValueError(f"{path.name} does not hold what checks write")
    parts = found["exercises"]
    for gone in REPLACED_BY.keys() & parts.keys():
        own = [*parts[gone].values()]
        if own and all(part["won"] >= part["of"] for part in own):  # a pass in part was a part of another question
            last = max(own, key=lambda part: part.get("passed") or "")
            parts.setdefault(current_number(gone), {})[gone] = last
    return found


def content(path: Path) -> dict:
    """What `whole` reads, or nothing: a file that is broken is put aside, with a message."""
    try:
        return whole(path)
    except ValueError:
        aside = path.with_name(f"{path.stem}-broken-{date.today()}.json")
        try:
            os.replace(path, aside)
            say(f"{path.name} cannot be read: it is {aside.name} now. Run your check cells again to fill a new one.")
        except OSError:
            say(f"{path.name} cannot be read.")
    except OSError as error:
        say(f"{path.name} cannot be read: {error.strerror}.")
    return {"exercises": {}}


def kept(path: Path) -> Parts:
    """What a file holds of exercises."""
    return content(path)["exercises"]


def write(path: Path, text: str) -> None:
    """Put a text into a file as a whole or not at all."""
    path.parent.mkdir(exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """No other kernel's check reads and writes this file meanwhile, where the system has locks."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(ImportError, OSError):  # Windows; a folder that cannot be written, or has no locks
            import fcntl

            path.parent.mkdir(exist_ok=True)
            folder = os.open(path.parent, os.O_RDONLY)
            held.callback(os.close, folder)
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield


def say(sentence: str) -> None:
    """Say something once, where it costs no points."""
    if sentence not in _said:
        _said.add(sentence)
        print(sentence)


def merged(old_record: dict | None, new_record: dict) -> dict:
    """Two records of a part: the most that was won, by what it is worth now, and the earlier days."""
    if not old_record:
        return new_record
    won = min(max(old_record["won"], new_record["won"]), new_record["of"])
    tries = max(old_record["tries"], new_record["tries"])
    earlier = lambda key: min(filter(None, (old_record.get(key), new_record.get(key))), default=None)  # noqa: E731
    return {"won": won, "of": new_record["of"], "tries": tries, "begun": earlier("begun"), "passed": earlier("passed")}


def note(exercise: str, part: str, won: float, worth: float, tries: int) -> None:
    """Keep what a check found of a part of an exercise, and show it on the start page."""
    if not attended():
        return
    today = str(date.today())
    new = {"won": won, "of": worth, "tries": tries, "begun": today, "passed": today if won >= worth else None}
    path = place()
    with alone(path):
        known = content(path)
        own = known["exercises"].setdefault(exercise, {})
        before, own[part] = own.get(part), merged(own.get(part), new)
        if own[part] != before:
            put(path, known)


def put(path: Path, content: dict) -> None:
    """Write all that a file is to hold; who calls holds `alone`."""
    by_number = lambda exercise: [int(n) if n.isdigit() else 0 for n in exercise[0].split(".")]  # noqa: E731
    content = content | {"exercises": dict(sorted(content["exercises"].items(), key=by_number))}
    try:
        write(path, json.dumps(content, indent=1) + "\n")
    except OSError as error:
        say(f"Progress is not kept: {path} cannot be written ({error.strerror}).")


def won(parts: Parts, exercise: str) -> float:
    """Points of an exercise so far; infinity if it, or one that it replaces, has passed whatever it is worth now."""
    own = parts.get(exercise, {})
    return math.inf if (REPLACED_BY.keys() | {ELSEWHERE}) & own.keys() else sum(part["won"] for part in own.values())


def current_number(exercise: str) -> str:
    """The exercise that has this number or replaces the one that had it.

    >>> current_number("1.1")
    '1.1'
    """
    while exercise in REPLACED_BY:  # what replaced it may be gone as well
        exercise = REPLACED_BY[exercise]
    return exercise


def former_numbers(exercise: str) -> list[str]:
    """Exercises that this one replaces.

    >>> former_numbers("1.1")
    []
    """
    return [gone for gone in REPLACED_BY if current_number(gone) == exercise]


@dataclass(frozen=True)
class Standing:
    """What is known of one exercise that a check judges.

    points  it is worth now
    won     of them, the most so far
    begun   whether an answer was tried
    """

    number: str
    points: float
    won: float = 0
    begun: bool = False

    @property
    def passed(self) -> bool:
        return self.won >= self.points


def following(standings: Sequence[Standing]) -> str:
    """The first exercise that has not passed; "" if all have."""
    return next((s.number for s in standings if not s.passed), "")


def total(standings: Sequence[Standing], title: str = "", exercise: str | None = None) -> str:
    """Points, exercises passed, and what is next.

    title     of these exercises, if they are not one chapter
    exercise  what is next on a path that leads elsewhere than to the next of these

    >>> total([Standing("3.1", 3, 3), Standing("3.2", 2, 1, begun=True), Standing("3.3", 4)])
    'Chapter 3: 4 of 9 points, 1 of 3 exercises passed; next: 3.2.'
    """
    title = title or f"Chapter {standings[0].number.split('.')[0]}"
    won, points = sum(min(s.won, s.points) for s in standings), sum(s.points for s in standings)
    exercise = following(standings) if exercise is None else exercise
    said = f"{title}: {won:g} of {points:g} points, {sum(s.passed for s in standings)} of {len(standings)} exercises passed"
    return f"{said}; next: {exercise}." if exercise else f"{said}."


def bar(passed: int, total: int) -> str:
    """How much is done, in ten parts; full only when all is.

    >>> bar(0, 30), bar(1, 30), bar(29, 30), bar(30, 30)
    ('▱▱▱▱▱▱▱▱▱▱', '▰▱▱▱▱▱▱▱▱▱', '▰▰▰▰▰▰▰▰▰▱', '▰▰▰▰▰▰▰▰▰▰')
    """
    full = max(passed * 10 // total, passed > 0) if total else 0
    return "▰" * full + "▱" * (10 - full)


def standings(text: str, parts: Parts) -> list[Standing]:
    """Where the learner stands with each exercise of a start page that a check judges."""
    return [
        Standing(m["number"], float(m["points"]), won(parts, m["number"]), m["number"] in parts)
        for m in ROW.finditer(text)
        if m["state"].strip() != BY_HAND
    ]


def state(match: re.Match, parts: Parts) -> str:
    """The last cell of an exercise's line."""
    own = parts.get(match["number"])
    if match["state"].strip() == BY_HAND or not own:
        return match["state"] if match["state"].strip() == BY_HAND else " "
    one = Standing(match["number"], float(match["points"]), won(parts, match["number"]), True)
    days = [part.get("passed") or part["begun"] for part in own.values()]
    if one.passed:
        return f" passed {max(days)} "
    points = f", {one.won:g} of {one.points:g} points" if one.won else ""
    return f" begun {min(part['begun'] for part in own.values())}{points} "


def sums(judged: Sequence[Standing], row_matches: dict[str, re.Match]) -> str:
    """The last cells of a chapter's line: points, passed, begun, minutes left, next."""
    won, points = sum(min(s.won, s.points) for s in judged), sum(s.points for s in judged)
    begun = sum(s.begun and not s.passed for s in judged)
    left = sum(int(row_matches[s.number]["minutes"]) for s in judged if not s.passed)
    after = following(judged)
    passed = f"{sum(s.passed for s in judged)} of {len(judged)}"
    link = f"[{after}]({row_matches[after]['link']})" if after else "–"
    cells = [f"{won:g} of {points:g}", passed, str(begun or "–"), spent(left) if left else "–", link]
    return "".join(f" {cell} |" for cell in cells)


def with_state(text: str, parts: Parts) -> str:
    """A start page, with or without another state, with this one."""
    rows = {m["number"]: m for m in ROW.finditer(text)}
    every = standings(text, parts)
    text = ROW.sub(lambda m: f"{m['kept']}{state(m, parts)}|", text)

    def chapter(match: re.Match) -> str:
        own = [s for s in every if match[2] in (None, s.number.split(".")[0])]
        return match[1] + sums(own, rows) if own else match[0]

    return SUM.sub(chapter, text)


def page_text(path: Path) -> str:
    """The start page that lists a learner's exercises, beside progress.json or of the course; "" where there is none."""
    pages = (path.parent / PAGE, path.parent.parent / "notebooks" / PAGE)
    return next((p.read_text(encoding="utf-8") for p in pages if p.is_file()), "")
