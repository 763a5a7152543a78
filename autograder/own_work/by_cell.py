"""A learner's copy becomes that of a new release, as the grader rebuilds a submission; of what the learner wrote nothing is lost."""

import re
import uuid
from copy import deepcopy
from dataclasses import replace

from nbformat import NotebookNode, from_dict
from nbformat.v4 import new_markdown_cell
from nbgrader.utils import compute_checksum

from autograder.engine.cell_names import defined, exercise_number, key_of
from autograder.grading import intake
from autograder.grading.rebuild import Rebuilding, role
from autograder.grading.written import fenced, sections
from autograder.making.exercises import HEADING
from helpers.check import progress

Cells = dict[str, NotebookNode]  # by grade_id, else by cell id


def keyed(nb: NotebookNode) -> Cells:
    return {key_of(c): c for c in nb.cells}


def read(nb: NotebookNode) -> list[intake.Cell]:
    """A copy's cells as the grader reads them, but whole: in one's own work nothing is too long."""
    cells = intake.cells({"cells": [*nb.cells]}, most=len(nb.cells))
    return [replace(c, text=r.source, pictures={}, left_out=()) for c, r in zip(cells, nb.cells, strict=True)]


def as_released(cell: NotebookNode) -> bool:
    """Whether an answer or a locked cell is as some release had it, as its checksum says."""
    marked = cell.metadata.get("nbgrader")
    try:
        return bool(marked) and marked.get("checksum") == compute_checksum(cell)
    except (AttributeError, KeyError, TypeError, ValueError):
        return False


def brought(copy: NotebookNode, old: NotebookNode | None, new: NotebookNode) -> tuple[NotebookNode, list[str]]:
    """The new release with the learner's work in it, and a sentence for each thing that did not simply stay.

    old  the release that the copy was made from; None if nobody knows: then text is left as it is in the copy
    """
    update = Update(copy, old or new, new)
    return update.done(), update.notes


class Update:
    """One copy on its way into a new release."""

    def __init__(self, copy: NotebookNode, old: NotebookNode, new: NotebookNode):
        self.copy, self.release, self.old, self.new = copy, new, keyed(old), keyed(new)
        self.to, self.sections = partners(self.old, self.new), sections(self.old)
        self.cells: list[intake.Cell] = []
        self.raw: list[NotebookNode] = []
        self.notes: list[str] = []
        self.changed: list[str] = []  # numbers of exercises whose empty answer says something else now

    def done(self) -> NotebookNode:
        cells = read(self.copy)
        names = Rebuilding(self.old, cells).names
        for cell, raw, name in zip(cells, self.copy.cells, names, strict=True):
            self._sort(cell, raw, name)
        lacking = {self.to[k] for k in self.old if k in self.to and k not in names}
        nb = deepcopy(self.release)
        nb.metadata = from_dict({**self.copy.metadata, **self.release.metadata})  # what widgets kept stays
        placed = Placed(nb, self.cells, self.raw, lacking)
        nb.cells = placed.done()
        self.notes += placed.notes
        if self.changed:
            *most, last = dict.fromkeys(self.changed)
            which = f"exercises {', '.join(most)} and {last}" if most else f"exercise {last}"
            said = f"The course has changed what it gives for {which}; what you wrote stays, and notebooks/ has what is given now."
            self.notes.append(said)
        if left := self._absent(nb):
            nb.cells += [own(c, nb) for c in left]
            self.notes.append("What found no place any more stands at the end of the notebook.")
        unique(nb)
        return nb

    def _sort(self, cell: intake.Cell, raw: NotebookNode, name: str | None) -> None:
        """One cell of the copy under its name in the new release, as the learner's own, or not at all."""
        if name is None:
            return self._put(cell, raw)
        to, old = self.to.get(name), self.old[name]
        new = self.new[to] if to else None
        if cell.text in (old.source, new and new.source) or as_released(raw):
            if new:
                self._put(self._named(cell, to, new.source), raw)
            return None
        where = self._where(name)
        if new is None:
            self._put(replace(cell, grade_id=None, id=None), own(raw, self.copy))
            other = progress.REPLACED_BY.get(self.sections[name])
            now = f"; exercise {progress.current_number(other)} replaces it" if other else ""
            self.notes.append(
                f"The course has left out {where}{now}; what you wrote there stays as a cell of your own."
            )
        elif role(new) == "answer" or role(new) is None and new.source == old.source:
            if new.source != old.source:
                self.changed.append(self.sections[name])
            self._put(self._named(cell, to, cell.text), raw)
        else:
            self._put(self._named(cell, to, new.source), raw)
            kept = shown(raw) if role(new) else own(raw, self.release)
            self._put(intake.Cell(kept.cell_type == "code", kept.source, None, None), kept)
            what = "A check or another locked cell" if role(new) else "Text or code of the course"
            self.notes.append(f"{what} in {where} was changed; the course's stands there, and yours below it.")
        return None

    def _put(self, cell: intake.Cell, raw: NotebookNode) -> None:
        self.cells.append(cell)
        self.raw.append(raw)

    def _named(self, cell: intake.Cell, to: str, text: str) -> intake.Cell:
        return replace(cell, grade_id=to if role(self.new[to]) else None, id=self.new[to].id, text=text)

    def _where(self, name: str) -> str:
        number = self.sections[name]
        return f"exercise {number}" if number else f'"{name.replace("-", " ")}"'

    def _absent(self, nb: NotebookNode) -> list[NotebookNode]:
        """Cells of the copy whose text is neither the course's nor in the result."""
        course = {c.source for c in (*self.old.values(), *self.new.values())}
        return [c for c in self.copy.cells if c.source not in course and not as_released(c) and not held(c, nb)]


class Placed(Rebuilding):
    """The grader's way of putting cells into a release, for a copy that goes on being worked in.

    Nothing is cut, nothing is moved for a grader's eyes, and own cells stay as they are, with what they printed.
    """

    def __init__(self, release: NotebookNode, given: list[intake.Cell], raw: list[NotebookNode], lacking: set[str]):
        """lacking  cells of the release that the learner had and deleted"""
        super().__init__(keyed(release), given)
        self.raw, self.lacking, self.into_nb = raw, lacking, release

    def done(self) -> list[NotebookNode]:
        self._place()
        self._adopt()
        self.notes += [f"The cell {k} was missing; it was put back." for k in self.released if self._gone(k)]
        for key, i in self._counting().items():
            printed(self.released[key], self.raw[i])
        for cell in self.released.values():
            cell.metadata.pop("released", None)
        return self.ordered()

    def _gone(self, key: str) -> bool:
        return key in self.lacking and bool(role(self.released[key]))

    def _adopt(self) -> None:
        """Answers that were written elsewhere because the cell for them had been deleted."""
        for key, cell in self.released.items():
            if self._gone(key) and role(cell) == "answer" and cell.cell_type == "code" and self._wanted(key):
                self._adopted(key, self._wanted(key))

    def _made(self, anchor: str | None) -> list[NotebookNode]:
        return [own(self.raw[i], self.into_nb) for i in self.own.get(anchor, ())]


def printed(cell: NotebookNode, before: NotebookNode) -> None:
    """What a cell had printed, and pictures pasted into it, if it says what it said."""
    if cell.source == before.source and cell.cell_type == before.cell_type:
        for what in ("outputs", "execution_count", "attachments"):
            if what in before:
                cell[what] = deepcopy(before[what])


def own(cell: NotebookNode, nb: NotebookNode) -> NotebookNode:
    """A cell as one of the learner's own, for a notebook: of no concern to nbgrader, free to be changed, with an id of its own."""
    cell = deepcopy(cell)
    if cell.id in {c.id for c in nb.cells}:
        cell.id = uuid.uuid4().hex[:8]
    for name in ("nbgrader", "deletable", "editable"):
        cell.metadata.pop(name, None)
    return cell


def shown(cell: NotebookNode, above: str = "") -> NotebookNode:
    """A cell's text as text, so that it is there and does not run."""
    text = fenced(cell.source) if cell.cell_type == "code" else cell.source
    made = new_markdown_cell(f"{above}\n\n{text}".strip())
    if "attachments" in cell:
        made.attachments = deepcopy(cell.attachments)
    return made


def held(cell: NotebookNode, nb: NotebookNode) -> bool:
    """Whether a notebook has a cell's text, as a cell or shown in one."""
    text = cell.source.strip()
    return not text or any(
        c.source.strip() == text or c.source.strip().endswith((f"\n\n{text}", fenced(cell.source))) for c in nb.cells
    )


def unique(nb: NotebookNode) -> None:
    """No id twice, as where a cell of one's own was copied."""
    taken = set()
    for cell in nb.cells:
        if cell.id in taken:
            cell.id = uuid.uuid4().hex[:8]
        taken.add(cell.id)


def joined(mine: NotebookNode, other: NotebookNode, release: NotebookNode) -> list[str]:
    """Put into `mine` what a second copy of the same release has and it lacks; a sentence for each answer that differs.

    What is empty in `mine` is filled. Another answer to the same exercise stands below the first, as text.
    """
    course, notes = keyed(release), []
    place = {n: c for c, n in zip(mine.cells, Rebuilding(course, read(mine)).names, strict=True) if n}
    anchor, numbers = None, sections(course)
    for cell, name in zip(other.cells, Rebuilding(course, read(other)).names, strict=True):
        here = place.get(name)
        anchor = here or anchor
        if name and cell.source == course[name].source:
            if here is not None and not here.get("outputs"):
                printed(here, cell)
            continue
        if held(cell, mine):
            continue
        if here is not None and here.source == course[name].source and role(here) != "locked":
            here.source = cell.source
            printed(here, cell)
            continue
        extra = own(cell, mine)
        if name:
            said = f"*Another version, of {f'exercise {numbers[name]}' if numbers[name] else 'the cell above'}:*"
            extra = shown(cell, said)
            notes.append(
                f"There were two versions of {numbers[name] or name}; the second stands below the first, as text."
            )
        mine.cells.insert(next((i for i, c in enumerate(mine.cells, 1) if c is anchor), 0), extra)
        anchor = extra
    unique(mine)
    return notes


# Which cell of a new release is which of the old: exercises get other numbers, cells come, go and change places.


def partners(old: Cells, new: Cells) -> dict[str, str]:
    """Cell of the old release -> the same one in the new.

    Cells of nbgrader by their exercise; text and course code by what it says, then by its id.
    """
    numbers = same_exercises(old, new)
    found = {}
    for key, cell in old.items():
        to = renumbered(key, numbers)
        if role(cell) and to in new and role(new[to]) == role(cell) and new[to].cell_type == cell.cell_type:
            found[key] = to
    plain = [k for k, c in old.items() if not role(c)]
    free = {k: c for k, c in new.items() if not role(c)}

    def pair(key: str, to: str | None) -> None:
        if to in free and free[to].cell_type == old[key].cell_type:
            found[key] = to
            del free[to]

    alike: dict[str, list[str]] = {}
    for key, cell in free.items():
        alike.setdefault(cell.source, []).append(key)
    for key in plain:
        if same := alike.get(old[key].source):
            pair(key, same.pop(0))
    for key in plain:
        if key not in found:
            pair(key, key)
    return found


def renumbered(key: str, numbers: dict[str, str]) -> str | None:
    """A grade_id under the number that its exercise has now; None for an exercise that is gone.

    >>> renumbered("ch01-q04-check", {"1.4": "1.5"}), renumbered("ch01-setup", {}), renumbered("ch01-q04", {})
    ('ch01-q05-check', 'ch01-setup', None)
    """
    number = exercise_number(key)
    if not number:
        return key
    if number not in numbers:
        return None
    chapter, exercise = map(int, numbers[number].split("."))
    return re.sub(r"^ch\d+-q\d+", f"ch{chapter:02}-q{exercise:02}", key)


def same_exercises(old: Cells, new: Cells) -> dict[str, str]:
    """Number of an exercise -> its number in the new release: by title, by number, by what its answer is to define."""
    a, b, found = _exercises(old), _exercises(new), {}

    def pair(fits) -> None:
        for x in [x for x in a if x not in found]:
            if y := next((y for y in b if y not in found.values() and fits(x, y)), None):
                found[x] = y

    pair(lambda x, y: a[x][0] == b[y][0])
    pair(lambda x, y: x == y and (a[x][1] & b[y][1] or not (a[x][1] and b[y][1])))
    pair(lambda x, y: a[x][1] and a[x][1] == b[y][1])
    return found


def _exercises(cells: Cells) -> dict[str, tuple[str, set[str]]]:
    """Number -> title, and names that the empty answers define."""
    titles = {f"{m[1]}.{m[2]}": m[3] for c in cells.values() if (m := HEADING.search(c.source))}
    names: dict[str, set[str]] = {number: set() for number in titles}
    for key, number in sections(cells).items():
        if number and role(cells[key]) == "answer" and cells[key].cell_type == "code":
            names[number] |= defined(cells[key].source)
    return {number: (title, names[number]) for number, title in titles.items()}
