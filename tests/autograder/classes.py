"""Classes for tests of grading: a course that is released once, and one class that is graded once; tests change copies."""

import base64
import csv
import dataclasses
import json
import math
import shutil
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbgrader.plugins import BasePlugin

from autograder import collect, grade, release
from autograder.grading import one_submission
from autograder.places import ROOT, Tree
from tests.autograder.grading.test_pictures import PNG
from tests.autograder.lms.platforms import (
    Member,
    canvas_gradebook,
    canvas_name,
    csv_text,
    moodle_name,
    worksheet,
    zipped,
)
from tools import demo

TOPIC = "ch01_sample"
SAMPLE = Tree(ROOT / "tests" / "autograder" / "sample")
SECRET = "not a secret, and as long as one"
DUE = "2030-02-01 12:00:00 UTC"
RIGHT = "def seconds(V, W):\n    return V / W"
WRONG = "def seconds(V, W):\n    return W / V"
SECOND = "def longer(a, b):\n    return max(a, b), max(a, b) / min(a, b)"
PICTURE = base64.b64encode(PNG).decode()


class PerHour(BasePlugin):
    """What an instructor would write: a point for each hour begun."""

    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return math.ceil(total_seconds_late / 3600)


@dataclass(frozen=True)
class Strict(grade.Class):
    """A class in a course whose nbgrader_config.py has a rule for late work."""

    def config(self):
        c = super().config()
        c.AssignLatePenalties.plugin_class = "tests.autograder.classes.PerHour"
        return c


class Serial:
    """A pool of this process alone, which remembers what it was asked; its engine serves all classes of a process."""

    jobs: list[one_submission.Job] = []

    def __init__(self, assignment, where):
        self.assignment = assignment

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def run(self, jobs):
        for job in jobs:
            Serial.jobs.append(job)
            yield one_submission.graded(self.assignment, job)


@dataclass
class Large:
    """The class that is graded once, and what came of it."""

    what: Strict
    results: dict[str, grade.Result]


def checks_run() -> dict[str, set[str] | None]:
    """Student -> checks that were run since this was asked last; None for all."""
    done, Serial.jobs = Serial.jobs, []
    return {j.student: None if j.only is None else set(j.only) for j in done}


def apart(patch, folder: Path) -> None:
    """Nothing goes into the home folder; the secret is a test's own; answers run in an engine of this process."""
    for name in ("HOME", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        patch.setenv(name, str(folder / "home"))
    (folder / "home").mkdir(exist_ok=True)
    patch.setenv("COURSE_SECRET", SECRET)
    patch.setattr(grade, "pool", Serial)
    Serial.jobs = []


def opened(folder: Path) -> Strict:
    """The sample, released, with a deadline; nobody has handed in."""
    made = demo.open_class(TOPIC, SAMPLE, folder / "course")
    what = Strict(TOPIC, made.scratch, timeout=8)
    with what.gradebook() as g:
        g.update_or_create_assignment(TOPIC, duedate=DUE)
    return what


def copied(what: Strict, folder: Path) -> Strict:
    """The same class in a course of its own."""
    shutil.copytree(what.root, folder / "course")
    return dataclasses.replace(what, scratch=folder / "course")


def hand_in(what: grade.Class, student: str, *answers: str) -> None:
    """The release with these answers to 1.1, 1.2 and 1.3."""
    nb = nbformat.read(what.notebook("release"), as_version=4)
    for name, answer in zip(("ch01-q01", "ch01-q02", "ch01-q03"), answers, strict=False):
        next(c for c in nb.cells if c.id == name).source = answer
    release.write(what.notebook("submitted", student), nbformat.writes(nb, version=4))


def stamp(what: grade.Class, student: str, when: str) -> None:
    """When a submission came, as nbgrader notes it."""
    what.notebook("submitted", student).with_name("timestamp.txt").write_text(when, encoding="utf-8")


def penalties(what) -> dict[str, float]:
    with what.gradebook() as g:
        return {s.student_id: s.late_submission_penalty for s in g.assignment_submissions(TOPIC)}


def exports(what) -> dict[str, tuple[float, float]]:
    """Student -> what counts, in grades.csv and on the student's own platform: canvas.csv, or else moodle.csv."""
    with open(what.root / "grades.csv", newline="", encoding="utf-8") as file:
        rows = {r["student_id"]: r["score"] for r in csv.DictReader(file)}
    with open(what.root / "canvas.csv", newline="", encoding="utf-8") as file:
        columns = {r["SIS Login ID"]: [v for k, v in r.items() if k.startswith(TOPIC)] for r in csv.DictReader(file)}
    if (moodle := what.root / "moodle.csv").is_file():
        with open(moodle, newline="", encoding="utf-8") as file:
            own = {r["Email address"]: [r["Grade"]] for r in csv.DictReader(file) if r["Email address"]}
        assert not own.keys() & columns.keys()
        columns |= own
    sent = {s for s, row in columns.items() if row and row[0] and rows.get(s)}
    assert sent == {*what.students}
    return {s: (float(rows[s]), float(columns[s][0])) for s in sent}


# -- who is in the large class


STAMPS = {
    "early@example.org": "2030-02-01 11:59:59 UTC",
    "no-stamp@example.org": None,
    "late@example.org": "2030-02-01 13:30:00.250000 UTC",  # two hours begun: 2 points
    "very-late@example.org": "2030-03-01 00:00:00 UTC",  # more than it has
    "other-zone@example.org": "2030-02-01 14:30:00 Europe/Berlin",  # 13:30 UTC
    "forged@example.org": "2030-02-01 11:00:00 UTC\n<script>",
}
"""They came by Moodle with the same work, without the written answer; what demo.sample_class makes came by Canvas."""

BY_CANVAS = [Member("Student", kind, 100 + i, kind, f"{kind}@example.org") for i, kind in enumerate((
    "reference", "untouched", "partly-done", "mutant-1", "mutant-2", "variant-1", "never-ends", "corrupt-json", "deleted-cell",
    "absent"))]  # fmt: skip
BY_MOODLE = [
    Member("Student", m.partition("@")[0], 200 + i, email=m) for i, m in enumerate((*STAMPS, "away@example.org"))
]


def cell(nb, key):
    return next(c for c in nb["cells"] if c["id"] == key)


def put(nb, place, name="exercises.ipynb", coding="utf-8"):
    (place / name).write_bytes(json.dumps(nb, ensure_ascii=coding == "utf-8").encode(coding, "xmlcharrefreplace"))


def below(nb, place, what):
    nb["cells"].append({"cell_type": "markdown", "metadata": {}, "source": "Latency, as I <b>measured</b>."})
    put(nb, place)


def deepnote(nb, place, what):
    cell(nb, "ch01-q03")["source"] = "Latency, as I measured."
    for c in nb["cells"]:
        c["metadata"] = {}
        c.pop("id", None)
    nb["metadata"] = {}
    put(nb, place)


def drawn(nb, place, what):
    held = {"image.png": {"image/png": PICTURE}, "b.png": {"image/svg+xml": "PHN2Zz4="}}
    cell(nb, "ch01-q03").update(
        source="As drawn: ![roofline](attachment:image.png) ![b](attachment:b.png)", attachments=held
    )
    put(nb, place)


def copy_beside_the_release(nb, place, what):
    put(nb, place, "exercises-Copy1.ipynb")
    (place / "exercises.ipynb").write_bytes(what.notebook("release").read_bytes())


def several(nb, place, what):
    copy_beside_the_release(nb, place, what)
    cell(nb, "ch01-q01")["source"] += "\n\n\nkept = 1"
    put(nb, place, "exercises-Copy2.ipynb")


def old(nb, place, what):
    cell(nb, "ch01-q03")["source"] = "Größe"
    put(nb, place, coding="cp1252")


def script(nb, place, what):
    (place / "answers.py").write_text(RIGHT)


ODD = {f.__name__.replace("_", "-"): f for f in (below, deepnote, drawn, copy_beside_the_release, several, old, script)}
"""What students really hand in: text and pictures in odd places, several files, old encodings."""


def everybody_hands_in(what: Strict, folder: Path) -> None:
    """By Moodle, by Canvas, and into folders of their own."""
    made = demo.sample_class(TOPIC, SAMPLE, SAMPLE.root)
    demo.hand_in(what, made)
    sent = {kind: what.notebook("submitted", kind).read_bytes() for kind in made}
    shutil.rmtree(what.root / "submitted")
    by_moodle(what, folder)
    for student, when in STAMPS.items():
        if when:
            stamp(what, student, when)
    (folder / "canvas.csv").write_text(csv_text(canvas_gradebook(BY_CANVAS, f"{TOPIC} (4711)")), encoding="utf-8")
    files = {canvas_name(m, "my_work-1.ipynb"): sent[m.login] for m in BY_CANVAS if m.login in sent}
    assert len(files) == len(sent)
    collect.collect(what, zipped(folder / "canvas.zip", files), folder / "canvas.csv")
    for student, odd in ODD.items():
        place = what.notebook("submitted", student).parent
        place.mkdir(parents=True)
        nb = json.loads(what.notebook("release").read_text("utf-8"))
        cell(nb, "ch01-q01")["source"] = RIGHT
        odd(nb, place, what)


def by_moodle(what: grade.Class, folder: Path) -> None:
    """Collect Moodle's zip with its worksheet."""
    nb = nbformat.read(what.notebook("release"), as_version=4)
    cell(nb, "ch01-q01")["source"], cell(nb, "ch01-q02")["source"] = RIGHT, SECOND
    (folder / "moodle.csv").write_text(csv_text(worksheet(BY_MOODLE)), encoding="utf-8")
    data = nbformat.writes(nb, version=4).encode()
    files = {moodle_name(m, "my_work-1.ipynb"): data for m in BY_MOODLE if m.email in STAMPS}
    collect.collect(what, zipped(folder / "moodle.zip", files), folder / "moodle.csv")
