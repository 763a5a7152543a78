"""Grade your own notebooks with the full tests: `python -m autograder.grade_own [ch01_rooflines …]`.

The engine that grades a class does it, or a kernel where this machine has no sandbox: it is your own work.
Nothing is written: neither into the notebooks nor into a gradebook. Nothing is said of what is not begun.
"""

import argparse
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import nbformat

from autograder.engine.bundle import bundle
from autograder.engine.cell_names import exercise_number
from autograder.engine.sandbox import Limits, available
from autograder.grading.class_summary import Result, table
from autograder.making.exercises import meta
from helpers.check.progress import Standing, total

from .grading import intake, one_submission
from .making import in_process_grading
from .places import NOTEBOOK, ROOT, SourceError, Tree


def own_notebooks(tree: Tree) -> dict[str, Path]:
    """Topic -> the learner's notebook: the copy in work/ if there is one, else that in notebooks/."""
    found = {}
    for path in tree.exercises:
        copy = tree.root / "work" / path.stem / f"{NOTEBOOK}.ipynb"
        here = copy if copy.is_file() else tree.released(path.stem)
        if here.is_file():
            found[path.stem] = here
    return found


@dataclass(frozen=True)
class Own:
    """A learner's notebook of one assignment, as it stands.

    points  grade_id of a check -> what it can give
    begun   whether an answer is not as it was given, or somebody has asked for this assignment
    """

    topic: str
    path: Path
    points: dict[str, float]
    begun: bool

    @classmethod
    def of(cls, topic: str, path: Path, released: Path, asked: bool) -> "Own":
        from nbgrader.utils import compute_checksum, is_grade, is_solution

        cells = nbformat.read(released if released.is_file() else path, as_version=4).cells
        points = {m["grade_id"]: m["points"] for c in cells if is_grade(c) and not is_solution(c) for m in [meta(c)]}
        try:
            there = [c for c in nbformat.read(path, as_version=4).cells if is_solution(c)]
            empty = {meta(c)["grade_id"] for c in there if meta(c).get("checksum") == compute_checksum(c)}
        except Exception:  # of many kinds; the grader reads it too, and says what is wrong
            empty = set()
        answers = {meta(c)["grade_id"] for c in cells if is_solution(c)}
        return cls(topic, path, points, begun=asked or not answers <= empty)


def assignment(topic: str, tree: Tree, timeout: int | None = None) -> one_submission.Assignment:
    """An assignment made from its source, hidden tests included; nothing needs to be released."""
    full = in_process_grading.solved(topic, tree)
    walls = available().refusal is None
    return one_submission.Assignment(
        topic,
        nbformat.writes(in_process_grading.blank(full), version=4),
        bundle(full),
        "0",
        Limits(),
        walls,
        timeout or 60,
    )


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


def row(topic: str, path: Path, tree: Tree, timeout: int | None = None) -> tuple[Result, list[str], list[Standing]]:
    """A learner's row for the exercises begun, what the checks said where points are missing, and what is won of each."""
    from nbgrader.utils import determine_grade

    wanted = assignment(topic, tree, timeout)
    try:
        found = one_submission.graded(wanted, one_submission.Job(topic, intake.read(path.parent)))
    except intake.Refused as e:
        raise SourceError(f"{path.relative_to(tree.root)}: {e}") from None
    if found.why:
        raise SourceError(f"{path.relative_to(tree.root)}: {found.why}")
    # Changes of a check cell are no news: the full tests always differ from the released ones.
    result, said, judged = Result(topic, notes=[n for n in found.notes if "was changed" not in n]), [], []
    begun = set()
    empty = {c.id: c.source for c in nbformat.reads(wanted.released, as_version=4).cells}
    for cell in nbformat.reads(found.notebook, as_version=4).cells:
        m = meta(cell)
        if not m.get("grade"):
            continue
        exercise = in_process_grading.exercise_of(m["grade_id"])
        if m.get("solution"):  # a text, for which no check can give points; nor do the notebook's own totals count it
            if cell.source != empty[cell.id]:
                result.notes.append(f"{exercise} is graded by a person and not counted here")
            continue
        got, most = determine_grade(cell)
        if got < most:
            outputs = cell.get("outputs", [])
            told = [o.text.strip() for o in outputs if o.output_type == "stream"]
            told += [f"{m['grade_id']}: {o.ename}: {o.evalue}" for o in outputs if o.output_type == "error"]
            if all(map(not_begun, told)):
                told = []
            else:
                begun.add(exercise)
            said += told
        else:
            begun.add(exercise)
        judged.append((m["grade_id"], got, most))
        before = result.scores.get(exercise, (0.0, 0.0))
        result.scores[exercise] = (before[0] + got, before[1] + most)
    result.scores = {exercise: score for exercise, score in result.scores.items() if exercise in begun}
    return result, said, standings(judged)


def report(own: Own, tree: Tree) -> tuple[str, list[Standing]]:
    """What there is to say of one assignment, its total first, and what is won of each exercise."""
    result, said, stands = row(own.topic, own.path, tree)
    parts = [own.path.relative_to(tree.root).as_posix()]
    if result.scores or result.notes:
        parts.append(table([result], "assignment"))
    return "\n".join([*([total(stands, after="")] if stands else []), *parts, *(["", *said] if said else [])]), stands


def main(argv: list[str] | None = None, tree: Tree | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m autograder.grade_own", description=__doc__.split("\n")[0])
    parser.add_argument("assignment", nargs="*", help="default: all")
    wanted = parser.parse_args(argv).assignment
    tree = tree or Tree(ROOT)
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
        topics = wanted or found
        return check([Own.of(topic, found[topic], tree.released(topic), bool(wanted)) for topic in topics], tree)
    except SourceError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        one_submission.close()


def check(every: list[Own], tree: Tree) -> int:
    """Grade what is begun and say it, the total first; 1 if a notebook could not be graded, which stops no other."""
    if any(own.begun for own in every) and (why := available().refusal):
        print(f"{why} {WITHOUT_WALLS}\n", file=sys.stderr, flush=True)
    reports, stands, failed = [], [], []
    for own in every:
        standing = standings((grade_id, 0, points) for grade_id, points in own.points.items())
        if own.begun:
            print(f"Checking {own.path.relative_to(tree.root)} …", file=sys.stderr, flush=True)
            try:
                said, standing = report(own, tree)
                reports.append(said)
            except SourceError as error:
                failed.append(str(error))
        stands += standing
    if stands and (len(every) > 1 or not reports):
        reports.insert(0, total(stands, "In all" if len(every) > 1 else "", after=""))
    print(*reports, sep="\n\n")
    for why in failed:
        print(why, file=sys.stderr)
    return 1 if failed else 0


WITHOUT_WALLS = "So your notebooks run as you do: somebody else's could read and change your files. Ctrl+C stops it."


if __name__ == "__main__":
    sys.exit(main())
