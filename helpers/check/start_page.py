"""The start page with a learner's state: notebooks/README.md lists chapters and exercises, progress.json says what of them is done.

`python -m helpers.check.start_page work` brings work/README.md up to date.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from helpers.study_time import spent

from . import progress
from .standing import Standing, following, total

PAGE = "README.md"
BY_HAND = "a person grades it"
ROW = re.compile(
    r"^(?P<kept>\| \[(?P<number>\d+\.\d+)\]\((?P<link>[^)]*)\) .* \| (?P<minutes>\d+) min \| (?P<points>[\d.]+) \|)(?P<state>.*)\|$",
    re.M,
)
SUM = re.compile(r"^(\| (?:(\d+) · .*?|\*\*in all\*\* .*?) \|)(?:[^|\n]*\|){5}$", re.M)


def row(
    number: str, link: str, title: str, stars: str, importance: int, minutes: int, points: float, judged: bool
) -> str:
    """An exercise's line in the table of its chapter."""
    state = " " if judged else f" {BY_HAND} "
    return f"| [{number}]({link}) {title} | {stars} | {importance}/5 | {minutes} min | {points:g} |{state}|"


def standings(text: str, parts: progress.Parts) -> list[Standing]:
    """Where the learner stands with each exercise of a start page that a check judges."""
    return [
        Standing(m["number"], float(m["points"]), progress.won(parts, m["number"]), m["number"] in parts)
        for m in ROW.finditer(text)
        if m["state"].strip() != BY_HAND
    ]


def state(m: re.Match, parts: progress.Parts) -> str:
    """The last cell of an exercise's line."""
    own = parts.get(m["number"])
    if m["state"].strip() == BY_HAND or not own:
        return m["state"] if m["state"].strip() == BY_HAND else " "
    one = Standing(m["number"], float(m["points"]), progress.won(parts, m["number"]), True)
    days = [part.get("passed") or part["begun"] for part in own.values()]
    if one.passed:
        return f" passed {max(days)} "
    points = f", {one.won:g} of {one.points:g} points" if one.won else ""
    return f" begun {min(part['begun'] for part in own.values())}{points} "


def sums(own: Sequence[Standing], rows: dict[str, re.Match]) -> str:
    """The last cells of a chapter's line: points, passed, begun, minutes left, next."""
    won, points = sum(min(s.won, s.points) for s in own), sum(s.points for s in own)
    begun = sum(s.begun and not s.passed for s in own)
    left = sum(int(rows[s.number]["minutes"]) for s in own if not s.passed)
    after = following(own)
    cells = [
        f"{won:g} of {points:g}",
        f"{sum(s.passed for s in own)} of {len(own)}",
        str(begun or "–"),
        spent(left) if left else "–",
        f"[{after}]({rows[after]['link']})" if after else "–",
    ]
    return "".join(f" {cell} |" for cell in cells)


def with_state(text: str, parts: progress.Parts) -> str:
    """A start page, with or without another state, with this one."""
    rows = {m["number"]: m for m in ROW.finditer(text)}
    every = standings(text, parts)
    text = ROW.sub(lambda m: f"{m['kept']}{state(m, parts)}|", text)

    def chapter(m: re.Match) -> str:
        own = [s for s in every if m[2] in (None, s.number.split(".")[0])]
        return m[1] + sums(own, rows) if own else m[0]

    return SUM.sub(chapter, text)


def refresh(folder: Path) -> None:
    """Bring a learner's start page up to date with progress.json beside it; OSError if it cannot be written."""
    page = folder / PAGE
    if not page.is_file():
        return
    text = page.read_text(encoding="utf-8")
    new = with_state(text, progress.kept(folder / progress.NAME))
    if new != text:
        progress.write(page, new)


def after(exercise: str) -> str:
    """Where the learner stands in the exercise's chapter, for the end of a check; "" where nobody keeps that."""
    if not progress.attended():
        return ""
    path = progress.place()
    try:
        refresh(path.parent)
        pages = (path.parent / PAGE, path.parent.parent / "notebooks" / PAGE)
        text = next((p.read_text(encoding="utf-8") for p in pages if p.is_file()), "")
    except OSError as error:
        progress.say(f"The start page cannot be brought up to date ({error.strerror}).")
        return ""
    own = [s for s in standings(text, progress.kept(path)) if s.number.split(".")[0] == exercise.split(".")[0]]
    return total(own) if own else ""


if __name__ == "__main__":
    refresh(Path(*sys.argv[1:2]))
