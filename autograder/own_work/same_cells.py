"""Which cell of a new release is which of the old: exercises get other numbers, cells come, go and change places."""

import re

from nbformat import NotebookNode

from autograder.engine.cell_names import defined, exercise_number
from autograder.grading.rebuild import role
from autograder.grading.written import sections
from autograder.making.exercises import HEADING

Cells = dict[str, NotebookNode]  # by grade_id, else by cell id


def partners(old: Cells, new: Cells) -> dict[str, str]:
    """Cell of the old release -> the same one in the new.

    Cells of nbgrader by their exercise; text and course code by what it says, then by its id, then by what stands beside it.
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
    for step in (1, -1):  # behind a cell that is known, then in front of one
        olds, news = [*old][::step], [*new][::step]
        for before, key in zip(olds, olds[1:]):
            if key not in found and not role(old[key]) and before in found:
                at = news.index(found[before]) + 1
                pair(key, news[at] if at < len(news) else None)
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
