"""What a learner has won and tried, kept across days: progress.json beside the work.

A check writes it, and only where somebody sits before the notebook: never while work is graded, validated or built.
Points are kept by exercise and part; what an exercise is worth is always asked of its present page, so that a changed exercise
is at most not passed any more.
"""

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from . import replaced
from .notebook_cells import notebook

NAME = "progress.json"
Parts = dict[str, dict[str, dict]]
"""{exercise: {part: {"won", "of", "tries", "begun", "passed"}}}, days as 2026-11-26."""

_noted: Parts = {}
_said: set[str] = set()


def attended() -> bool:
    """Whether somebody sits before this notebook: commands that run one, to grade, validate or build it, take no input."""
    kernel = getattr(notebook(), "kernel", None)
    if kernel is None or "NBGRADER_EXECUTION" in os.environ:
        return False
    asked = getattr(kernel, "get_parent", dict)() or {}
    return bool(asked.get("content", {}).get("allow_stdin"))


def place(here: Path | None = None) -> Path:
    """The file for work in this folder: in work/ of the course, or beside the notebook where there is no course."""
    here = (here or Path.cwd()).resolve()
    course = here.parent.parent
    if here.parent.name in ("work", "notebooks") and (course / "notebooks" / "README.md").is_file():
        return course / "work" / NAME
    return here / NAME


def _understood(part: object) -> bool:
    if not isinstance(part, dict):
        return False
    numbers = [part.get(key) for key in ("won", "of", "tries")]
    return all(isinstance(n, int | float) and 0 <= n < 1000 for n in numbers) and isinstance(part.get("begun"), str)


def read(path: Path) -> Parts:
    """What a file holds; nothing if there is none, ValueError if it is not wholly such a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    found = json.loads(text)
    parts = found.get("exercises") if isinstance(found, dict) else None
    if not isinstance(parts, dict) or not all(
        isinstance(own, dict) and all(map(_understood, own.values())) for own in parts.values()
    ):
        raise ValueError(f"{path.name} does not hold what checks write")
    for gone in replaced.BY.keys() & parts.keys():
        own = [*parts[gone].values()]
        if own and all(part["won"] >= part["of"] for part in own):  # a pass in part was a part of another question
            last = max(own, key=lambda part: part.get("passed") or "")
            parts.setdefault(replaced.current(gone), {})[gone] = last
    return parts


def kept(path: Path) -> Parts:
    """What a file holds; one that is broken is put aside, and that is said."""
    try:
        return read(path)
    except ValueError:
        aside = path.with_name(f"{path.stem}-broken-{date.today()}.json")
        try:
            os.replace(path, aside)
            say(f"{path.name} cannot be read: it is {aside.name} now. Run your check cells again to fill a new one.")
        except OSError:
            say(f"{path.name} cannot be read.")
    except OSError as error:
        say(f"{path.name} cannot be read: {error.strerror}.")
    return {}


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


def merged(old: dict | None, new: dict) -> dict:
    """Two records of a part: the most that was won, by what it is worth now, and the earlier days."""
    if not old:
        return new
    won = min(max(old["won"], new["won"]), new["of"])
    days = {key: min(filter(None, (old.get(key), new.get(key))), default=None) for key in ("begun", "passed")}
    return {"won": won, "of": new["of"], "tries": max(old["tries"], new["tries"]), **days}


def note(exercise: str, part: str, won: float, of: float, tries: int) -> None:
    """Keep what a check found of a part of an exercise, and show it on the start page."""
    if not attended():
        return
    today = str(date.today())
    new = {"won": won, "of": of, "tries": tries, "begun": today, "passed": today if won >= of else None}
    own = _noted.setdefault(exercise, {})
    own[part] = merged(own.get(part), new)
    path = place()
    with alone(path):
        _add(path)


def _add(path: Path) -> None:
    """Put what this kernel has noted into the file."""
    parts = kept(path)
    before = json.dumps(parts, sort_keys=True)
    for number, mine in _noted.items():  # another notebook may have written in between
        for name, record in mine.items():
            parts.setdefault(number, {})[name] = merged(parts.get(number, {}).get(name), record)
    if json.dumps(parts, sort_keys=True) == before:
        return
    try:
        write(path, json.dumps({"exercises": dict(sorted(parts.items(), key=_order))}, indent=1) + "\n")
    except OSError as error:
        say(f"Progress is not kept: {path} cannot be written ({error.strerror}).")


def _order(item: tuple[str, object]) -> tuple[int, ...]:
    return tuple(int(n) if n.isdigit() else 0 for n in item[0].split("."))


def won(parts: Parts, exercise: str) -> float:
    """Points of an exercise so far; infinity if one that it replaces has passed, whatever it is worth now."""
    own = parts.get(exercise, {})
    return math.inf if replaced.BY.keys() & own.keys() else sum(part["won"] for part in own.values())
