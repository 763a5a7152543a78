"""Grade your own notebooks with the full tests: `python -m autograder.grade_own [ch01_rooflines …]`.

The engine that grades a class does it, or a kernel where this machine has no sandbox: it is your own work.
Nothing is written: neither into the notebooks nor into a gradebook. Nothing is said of what is not begun.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.engine.bundle import bundle
from autograder.engine.cell_names import exercise_number
from autograder.engine.sandbox import Limits, available
from autograder.grading.class_summary import Result, table
from autograder.making.exercises import meta
from helpers.check.progress import Standing, total

from .grading import intake, one_submission
from .making import in_process_grading
from .places import NOTEBOOK, ROOT, SourceError, Tree

WITHOUT_WALLS = "So your notebooks run as you do: somebody else's could read and change your files. Ctrl+C stops it."


def own_notebooks(tree: Tree) -> dict[str, Path]:
    """Topic -> the learner's notebook: the copy in work/ if there is one, else that in notebooks/."""
    found = {}
    for path in tree.exercises:
        copy = tree.root / "work" / path.stem / f"{NOTEBOOK}.ipynb"
        here = copy if copy.is_file() else tree.released(path.stem)
        if here.is_file():
            found[path.stem] = here
    return found


def is_begun(path: Path, given: list[NotebookNode]) -> bool:
    """Whether an answer is not as it was given; so too of a notebook that cannot be read, for the grader says why."""
    from nbgrader.utils import compute_checksum

    try:
        there = [(meta(c), c) for c in nbformat.read(path, as_version=4).cells if meta(c).get("solution")]
        empty = {m["grade_id"] for m, c in there if m.get("checksum") == compute_checksum(c)}
    except Exception:  # of many kinds
        empty = set()
    return not {meta(c)["grade_id"] for c in given if meta(c).get("solution")} <= empty


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


def row(topic: str, path: Path, tree: Tree) -> tuple[Result, list[str], list[Standing]]:
    """A learner's row for the exercises begun, what the checks said where points are missing, and what is won of each.

    The assignment is made from its source, hidden tests included; nothing needs to be released.
    """
    from nbgrader.utils import determine_grade

    full = in_process_grading.solved(topic, tree)
    blank = in_process_grading.blank(full)
    walls = available().refusal is None
    released = nbformat.writes(blank, version=4)
    wanted = one_submission.Assignment(topic, released, bundle(full), "0", Limits(), walls)
    try:
        found = one_submission.graded(wanted, one_submission.Job(topic, intake.read(path.parent)))
    except intake.Refused as e:
        raise SourceError(f"{path.relative_to(tree.root)}: {e}") from None
    if found.why:
        raise SourceError(f"{path.relative_to(tree.root)}: {found.why}")
    empty, cells = {c.id: c.source for c in blank.cells}, nbformat.reads(found.notebook, as_version=4).cells
    answered = [meta(c) for c in cells if meta(c).get("solution") and c.source != empty[c.id]]
    begun = {in_process_grading.exercise_of(m["grade_id"]) for m in answered if not m.get("grade")}
    # Changes of a check cell are no news: the full tests always differ from the released ones.
    result, said, judged = Result(topic, notes=[n for n in found.notes if "was changed" not in n]), [], []
    for m in answered:
        if m.get("grade"):  # a text, for which no check can give points; nor do the notebook's own totals count it
            exercise = in_process_grading.exercise_of(m["grade_id"])
            result.notes.append(f"{exercise} is graded by a person and not counted here")
    for cell, m in ((c, meta(c)) for c in cells if meta(c).get("grade") and not meta(c).get("solution")):
        exercise, (got, most) = in_process_grading.exercise_of(m["grade_id"]), determine_grade(cell)
        judged.append((m["grade_id"], got, most))
        if exercise not in begun:
            continue
        before = result.scores.get(exercise, (0.0, 0.0))
        result.scores[exercise] = before[0] + got, before[1] + most
        for output in cell.get("outputs", []) if got < most else ():
            if output.output_type == "stream":
                said.append(output.text.strip())
            elif output.output_type == "error":  # what is left are the points
                said.append(f"{m['grade_id']}: {output.ename}: {output.evalue}")
    return result, said, standings(judged)


def main(argv: list[str] | None = None, tree: Tree | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m autograder.grade_own", description=__doc__.split("\n")[0])
    parser.add_argument("assignment", nargs="*", help="default: all")
    wanted, tree = parser.parse_args(argv).assignment, tree or Tree(ROOT)
    try:
        found = own_notebooks(tree)
        if missing := [w for w in wanted if w not in found]:
            raise SourceError(f'There is no notebook of "{missing[0]}"; there are: {", ".join(found) or "none"}.')
        if not tree.exercises:
            raise SourceError(
                "This copy of the course has no hidden tests: the checks in your notebooks are all that can be asked here."
            )
        if not found:
            raise SourceError("There is no notebook of exercises under work/ or notebooks/: run `make release`.")
        return check({topic: found[topic] for topic in wanted or found}, bool(wanted), tree)
    except SourceError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        one_submission.close()


def check(notebooks: dict[str, Path], asked: bool, tree: Tree) -> int:
    """Grade what is begun, or was asked for, and say it, the total first; 1 if a notebook could not be graded, which stops no other."""
    reports, stands, failed = [], [], []
    for topic, path in notebooks.items():
        name, released = path.relative_to(tree.root).as_posix(), tree.released(topic)
        given = nbformat.read(released if released.is_file() else path, as_version=4).cells
        checks = [m for m in map(meta, given) if m.get("grade") and not m.get("solution")]
        won = standings((m["grade_id"], 0, m["points"]) for m in checks)
        if asked or is_begun(path, given):
            if not (reports or failed) and (why := available().refusal):
                print(f"{why} {WITHOUT_WALLS}\n", file=sys.stderr, flush=True)
            print(f"Checking {name} …", file=sys.stderr, flush=True)
            try:
                result, said, won = row(topic, path, tree)
                shown = [table([result], "assignment")] if result.scores or result.notes else []
                first = [total(won, exercise="")] if won else []
                reports.append("\n".join([*first, name, *shown, *(["", *said] if said else [])]))
            except SourceError as error:
                failed.append(str(error))
        stands += won
    if stands and (len(notebooks) > 1 or not reports):
        reports.insert(0, total(stands, "In all" if len(notebooks) > 1 else "", exercise=""))
    print(*reports, sep="\n\n")
    for why in failed:
        print(why, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
