"""Grade your own notebooks with the full tests: `python -m autograder.grade_own [ch01_rooflines …]`.

The engine that grades a class does it, or a kernel where this machine has no sandbox: it is your own work.
Nothing is written: neither into the notebooks nor into a gradebook.
"""

import argparse
import sys
from pathlib import Path

import nbformat

from autograder.engine.run_submission import bundle
from autograder.engine.sandbox import Limits, available
from autograder.grading.class_summary import Result, table
from autograder.grading.validate import not_begun, standings
from autograder.making.exercises import meta
from helpers.check.standing import Standing, total

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


def row(topic: str, path: Path, tree: Tree, timeout: int | None = None) -> tuple[Result, list[str], list[Standing]]:
    """A learner's row for one assignment, what the checks said where points are missing, and what is won of each exercise."""
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
            said += [o.text.strip() for o in outputs if o.output_type == "stream"]
            said += [f"{m['grade_id']}: {o.ename}: {o.evalue}" for o in outputs if o.output_type == "error"]
        judged.append((m["grade_id"], got, most))
        before = result.scores.get(exercise, (0.0, 0.0))
        result.scores[exercise] = (before[0] + got, before[1] + most)
    return result, said, standings(judged)


def _shortened(said: list[str]) -> list[str]:
    """Exercises that nobody has begun in one line.

    >>> _shortened(["Exercise 1.1: 0 of 2 points\\n  f is not done yet.", "Exercise 1.2: 0 of 1 points\\n  too large."])
    ['Not done yet: 1.1.', 'Exercise 1.2: 0 of 1 points\\n  too large.']
    """
    begun, open_ = [], {}
    for text in said:
        if exercise := not_begun(text):
            open_[exercise] = None
        else:
            begun.append(text)
    return ([f"Not done yet: {', '.join(open_)}."] if open_ else []) + begun


def main(argv: list[str] | None = None, tree: Tree | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m autograder.grade_own", description=__doc__.split("\n")[0])
    parser.add_argument("assignment", nargs="*", help="default: all")
    wanted = parser.parse_args(argv).assignment
    tree = tree or Tree(ROOT)
    try:
        found = own_notebooks(tree)
        if missing := [w for w in wanted if w not in found]:
            raise SourceError(f'There is no notebook of "{missing[0]}"; there are: {", ".join(found) or "none"}.')
        if not found:
            raise SourceError("There is no notebook of exercises under work/ or notebooks/: run `make release`.")
        every = []
        for topic in wanted or found:
            result, said, stands = row(topic, found[topic], tree)
            print(found[topic].relative_to(tree.root).as_posix())
            print(table([result], "assignment"), end="\n\n")
            print("\n".join(_shortened(said)), end="\n\n")
            every.append(stands)
        print("\n".join(total(stands) for stands in every if stands))
        if len(every) > 1:
            print(total([s for stands in every for s in stands], "In all"))
    except SourceError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        one_submission.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
