"""A class of attackers and honest students, graded by the whole pipeline, and everything that must be as before."""

import contextlib
import csv
import ctypes
import dataclasses
import hashlib
import os
import re
import sqlite3
import tempfile
import time
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import psutil

from autograder import grade
from autograder.engine.sandbox import Limits
from autograder.grading import class_summary, jobs
from autograder.places import ROOT
from tests.autograder.attacks import target
from tests.autograder.attacks.kinds import Student

LIMITS = Limits(cell=6, check=15, submission=90, memory=2_000_000_000, processes=100)
CANARIES = ("canary-of-the-host", "canary-of-the-secret-of-this-course", "canary-of-the-hidden-tests")
LARGEST = 4_000_000  # bytes of a stored notebook


@dataclass
class Graded:
    """A class that was graded."""

    what: grade.Class
    students: dict[str, Student]
    proof: Path
    before: dict
    results: dict[str, grade.Result] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)  # processes, folders and files that outlived the run

    def outputs(self, student: str) -> str:
        """All that a stored notebook shows besides its text."""
        path = self.what.notebook("autograded", student)
        nb = nbformat.read(path, as_version=4) if path.is_file() else nbformat.v4.new_notebook()
        return "\n".join(str(o) for c in nb.cells for o in c.get("outputs", []))

    def page(self, student: str) -> str:
        path = self.what.notebook("feedback", student).with_suffix(".html")
        return path.read_text("utf-8") if path.is_file() else ""  # `missing` says so


def among(attackers: list[Student], honest: list[Student], every: int = 5) -> list[Student]:
    """Attackers with an honest student before each few of them, in the order in which they are graded."""
    rest, mixed = list(honest), []
    for i, one in enumerate(attackers):
        if i % every == 0:
            mixed.append(rest.pop(0) if rest else dataclasses.replace(honest[0], name=f"{honest[0].name}-{i}"))
        mixed.append(one)
    mixed += rest
    return [dataclasses.replace(s, name=f"s{i:03d}-{'honest' if i == 0 else s.name}") for i, s in enumerate(mixed)]


def graded(folder: Path, students: list[Student], monkeypatch) -> Graded:
    """Open a course, hand in, grade, and look around."""
    what = target.opened(folder)
    proof, canary = folder / "proof", folder / "canary"
    proof.mkdir()
    proof.chmod(0o777)
    canary.write_text(CANARIES[0])
    released = target.released(what)
    for one in students:
        one.hand_in(released, what.root, target.TOPIC, (ROOT, what.root, proof, canary))
    assignment = grade.Class.assignment
    monkeypatch.setattr(grade.Class, "assignment", lambda self: dataclasses.replace(assignment(self), limits=LIMITS))
    monkeypatch.setenv("COURSE_SECRET", CANARIES[1])
    found = Graded(what, {s.name: s for s in students}, proof, fingerprint(what.root))
    with watched(folder, monkeypatch) as found.left:
        found.results = {r.student: r for r in grade.grade(what, progress=False)}
    return found


@contextlib.contextmanager
def watched(folder: Path, monkeypatch):
    """A list that has, at the end, what is still there of the processes, groups and temporary files of the run."""
    left: list[str] = []
    temporary = folder / "t"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    prctl = ctypes.CDLL(None).prctl
    prctl(36, 1, 0, 0, 0)  # whatever loses its parent becomes a child of this process
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    groups, workers = set(control_groups()), {os.getpid()}
    start = jobs.started

    def noted(*words):
        process = start(*words)
        workers.add(process.pid)
        return process

    monkeypatch.setattr(jobs, "started", noted)
    try:
        yield left
    finally:
        ends = time.monotonic() + 10
        while (more := offspring(before)) and time.monotonic() < ends:
            time.sleep(0.1)
        prctl(36, 0, 0, 0, 0)
    left += [f"process {p}" for p in more]
    new = set(control_groups()) - groups
    left += [f"group {g}" for g in new if int(g.split("-")[1]) in workers]  # other tests have theirs
    left += [f"file {p.name}" for p in temporary.iterdir() if not p.name.startswith("pymp-")]


def offspring(before: set[int]) -> list[str]:
    """Processes under this one, but those that Python itself keeps, and those that were there before or stand under one of these.

    Other tests of this process keep a browser, which starts processes of its own whenever it likes.
    """
    found = []
    for p in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error, ChildProcessError):  # a child's child, or waited for meanwhile
            if before & {p.pid, *(above.pid for above in p.parents())}:
                continue
            if p.status() == psutil.STATUS_ZOMBIE:
                os.waitpid(p.pid, os.WNOHANG)
            elif "multiprocessing" not in (line := " ".join(p.cmdline())):
                found.append(f"{p.pid} {line[:200]}")
    return found


def control_groups() -> list[str]:
    folders = [Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")]
    return [p.name for folder in folders for p in folder.glob("grading-*-*")]


def fingerprint(root: Path) -> dict:
    """The course's folders, and the form of the gradebook."""
    found = {}
    for place in (root / "source", root / "release"):
        for path in sorted(place.rglob("*")):
            if path.is_file():
                found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    for path in sorted((root / "submitted").rglob("*")):
        found[str(path)] = path.lstat().st_size if not path.is_dir() else 0
    with contextlib.closing(sqlite3.connect(root / "gradebook.db")) as base:
        found["schema"] = base.execute("select type, name, tbl_name, sql from sqlite_master order by name").fetchall()
        for kind, table, *_ in found["schema"]:
            if kind == "table" and not table.startswith(("submitted_", "grade", "comment", "student")):
                found[table] = sorted(map(repr, base.execute(f"select * from {table}")))
    return found


# -- what must hold


def wrong_scores(found: Graded) -> list[str]:
    """Students who got what they must not, or did not get what they must."""
    wrong = []
    for name, one in found.students.items():
        row = found.results[name]
        if one.worth is None:
            sentence = re.fullmatch(r"[A-Z].*\.", row.why or "", re.S)
            wrong += [f"{name}: {row.total} points, why: {row.why!r}"] if row.total or not sentence else []
            continue
        wrong += [f"{name}: refused: {row.why}"] if row.why else []
        for exercise, points in one.worth.items():
            if (got := row.scores.get(exercise, (None, 0))[0]) != points:
                wrong.append(f"{name}: {exercise} has {got} points, not {points}")
        if row.scores.get("ch01-q03", (0, 0))[0]:
            wrong.append(f"{name}: points for an answer that nobody has read")
    return wrong


def leaks(found: Graded) -> list[str]:
    """Proofs on the host, and secrets in what students and the instructor get to see."""
    seen = [f"proof {p.name}" for p in found.proof.iterdir()]
    for name in found.students:
        outputs, page = found.outputs(name), found.page(name)
        seen += [f"{name}: {outputs[outputs.index('LEAK') :][:200]}"] if "LEAK" in outputs else []
        seen += [f"{name}: {c} in the outputs" for c in CANARIES if c in outputs]
        seen += [f"{name}: {c} on the page" for c in (*CANARIES, "HIDDEN TESTS", "HIDDEN_MARK") if c in page]
    return seen


def unsafe(found: Graded) -> list[str]:
    """Live HTML in feedback, control characters on the screen, formulas in the exports, notebooks that are too large."""
    seen = []
    for name in found.students:
        stored = found.what.notebook("autograded", name)
        size = stored.stat().st_size if stored.is_file() else 0
        seen += [f"{name}: {size} bytes are stored"] if size > LARGEST else []
        seen += [f"{name}: {what} is live" for what in live(found.page(name))]
    screen = class_summary.table(list(found.results.values())) + class_summary.by_exercise(list(found.results.values()))
    if odd := re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff].{,40}", screen):
        seen.append(f"on the screen: {odd[:5]}")
    for path in found.what.root.glob("*.csv"):
        with open(path, newline="", encoding="utf-8") as f:
            cells = (v for row in csv.reader(f) for v in row)
            seen += [f"{path.name}: {v[:60]}" for v in cells if v.startswith(("=", "+", "-", "@", "\t", "\r"))]
    return seen


class Page(HTMLParser):
    """What a page could run: handlers, frames, links that are programs, and scripts with a mark of ours."""

    def __init__(self):
        super().__init__()
        self.found, self.script = set(), False

    def handle_starttag(self, tag, attrs):
        self.script = tag == "script"
        if tag in ("iframe", "object", "embed", "base", "form", "foreignobject", "animate"):
            self.found.add(f"<{tag}>")
        for key, value in attrs:
            value = re.sub(r"[\x00-\x20]", "", value or "").lower()
            if key.startswith("on") or value.startswith(("javascript:", "vbscript:", "data:text")):
                self.found.add(f"<{tag} {key}={value[:40]}>")
            if tag == "img" and key == "src" and not value.startswith("data:image/"):
                self.found.add(f"a picture from {value[:40]}")

    def handle_data(self, data):
        if self.script and "alert(" in data:
            self.found.add(f"a script with {data[:40]}")

    def handle_endtag(self, tag):
        self.script = False


def live(page: str) -> set[str]:
    """What of a feedback page would run.

    >>> sorted(live("<p onclick=alert(1)>x</p><script>alert(2)</script>&lt;script&gt;alert(3)"))
    ['<p onclick=alert(1)>', 'a script with alert(2)']
    """
    parser = Page()
    parser.feed(page)
    parser.close()
    return parser.found


def changed(found: Graded) -> list[str]:
    """What of the course and its gradebook is not as it was, and code of this repository that an attacker planted."""
    after, mark = fingerprint(found.what.root), str(found.proof).encode()
    different = [k for k in found.before.keys() | after.keys() if found.before.get(k) != after.get(k)]
    code = [p for place in ("autograder", "helpers", "solutions", "tests") for p in (ROOT / place).rglob("*.[pm][yd]")]
    return different + [str(p) for p in code if mark in p.read_bytes()]


def missing(found: Graded) -> list[str]:
    """Students without a row, or without a graded notebook or a page."""
    with open(found.what.root / "grades.csv", newline="", encoding="utf-8") as f:
        # A quote stands before what a formula begins with.
        in_csv = {row["student_id"].removeprefix("'") for row in csv.DictReader(f)}
    gone = [f"{s} has no row" for s in found.students.keys() - (in_csv & found.results.keys())]
    for step, name in (("autograded", "exercises.ipynb"), ("feedback", "exercises.html")):
        there = {p.parents[1].name for p in found.what.root.glob(f"{step}/*/{target.TOPIC}/{name}")}
        gone += [f"{s} has nothing in {step}" for s in found.students.keys() - there]
    return sorted(gone)
