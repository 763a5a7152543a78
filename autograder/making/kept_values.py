"""What checks were filled with, kept in `_build/values` from one run to the next: it takes half a minute of a processor to make.

A check's lines are taken from there if all that they are made of is what it was: the cells of its chapter, its mistakes, the
course's modules and data, and the versions of what computes. Arrays that another machine rounds otherwise stay as notebooks/ has
them, so that a release there changes no check.
"""

import contextlib
import hashlib
import json
import math
import re
from collections.abc import Callable
from functools import cache
from importlib.metadata import version

from autograder.places import ROOT
from helpers.check.progress import write
from helpers.check.shown_checks import NAME

FOLDER = ROOT / "_build" / "values"


def filled(name: str, made_of: object, make: Callable[[], tuple[str, list[int]]]) -> tuple[str, list[int]]:
    """What `make` gives, the text of a check and some numbers, or what it gave for the same.

    name     of the check
    made_of  what it is made of, besides the course's modules; its `repr` tells
    """
    key = hashlib.sha256(repr((made_of, modules())).encode()).hexdigest()
    file = FOLDER / f"{name}.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        found = json.loads(file.read_text(encoding="utf-8"))
        if found["key"] == key:
            return found["text"], found["unseen"]
    text, unseen = make()
    with contextlib.suppress(OSError):  # a folder that cannot be written keeps nothing
        FOLDER.mkdir(parents=True, exist_ok=True)
        write(file, json.dumps({"key": key, "text": text, "unseen": unseen}))
    return text, unseen


@cache
def modules() -> str:
    """A digest of the course's modules and data, and of the versions of what computes."""
    found = hashlib.sha256(" ".join(version(name) for name in ("jax", "jaxlib", "numpy")).encode())
    for folder, files in (("helpers", "*.py"), ("book/data", "*.*"), ("autograder/making", "*.py")):
        for path in sorted((ROOT / folder).rglob(files)):
            found.update(path.read_bytes())
    return found.hexdigest()


NUMBER = re.compile(r"-?\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+)")


def written(check: str) -> list[str]:
    """The lines that notebooks/ has of a check, such as ch05_q12_check; none if it is new."""
    for path in ROOT.glob(f"notebooks/{check[:4]}_*/{NAME}"):
        with contextlib.suppress(ValueError, AttributeError):
            return json.loads(path.read_text(encoding="utf-8")).get(check, [])
    return []


def settled(text: str, written: list[str]) -> str:
    """A check in which arrays that another machine or compiler has rounded otherwise stand as they are written.

    >>> settled("a.gives(np.array([1.000001, 2.0]), 3)", ["  a.gives(np.array([1.000002, 2.0]), 3)"])
    'a.gives(np.array([1.000002, 2.0]), 3)'
    >>> settled("a.gives(np.array([1.001, 2.0]), 3)", ["  a.gives(np.array([1.002, 2.0]), 3)"])
    'a.gives(np.array([1.001, 2.0]), 3)'
    """
    forms: dict[str, list[str]] = {}
    for line in map(str.strip, written):
        if "np.array(" in line:
            forms.setdefault(NUMBER.sub("#", line), []).append(line)
    known = lambda line: forms.get(NUMBER.sub("#", line), ())  # noqa: E731
    return "\n".join(next((w for w in known(line) if _near(w, line)), line) for line in text.split("\n"))


def _near(line: str, other: str) -> bool:
    """Whether numbers differ by what single precision rounds, of the largest of them."""
    pairs = [(float(a), float(b)) for a, b in zip(NUMBER.findall(line), NUMBER.findall(other))]
    largest = max((abs(a) for a, _ in pairs), default=0)
    return all(math.isclose(a, b, rel_tol=1e-5, abs_tol=2e-6 * largest) for a, b in pairs)
