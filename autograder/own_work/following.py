"""One copy after a change of the course, or one that is not there yet or cannot be read."""

from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from . import by_cell, damaged
from .copies import Work, replace_file, swap_file, wait_for_a_save
from .versions import Git, is_release, made_from


def follow(work: Work, name: str) -> bool:
    """Make the copy of a notebook, or bring it to the release that lies in notebooks/; False if what lies there is none."""
    data, copy = (work.tree.notebooks / name).read_bytes(), work.copy(name)
    release = damaged.parsed(data)
    if not is_release(release):
        return False
    before = _bytes(copy)
    if before is not None:
        print(f"Bringing work/{name} up to date with the course …", flush=True)
    bring(work, name, data)
    if before not in (None, copy.read_bytes()):
        work.updated.append(name)
    return True


def bring(
    work: Work, name: str, release: bytes, others: Sequence[NotebookNode] = (), bases: tuple[bytes, ...] = ()
) -> None:
    """The copy, made of this release, with what the learner wrote in it and in others; where two differ, the copy counts.

    bases  releases that they may have been made from, beside the one that is stored and those of git
    """
    copy = work.copy(name)
    while True:
        wait_for_a_save(copy)
        held = _bytes(copy)
        mine, notes = damaged.recovered(held or b""), []
        if held is not None and not damaged.parsed(held):
            cells = max((len(nb.cells) for nb in mine), default=0)
            notes.append(f"It could not be read; {cells} cells were found in it.")
        made, more = merged(work, name, [*mine, *others], release, bases)
        if held == _bytes(copy):  # else somebody has saved it meanwhile
            break
    notes += more
    if notes and held:
        notes.append(f"The notebook as it was: {work.keep(name, held)}.")
    last = settle(work, name, made, release)
    if last not in (None, held, made):
        notes.append(f"It was saved while it was brought up to date: what was saved is {work.keep(name, last)}.")
    for note in notes:
        work.say(name, note)


def merged(
    work: Work, name: str, found: list[NotebookNode], release: bytes, bases: tuple[bytes, ...]
) -> tuple[bytes, list[str]]:
    """Several versions of a learner's notebook as one of this release, and what is to be said of that."""
    new, made, notes = damaged.parsed(release), None, []
    known = [
        nb for data in (_bytes(work.base(name)), *bases, release) if data and is_release(nb := damaged.parsed(data))
    ]
    for nb in found:
        old = made_from(nb, known, Git(work.tree.root), f"notebooks/{name}")
        brought, more = by_cell.brought(nb, old, new)
        if made is None:
            made = brought
        else:
            more += by_cell.joined(made, brought, new)
        notes += [n for n in more if n not in notes]
    return dumped(made) if made else release, notes


def settle(work: Work, name: str, made: bytes, release: bytes | None) -> bytes | None:
    """First the copy, then what it was made from: in between, the copy is only compared with an older release.

    What the copy held at last comes back; None if there was none, or none had to be written.
    """
    copy, last = work.copy(name), None
    if not copy.is_file():
        replace_file(copy, made)
    elif copy.read_bytes() != made:
        last = swap_file(copy, made)
    if release is not None:
        replace_file(work.base(name), release)
    return last


def dumped(nb: NotebookNode) -> bytes:
    """A notebook as Jupyter writes it."""
    return (nbformat.v4.writes(nb) + "\n").encode("utf-8", "backslashreplace")  # half a character as JSON's escape


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
