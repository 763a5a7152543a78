"""A submission, built anew: the released notebook with the learner's answers and own cells in it.

So nothing that can happen to a notebook's tests, tags, points, order or metadata changes a grade,
by accident or otherwise; a deleted cell is back, a doubled one counts once.
"""

import builtins
from copy import deepcopy

from nbformat import NotebookNode, from_dict
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.utils import compute_checksum

from autograder.engine.cell_names import defined, free_names, key_of, unfilled

from . import intake
from .written import ELSEWHERE, FOUND, CourseText, Finding, Pieces, elsewhere

BUILTINS = frozenset(dir(builtins))


def role(cell: NotebookNode) -> str | None:
    """What a cell of a release is to nbgrader: "answer", "locked" or nothing."""
    m = cell.get("metadata", {}).get("nbgrader") or {}
    if m.get("solution"):
        return "answer"
    return "locked" if m.get("grade") or m.get("locked") else None


def rebuild(submitted: dict, released: NotebookNode) -> tuple[NotebookNode, list[str]]:
    """The released notebook with what the learner wrote, and a sentence for each thing put right.

    Taken from the submission: the text of answer cells (of doubles the last one that was answered),
    the text of cells that nobody graded or locked, and own cells, behind the cell that they stood behind.
    An answer cell that is missing or untouched gets the own cell that defines what it was to define,
    and one for text gets what was written elsewhere in its exercise.
    """
    nb = deepcopy(released)
    for cell in nb.cells:
        cell.metadata.released = True  # the course's text, as far as the learner did not change it
    return Rebuilding({key_of(c): c for c in nb.cells}, intake.cells(submitted)).into(nb)


class Rebuilding:
    """One submission on its way into the released cells."""

    def __init__(self, released: dict[str, NotebookNode], given: list[intake.Cell]):
        self.released, self.given, self.notes = released, given, [n for c in given for n in c.left_out]
        self.empty = {k: c.source for k, c in released.items()}
        by_id = {c.id: k for k, c in released.items()}
        self.names = [c.grade_id if c.grade_id in released else by_id.get(c.id or "") for c in given]
        self.text = CourseText(released)
        self._by_text()
        self.own: dict[str | None, list[int]] = {}  # released cell -> the learner's own behind it
        course = [c.source for c in released.values() if c.cell_type == "code" and role(c) != "answer"]
        self.course = set().union(*map(defined, course))  # names that the course gives

    def _by_text(self) -> None:
        """Names of cells that lost their metadata; where two of the course's are alike, by the exercise that they stand in."""
        alike: dict[str, list[str]] = {}
        for key, cell in self.released.items():
            if key not in self.names:
                alike.setdefault(cell.source, []).append(key)
        section = ""
        for i, cell in enumerate(self.given):
            keys = alike.get(cell.text, []) if self.names[i] is None else []
            last = keys[-1] if keys else self.names[i]
            self.names[i] = next((k for k in keys if self.text.sections[k] == section), last)
            section = self.text.sections.get(self.names[i], section)

    def into(self, nb: NotebookNode) -> tuple[NotebookNode, list[str]]:
        self._place()
        self._shorten()
        self._adopt()
        self._seek()
        there = set(filter(None, self.names))
        self.notes += [
            f"The cell {k} was missing; it was put back."
            for k, c in self.released.items()
            if k not in there and role(c)
        ]
        nb.cells = self.ordered()
        return nb, self.notes

    def ordered(self) -> list[NotebookNode]:
        """The released cells, with the learner's own behind those that they stood behind."""
        order = [*self._made(None)]
        for key, cell in self.released.items():
            order += [cell, *self._made(key)]
        return order

    def _place(self) -> None:
        """Each submitted cell into its released one, or behind the one before it."""
        counts = self._counting()
        anchor = None
        for i, (cell, name) in enumerate(zip(self.given, self.names, strict=True)):
            kind = role(self.released[name]) if name else None
            if name and counts[name] == i:
                anchor = name
                if kind != "locked":
                    self._take(name, cell.text, cell.pictures)
                elif cell.text != self.empty[name] and not self._as_released(name, cell):
                    self.notes.append(f"The cell {name} was changed; the released one was used.")
            elif kind == "locked":
                self.notes.append(f"The cell {name} stood there twice; the released one was used once.")
            elif name and (cell.text == self.empty[name] or unfilled(cell.text)):
                self.notes.append(f"The cell {name} stood there twice; the one that was filled in counts.")
            else:
                if kind:
                    self.notes.append(f"The answer {name} stood there twice; the last one counts.")
                self.own.setdefault(anchor, []).append(i)

    def _as_released(self, name: str, cell: intake.Cell) -> bool:
        """Whether a locked cell is that of an earlier release, as its checksum says: the course changed it, not the student."""
        copy = deepcopy(self.released[name])
        copy.source = cell.text
        return cell.checksum == compute_checksum(copy)

    def _counting(self) -> dict[str, int]:
        """Of the copies of a released cell the one that counts: the last that was filled in, else the last."""
        found: dict[str, int] = {}
        for i, (cell, name) in enumerate(zip(self.given, self.names, strict=True)):
            done = name and cell.text != self.empty[name] and not (cell.code and unfilled(cell.text))
            if name and (done or name not in found):
                found[name] = i
        return found

    def _take(self, name: str, text: str, pictures: dict | None = None) -> None:
        cell = self.released[name]
        cell.metadata.released = self.empty[name] == text
        cell.source = text
        if pictures and cell.cell_type == "markdown":
            cell.attachments = from_dict(pictures)

    def _adopt(self) -> None:
        """Answers that stand elsewhere, because the cell for them was deleted, merged with another or left as it was."""
        before = self._theirs(None)
        for key, cell in self.released.items():
            if role(cell) == "answer" and cell.cell_type == "code":
                wanted = self._wanted(key)
                if not (cell.source == self.empty[key] or unfilled(cell.source)):
                    before |= defined(cell.source) - wanted - defined(self.empty[key])
                elif wanted and (made := self._adopted(key, wanted)):
                    before |= made - wanted
                elif wanted and wanted <= before:
                    self._take(key, "# Defined further up.")
            before |= self._theirs(key)

    def _adopted(self, key: str, wanted: set[str]) -> set[str]:
        """Move the last own cell that defines what an answer lacks into its place; what that cell defines."""
        for anchor, place in self.own.items():
            fitting = [i for i in place if self.given[i].code and wanted <= defined(self.given[i].text)]
            if fitting:
                text = self.given[fitting[-1]].text
                self._take(key, text)
                self.own[anchor] = [i for i in place if i != fitting[-1]]
                self.notes.append(f"The answer {key} stood in a cell of its own; that one counts.")
                return defined(text)
        return set()

    def _seek(self) -> None:
        """Written answers that stand elsewhere: a person judges them, also where it is not plain what was meant."""
        empty = [
            k for k, c in self.released.items()
            if role(c) == "answer" and c.cell_type == "markdown" and not self.text.own(c.source, self.text.sections[k])
        ]  # fmt: skip
        if not empty:
            return
        pieces = Pieces(self.text, self.released, self.given, self.names)
        shown, used, nowhere = {i for place in self.own.values() for i in place}, set(), []
        for key in empty:
            finding = Finding(key, pieces, shown)
            if found := finding.inside():
                if self._fill(key, FOUND, found):
                    self._move([i for i, _ in found], pieces, self.text.sections[key])
                said = "stood outside of its cell; it was put there, for a person to judge."
            elif found := finding.near():
                self._fill(key, FOUND, found)
                said = "is empty; text near it was put there, for a person to judge."
            if found:
                used |= {i for i, _ in found}
                self.notes.append(f"The answer {key} {said}")
            else:
                nowhere.append(key)
        if nowhere and (found := elsewhere(pieces, shown, used)):
            for key in nowhere:
                self._fill(key, ELSEWHERE, found)
                self.notes.append(
                    f"The answer {key} is empty; what else was written stands there, for a person to judge."
                )

    def _fill(self, key: str, head: str, found: list[tuple[int, str]]) -> bool:
        """Whether all of it has room in one cell."""
        text = "\n\n".join([head, *(text for _, text in found)])
        pictures = {n: p for i, _ in found for n, p in self.given[i].pictures.items() if n in text}
        self._take(key, text[: intake.LONGEST], pictures)
        return len(text) <= intake.LONGEST

    def _move(self, cells: list[int], pieces: Pieces, section: str) -> None:
        """Text of own cells stands in the answer now; code stays where it may be needed, and what belongs to other exercises too."""
        elsewhere = {i for i, s, own in pieces.found if own and s != section}
        moved = {i for i in cells if not (self.names[i] or self.given[i].code or i in elsewhere)}
        self.own = {anchor: [i for i in place if i not in moved] for anchor, place in self.own.items()}

    def _wanted(self, key: str) -> set[str]:
        """What an answer is to define: what its check reads and the course does not give, or what its stub defines."""
        checks = [c for k, c in self.released.items() if k.startswith(f"{key}-check")]
        read = set().union(*(_read(c) for c in checks)) - self.course
        return read or defined(self.empty[key])

    def _theirs(self, anchor: str | None) -> set[str]:
        """What the learner's own cells behind a released one define."""
        return set().union(*(defined(self.given[i].text) for i in self.own.get(anchor, ()) if self.given[i].code))

    def _shorten(self) -> None:
        """Leave out own cells beyond what is read: nobody writes that much by hand."""
        left = intake.OWN
        for anchor, place in self.own.items():
            kept = []
            for i in place:
                left -= len(self.given[i].text)
                if left >= 0:
                    kept.append(i)
            self.own[anchor] = kept
        if left < 0:
            self.notes.append(f"Own cells beyond {intake.OWN:,} characters were left out.")

    def _made(self, anchor: str | None) -> list[NotebookNode]:
        made = []
        for i in self.own.get(anchor, ()):
            new = new_code_cell if self.given[i].code else new_markdown_cell
            made.append(new(self.given[i].text, id=f"own-{i}"))
            if self.given[i].pictures:
                made[-1].attachments = from_dict(self.given[i].pictures)
        return made


def _read(check: NotebookNode) -> set[str]:
    """What a released check reads; its metadata says so where its cell is a call."""
    said = check.metadata.get("course", {}).get("reads", ())
    try:
        return {*said} or free_names(check.source) - defined(check.source) - BUILTINS
    except SyntaxError:
        return set()
