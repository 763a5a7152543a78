"""The names that a check reads: the course's are made anew for it, whatever a learner's kernel has, and the answers are the learner's.

notebooks/given_cells.json holds what the released notebooks give, by chapter and by exercise, a statement at a time.
"""

import builtins
import dis
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType

CELLS = Path(__file__).resolve().parents[2] / "notebooks/given_cells.json"


@cache
def _cells() -> dict[str, list[str]]:
    # Where helpers stand alone, the kernel's names have to do.
    return json.loads(CELLS.read_text(encoding="utf-8")) if CELLS.exists() else {}


def given(check: str) -> tuple[dict[str, object], dict[str, Exception]]:
    """What the course gives to a check, by the name of its function; and of statements that fail here, why, by the names they make.

    >>> sorted(given("ch01_q21_check")[0].keys() & {"A100", "math", "PROGRAMS"}), given("another")
    (['A100', 'math'], ({}, {}))
    """
    found, scope, failed = re.match(r"(ch\d\d)_(q\d\d)_", check), {"__name__": "__main__"}, {}
    for key in (found[1], f"{found[1]}-{found[2]}") if found else ():
        for statement in _cells().get(key, ()):
            try:
                exec(compile(statement, str(CELLS), "exec"), scope)
            except Exception as e:  # JAX has started with too few devices, or a package is not here
                failed |= dict.fromkeys(re.findall(r"\w+", statement), e)
    return {name: value for name, value in scope.items() if not name.startswith("__")}, failed


def read_by(code: CodeType) -> set[str]:
    """Global names that a function reads, those of the functions within it too.

    >>> sorted(read_by((lambda f: [f(x) + a for x in b.c]).__code__))
    ['a', 'b']
    """
    own = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return own.union(*(read_by(c) for c in code.co_consts if isinstance(c, CodeType)))


def apart(cell: Callable) -> tuple[Callable, list[str]]:
    """A check that reads the course's names and its answers, and nothing else of the learner's; and those answers.

    An exception says why something that the check reads cannot be made here.
    """
    ours, failed = given(cell.__name__)
    answers = sorted(read_by(cell.__code__) - ours.keys() - vars(builtins).keys())
    if why := next((failed[n] for n in answers if n in failed), None):
        raise why
    theirs = cell.__globals__
    bring(ours, theirs)
    scope = ours | {name: theirs[name] for name in (*answers, "__name__", "__builtins__") if name in theirs}
    return FunctionType(cell.__code__, scope, cell.__name__, cell.__defaults__, cell.__closure__), answers


def bring(given: dict[str, object], kernel: dict[str, object]) -> None:
    """Put what the course gives into a kernel that lacks it, because answers use it too."""
    for name, value in given.items():
        kernel.setdefault(name, value)
