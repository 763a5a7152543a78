"""The folder work/: where the copies lie, what they were made from, what is kept; files are written whole or not at all."""

import json
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from autograder.places import NOTEBOOK, Tree, is_reading

START = "README.md"
NEWS = re.compile(r"^> \*\*Brought up to date.*\n(?:>.*\n)*\n", re.M)


def is_copied(name: str) -> bool:
    """Whether a learner has a copy of a notebook with this name.

    >>> is_copied("exercises.ipynb"), is_copied("further_systolic.ipynb"), is_copied("mine.ipynb")
    (True, True, False)
    """
    return name == f"{NOTEBOOK}.ipynb" or is_reading(name)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with open(new, "wb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)


def wait_for_a_save(path: Path) -> None:
    """Two seconds at most: while JupyterLab saves, a second file has the bytes before."""
    for _ in range(20):
        if not path.with_name(f".~{path.name}").exists():
            break
        time.sleep(0.1)


def swap_file(path: Path, data: bytes) -> bytes:
    """Replace a file; what it held at last, also if that was written while it was replaced.

    JupyterLab writes into the file that it has opened, even if another has that name by now: so it keeps a second name.
    """
    last = path.with_name(f".{path.name}.{os.getpid()}.last.new")
    try:
        os.link(path, last)
    except OSError:  # a disk without links: what is written between these two lines is lost
        held = path.read_bytes()
        replace_file(path, data)
        return held
    try:
        replace_file(path, data)
        wait_for_a_save(path)
        return last.read_bytes()
    finally:
        last.unlink()


@dataclass
class Work:
    """The folder work/ of a course, and what is to be said of it."""

    tree: Tree
    said: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)  # notebooks that are not the course's in notebooks/
    _kept: Path | None = None

    @property
    def folder(self) -> Path:
        return self.tree.root / "work"

    def copy(self, name: str) -> Path:
        """The learner's copy of a notebook, such as ch01_rooflines/exercises.ipynb."""
        return self.folder / name

    def base(self, name: str) -> Path:
        """The release that the copy was made from, or brought to last."""
        return self.folder / ".released" / name

    def names(self) -> list[str]:
        """The notebooks of the course that are copied."""
        found = sorted(p for p in self.tree.notebooks.glob("ch[0-9][0-9]_*/*.ipynb") if is_copied(p.name))
        return [p.relative_to(self.tree.notebooks).as_posix() for p in found]

    def say(self, name: str, sentence: str) -> None:
        if (said := f"{name}: {sentence}") not in self.said:
            self.said.append(said)

    def keep(self, name: str, data: bytes) -> str:
        """Keep something that is about to be replaced, under a new name; where."""
        if self._kept is None:
            self._kept = self.folder / "kept" / time.strftime("%Y-%m-%d-%H%M%S")
        path, n = self._kept / name, 1
        while path.exists() and path.read_bytes() != data:
            n += 1
            path = self._kept / f"{Path(name).with_suffix('')}-{n}{Path(name).suffix}"
        replace_file(path, data)
        return path.relative_to(self.tree.root).as_posix()

    def has_kept(self, name: str, data: bytes) -> bool:
        """Whether just this was kept before."""
        stem, suffix = Path(name).with_suffix(""), Path(name).suffix
        return any(p.read_bytes() == data for p in self.folder.glob(f"kept/*/{stem}*{suffix}"))

    def tell(self) -> None:
        """Print what is to be said."""
        print("".join(f"{sentence}\n" for sentence in self.said), end="", flush=True)
        self.said.clear()


def current(work: Work, name: str) -> bool:
    """Whether a copy was made from the notebook that the course has now."""
    base = work.base(name)
    return base.is_file() and base.read_bytes() == (work.tree.notebooks / name).read_bytes()


def readable(path: Path) -> bool:
    """Whether there is a notebook that Jupyter can read: UTF-8 without a mark of the byte order before it."""
    try:
        return isinstance(json.loads(path.read_text(encoding="utf-8")).get("cells"), list)
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


def news(work: Work, page: str) -> str:
    """What was changed today, for the top of the start page: JupyterLab's messages push it off the screen."""
    if not work.updated:
        found = NEWS.search(page)
        return found[0] if found and time.strftime("on %Y-%m-%d:") in found[0] else ""
    names = ", ".join(f"[{name}]({name})" for name in work.updated)
    notes = "".join(f">\n> - {sentence}\n" for sentence in work.said)
    return f"> **Brought up to date with the course on {time.strftime('%Y-%m-%d')}:** {names}\n{notes}\n"


def page(work: Work, data: bytes) -> None:
    """Write the start page with news and what the learner has passed; one that somebody has edited is kept."""
    from helpers.check import progress, record  # a third of a second, at a start only

    def plain(text: bytes) -> bytes:
        return record.start_page(NEWS.sub("", text.decode(errors="replace")), {}, record.Record()).encode()

    here, last = work.copy(START), work.base(START)
    before = here.read_bytes() if here.is_file() else data
    if last.is_file() and plain(before) not in (plain(data), plain(last.read_bytes())):
        work.say(START, f"it was made anew; yours is {work.keep(START, before)}.")
    path = here.parent / progress.NAME
    shown = record.start_page(data.decode(), progress.kept(path), record.read(path))
    shown = record.below_title(shown, news(work, before.decode(errors="replace")))
    for path, text in ((here, shown.encode()), (last, data)):
        if not path.is_file() or path.read_bytes() != text:
            replace_file(path, text)
