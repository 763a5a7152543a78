"""Judge one exercise alone, and show what a learner gets of it: `python -m tools.try_exercise 4.27`.

Of its chapter only this exercise is made, with the cells that it needs. Ours earns all of its points, the untouched notebook
none; each wrong sample loses points and is told its sentence, each right one keeps them, under two seeds.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from threading import Timer

from nbformat import NotebookNode
from tqdm import tqdm

from autograder.engine import checker
from autograder.making import bank, in_process_grading, mistakes, shown_cases
from autograder.making.exercises import meta
from autograder.places import SourceError, Tree
from helpers.check.raised import Unclear, limited

from .one_exercise import Trial, made

SEEDS = [("0", ""), ("spring", "spring-ada")]  # COURSE_SEED and COURSE_VALUES of two classes
SECONDS = 60  # of the clock, for an answer under one seed, on a machine that others may share; most need a tenth of one


@dataclass(frozen=True)
class Answer:
    """One that is judged."""

    name: str
    notebook: NotebookNode
    points: float  # of the checks that count
    checks: list[str]  # their grade_ids
    fault: Callable[["Row"], str]  # what is not as it should be in what became of it


@dataclass(frozen=True)
class Row:
    """What became of an answer, under each seed."""

    answer: Answer
    scores: tuple[float, ...]
    said: tuple[str, ...]

    @property
    def fault(self) -> str:
        return self.answer.fault(self)


# -- its answers


def answers(trial: Trial) -> list[Answer]:
    """Ours, none, and each sample."""
    solved = trial.notebook
    found = [
        ("our answer", solved, "", _loses),
        ("untouched", in_process_grading.blank(solved), "", lambda row: "earns points" if max(row.scores) else ""),
    ]
    found += [(m.name, bank.applied(solved, [m]), m.grade_id, partial(_untold, m)) for m in trial.wrong]
    found += [(v.name, bank.applied(solved, [v]), v.grade_id, _loses) for v in trial.right]
    points = {meta(c)["grade_id"]: float(meta(c)["points"]) for c in solved.cells if meta(c).get("grade")}
    counted = [[c for c in points if not grade_id or c.startswith(f"{grade_id}-check")] for _, _, grade_id, _ in found]
    return [
        Answer(name, notebook, sum(map(points.get, checks)), checks, fault)
        for (name, notebook, _, fault), checks in zip(found, counted)
    ]


def judged(trial: Trial, seed: tuple[str, str], compiled: Path) -> list[tuple[float, str]]:
    """Points of each answer under one seed, and what it is told.

    compiled  keeps what XLA has compiled: all answers run the check's own programs
    """
    checker.keep_compiled(str(compiled))
    os.environ.update(COURSE_SEED=seed[0], COURSE_VALUES=seed[1])
    found = []
    for answer in tqdm(answers(trial), delay=5, leave=False, disable=seed != SEEDS[0] or None):  # None: if nobody looks
        stuck = Timer(3 * SECONDS, _give_up, [answer.name])  # compiled code that never ends hears no alarm
        stuck.start()
        try:
            with limited(SECONDS):
                verdicts = in_process_grading.judge(answer.notebook)
        except Unclear as error:
            found.append((0.0, str(error)))
            continue
        finally:
            stuck.cancel()
        mine = [verdicts[check] for check in answer.checks]
        found.append((sum(v.score for v in mine), "\n".join(v.message for v in mine)))
    return found


def _give_up(name: str) -> None:
    print(
        f"{name} does not end after {3 * SECONDS} s, and nothing but the end of this process ends it.",
        file=sys.__stderr__,
        flush=True,
    )
    os._exit(1)


def made_and_judged(number: str, tree: Tree, seed: tuple[str, str], compiled: Path) -> list[tuple[float, str]]:
    """The same in a process of its own, on the other core."""
    return judged(made(number, tree), seed, compiled)


def _loses(row: Row) -> str:
    return "is right, and loses points" if min(row.scores) < row.answer.points else ""


def _untold(mutant: bank.Mutant, row: Row) -> str:
    """Why a wrong sample is not judged as it has to be."""
    if max(row.scores) >= row.answer.points:
        return "is wrong, and loses nothing"
    if not mutant.says:
        return "has neither a mistake, nor says what it is told by something else"
    # What helpers/check finds out by itself may differ with what is drawn, so the tests ask for it under one seed, too.
    told = " ".join(mutant.says.split()) in " ".join(row.said[0].split())
    return "" if told else f"is not told: {mutant.says}"


# -- what is printed


def table(rows: Iterable[Row], width: int) -> Iterator[str]:
    """A line for each answer, and one more for what is wrong with it."""
    for row in rows:
        scores = "/".join(f"{score:g}" for score in dict.fromkeys(row.scores))
        said = " ".join(
            line for line in row.said[0].split("\n") if not line.startswith("Exercise ") and "you may look:" not in line
        )
        line = f"{row.answer.name:32} {scores + f' of {row.answer.points:g}':>8}  {' '.join(said.split())}"
        yield line if len(line) <= width else line[: width - 1] + "…"
        if row.fault:
            yield f"    WRONG: {row.answer.name} {row.fault}"


def shown(trial: Trial) -> Iterator[str]:
    """The cells to fill in, the checks that a learner runs, and what the site has of them."""
    for cell in in_process_grading.blank(trial.notebook).cells:
        if (
            meta(cell).get("solution")
            and in_process_grading.exercise_of(meta(cell)["grade_id"]) == trial.exercise.grade_id
        ):
            yield f"\n-- {meta(cell)['grade_id']} in the notebook\n\n{cell.source}"
    shown_cases.add(trial.notebook)
    for name, lines in trial.checks.items():
        check = name.replace("_", "-")
        yield "\n".join([f"\n-- {check} beside the notebook, in checks.json\n", *lines, f"\n-- {check} on the site\n"])
        (cell,) = [cell for cell in trial.notebook.cells if meta(cell).get("grade_id") == check]
        yield from _on_site(cell.metadata["course"])


def _on_site(course: dict) -> Iterator[str]:
    """Cases and inputs to try as the site's page has them."""
    if "answer" not in course:
        yield "No case: the page shows those whose arguments and results are short and plain."
        return
    called = lambda args: f"{course['answer']}({', '.join(f'{n}={v}' for n, v in zip(course['given'], args))})"  # noqa: E731
    for case in course["cases"]:
        results = (f"{label} {case['gives'][name]}" for name, label in course["results"] if name in case["gives"])
        yield f"{called(case['given'])} gives {', '.join(results)}"
    for numbers in course["numbers"]:
        asked = (label for name, label in course["results"] if name in numbers["hashes"])
        yield f"{called(numbers['given'])} is to try: {', '.join(asked)}"


def main(argv: list[str] | None = None, tree: Tree | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.try_exercise", description=__doc__.split("\n")[0])
    parser.add_argument("number", help="of the exercise, such as 4.27")
    number, tree = parser.parse_args(argv).number, tree or Tree()
    compiled = tree.root / "_build" / "jax"
    with ProcessPoolExecutor(1, get_context("spawn")) as other:  # JAX's threads do not outlive a fork
        second = other.submit(made_and_judged, number, tree, SEEDS[1], compiled)
        try:
            trial = made(number, tree)
            both = [judged(trial, SEEDS[0], compiled), second.result()]
        except SourceError as error:
            print(error, file=sys.stderr)
            return 1
        except BrokenProcessPool:  # the other one gave up, and has said why
            return 1
    found = [Row(answer, *zip(*results)) for answer, *results in zip(answers(trial), *both)]
    print(f"Exercise {number} — {trial.exercise.title}, under {len(SEEDS)} seeds\n")
    print(*table(found, shutil.get_terminal_size((140, 0)).columns), sep="\n")
    for mutant in trial.unseen:
        print(mistakes.nowhere(mutant))
    print(*shown(trial), sep="\n")
    wrong = sum(bool(row.fault) for row in found) + len(trial.unseen)
    print(
        f"\n{wrong} of {len(found)} answers are not judged as they have to be."
        if wrong
        else f"\nAll {len(found)} answers are judged as they have to be."
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
