"""Grades as Canvas imports them: `nbgrader export --exporter=autograder.canvas.Canvas --to=canvas.csv`."""

import csv

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.plugins import ExportPlugin

FIXED = ("Student", "ID", "SIS Login ID", "Section")


class Canvas(ExportPlugin):
    """A row for each student and a column for each assignment, after a row with the points possible.

    Canvas matches a student by `ID` (nbgrader's lms_user_id) or by `SIS Login ID` (nbgrader's student id).
    It makes a column that it lacks.
    An assignment that was not handed in stays empty, which Canvas reads as "no grade yet".
    """

    def export(self, gradebook: Gradebook) -> None:
        wanted = [a for a in gradebook.assignments if not self.assignment or a.name in map(str, self.assignment)]
        students = [s for s in gradebook.students if not self.student or s.id in map(str, self.student)]
        with open(self.to or "canvas.csv", "w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow([*FIXED, *(a.name for a in wanted)])
            table.writerow(["    Points Possible", "", "", "", *(f"{a.max_score:g}" for a in wanted)])
            for s in students:
                name = ", ".join(part for part in (s.last_name, s.first_name) if part) or s.id
                table.writerow(
                    [name, s.lms_user_id or "", s.id, "", *(self._score(gradebook, a.name, s.id) for a in wanted)]
                )

    @staticmethod
    def _score(gradebook: Gradebook, assignment: str, student: str) -> str:
        try:
            submission = gradebook.find_submission(assignment, student)
        except MissingEntry:
            return ""
        return f"{max(0.0, submission.score - submission.late_submission_penalty):g}"
