"""Grades as Gradescope reads them: `nbgrader export --exporter=autograder.lms.gradescope.Gradescope --to=gradescope`.

For each submission <to>/<assignment>/<student>/results.json, the file that an autograder of Gradescope leaves; the format is at
https://gradescope-autograders.readthedocs.io/en/latest/specs/
"""

import json
from collections import Counter
from pathlib import Path
from string import ascii_lowercase

import nbformat
from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory
from nbgrader.plugins import ExportPlugin

from autograder.grading.class_summary import complaints, number_of, plain, titles
from autograder.making.exercises import meta
from autograder.making.in_process_grading import exercise_of

from .canvas import chosen, score, submissions

VISIBILITY = "after_published"  # students see it when the instructor publishes the grades


class Gradescope(ExportPlugin):
    """A results.json for each submission: points and what the checks said, and neither source nor values of a hidden test."""

    def export(self, gradebook: Gradebook) -> None:
        course = CourseDirectory(parent=self)
        assignments, students = chosen(self, gradebook)
        for a in assignments:
            sent = submissions(gradebook, a)
            for student in (s.id for s in students if s.id in sent):
                if Path(student).name != student or student == "..":
                    self.log.error(f"{student!r} cannot be the name of a folder, so it has no results.json.")
                    continue
                graded = Path(course.root, course.format_path(course.autograded_directory, student, a.name))
                to = Path(self.to or "gradescope", a.name, student, "results.json")
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_text(json.dumps(results(sent[student], graded), indent=1) + "\n", encoding="utf-8")


def results(submission, graded: Path) -> dict:
    """One submission in Gradescope's format.

    graded  the folder of the graded notebooks
    """
    notebooks = {n.name: read(graded / f"{n.name}.ipynb") for n in submission.notebooks}
    said = [" ".join(c.source.split()) for nb in notebooks.values() for c in nb.cells if c.get("id") == "not-graded"]
    said = [plain(text.replace("**", ""), 1000) for text in said]
    if submission.late_submission_penalty:
        said.append(f"Late: {submission.late_submission_penalty:g} points taken off.")
    return {
        "score": score(submission),
        "output": "\n".join(said),
        "output_format": "text",
        "visibility": VISIBILITY,
        "stdout_visibility": "hidden",
        "tests": [test for n in submission.notebooks for test in tests(n, notebooks[n.name])],
    }


def read(path: Path):
    """A graded notebook; one without cells where there is none, as after a gradebook was moved."""
    try:
        return nbformat.v4.reads(path.read_text(encoding="utf-8"))  # our own, so it is not validated again
    except (OSError, ValueError):
        return nbformat.v4.new_notebook()


def tests(notebook, nb) -> list[dict]:
    """An entry for each graded cell, in the order of the notebook; last come those that it has not."""
    at = {m["grade_id"]: i for i, c in enumerate(nb.cells) if (m := meta(c)).get("grade_id")}
    names, comments = titles(nb), {c.name: c.comment for c in notebook.comments}
    several, times = Counter(number_of(exercise_of(g.name)) for g in notebook.grades), Counter()
    found = []
    for one in sorted(notebook.grades, key=lambda g: (at.get(g.name, len(nb.cells)), g.name)):
        exercise = exercise_of(one.name)
        number = number_of(exercise)
        outputs = nb.cells[at[one.name]].get("outputs", []) if one.name in at else []
        lines = [plain(line, 1000) for line in complaints(outputs)]
        if one.needs_manual_grade:
            lines.append("A person still has to look at this one.")
        if comment := comments.get(one.name):
            lines.append(f"Comment: {plain(comment, 10_000)}")
        part = f"{number}{ascii_lowercase[times[number]]}" if several[number] > 1 else number
        times[number] += 1
        entry = {
            "name": f"Exercise {part}" + (f": {plain(names[number])}" if number in names else ""),
            "number": part,
            "score": one.score or 0.0,
            "max_score": one.max_score,
            "output": "\n".join(lines),
            "output_format": "text",
            "visibility": VISIBILITY,
        }
        if not one.needs_manual_grade:
            entry["status"] = "passed" if entry["score"] >= one.max_score else "failed"
        found.append(entry)
    return found
