"""What grading a class costs against stock nbgrader, as ratios measured in one run: `python -m tools.bench_grading`.

The same class, no two programs in it alike, is graded by stock nbgrader (one kernel after the other) and by our whole
pipeline: intake, sandboxes, checks, gradebook, exports, start-up included. Feedback pages are nbgrader's in both, and
are a line of their own.
"""

import argparse
import ast
import contextlib
import ctypes
import datetime
import json
import os
import platform
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from autograder import grade
from autograder.grading import one_submission
from autograder.making import bank, in_process_grading
from autograder.making.exercises import meta
from autograder.places import ROOT, Tree
from tools import demo
from tools.accelerator import machine

WRONG = 0.2  # of all answers
STORE = ROOT / "book" / "results" / "grading.json"
START = "import sys, pathlib\nfrom autograder import course, grade\nfrom autograder.grading import feedback_pages\n"
START += "where, topic, words = pathlib.Path(sys.argv[1]), *sys.argv[2:4]\n"
STOCK = """
from nbgrader.apps import api
from nbgrader.preprocessors import Execute
class Stock(api.Autograde):
    pass  # the course's settings refuse nbgrader's own class, and leave out the step that runs cells
api.Autograde, c = Stock, course.config(where)
c.Autograde.autograde_preprocessors.insert(0, Execute)
done, why = course.run(course.api(c).autograde, topic, '*')
assert done, why"""
STOCK_PAGES = "course.run(course.api(course.config(where)).generate_feedback, topic, '*')"
OURS = "grade.write_feedback = lambda *_: None\ngrade.grade(grade.Class(topic, where), workers=words, progress=False)"
PAGES = (
    "what = grade.Class(topic, where)\nif __name__ == '__main__': list(feedback_pages.write_pages(what, what.students))"
)


@dataclass
class Taken:
    """Seconds that something took for a class."""

    students: int
    cpu: float
    wall: float

    @property
    def each(self) -> float:
        return self.cpu / self.students

    @property
    def paced(self) -> float:
        return self.wall / self.students


# ---- a class


def sample(topic: str, students: int) -> dict[str, NotebookNode]:
    """Student -> notebook: most answers right, in one of the bank's ways, one in five wrong, each written a little differently."""
    solved, right, wrong = in_process_grading.solved(topic), {}, {}
    for found, kept in ((bank.variants(topic), right), (bank.mutants(topic), wrong)):
        for change in found:
            kept.setdefault(change.grade_id, []).append(change)
    made = {}
    for i in range(students):
        r = random.Random(f"{topic}/{i}")
        picked = [r.choice(wrong[a] if r.random() < WRONG else [None, *right.get(a, [])]) for a in wrong]
        made[f"s{i:04d}"] = distinct(bank.applied(solved, [p for p in picked if p]), i + 1)
    return made


def distinct(nb: NotebookNode, k: int) -> NotebookNode:
    """The same answers in another text; those that are judged by their program make another program."""
    nb = nbformat.from_dict(nb)
    programs = set(re.findall(r"check\.Program\(\s*(\w+)", "\n".join(c.source for c in nb.cells)))
    for cell in nb.cells:
        if cell.cell_type == "code" and meta(cell).get("solution"):
            cell.source = f"{_with_a_constant(cell.source, programs, k)}\n# {k}"
    return nb


def _with_a_constant(source: str, names: set[str], k: int) -> str:
    """What functions of these names return, with `k` in its computation and the same value."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return source
    lines = source.splitlines()
    found = [r for f in body if isinstance(f, ast.FunctionDef) and f.name in names for r in _returns(f)]
    for r in sorted(found, key=lambda r: -r.lineno):
        value = ast.get_source_segment(source, r.value)
        start = lines[r.lineno - 1][: r.col_offset]
        lines[r.lineno - 1 : r.end_lineno] = [f"{start}return (lambda x: x + (x - x) * {k})({value})"]
    return "\n".join(lines)


def _returns(node):
    """The returns of a function, not those of functions in it."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.Return) and inner.value is not None:
            yield inner
        elif not isinstance(inner, (ast.FunctionDef, ast.Lambda)):
            yield from _returns(inner)


# ---- runs


def measured(command: list[str], students: int, **settings: str) -> Taken:
    """A command and all that came of it: orphans come to this process, which has their time when it waits for them."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "COURSE_SECRET": "of the bench, and as long as it has to be", "PYTHONPATH": path, **settings}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    wall = time.monotonic() - began
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)[-200:]} failed:\n{done.stderr[-3000:]}")
    return Taken(students, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, wall)


class Bench:
    """One assignment in a scratch course, copied for each run."""

    def __init__(self, topic: str, students: int, folder: Path):
        self.topic, self.folder, self.count = topic, folder, 0
        self.course = demo.open_class(topic, Tree(), folder / "course").root
        self.made = sample(topic, students)

    def run(self, code: str, pages: str, students: int, words: str = "-", **settings: str) -> tuple[Taken, Taken, dict]:
        """Grade so many students from all over the class, then write their feedback; what each took, and the scores."""
        self.count += 1
        copy = self.folder / f"run-{self.count}"
        shutil.copytree(self.course, copy)
        names = list(self.made)
        chosen = {names[i * len(names) // students]: None for i in range(students)}
        demo.hand_in(grade.Class(self.topic, copy), {name: self.made[name] for name in chosen})
        both = []
        for part in (code, pages):
            command = [sys.executable, "-c", START + part, str(copy), self.topic, words]
            both.append(measured(command, students, **settings))
        return *both, scores(copy, self.topic)

    def hostile(self, usual: Taken) -> float:
        """How many times longer the last run's feedback pages take if one of them is as long as pages may take."""
        what = grade.Class(self.topic, self.folder / f"run-{self.count}")
        page = what.notebook("autograded", what.students[0])
        nb = nbformat.read(page, as_version=4)
        nb.cells += [new_code_cell(("a." * 249 + "\n") * 40) for _ in range(14)]
        nbformat.write(nb, page)
        command = [sys.executable, "-c", START + PAGES, str(what.root), self.topic, "-"]
        return measured(command, usual.students).wall / usual.wall

    def latency(self) -> tuple[float, float]:
        """Median seconds of one check of a warm engine, its answers included; CPU seconds of `make check` from cold."""
        full = in_process_grading.solved(self.topic)
        assignment = one_submission.Assignment.of(
            self.topic, self.course / "source" / self.topic / "exercises.ipynb",
            self.course / "release" / self.topic / "exercises.ipynb", True, 60,
        )  # fmt: skip
        engine = one_submission.engine("0", assignment.limits)
        engine.grade(assignment.bundle, full)
        taken = []
        for check in assignment.bundle.checks:
            began = time.monotonic()
            engine.grade(assignment.bundle, only_exercise(full, check), only={check})
            taken.append(time.monotonic() - began)
        one_submission.close()
        return statistics.median(taken), measured([sys.executable, "-m", "autograder.grade_own", self.topic], 1).cpu


def only_exercise(full: NotebookNode, check: str) -> NotebookNode:
    """The notebook without the answers of other exercises, but with the course's own cells."""
    nb = nbformat.from_dict(full)
    mine = in_process_grading.exercise_of(check)
    nb.cells = [
        c
        for c in nb.cells
        if not meta(c).get("solution") or in_process_grading.exercise_of(meta(c)["grade_id"]) == mine
    ]
    return nb


def scores(root: Path, topic: str) -> dict[str, float]:
    """Student -> points, as the gradebook has them."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{root / 'gradebook.db'}") as gradebook:
        return {s.student.id: s.score for s in gradebook.assignment_submissions(topic)}


# ---- the table


def lines(stock: Taken, ours: dict[str, Taken], pages: dict[str, Taken], latency: tuple[float, float]) -> list[str]:
    """What is printed.

    >>> one, page = {"1 worker": Taken(100, 80.0, 90.0)}, Taken(100, 50.0, 50.0)
    >>> print("\\n".join(lines(Taken(10, 80.0, 90.0), one, {"stock": page, "ours": page}, (0.1, 9))))
    stock nbgrader   8.00 CPU s and  9.00 s each, 10 graded
    1 worker         0.80 CPU s and  0.90 s each, 100 graded: 10.0 times less CPU, 10.0 times faster
    feedback pages   0.50 CPU s each in stock, 0.50 in ours; not in the lines above
    one check        100 ms in a warm engine; make check takes 9 CPU s from cold
    """
    made = [f"{'stock nbgrader':16} {stock.each:.2f} CPU s and {stock.paced:5.2f} s each, {stock.students} graded"]
    for name, t in ours.items():
        made.append(
            f"{name:16} {t.each:.2f} CPU s and {t.paced:5.2f} s each, {t.students} graded: "
            f"{stock.each / t.each:.1f} times less CPU, {stock.paced / t.paced:.1f} times faster"
        )
    each = pages["stock"].each, pages["ours"].each
    made.append(
        f"{'feedback pages':16} {each[0]:.2f} CPU s each in stock, {each[1]:.2f} in ours; not in the lines above"
    )
    warm, cold = latency
    return [
        *made,
        f"{'one check':16} {warm * 1e3:.0f} ms in a warm engine; make check takes {cold:.0f} CPU s from cold",
    ]


def versions() -> dict[str, str]:
    import jax
    import nbgrader

    return {"python": platform.python_version(), "jax": jax.__version__, "nbgrader": nbgrader.__version__}


def record(stock: Taken, ours: dict[str, Taken], pages: dict[str, Taken], latency: tuple[float, float]) -> dict:
    """What the instructor's page reads."""
    return {
        "students": max(t.students for t in ours.values()), "stock_students": stock.students,
        "seconds_each": {name: {"cpu": t.each, "wall": t.paced} for name, t in {"stock": stock, **ours}.items()},
        "feedback_cpu_each": {name: t.each for name, t in pages.items()},
        "check_warm_seconds": latency[0], "check_cold_cpu_seconds": latency[1],
        "cpu_ratio": {name: stock.each / t.each for name, t in ours.items()},
        "wall_ratio": {name: stock.paced / t.paced for name, t in ours.items()},
    }  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench_grading", description=__doc__.split("\n")[0])
    parser.add_argument("--students", type=int, default=100)
    parser.add_argument("--stock", type=int, default=20, help="how many of them stock nbgrader grades")
    parser.add_argument("--assignment", action="append", help="default: all")
    parser.add_argument("--store", action="store_true", help=f"write {STORE.relative_to(ROOT)}")
    options = parser.parse_args(argv)
    topics = options.assignment or [p.stem for p in Tree().exercises]
    found = {}
    for topic in topics:
        with tempfile.TemporaryDirectory() as folder:
            found[topic] = one(topic, options, Path(folder).resolve())
    if options.store:
        command = f"python -m tools.bench_grading --students {options.students} --stock {options.stock}"
        head = {"command": command, "date": datetime.date.today().isoformat(), "machine": machine()}
        STORE.write_text(json.dumps(head | {"versions": versions(), "cases": found}, indent=1) + "\n", encoding="utf-8")
    return 0


def one(topic: str, options, folder: Path) -> dict:
    """Measure one assignment and print what was found."""
    bench = Bench(topic, options.students, folder)
    n = min(options.stock, options.students)
    print(f"{topic}: a class of {options.students}; stock grades {n} of them. {machine()}", flush=True)
    stock, stock_pages, points = bench.run(STOCK, STOCK_PAGES, n, COURSE_SANDBOX="off", COURSE_SEED="0")
    ours, pages, where = {}, {}, {"1 worker": "1", "2 workers": "2"}
    for name, words in where.items():
        ours[name], our_pages, got = bench.run(OURS, PAGES, options.students, words)
        pages = {"stock": stock_pages, "ours": our_pages}
        print(f"({name}: {ours[name].each:.2f} CPU s each, stock {stock.each:.2f})", file=sys.stderr, flush=True)
        if off := {s: (points[s], got.get(s)) for s in points if abs(points[s] - got.get(s, -1)) > 1e-9}:
            print(f"Scores differ from stock's with {name}: {off}", file=sys.stderr)
    print(
        f"feedback pages with a hostile one among them take {bench.hostile(pages['ours']):.2f} times as long",
        flush=True,
    )
    latency = bench.latency()
    print("\n".join(lines(stock, ours, pages, latency)), end="\n\n", flush=True)
    return record(stock, ours, pages, latency)


if __name__ == "__main__":
    sys.exit(main())
