"""Grade your own notebooks with the full tests: `python -m autograder.own [ch01_rooflines …]`.

Nothing is written: neither into the notebooks nor into a gradebook.
"""

import argparse
import re
import sys
import warnings
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from . import course, trial
from .exercises import meta
from .grade import Result, table
from .places import NOTEBOOK, ROOT, SourceError, Tree
from .preprocessors import refusal
from .rebuild import rebuild


def own_notebooks(tree: Tree) -> dict[str, Path]:
    """Topic -> the learner's notebook: a fetched one in work/ if there is one, else that in notebooks/."""
    found = {}
    for path in tree.exercises:
        fetched = tree.root / "work" / path.stem / f"{NOTEBOOK}.ipynb"
        here = fetched if fetched.is_file() else tree.released(path.stem)
        if here.is_file():
            found[path.stem] = here
    return found


def judge(nb: NotebookNode, where: Path, timeout: int | None = None) -> NotebookNode:
    """Execute a notebook as nbgrader does, in a kernel that starts in the folder `where`."""
    from nbgrader.preprocessors import Execute

    c = course.config()
    if timeout:
        c.ExecutePreprocessor.timeout = timeout
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Execute(config=c).preprocess(nb, {"metadata": {"path": str(where)}})[0]


def row(topic: str, path: Path, tree: Tree, timeout: int | None = None) -> tuple[Result, list[str]]:
    """A learner's row for one assignment, and what the checks said where points are missing."""
    from nbgrader.utils import determine_grade

    if why := refusal(path):
        raise SourceError(f"{path.relative_to(tree.root)}: {why}")
    full = trial.blank(trial.solved(topic, tree))  # stubs, with the hidden tests
    nb, notes = rebuild(nbformat.read(path, as_version=4), full)
    result, said = Result(topic), []
    # Changes of a check cell are no news: the full tests always differ from the released ones.
    result.notes = [n for n in notes if "was changed" not in n]
    empty = {c.id: c.source for c in full.cells}
    for cell in judge(nb, path.parent, timeout).cells:
        m = meta(cell)
        if not m.get("grade"):
            continue
        exercise = trial.exercise_of(m["grade_id"])
        got, most = (
            (0.0, float(m["points"])) if cell.source == empty[cell.id] and m.get("solution") else determine_grade(cell)
        )
        if got is None:
            result.open.add(exercise)
        elif got < most:
            said += [o.text.strip() for o in cell.get("outputs", []) if o.output_type == "stream"]
            said += [
                f"{m['grade_id']}: {o.ename}: {o.evalue}" for o in cell.get("outputs", []) if o.output_type == "error"
            ]
        before = result.scores.get(exercise, (0.0, 0.0))
        result.scores[exercise] = (before[0] + (got or 0), before[1] + most)
    return result, said


def _shortened(said: list[str]) -> list[str]:
    """Exercises that nobody has begun in one line.

    >>> _shortened(["Exercise 1.1: 0 of 2 points\\n  f is not done yet.", "Exercise 1.2: 0 of 1 points\\n  too large."])
    ['Not done yet: 1.1.', 'Exercise 1.2: 0 of 1 points\\n  too large.']
    """
    begun, open_ = [], {}
    for text in said:
        first = re.match(r"Exercise (\S+): 0 of", text)
        if first and all(line.endswith("not done yet.") for line in text.splitlines()[1:]):
            open_[first[1]] = None
        else:
            begun.append(text)
    return ([f"Not done yet: {', '.join(open_)}."] if open_ else []) + begun


def main(argv: list[str] | None = None, tree: Tree | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m autograder.own", description=__doc__.split("\n")[0])
    parser.add_argument("assignment", nargs="*", help="default: all")
    wanted = parser.parse_args(argv).assignment
    tree = tree or Tree(ROOT)
    try:
        found = own_notebooks(tree)
        if missing := [w for w in wanted if w not in found]:
            raise SourceError(f'There is no notebook of "{missing[0]}"; there are: {", ".join(found) or "none"}.')
        if not found:
            raise SourceError("There is no notebook of exercises under notebooks/ or work/: run `make release`.")
        for topic in wanted or found:
            result, said = row(topic, found[topic], tree)
            print(found[topic].relative_to(tree.root).as_posix())
            print(table([result], "assignment"), end="\n\n")
            print("\n".join(_shortened(said)))
    except SourceError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
