"""Files that are whole or not there, also after a power cut or a full disk, and that are known again by their digest."""

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path


def replace(path: Path, text: str) -> None:
    """Write a file in one step; after a power cut it is the old one or the new one."""
    part = path.with_name(f"{path.name}.part")
    _written(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), text)
    os.replace(part, path)


def make_once(path: Path, text: str) -> None:
    """Make a private file in one step, if there is none: of two that do so in the same moment, one makes it."""
    number, part = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    try:
        _written(number, text)
        try:
            os.link(part, path)  # never in place of another one
        except FileExistsError:
            pass
        except OSError:  # a disk without links
            os.replace(part, path)
        _keep_name(path.parent)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part)


def _written(number: int, text: str) -> None:
    with open(number, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(number)


def _keep_name(folder: Path) -> None:
    """Bring a file's new name to the disk, too."""
    with contextlib.suppress(OSError):  # not on Windows, nor on every network's disk
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def digest_of(path: Path) -> str:
    """What a file holds, or all files of a folder, as a digest; "" if it cannot be read."""
    try:
        if path.is_dir():
            files = sorted(p for p in path.rglob("*") if p.is_file())
            data = repr([(p.relative_to(path).as_posix(), digest_of(p)) for p in files]).encode()
        else:
            data = path.read_bytes()
    except OSError:
        return ""
    return hashlib.sha256(data).hexdigest()[:32]
