"""What a student handed in, read without trust: bytes of one plain file, and of these the text of cells.

Nothing here executes, follows a link, or believes a notebook's metadata; what cannot be read is refused with a sentence.
"""

import datetime
import json
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from autograder.places import NOTEBOOK

from .pictures import Pictures

FILE = 100_000_000  # bytes of a submitted file, which a notebook's outputs can fill
LARGEST = 20_000_000  # bytes of a submitted notebook, in a larger file without its outputs
LONGEST = 100_000  # characters of one cell
MOST = 2_000  # cells
OWN = 300_000  # characters of all the cells that a student added
NAMES = (".ipynb", ".ipynb.txt", ".ipynb.json")
WANTED = "hand in the notebook itself, a file that ends in .ipynb (in a clone it lies in work/)"
SUFFIXES = {
    ".py": "Python code", ".html": "a web page", ".htm": "a web page", ".pdf": "a PDF", ".docx": "a document", ".odt": "a document",
    ".zip": "an archive", ".7z": "an archive", ".rar": "an archive", ".gz": "an archive", ".tar": "an archive", ".txt": "text",
    ".md": "text", ".png": "a picture", ".jpg": "a picture", ".jpeg": "a picture", ".url": "a link", ".lnk": "a link",
}  # fmt: skip
BEGINS = {b"PK\x03\x04": "an archive or a document", b"%PDF": "a PDF", b"<!doctype html": "a web page", b"<html": "a web page"}  # fmt: skip


class Refused(ValueError):
    """One sentence: why a submission cannot be graded."""


@dataclass(frozen=True)
class Cell:
    """One cell of a submission: its text, and what it says that it is."""

    code: bool
    text: str
    grade_id: str | None
    id: str | None
    checksum: str | None = None  # what nbgrader noted when the cell was released
    pictures: dict[str, dict[str, str]] = field(default_factory=dict)  # name in the text -> kind -> base64
    left_out: tuple[str, ...] = ()  # a sentence for each picture that was not taken


def read(folder: Path) -> bytes:
    """The bytes of the submitted notebook in `folder`: a plain file, not through a link, not too large."""
    return file(folder, named(folder))


def file(folder: Path, name: str) -> bytes:
    """The bytes of one notebook of a submission."""
    path = folder / name
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe would wait for ever
    try:
        if path.is_symlink():
            raise Refused("The submitted notebook is a link, not a file.")
        if not path.is_file():
            raise Refused("The submitted notebook is a folder or a device, not a file.")
        opened = os.open(path, flags | getattr(os, "O_BINARY", 0))
    except OSError as e:
        raise Refused(f"The submitted notebook cannot be opened: {os.strerror(e.errno).lower()}.") from None
    with os.fdopen(opened, "rb") as f:
        found = os.fstat(f.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise Refused("The submitted notebook is a folder or a device, not a file.")
        if found.st_size > FILE:
            size = f"{found.st_size / 1e6:.0f} MB"
            raise Refused(f"The submitted notebook has {size}; at most {FILE / 1e6:.0f} MB are read.")
        data = f.read(FILE)
    if len(data) > LARGEST:
        data = without_outputs(data)
    if len(data) > LARGEST:
        size = f"{len(data) / 1e6:.0f} MB without its outputs"
        raise Refused(f"The submitted notebook has {size}; at most {LARGEST / 1e6:.0f} MB are read.")
    return data


# Strings whole, also one that does not end; possessive, so that none is gone over twice.
TOKEN = re.compile(rb'(?P<begin>"outputs"\s*+:\s*+\[)|"[^"\\]*+(?:\\.[^"\\]*+)*+"?|(?P<open>\[)|(?P<close>\])', re.S)
TOKENS = 10_000_000  # of one file that are looked at: an output of short lines has one for each


def without_outputs(data: bytes) -> bytes:
    r"""A notebook file with empty lists of outputs: only strings and brackets are told apart, and nothing is built of them.

    >>> without_outputs(b'{"source": "\\"outputs\\": [1]", "outputs": [{"a": ["]"]}], "id": "b"}')
    b'{"source": "\\"outputs\\": [1]", "outputs": [], "id": "b"}'
    """
    kept, end, depth = bytearray(), 0, 0
    for n, token in enumerate(TOKEN.finditer(data)):
        if n == TOKENS:
            return data
        kind = token.lastgroup
        if depth:
            depth += {"begin": 1, "open": 1, "close": -1}.get(kind, 0)
            end = token.end() - 1
        elif kind == "begin":
            kept += data[end : token.end()]
            depth = 1
    return bytes(kept) if depth else bytes(kept + data[end:])


def named(folder: Path) -> str:
    """The notebook's place in the folder: the right one, or the one that a browser, a zip or a file manager made of it."""
    entered(folder)
    if os.path.lexists(folder / f"{NOTEBOOK}.ipynb"):
        return f"{NOTEBOOK}.ipynb"
    found = notebooks(folder)
    for fitting in ([n for n in found if Path(n).name == f"{NOTEBOOK}.ipynb"], found):
        top = [n for n in fitting if Path(n).name == n]
        if len(top or fitting) == 1:
            return (top or fitting)[0]
    if found:
        said = f"there are several, none of them so named: {listed(found)}; keep the one that counts"
    else:
        said = f"there is none, {_instead(folder)}"
    raise Refused(f"There is no notebook {NOTEBOOK}.ipynb in the submission: {said}.")


def entered(folder: Path) -> None:
    """Refuse a folder that is a link, or none."""
    for part in (folder.parent, folder):
        if part.is_symlink() or not part.is_dir():
            raise Refused("The folder of the submission is a link or no folder.")


def notebooks(folder: Path) -> list[str]:
    """Notebooks in the folder and two below."""
    return [n for n in _files(folder) if n.lower().endswith(NAMES)]


def _files(folder: Path) -> list[str]:
    """Files in the folder and two below, without following links."""
    found = []
    try:
        for top, folders, names in os.walk(folder, onerror=_raise):
            depth = len(Path(top).relative_to(folder).parts)
            folders[:] = [] if depth == 2 else sorted(f for f in folders if not f.startswith((".", "__")))[:20]
            found += [os.path.relpath(os.path.join(top, n), folder) for n in names]
    except OSError as e:
        raise Refused(f"The folder of the submission cannot be opened: {os.strerror(e.errno).lower()}.") from None
    return sorted(found)


def _instead(folder: Path) -> str:
    """What lies where a notebook should."""
    found = [n for n in _files(folder) if not n.startswith(".") and n not in ("timestamp.txt", "submission_secret.txt")]
    if not found:
        return f"and no other file; {WANTED}"
    kinds = (SUFFIXES.get(Path(n).suffix.lower(), "") for n in found[:3])
    names = [f"{printed(n)} ({kind})" if kind else printed(n) for n, kind in zip(found, kinds)]
    return f"only {_joined(names, len(found))}; {WANTED}"


def listed(names: list[str]) -> str:
    """Names of a student's files in a sentence.

    >>> listed(["a.ipynb", "b\x1b.ipynb", "c", "d"])
    'a.ipynb, b?.ipynb, c and 1 more'
    """
    return _joined([printed(n) for n in names[:3]], len(names))


def _joined(first: list[str], total: int) -> str:
    more = f" and {total - len(first)} more" if total > len(first) else ""
    return ", ".join(first) + more


def printed(name: str) -> str:
    """A name of a student's, short and of harmless characters."""
    name = re.sub(r"[^\w ./()+@'-]", "?", name.encode(errors="replace").decode())
    return name if len(name) <= 60 else f"{name[:40]}...{name[-16:]}"


def _raise(error: OSError) -> None:
    raise error


def opened(data: bytes) -> tuple[dict, list[str]]:
    """A notebook file as JSON, in any encoding that an editor may have saved it in, and what is to be said of that."""
    if not data.strip(b"\0 \t\r\n"):
        raise Refused("The submitted file is empty.")
    kind = next((k for first, k in BEGINS.items() if data.lstrip()[:20].lower().startswith(first.lower())), "")
    if kind:
        raise Refused(f"The submitted file is not a notebook but {kind}: {WANTED}.")
    text, notes = _decoded(data)
    try:
        nb = json.loads(text.rstrip("\0"))  # a power cut may leave a file longer than what was written
    except RecursionError:
        raise Refused("The submitted file is nested too deep to be a notebook.") from None
    except ValueError as e:
        if notes:
            raise Refused("The submitted file is not a notebook: it is no text.") from None
        where = f" in line {e.lineno}" if isinstance(e, json.JSONDecodeError) else ""
        raise Refused(f"The submitted file is not a notebook: its JSON breaks off or is wrong{where}.") from None
    if not isinstance(nb, dict):
        raise Refused("The submitted file is not a notebook: it has no cells.")
    return nb, notes


def _decoded(data: bytes) -> tuple[str, list[str]]:
    """Text, also of an editor that saves no Unicode: JSON's own characters are the same in all encodings of such editors."""
    try:
        return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"), []
    except UnicodeDecodeError:
        note = "The file is not in UTF-8 but in an older encoding, so accents and symbols in it may be wrong."
        return data.decode("cp1252", "replace"), [note]


def cells(nb: dict, most: int = MOST) -> list[Cell]:
    """The cells of a notebook of any format version; what is no cell is passed over."""
    found = nb.get("cells")
    if found is None and isinstance(sheets := nb.get("worksheets"), list):  # nbformat 3
        found = [c for s in sheets if isinstance(s, dict) and isinstance(s.get("cells"), list) for c in s["cells"]]
    if not isinstance(found, list):
        raise Refused("The submitted file is not a notebook: it has no cells.")
    if len(found) > most:
        raise Refused(f"The submitted notebook has {len(found)} cells; at most {most} are read.")
    pictures = Pictures()
    return [_cell(c, pictures) for c in found if isinstance(c, dict)]


def _cell(cell: dict, pictures: Pictures) -> Cell:
    code = cell.get("cell_type") == "code"
    source = cell.get("source", cell.get("input"))  # nbformat 3 calls code "input"
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    text, shown, left_out = source if isinstance(source, str) else "", {}, []
    if not code:
        text, shown, left_out = pictures.of(text, cell.get("attachments"))
        text += "".join(f"\n\n*{sentence}*" for sentence in left_out)  # who reads the answer has to know
    metadata = cell.get("metadata")
    marked = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = marked.get("grade_id") if isinstance(marked, dict) else None
    checksum = marked.get("checksum") if isinstance(marked, dict) else None
    known = (v if isinstance(v, str) else None for v in (grade_id, cell.get("id"), checksum))
    return Cell(code, clean(text), *known, shown, tuple(left_out))


def clean(text: str) -> str:
    r"""Text that can be stored anywhere: no lone surrogates, no NUL, line ends as they should be, no more than is read.

    >>> clean("a\ud800\r\nb\x00")
    'a\ufffd\nb'
    """
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    if len(text) > LONGEST:
        return f"# This cell had {len(text):,} characters; at most {LONGEST:,} are read, so it was left out."
    return text


STAMP = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?)(?: ([A-Za-z0-9_/+:-]{1,40}))?\s*")
OFFSET = re.compile(r"[+-]\d\d:?\d\d")


def timestamp(folder: Path) -> bytes | None:
    """The time of submission that nbgrader's collect wrote, if it is one."""
    path = folder / "timestamp.txt"
    try:
        if not stat.S_ISREG(path.lstat().st_mode) or path.stat().st_size > 100:
            return None
        found = STAMP.fullmatch(path.read_text(encoding="ascii"))
        return _time(found[0], found[1], found[2] or "UTC") if found else None
    except (OSError, ValueError, OverflowError, TypeError):
        return None


def _time(text: str, moment: str, zone: str) -> bytes | None:
    """A time that nbgrader reads rightly; by itself it takes an offset for seconds, and a zone that it does not know for UTC."""
    from dateutil.tz import gettz
    from nbgrader.utils import parse_utc

    if OFFSET.fullmatch(zone):
        local = datetime.datetime.fromisoformat(f"{moment}{zone}")
        text = f"{local.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S.%f} UTC"
    elif zone != "Z" and gettz(zone) is None:
        return None
    return text.encode() if 1970 <= parse_utc(text.strip()).year < 10_000 else None
