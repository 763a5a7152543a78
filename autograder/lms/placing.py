"""One student's files put where grading looks for them; what lay there before is kept."""

import hashlib
import os
import re
import shutil
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

from autograder.grading.class_summary import plain
from autograder.grading.intake import NAMES
from autograder.places import NOTEBOOK

from .archives import Entry, Unreadable, zipped

LARGEST_FOLDER = 120_000_000  # bytes of all that a student sent, unpacked
FILES = 1_000  # that a student sent
PACKED = (".7z", ".rar", ".tar", ".tgz", ".gz", ".bz2", ".xz")
OURS = ("timestamp.txt", "submission_secret.txt")
"""What the instructor's side notes beside a submission: a student's file of this name would say when it was sent."""


@dataclass
class Folder:
    """What one student sent, on its way to its place."""

    at: Path
    notes: list[str] = field(default_factory=list)
    files: dict[Path, int] = field(default_factory=dict)  # place in the folder -> the platform's number of the file
    size: int = 0

    def add(self, path: tuple[str, ...], entry: Entry, file_id: int = 0, inside: bool = False) -> None:
        """Take a file, or the files of a zip; a note says what is not taken."""
        to = free(self.at, path)
        try:
            if len(self.files) >= FILES:
                raise Unreadable(f"there are more than {FILES:,} files")
            size = entry.copy(to)
            if self.size + size > LARGEST_FOLDER:
                to.unlink()
                raise Unreadable(f"all of it together has more than {LARGEST_FOLDER / 1e6:.0f} MB")
            self.size += size
        except Unreadable as e:
            self.notes.append(f"{plain(path[-1], 60)} is not taken: {e}")
            return
        self.files[to] = file_id
        suffix = to.suffix.lower()
        if suffix == ".zip" and not inside:
            self._unpack(to, path[:-1], file_id)
        elif suffix == ".zip" or suffix in PACKED:
            self.notes.append(f"{plain(to.name, 60)} is not unpacked: only a .zip is, and none inside another")

    def _unpack(self, file: Path, above: tuple[str, ...], file_id: int) -> None:
        taken = False
        try:
            with zipfile.ZipFile(file) as z:
                archive = zipped(z, FILES)
                self.notes += [f"{plain(name, 60)} is not taken: its name leads out" for name in archive.refused]
                for entry in in_order(archive.entries):
                    before = len(self.notes)
                    self.add((*above, *entry.path), entry, file_id, inside=True)
                    taken = taken or len(self.notes) == before
        except Unreadable as e:
            self.notes.append(f"{plain(file.name, 60)} is not unpacked: {e}")
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            self.notes.append(f"{plain(file.name, 60)} is not unpacked: it is no whole zip file")
        if taken:
            self.size -= file.stat().st_size
            del self.files[file]
            file.unlink()

    def name_notebook(self, topic: str) -> None:
        """Call the notebook as grading does, if there is one, or one that is meant."""
        to = self.at / f"{NOTEBOOK}.ipynb"
        found = [f for f in self.files if f.name.lower().endswith(NAMES)]
        if not found:
            self.notes.append("no notebook")
        if found and not os.path.lexists(to):
            like = [f for f in found if _copy(f) is not None]
            here = [f for f in like if topic in f.relative_to(self.at).parts]
            beside = {f.parent for f in like}
            for choice in (found, here, like):
                if len(choice) == 1:
                    break
            else:
                choice = sorted(like, key=lambda f: (self.files[f], _copy(f)))[-1:] if len(beside) == 1 else []
            for file in choice:
                file.rename(to)
                self.files[to] = self.files.pop(file)
        if len(found) > 1:
            self.notes.append(f"{len(found)} notebooks")

    def place(self, to: Path, aside: Path) -> str:
        """Move all of it to its place: "new", "same", or "replaced" if something else lay there, which is kept.

        aside  where the earlier ones go
        """
        before = os.path.lexists(to)
        if before and contents(to) == contents(self.at):
            shutil.rmtree(self.at)
            return "same"
        if before:
            if (to / OURS[0]).exists() and not (self.at / OURS[0]).exists():
                self.notes.append("its timestamp.txt was that of the earlier files")
            n = 1
            while os.path.lexists(aside / str(n)):
                n += 1
            aside.mkdir(parents=True, exist_ok=True)
            shutil.move(to, aside / str(n))
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(self.at, to)
        return "replaced" if before else "new"


def in_order(entries: list[Entry]) -> list[Entry]:
    """Notebooks first, so that nothing else fills the folder."""
    return sorted(entries, key=lambda e: not e.path[-1].lower().endswith((*NAMES, ".zip")))


def _copy(file: Path) -> int | None:
    """Which copy of the exercises a name says: 0, or 2 for exercises-2 and `exercises (2)`; None if it is another name."""
    name = re.sub(r"(\.ipynb(\.txt|\.json)?)$", "", file.name.lower())
    m = re.fullmatch(rf"{NOTEBOOK}(?:[-_ ]*\(?([0-9]{{1,9}})\)?)?", name)
    return int(m[1] or 0) if m else None


def free(top: Path, path: tuple[str, ...]) -> Path:
    """A place in the folder that nothing has yet, as near to the wanted one as can be; its folder is made.

    Names are shortened here and not before, so that the mark of a platform is read whole.
    """
    *above, name = map(short, path[-8:])
    if not above and name.lower() in OURS:
        name = f"student-{name}"
    for part in above:
        top /= part
        while os.path.lexists(top) and not top.is_dir():
            top = top.with_name(f"{top.name}-2")
    top.mkdir(parents=True, exist_ok=True)
    stem, dot, suffix = name.partition(".")
    n, to = 1, top / name
    while os.path.lexists(to):
        n += 1
        to = top / f"{stem}-{n}{dot}{suffix}"
    return to


def short(part: str) -> str:
    """A name that fits a disk: the end says what kind of file it is, so the middle goes.

    >>> short("a" * 300 + ".ipynb")[-7:], len(short("\u5f20" * 300 + ".ipynb").encode())
    ('a.ipynb', 198)
    """
    while len(part.encode()) > 200:
        part = part[: len(part) // 2 - 1] + part[len(part) // 2 :]
    return part


def contents(folder: Path) -> dict[str, str]:
    """Place -> digest of every file that a student sent."""
    found = {}
    if folder.is_symlink() or not folder.is_dir():
        return {"": "no folder"}
    for file in folder.rglob("*"):
        if file.is_symlink():
            found[file.relative_to(folder).as_posix()] = "a link"
        elif file.is_file() and not (file.parent == folder and file.name in OURS):
            with open(file, "rb") as f:
                found[file.relative_to(folder).as_posix()] = hashlib.file_digest(f, "sha256").hexdigest()
    return found
