"""Tries per exercise, and our solution for those who passed or tried three times."""

import re
from pathlib import Path

from helpers.prose import render

from . import given_names, progress, replaced
from .notebook_cells import notebook

_tries: dict[tuple[str, str], int] = {}
_passed: set[tuple[str, str]] = set()
_recalled: set[Path] = set()


def recall() -> None:
    """Remember what was tried and passed before this session."""
    if progress.attended() and (path := progress.place()) not in _recalled:
        _recalled.add(path)
        for exercise, parts in progress.kept(path).items():
            for part, record in parts.items():
                _tries[exercise, part] = max(record["tries"], _tries.get((exercise, part), 0))
                if record["won"] >= record["of"]:
                    _passed.add((exercise, part))


def tried(exercise: str, passed: bool, counts: bool = True, part: str = "", won: float = 0, of: float = 0) -> int:
    """Note a try at one part of an exercise; the number of failed ones.

    A cell that nobody has filled in does not count.

    won, of  points
    """
    recall()
    if passed:
        _passed.add((exercise, part))
    elif counts:
        _tries[exercise, part] = _tries.get((exercise, part), 0) + 1
    tries = _tries.get((exercise, part), 0)
    if passed or counts:
        progress.note(exercise, part, won, of, tries)
    return tries


def passed(exercise: str) -> bool:
    """Whether the exercise has passed, today or before: for a cell that shows what an answer draws.

    >>> passed("0.2")
    False
    """
    recall()
    exercise = replaced.current(exercise)
    if shell := notebook():  # that cell may be the first of its kernel
        given_names.bring(given_names.given("ch{:02}_q{:02}_".format(*map(int, exercise.split("."))))[0], shell.user_ns)
    return any(e == exercise for e, _ in _passed)


def solution(exercise: str) -> None:
    """Print our answer to an exercise, after a pass or three tries; a text that a person grades, at once."""
    if not isinstance(exercise, str) or not re.fullmatch(r"\d+\.\d+", exercise):
        print(
            f'An exercise is named by a text, check.solution("1.10"), for 1.1 and 1.10 are one number; this is {exercise!r}.'
        )
        return
    if exercise in replaced.BY:
        print(f"Exercise {exercise} is gone; exercise {replaced.current(exercise)} replaces it.")
        exercise = replaced.current(exercise)
    chapter, number = map(int, exercise.split("."))
    roots = (Path.cwd(), *Path.cwd().parents, Path(__file__).resolve().parents[2])
    source = next((p for root in roots for p in sorted((root / "solutions").glob(f"ch{chapter:02d}_*.md"))), None)
    if source is None:
        here = any((root / "solutions").is_dir() for root in roots)
        print(f"There is no exercise {exercise}." if here else "This copy of the course carries no solutions.")
        return
    recall()
    code, text = _answers(render(source.read_text(encoding="utf8")), f"ch{chapter:02d}-q{number:02d}")
    left = 3 - max((n for (e, _), n in _tries.items() if e == exercise), default=0)
    parts = max(1, source.read_text(encoding="utf8").count(f'check.report("{exercise}"'))
    own = {part for e, part in _passed if e == exercise}
    done = len(own) >= parts or own & replaced.BY.keys()
    if not code and not text:
        print(f"There is no exercise {exercise}.")
    elif code and not done and left > 0:
        print(
            f"Exercise {exercise} opens after a pass{' of every part' * (parts > 1)} "
            f"or {left} more {'try' if left == 1 else 'tries'}: run its check cell."
        )
    else:
        print("\n\n".join(code + text))


def _answers(source: str, grade_id: str) -> tuple[list[str], list[str]]:
    """Our code and our texts for an exercise, which may have several parts."""
    cells = re.findall(r"```\{code-cell\}[^`]*?grade_id: (" + grade_id + r"[\w-]*),.*?---\n(.*?)```", source, re.S)
    code = [
        re.sub(r"^[ \t]*### (BEGIN|END) SOLUTION\n", "", c, flags=re.M).strip() for i, c in cells if "check" not in i
    ]
    texts = re.findall(
        r'^\+\+\+ \{"nbgrader": [^\n]*"grade_id": "' + grade_id + r'"[^\n]*\n(.*?)^\+\+\+', source, re.S | re.M
    )
    return code, [t.strip() for t in texts]
