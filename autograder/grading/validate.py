"""Validate in JupyterLab, and `nbgrader validate`: the score first, then what fails, by its first line; what is not begun has not failed.

nbgrader repeats each cell, which here holds a page of mistakes to look for, under a heading that says "failed", also where nobody
has begun. Its dialog has no other place for a score than such an entry, so a style hides the headings.
"""

import re

from nbgrader.utils import determine_grade, is_grade, is_solution
from nbgrader.validator import Validator

from autograder.engine.cell_names import exercise_number

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


def score_first() -> None:
    """Change what nbgrader says; what it runs and decides stays its own."""
    if getattr(Validator.validate, "ours", False):
        return
    stock, failed_cells = Validator.validate, Validator._get_failed_cells
    print_error, print_number = Validator._print_error, Validator._print_num_failed

    def counted(self, nb):
        grades = [determine_grade(cell, self.log) for cell in nb.cells if is_grade(cell)]
        self._score = sum(g or 0 for g, _ in grades), sum(m for _, m in grades)
        self._texts = {
            c.source.strip(): exercise_number(c.metadata.nbgrader.grade_id)
            for c in nb.cells
            if is_solution(c) and is_grade(c)
        }
        return failed_cells(self, nb)

    def validate(self, filename):
        results = stock(self, filename)
        if failed := results.get("failed"):
            results["failed"] = _told(failed, *self._score, self._texts)
        return results

    def printed(self, source, error):
        if error:
            return print_error(self, source, error)
        self.stream.write("\n" + "=" * self.width + f"\n{source}\n\n")

    def number(self, n):  # the score is one of them
        if n == 1:
            self.stream.write("Nothing that is begun fails.\n")
        else:
            print_number(self, max(0, n - 1))

    validate.ours = True
    Validator.validate, Validator._get_failed_cells = validate, counted
    Validator._print_error, Validator._print_num_failed = printed, number


def _told(failed: list[dict], earned: float, points: float, texts: dict[str, str]) -> list[dict]:
    """An entry with the score and what is not begun, then the others, each by its first line.

    texts   {text of a cell that a person grades: its exercise}

    >>> begun = {"source": "def q2():\\n  a", "error": "too large", "raw_error": "too large"}
    >>> stub = {"source": "def q1():", "error": "", "raw_error": "Exercise 1.1: 0 of 2 points\\n  f is not done yet."}
    >>> [entry["source"] for entry in _told([stub, begun], 3.0, 6.0, {})]
    ['3 of 6 points. Not begun: 1.1.', 'def q2():']
    """
    open_ = {id(f): name for f in failed if (name := not_begun(f.get("raw_error", "")) or texts.get(f["source"]))}
    later = f" Not begun: {', '.join(dict.fromkeys(open_.values()))}." if open_ else ""
    others = [f for f in failed if id(f) not in open_]
    for f in others:
        f["source"] = f["source"].split("\n", 1)[0]
        for key in ("error", "raw_error"):
            if key in f:
                f[key] = f[key].replace(PARTLY, "Part of the points; run the cell to see why")
    return [{"source": f"{earned:g} of {points:g} points.{later}", "error": NO_HEADINGS, "raw_error": ""}, *others]
