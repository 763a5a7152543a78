"""All kinds of attack and of damage as students: who hands in what, and what it may be worth."""

import copy
import json
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.autograder.attacks import breaks, damaged, edits, files, forge, outside, protocol, shell

RIGHT = {
    "ch01-q01": "def seconds(V, W):\n    return V / W",
    "ch01-q02": "def longer(a, b):\n    return max(a, b), max(a, b) / min(a, b)",
    "ch01-q03": "Latency.",
    "ch01-q04": "speed = 42.5",
    "ch01-q05": "import numpy as np\n\n\ndef table(n):\n"
                "    return {'square': n * n, 'list': [n, n + 1], 'array': np.arange(n, dtype=float)}",
    "ch01-q06": "import jax\nimport jax.numpy as jnp\n\n\ndef chain(a, b, c):\n    return a @ b @ c",
    "ch01-q07": "import jax\n\n\ndef product(a, b):\n    return jax.lax.psum(a @ b, 'X')",
}  # fmt: skip
WRONG = {
    "ch01-q01": "def seconds(V, W):\n    return V * W",
    "ch01-q02": "def longer(a, b):\n    return min(a, b), min(a, b) / max(a, b)",
    "ch01-q04": "speed = 1",
    "ch01-q05": "def table(n):\n    return {'square': 0, 'list': [], 'array': None}",
    "ch01-q06": "import jax\nimport jax.numpy as jnp\n\n\ndef chain(a, b, c):\n    return a @ (b @ c)",
    "ch01-q07": "import jax\n\n\ndef product(a, b):\n    return a @ b",
}
POINTS = {"ch01-q01": 2, "ch01-q02": 3, "ch01-q04": 1, "ch01-q05": 1, "ch01-q06": 2, "ch01-q07": 2}
SHORT = ("ch01-q01", "ch01-q02", "ch01-q04", "ch01-q05")  # the others take a compiler
HALF = {k: RIGHT[k] for k in SHORT} | {"ch01-q01": WRONG["ch01-q01"]}

SELF_INFLICTED = "import_that_dies", "builtins_removed", "scope_cleared"  # the own right answers need what they removed

PARTLY = [
    ("nothing-done", {}, dict.fromkeys(POINTS, 0)),
    ("one-half", RIGHT | {"ch01-q02": "def longer(a, b):\n    return max(a, b), min(a, b) / max(a, b)"}, POINTS | {"ch01-q02": 1}),
    ("all-wrong", WRONG, dict.fromkeys(POINTS, 0)),
    ("visible-only", RIGHT | {"ch01-q01": "def seconds(V, W):\n    return V / 2"}, POINTS | {"ch01-q01": 0}),
    ("no-python", RIGHT | {"ch01-q05": "def table(n)\n    return"}, POINTS | {"ch01-q05": 0}),
]  # fmt: skip
"""Honest students who have some of it, and what `in_process_grading.judge` gives them."""

PLACES = "L = 'LE' 'AK'\nHOME, COURSE, PROOF, CANARY = {!r}, {!r}, {!r}, {!r}\n"
PRELUDES = (forge.FIND, protocol.FRAME, protocol.PROGRAM_PRELUDE, outside.READ, outside.WRITE, outside.DATABASE)


@dataclass(frozen=True)
class Student:
    """Someone who hands in something.

    cells   what stands in the answers, and in own cells ("before", "after")
    edit    changes the notebook, or gives another one
    put     hands it in in its own way: (folder, text, course)
    worth   exercise -> points; None: refused, with a sentence; an exercise that is left out may be worth anything
    """

    name: str
    kind: str
    cells: dict[str, str] = field(default_factory=dict)
    edit: Callable | None = None
    put: Callable | None = None
    worth: dict[str, float] | None = None

    def text(self, released: dict, places: tuple) -> bytes:
        """The file that is handed in."""
        nb = filled(released, self.cells, PLACES.format(*map(str, places)) if self.kind in ("leak", "escape") else "")
        made = (self.edit(nb) if self.edit else None) or nb
        made = json.dumps(made) if isinstance(made, dict) else made
        return made.encode() if isinstance(made, str) else made

    def hand_in(self, released: dict, course: Path, topic: str, places: tuple) -> None:
        folder = course / "submitted" / self.name / topic
        folder.mkdir(parents=True)
        data = self.text(released, places)
        if self.put:
            self.put(folder, data.decode(), course)
        else:
            (folder / "exercises.ipynb").write_bytes(data)


def clean(code: str) -> str:
    """Code without the indentation that it has in a table."""
    for prelude in PRELUDES:
        if code.startswith(prelude):
            return prelude + textwrap.dedent(code[len(prelude) :])
    return textwrap.dedent(code).strip("\n")


def filled(released: dict, cells: dict[str, str], places: str = "") -> dict:
    """The release with these answers, and own cells before the first and behind the last exercise."""
    nb = copy.deepcopy(released)
    for cell in nb["cells"]:
        name = edits.grade_id(cell)
        if name in cells:
            cell["source"] = cells[name]
    first = next(i for i, c in enumerate(nb["cells"]) if edits.grade_id(c) == "ch01-q01")
    if before := places + cells.get("before", ""):
        nb["cells"].insert(first, edits.code(before))
    if after := cells.get("after"):
        nb["cells"].append(edits.code(after))
    return nb


def with_code(base: dict[str, str], code: str | dict) -> dict[str, str]:
    """Answers, and an attack's code around and in them."""
    code = {"before": code} if isinstance(code, str) else code
    code = {{"q01": "ch01-q01"}.get(k, k): clean(v) for k, v in code.items()}
    every = code.pop("every", "")
    return {k: f"{v}\n\n{every}" if every else v for k, v in base.items()} | code


def attackers() -> list[Student]:
    """Everybody who must win nothing."""
    nothing = dict.fromkeys(POINTS, 0)
    half = {"ch01-q01": 0, "ch01-q02": 3, "ch01-q04": 1, "ch01-q05": 1}
    found = []
    for table in (forge.VALUES, forge.PATCHES, shell.SHELL, protocol.WIRES):
        found += [(n, "forge", with_code({k: WRONG[k] for k in SHORT}, code), nothing) for n, code in table.items()]
    for name, code in protocol.PROGRAMS.items():
        base = {k: WRONG[k] for k in ("ch01-q06", "ch01-q07")}
        code = {"before": code} if isinstance(code, str) else {"before": "pass"} | code
        code["before"] = protocol.PROGRAM_PRELUDE + textwrap.dedent(code["before"])
        found.append((name, "forge", with_code(base, code), nothing))
    harm = {"leak": outside.LEAK, "escape": outside.ESCAPE, "crash": breaks.CRASH, "resource": breaks.RESOURCE}
    for kind, table in harm.items():
        for name, code in table.items():
            every = isinstance(code, dict) and "every" in code
            base = {k: WRONG[k] for k in SHORT} if every else HALF
            worth = {} if every else {"ch01-q01": 0} if name in SELF_INFLICTED else half
            found.append((name, kind, with_code(base, code), worth))
    students = [Student(n, kind, cells, worth=worth) for n, kind, cells, worth in found]
    wrong = {k: WRONG[k] for k in SHORT} | {"ch01-q03": "x"}
    students += [Student(name, "edit", wrong, edit=edit, worth=nothing) for name, edit in edits.EDITS.items()]
    students += [Student(name, "file", RIGHT, put=put) for name, put in files.FILES.items()]
    return students


def honest() -> list[Student]:
    """Everybody who must lose nothing: whole notebooks, and the same with damage."""
    whole = dict(POINTS)
    short = {k: POINTS[k] for k in SHORT}
    answers = {k: RIGHT[k] for k in (*SHORT, "ch01-q03")}
    students = [
        Student(f"damaged-{name}", "honest", answers, edit=edit, worth=short)
        for name, edit in (edits.EDITS | damaged.DAMAGED).items()
    ]
    students += [Student(name, "kept", answers, put=put, worth=short) for name, put in files.KEPT.items()]
    students += [Student(n, "honest", cells, worth=worth) for n, cells, worth in PARTLY]
    return [Student("whole", "honest", RIGHT, worth=whole), *students]
