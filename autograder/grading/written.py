"""Written answers that do not stand in the cell for them, for a person to judge.

Where that cell is empty, what a student wrote between the heading of the exercise and the next one is put into it:
cells of their own, of any kind, and what they added to the course's. Nobody's words get a zero that no person has seen.
"""

import ast
import re
import textwrap
from collections.abc import Iterator

from autograder.engine.cell_names import exercise_number, parsed
from autograder.making.exercises import HEADING

from . import intake
from .class_summary import columns

LEAST = 40  # characters of a line that is taken for a quotation wherever it stands in the exercise
FOUND = "*Found outside of the cell for this answer:*"
ELSEWHERE = "*Nothing stands in this cell. What else the student wrote, for a person to see whether it is meant here:*"
COMMENT = re.compile(r"(?:^|\s)#+(.*)")
WORDS = 24  # columns of what is said in code and may be an answer
MOST = 20  # texts from elsewhere
EACH = 2_000  # characters of one of them
MEANS = re.compile(r"[^\s#>*_\-`|~=+.]")


class CourseText:
    """The course's own lines, so that a student's can be told from them."""

    def __init__(self, released: dict):
        self.sections, self.source = sections(released), {k: c.source for k, c in released.items()}
        self.lines, self.code, quoted = set(), set(), {}
        for key, cell in released.items():
            lines = {*map(_plain, cell.source.split("\n"))}
            if cell.cell_type == "code":
                self.code |= lines
            elif cell.metadata.get("nbgrader", {}).get("solution"):
                self.lines |= lines
            else:
                self.lines |= {n for n in lines if n.startswith(("#", "<")) or len(n.split()) > 2}
                quoted.setdefault(self.sections[key], []).append(cell.source)
        self.quoted = {s: _plain("\n".join(texts)) for s, texts in quoted.items()}

    def own(self, text: str, section: str, code: bool = False, of: str = "") -> str:
        """What of a text is the student's: not the course's lines, nor a quotation of them, nor a comment.

        of  the course's text of that cell
        """
        quoted, kept = self.quoted.get(section, ""), []
        known = [self.lines, {*map(_plain, of.split("\n"))} if of else set(), self.code if code else set()]
        for line in (text if code else _uncommented(text)).split("\n"):
            plain = _plain(line)
            if not any(plain in lines for lines in known) and not (len(plain) >= LEAST and plain in quoted):
                kept.append(line.rstrip())
        return "\n".join(kept).strip("\n") if any(map(MEANS.search, kept)) else ""


def sections(released: dict) -> dict[str, str]:
    """Released cell -> the number of its exercise, "" above the first."""
    found, number = {}, ""
    for key, cell in released.items():
        heading = HEADING.search(cell.source) if cell.cell_type == "markdown" else None
        number = f"{heading[1]}.{heading[2]}" if heading else number
        found[key] = number
    return found


def _plain(line: str) -> str:
    return " ".join(line.replace(">", " ").split())


def _uncommented(text: str) -> str:
    """Markdown without HTML comments, which no page shows; one that does not end is text."""
    kept, at = [], 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start)) >= 0:
        kept.append(text[at:start])
        at = end + 3
    return "".join(kept) + text[at:]


class Pieces:
    """A submission cut at the headings of exercises: (cell, exercise, what of the text there is the student's)."""

    def __init__(self, course: CourseText, released: dict, given: list[intake.Cell], names: list[str | None]):
        self.course, self.released, self.given, self.names = course, released, given, names
        self.found = [(i, section, self._own(i, text, section)) for i, section, text in self._cut()]
        self.there = {section for _, section, _ in self.found}

    def _cut(self) -> Iterator[tuple[int, str, str]]:
        running, known = "", set(self.course.sections.values())
        for i, (cell, name) in enumerate(zip(self.given, self.names, strict=True)):
            headings = [] if cell.code else [m for m in HEADING.finditer(cell.text) if f"{m[1]}.{m[2]}" in known]
            if name and not (headings and HEADING.search(self.course.source[name])):
                running = self.course.sections[name]  # what stands above a heading belongs to the exercise before
            ends = [m.start() for m in headings] + [len(cell.text)]
            yield i, running, cell.text[: ends[0]]
            for m, end in zip(headings, ends[1:], strict=True):
                running = f"{m[1]}.{m[2]}"
                yield i, running, cell.text[m.start() : end]

    def _own(self, i: int, text: str, section: str) -> str:
        cell, name = self.given[i], self.names[i]
        own = self.course.own(text, section, cell.code, self.course.source.get(name, ""))
        return fenced(own) if own and cell.code else own


def fenced(code: str) -> str:
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", code)), default=0))
    return f"{fence}\n{code}\n{fence}"


class Finding:
    """What may be meant for one empty written answer."""

    def __init__(self, key: str, pieces: Pieces, shown: set[int]):
        """shown  the student's own cells that are in the rebuilt notebook"""
        self.key, self.pieces, self.shown = key, pieces, shown
        self.section = pieces.course.sections[key]

    def inside(self) -> list[tuple[int, str]]:
        """Text between the heading and the next."""
        mine = [(i, own) for i, section, own in self.pieces.found if section == self.section and own]
        return [(i, own) for i, own in mine if self._free(i, self.section)]

    def _free(self, i: int, section: str) -> bool:
        """Whether a piece is no answer to something else, no check, and not left out for another reason."""
        name, cell = self.pieces.names[i], self.pieces.given[i]
        if not name:
            return i in self.shown
        released = self.pieces.released[name]
        marked = released.metadata.get("nbgrader", {})
        if not marked.get("solution") or name == self.key:
            return not (marked and released.cell_type == "code")  # a check, perhaps of an earlier release
        if released.cell_type == "markdown":
            return section != self.pieces.course.sections[name]  # merged with what stood below
        return parsed(cell.text) is None

    def near(self) -> list[tuple[int, str]]:
        """Text around the exercise that may be meant: added just above or below, or naming its number."""
        number = re.compile(rf"(?<![\d.]){re.escape(exercise_number(self.key) or self.section)}(?![\d]|\.\d)")
        keys, sections = [*self.pieces.released], self.pieces.course.sections
        own = [k for k in keys if sections[k] == self.section]
        first, last = keys.index(own[0]), keys.index(own[-1])
        beside = {k for k in (*keys[max(first - 1, 0) : first], *keys[last + 1 : last + 2])}
        before = self._before()
        return [
            (i, text)
            for i, section, text in self.pieces.found
            if text and section != self.section and self._meant(i, section, text, beside, before, number)
        ]

    def _meant(self, i: int, section: str, text: str, beside: set[str], before: str | None, number: re.Pattern) -> bool:
        name, code = self.pieces.names[i], self.pieces.given[i].code
        if name is None and i not in self.shown:
            return False
        if name is None and section == before:
            return True
        graded = name and self.pieces.released[name].metadata.get("nbgrader", {})
        return (name in beside and not code and not graded) or (not code and bool(number.search(text)))

    def _before(self) -> str | None:
        """The exercise behind which this one's text would stand if all cells of this one are gone."""
        if self.section in self.pieces.there:
            return None
        numbers = [*dict.fromkeys(self.pieces.course.sections.values())]
        above = numbers[: numbers.index(self.section)]
        return next((n for n in reversed(above) if n in self.pieces.there), "")


def elsewhere(pieces: Pieces, shown: set[int], used: set[int]) -> list[tuple[int, str]]:
    """What a student wrote that is no answer in words, wherever it stands, and where that is.

    shown  the student's own cells that are in the rebuilt notebook
    used   cells whose text has been put into an answer
    """
    found = []
    for i, section, own in pieces.found:
        name, cell = pieces.names[i], pieces.given[i]
        if not own or i in used or (i not in shown if not name else not _added(pieces.released[name], cell)):
            continue
        texts = _said_in_code(cell.text, pieces.course.source.get(name, "")) if cell.code else [own]
        where = f"In exercise {section}" if section else "At the top of the notebook"
        found += [(i, f"*{where}:* {text[:EACH]}") for text in texts]
    return found[:MOST]


def _added(released, cell: intake.Cell) -> bool:
    """Whether a student's text may stand in a cell of the course: in an answer, or beside all that the release has there."""
    if released.metadata.get("nbgrader", {}).get("solution"):
        return released.cell_type == "code"
    there = {*map(_plain, cell.text.split("\n"))}  # else it is the course's, of an earlier release
    return all(_plain(line) in there for line in released.source.split("\n"))


def _said_in_code(code: str, released: str) -> list[str]:
    """Comments, and texts that stand as a statement or are printed; neither the course's nor code that was put aside."""
    said, block = [], []
    for line in [*code.split("\n"), ""]:
        if (comment := COMMENT.search(line)) and comment[1].strip() not in released:
            block.append(comment[1])
        elif block:
            said.append(textwrap.dedent("\n".join(block)).strip())
            block = []
    said = [text for text in said[:MOST] if parsed(text) is None]
    if (program := parsed(code)) is None:
        return said or [fenced(code)] * (not released)
    statements = (node for node in ast.walk(program) if isinstance(node, ast.Expr))
    values = (n.value for s in statements for n in ast.walk(s) if isinstance(n, ast.Constant))
    texts = (value.strip() for value in values if type(value) is str)
    return [text for text in [*said, *texts] if columns(text) >= WORDS and text not in released]
