"""Validate in JupyterLab, and `nbgrader validate`: where one stands, then what fails, by its first line; what is not begun has not failed.

nbgrader repeats each cell, which here holds a page of mistakes to look for, under a heading that says "failed", also where nobody
has begun. Its dialog has no other place for a score than such an entry, so a style hides the headings.
"""

import re
from collections.abc import Iterable

from nbgrader.utils import determine_grade, is_grade, is_solution
from nbgrader.validator import Validator

from autograder.engine.cell_names import exercise_number
from helpers.check.progress import Standing, total

NO_HEADINGS = "<style>#validation-message p { display: none }</style>"
PARTLY = "Partial credit; passed some but not all of the tests"


def not_begun(said: str) -> str | None:
    """The exercise of a check that says nothing but that its answer is not there yet.

    >>> not_begun("Exercise 1.1: 0 of 2 points\\n  f is not done yet.")
    '1.1'
    >>> not_begun("Exercise 1.2: 0 of 1 points\\n  too large.")
    """
    first = re.match(r"Exercise (\S+): 0 of", said.strip())
    lines = said.strip().splitlines()[1:]
    return first[1] if first and lines and all(line.endswith("not done yet.") for line in lines) else None


def standings(grades: Iterable[tuple[str, float, float]]) -> list[Standing]:
    """Where somebody stands with each exercise, from (grade id, points won, points) of its checks, in order.

    >>> standings([("ch01-q01-check", 1, 1), ("ch01-q02-a-check", 2, 2), ("ch01-q02-b-check", 0, 1)])[1]
    Standing(number='1.2', points=3, won=2, begun=False)
    """
    found: dict[str, tuple[float, float]] = {}
    for grade_id, won, points in grades:
        before = found.get(number := exercise_number(grade_id), (0, 0))
        found[number] = before[0] + won, before[1] + points
    return [Standing(number, points, won) for number, (won, points) in found.items() if number]


def score_first() -> None:
    """Change what nbgrader says; what it runs and decides stays its own."""
    if getattr(Validator.validate, "ours", False):
        return
    stock, failed_cells = Validator.validate, Validator._get_failed_cells
    print_error, print_number = Validator._print_error, Validator._print_num_failed

    def counted(self, nb):
        judged = [c for c in nb.cells if is_grade(c) and not is_solution(c)]
        grades = [(c.metadata.nbgrader.grade_id, *determine_grade(c, self.log)) for c in judged]
        self._standings = standings((id, won or 0, points) for id, won, points in grades)
        self._texts = {
            c.source.strip(): exercise_number(c.metadata.nbgrader.grade_id)
            for c in nb.cells
            if is_solution(c) and is_grade(c)
        }
        return failed_cells(self, nb)

    def validate(self, filename):
        results = stock(self, filename)
        if failed := results.get("failed"):
            results["failed"] = _told(failed, self._standings, self._texts)
        return results

    def printed(self, source, error):
        if error:
            return print_error(self, source, error)
        self.stream.write("\n" + "=" * self.width + f"\n{source}\n\n")

    def number(self, n):  # the score is one of them, or two
        if n == 1:
            self.stream.write("Nothing that is begun fails.\n")
        else:
            print_number(self, max(0, n - 2))

    validate.ours = True
    Validator.validate, Validator._get_failed_cells = validate, counted
    Validator._print_error, Validator._print_num_failed = printed, number


def _told(failed: list[dict], stands: list[Standing], texts: dict[str, str]) -> list[dict]:
    """An entry with what is won and what is not begun, the others, each by its first line, and what is won once more.

    texts   {text of a cell that a person grades: its exercise}

    >>> begun = {"source": "def q2():\\n  a", "error": "too large", "raw_error": "too large"}
    >>> stub = {"source": "def q1():", "error": "", "raw_error": "Exercise 1.1: 0 of 2 points\\n  f is not done yet."}
    >>> for entry in _told([stub, begun], standings([("ch01-q01-check", 0, 2), ("ch01-q02-check", 3, 4)]), {}):
    ...     print(entry["source"])
    Chapter 1: 3 of 6 points, 0 of 2 exercises passed; next: 1.1. Not begun: 1.1.
    def q2():
    Chapter 1: 3 of 6 points, 0 of 2 exercises passed; next: 1.1.
    """
    open_ = {id(f): name for f in failed if (name := not_begun(f.get("raw_error", "")) or texts.get(f["source"]))}
    later = f" Not begun: {', '.join(dict.fromkeys(open_.values()))}." if open_ else ""
    others = [f for f in failed if id(f) not in open_]
    for f in others:
        f["source"] = f["source"].split("\n", 1)[0]
        for key in ("error", "raw_error"):
            if key in f:
                f[key] = f[key].replace(PARTLY, "Part of the points; run the cell to see why")
    said = total(stands) if stands else "No check is in this notebook."
    last = [{"source": said, "error": NO_HEADINGS, "raw_error": ""}] if others else []
    return [{"source": said + later, "error": NO_HEADINGS, "raw_error": ""}, *others, *last]
