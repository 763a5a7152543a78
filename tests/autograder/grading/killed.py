"""A grading in a process of its own, to be killed: `python -m tests.autograder.grading.killed <course> <topic> <workers> <log> [no-pages]`.

It notes in the log which job it hands out, with "all", "some" or "no" checks to run.
"""

import sys
from pathlib import Path

from autograder import grade
from autograder.grading import feedback_pages


def main(root: str, topic: str, workers: str, log: str, pages: str = "pages") -> None:
    pool = grade.pool
    if pages == "no-pages":  # nbgrader makes them, a second each
        feedback_pages.write_pages = lambda what, students: (page for page in ())  # a generator, which can be closed

    def watched(assignment, where):
        found = pool(assignment, where)
        run = found.run
        found.run = lambda todo: run(noted(todo))
        return found

    def noted(todo):
        for job in todo:
            what = "all" if job.only is None else "some" if job.only else "no"
            with open(log, "a") as f:
                f.write(f"{job.student} {what}\n")
            yield job

    grade.pool = watched
    what = grade.Class(topic, Path(root), timeout=8)
    with grade.alone(what):
        grade.grade(what, workers, progress=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
