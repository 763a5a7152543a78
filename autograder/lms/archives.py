"""A zip or a folder of submissions, read without trust: places of files, and their bytes streamed to disk within limits.

No name leads out of the folder that it is copied to, no link is followed, and what cannot be read is refused with a sentence.
"""

import contextlib
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from autograder.grading.class_summary import plain
from autograder.grading.intake import FILE
from autograder.places import FULL, SourceError, is_full

MOST = 100_000  # files in an archive of a class
IGNORED = {"__macosx", ".ds_store", "thumbs.db", "desktop.ini", ".ipynb_checkpoints", "__pycache__", ".git"}
OTHERS = {b"7z\xbc\xaf": "7z", b"Rar!": "rar", b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zX": "xz"}


class Unreadable(ValueError):
    """One sentence: why a file of an archive is not taken."""


@dataclass(frozen=True)
class Entry:
    """One file of an archive."""

    path: tuple[str, ...]
    open: Callable[[], BinaryIO]

    def copy(self, to: Path, most: int = FILE) -> int:
        """Write the file at `to`, which is new, and return its size; nothing is left of one that is refused."""
        size = 0
        try:
            with self.open() as file, open(to, "xb") as out:
                while part := file.read(1 << 20):
                    size += len(part)
                    if size > most:
                        raise Unreadable(f"it has more than {most / 1e6:.0f} MB")
                    out.write(part)
        except Unreadable:
            to.unlink(missing_ok=True)
            raise
        except FAULTS as e:
            to.unlink(missing_ok=True)
            if is_full(e):
                raise SourceError(FULL) from None
            raise Unreadable(f"it cannot be read ({plain(str(e), 100) or type(e).__name__})") from None
        return size


@dataclass(frozen=True)
class Sender:
    """Whom a platform names: its number of the person or of the submission, and what it made of the name."""

    platform: str
    number: str
    name: str = ""
    late: bool = False
    stamp: str = ""  # when, where the platform says so


@dataclass(frozen=True)
class Claim:
    """A file's sender, its place among what the sender sent, and its number: the larger, the newer.

    others  whom else the same name may name
    at      where the platform's mark stands in the name
    """

    sender: Sender
    path: tuple[str, ...]
    file_id: int = 0
    others: tuple[Sender, ...] = ()
    at: int = 0


FAULTS = (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, ValueError)
"""What zipfile raises for damage, for passwords, and for methods that it does not know; RuntimeError is a password's."""


@dataclass
class Archive:
    """The files, and the names that lead out of it."""

    entries: list[Entry] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def add(self, name: str, open: Callable[[], BinaryIO], why: str = "") -> None:
        path = place(name)
        if path and any(part.casefold() in IGNORED or part.startswith("._") for part in path):
            return
        if path is None:
            self.refused.append(name)
        else:
            self.entries.append(Entry(path, _refusal(why) if why else open))


def _refusal(why: str) -> Callable[[], BinaryIO]:
    def open():
        raise Unreadable(why)

    return open


@contextlib.contextmanager
def opened(source: Path) -> Iterator[Archive]:
    """What a platform's archive holds, zipped or unpacked; a SourceError if it is neither."""
    if source.is_dir():
        yield _folder(source)
        return
    try:
        with open(source, "rb") as file:
            head = file.read(4)
    except OSError as e:
        raise SourceError(f"{plain(str(source))} cannot be read: {(e.strerror or str(e)).lower()}.") from None
    for mark, name in OTHERS.items():
        if head.startswith(mark):
            raise SourceError(f"{plain(source.name)} is {name}, not zip: unpack it, and name the folder instead.")
    try:
        with zipfile.ZipFile(source) as file:
            yield zipped(file, MOST)
    except (zipfile.BadZipFile, Unreadable) as e:
        raise SourceError(f"{plain(source.name)} is no whole zip file ({plain(str(e))}): download it again.") from None


def zipped(file: zipfile.ZipFile, most: int) -> Archive:
    """The files of a zip."""
    infos = file.infolist()
    if len(infos) > most:
        raise Unreadable(f"it holds {len(infos):,} files, and at most {most:,} are read")
    found = Archive()
    for info in infos:
        name = _name(info)
        if name.endswith(("/", "\\")):
            continue
        why = ""
        if stat.S_ISLNK(info.external_attr >> 16):
            why = "it is a link"
        elif info.flag_bits & 1:
            why = "it needs a password"
        found.add(name, lambda info=info: file.open(info), why)
    return found


def _name(info: zipfile.ZipInfo) -> str:
    """Its name: without the flag for UTF-8, bytes that are UTF-8 all the same, or those of old DOS."""
    name = info.orig_filename
    if not info.flag_bits & 0x800:
        with contextlib.suppress(UnicodeError):
            return name.encode("cp437").decode("utf-8")
    return name


def _folder(top: Path) -> Archive:
    found = Archive()
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(f for f in folders if f.casefold() not in IGNORED)
        for name in sorted(names) + [f for f in folders if os.path.islink(os.path.join(folder, f))]:
            path = Path(folder, name)
            kind = path.lstat().st_mode
            why = "it is a link" if stat.S_ISLNK(kind) else "" if stat.S_ISREG(kind) else "it is no plain file"
            found.add(path.relative_to(top).as_posix(), lambda path=path: open(path, "rb"), why)
        if len(found.entries) > MOST:
            raise SourceError(f"{plain(str(top))} holds more than {MOST:,} files: name the folder of the submissions.")
    return found


def place(name: str) -> tuple[str, ...] | None:
    r"""The parts of a file's path, each fit for a disk; None if it would lead out of its folder.

    >>> place("hw\\ex?.ipynb"), place("./a/b"), place("../a"), place("/etc/passwd"), place("C:\\a"), place("a\x00b/c ")
    (('hw', 'ex_.ipynb'), ('a', 'b'), None, None, None, ('a_b', 'c'))
    """
    name = name.replace("\\", "/")
    if name.startswith("/") or re.match("[A-Za-z]:/", name):
        return None
    parts = [p for p in name.split("/") if p not in ("", ".")]
    if not parts or ".." in parts:
        return None
    return tuple(_fit(p) for p in parts)


def _fit(part: str) -> str:
    return re.sub(r'[\x00-\x1f\x7f<>:"|?*]', "_", part.encode("utf-8", "replace").decode()).rstrip(". ") or "_"
