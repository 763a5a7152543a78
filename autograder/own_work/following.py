"""One copy after a change of the course, or one that is not there yet or cannot be read."""

import nbformat
from nbformat import NotebookNode

from . import by_cell, damaged
from .copies import Work, replace_file
from .versions import Git, is_release, made_from


def follow(work: Work, name: str) -> bool:
    """Make the copy of a notebook, or bring it to the release that lies in notebooks/; False if what lies there is none."""
    data, copy = (work.tree.notebooks / name).read_bytes(), work.copy(name)
    release = damaged.parsed(data)
    if not is_release(release):
        return False
    if not copy.exists():
        settle(work, name, data, data)
    else:
        before = copy.read_bytes()
        bring(work, name, opened(work, name, before), data)
        if copy.read_bytes() != before:
            work.updated.append(name)
    return True


def bring(work: Work, name: str, found: list[NotebookNode], release: bytes, bases: tuple[bytes, ...] = ()) -> None:
    """Several versions of a learner's notebook become the one copy, made of this release; the first counts where two differ.

    bases  releases that they may have been made from, beside the one that is stored and those of git
    """
    new, before = damaged.parsed(release), _bytes(work.copy(name))
    known = [
        nb for data in (_bytes(work.base(name)), *bases, release) if data and is_release(nb := damaged.parsed(data))
    ]
    made, notes = None, []
    for nb in found:
        old = made_from(nb, known, Git(work.tree.root), f"notebooks/{name}")
        brought, more = by_cell.brought(nb, old, new)
        if made is None:
            made = brought
        else:
            more += by_cell.joined(made, brought, new)
        notes += [n for n in more if n not in notes]
    if notes and before:
        notes.append(f"The notebook as it was: {work.keep(name, before)}.")
    for note in notes:
        work.say(name, note)
    settle(work, name, dumped(made) if made else release, release)


def opened(work: Work, name: str, data: bytes) -> list[NotebookNode]:
    """A copy as a notebook; of one that is damaged, everything that can be read."""
    if nb := damaged.parsed(data):
        return [nb]
    found = damaged.recovered(data)
    cells = max((len(nb.cells) for nb in found), default=0)
    work.say(
        name, f"It could not be read; {cells} cells were found in it. The file as it was: {work.keep(name, data)}."
    )
    return found


def settle(work: Work, name: str, copy: bytes, release: bytes | None) -> None:
    """First the copy, then what it was made from: in between, the copy is only compared with an older release."""
    if _bytes(work.copy(name)) != copy:
        replace_file(work.copy(name), copy)
    if release is not None:
        replace_file(work.base(name), release)


def dumped(nb: NotebookNode) -> bytes:
    """A notebook as Jupyter writes it."""
    return (nbformat.v4.writes(nb) + "\n").encode("utf-8", "backslashreplace")  # half a character as JSON's escape


def _bytes(path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
