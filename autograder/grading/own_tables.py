"""Tables that people keep: CSV files in any encoding and with any separator that Excel may have saved them with."""

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from autograder.places import SourceError

from .intake import LARGEST

NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")


def rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """(the line, for a sentence about it; what these columns say in it) of each row that is not empty, if there is such a file."""
    if not path.is_file():
        return
    (_, head), *table = lines(path.read_bytes(), path.name) or [(0, [])]
    head = [name.strip().lower() for name in head]
    if missing := [name for name in columns if name not in head]:
        raise SourceError(f"{path.name} has no column {missing[0]}: its first line is {','.join(columns)}.")
    for number, row in table:
        yield f"{path.name}, line {number},", [dict(zip(head, map(str.strip, row))).get(name, "") for name in columns]


def lines(data: bytes, name: str) -> list[tuple[int, list[str]]]:
    """(its number, its cells) of each line that has any, the one with the columns first."""
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252", "replace")  # Western Windows
    found = re.split("(?<=\n)", text)
    head = next((i for i, line in enumerate(found) if line.strip() and not line.lower().startswith("sep=")), 0)
    between = max(",;\t", key="".join(found[head : head + 1]).count)
    reader, before = csv.reader(found[head:], delimiter=between), csv.field_size_limit(LARGEST)
    try:
        return [(head + reader.line_num, row) for row in reader if any(map(str.strip, row))]
    except csv.Error as e:
        raise SourceError(f"{name} is no CSV file: {e}.") from None
    finally:
        csv.field_size_limit(before)


def number(text: str) -> float | None:
    """A number as people of several countries write it.

    >>> number("100.00"), number("7,5"), number("-"), number("")
    (100.0, 7.5, None, None)
    """
    text = text.strip().replace(",", ".")
    return float(text) if NUMBER.fullmatch(text) else None
