"""Which of several notebooks in a folder counts: the one with the right name, unless only another one is filled in."""

import contextlib
import re
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.engine.cell_names import defined, key_of
from autograder.places import NOTEBOOK, is_reading

from . import intake
from .rebuild import Rebuilding, role

RIGHT = f"{NOTEBOOK}.ipynb"
MOST = 20  # notebooks that are looked into
MADE = re.compile(r"^(?:async )?(?:def|class) (\w+)|^(\w+) *=", re.M)

Work = tuple[tuple[str, str], ...]


def taken(folder: Path, release: Path) -> tuple[bytes, str]:
    """The bytes of the notebook that counts, and a sentence where that is not plain; `intake.Refused` if none does.

    A notebook is filled in if an answer in it is not as in the release.
    Nothing of it is parsed as Python: this runs where the gradebook is.
    """
    intake.entered(folder)
    names = [n for n in intake.notebooks(folder) if not is_reading(Path(n).name)][:MOST]
    try:
        first = intake.named(folder)
    except intake.Refused:
        if not names:
            raise
        first = ""
    data = intake.file(folder, first) if first else b""
    if names in ([], [first]):
        return data, ""
    wanted = Wanted(nbformat.read(release, as_version=4))
    mine, others = wanted.work(data), {}
    for name in names:
        with contextlib.suppress(intake.Refused):
            found = intake.file(folder, name)
            work = wanted.work(found)
            if work and work != mine:
                others.setdefault(work, (name, found))
    if mine:
        return data, _fuller(first, mine, others)
    if not others:
        return (data or intake.read(folder)), ""  # refused with a sentence if nothing is so named
    named = intake.listed([name for name, _ in others.values()])
    if len(others) > 1:
        said = "is not filled in, and several others are" if first else "is not there, and several others are filled in"
        raise intake.Refused(f"The notebook {RIGHT} {said}: {named}; keep the one that counts, under this name.")
    [(_, found)] = others.values()
    said = f"{intake.printed(first)} is not filled in; {named} is" if first else f"Only {named} is filled in"
    return found, f"{said}, so it was graded."


def _fuller(first: str, mine: Work, others: dict[Work, tuple[str, bytes]]) -> str:
    fuller = [(len(work), name) for work, (name, _) in others.items() if len(work) > len(mine)]
    if not fuller:
        return ""
    most, name = max(fuller)
    more = f"{intake.printed(name)} beside it has more answers, {most} against {len(mine)}"
    return f"{intake.printed(first)} was graded; {more}."


class Wanted:
    """What a release asks for."""

    def __init__(self, released: NotebookNode):
        self.released = {key_of(c): c for c in released.cells}
        self.answers = {k: c.source.strip() for k, c in self.released.items() if role(c) == "answer"}
        graded = {k for k, c in self.released.items() if c.metadata.get("nbgrader", {}).get("grade")}
        self.asked = graded | self.answers.keys()
        code = (text for k, text in self.answers.items() if self.released[k].cell_type == "code")
        self.names = set().union(*map(defined, code))

    def work(self, data: bytes) -> Work:
        """The answers of a notebook that are filled in, by their cells; () for one of another assignment, or none."""
        try:
            given = intake.cells(intake.opened(data)[0])
        except intake.Refused:
            return ()
        names = Rebuilding(self.released, given).names
        if not any(n in self.asked for n in names):
            return ()
        done = []
        for cell, name in zip(given, names, strict=True):
            text = cell.text.strip()
            if name in self.answers:
                done += [(name, text)] if text and text != self.answers[name] else []
            elif not name and text and (not cell.code or self._made(text)):
                done.append(("", text))
        return tuple(done)

    def _made(self, text: str) -> bool:
        return any(self.names & {*m.groups()} for m in MADE.finditer(text))
