"""The course's gradebook on a real PostgreSQL server: the grades of SQLite, one that goes away, and two graders at once (slow)."""

import contextlib
import csv
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from autograder.engine.sandbox import available
from autograder.grade import Class
from autograder.making import in_process_grading
from autograder.places import COURSE, ROOT
from tests import postgres
from tests.autograder.classes import SAMPLE, SECRET, TOPIC
from tests.autograder.grading import commands
from tests.skip_conditions import needs
from tests.tiers import some
from tools import demo

# One process: another would start a server and grade the class once more.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("postgres")]

OTHER = "ch02_sample"
MADE = {"source", "release", "submitted", "autograded", "feedback", "exchange", "gradebook.db", ".grading",
        "grades.csv", "canvas.csv", "moodle.csv"}  # fmt: skip
CLASS = ("reference", "partly-done", "mutant-1", "corrupt-json", "deleted-cell")


@pytest.fixture(scope="module")
def url():
    needs(available().refusal is None, available().refusal or "")
    with postgres.server() as database:
        yield database()


class Course:
    """A clone of the course with the sample's assignments, graded by its own commands."""

    def __init__(self, folder: Path, url: str):
        self.root, self.url = folder / "autograder", url
        for part in ("autograder", "helpers"):
            shutil.copytree(
                ROOT / part,
                folder / part,
                ignore=lambda where, names: MADE & set(names) if where == str(COURSE) else (),
            )
        ours = "JUPYTER_", "COURSE_", "PYTHONPATH"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        self.environment |= {
            "HOME": str(folder), "COURSE_SECRET": SECRET, "COURSE_WORKERS": "1", "PYTHONWARNINGS": "ignore",
            "COURSE_DB_URL": url, "JUPYTER_CONFIG_PATH": str(self.root),  # as in a terminal of `make lab`
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if Path(p, "psycopg").is_dir()),
        }  # fmt: skip

    def grading(self, topic: str) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-m", "autograder.grade", topic], cwd=self.root.parent, env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def hand_in(self, topic: str, made: dict) -> None:
        demo.hand_in(Class(topic, self.root), made)

    def grades(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """(assignment, student) -> raw score, penalty, score, of so many: as nbgrader exports them."""
        from nbgrader.plugins import CsvExportPlugin

        with self.gradebook() as gradebook:
            CsvExportPlugin(to=str(self.root / "all.csv")).export(gradebook)
        rows = list(csv.DictReader((self.root / "all.csv").read_text(encoding="utf-8").splitlines()))
        columns = ("raw_score", "late_submission_penalty", "score", "max_score")
        return {(r["assignment"], r["student_id"]): tuple(r[c] for c in columns) for r in rows}

    def gradebook(self):
        from nbgrader.api import Gradebook

        return Gradebook(self.url, "rooflines")

    def records(self) -> dict[str, dict]:
        """Student -> what was found, as the course keeps it."""
        found = [json.loads(p.read_text(encoding="utf-8")) for p in (self.root / ".grading" / TOPIC).glob("*.json")]
        return {r["student"]: r for r in found}


def finished(*processes: subprocess.Popen) -> str:
    """What they printed, when all of them have ended well; none is left behind."""
    try:
        said = [p.communicate(timeout=1200)[0] for p in processes]
    finally:
        for p in processes:
            p.kill()
            p.wait()
    assert all(p.returncode == 0 for p in processes), "\n".join(said)
    return "\n".join(said)


def sample_class() -> dict:
    made = demo.sample_class(TOPIC, SAMPLE, SAMPLE.root)
    return {s: made[s] for s in CLASS}


@contextlib.contextmanager
def away(url: str):
    """The database lets nobody in, and has sent away who was there: as a server that restarts, or a network that is cut."""
    import psycopg

    server, _, name = url.replace("postgresql+psycopg:", "postgresql:").rpartition("/")
    with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false")
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        yield
        admin.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")


@dataclass
class Graded:
    """A course that was graded while the server went away, and once more."""

    course: Course
    nbgrader: object  # runs a command of nbgrader's there
    said: str  # by the grading that was cut
    executed: int  # submissions before that


@pytest.fixture(scope="module")
def graded(url, generated, tmp_path_factory):
    course = Course(tmp_path_factory.mktemp("first"), url)
    shutil.copytree(generated / "course" / "source" / TOPIC, course.root / "source" / TOPIC)
    with commands.nbgrader(course.root.parent, course.environment) as nbgrader:
        nbgrader("generate_assignment", TOPIC, "--force")
        course.hand_in(TOPIC, sample_class())
        grading, ends = course.grading(TOPIC), time.monotonic() + 300
        while not course.records() and grading.poll() is None and time.monotonic() < ends:
            time.sleep(0.05)
        with away(url):
            said = grading.communicate(timeout=300)[0]
        assert grading.returncode == 1, said
        executed = len(course.records())
        assert "Traceback" not in finished(course.grading(TOPIC))
        yield Graded(course, nbgrader, said, executed)


def test_a_server_that_goes_away_costs_a_run_and_no_work(graded):
    """In the middle of grading: one sentence; the same command again grades the rest."""
    assert "Traceback" not in graded.said and 0 < graded.executed < len(CLASS), "the class was run to its end first"
    assert "gradebook" in graded.said and "run the same command again" in graded.said, graded.said


def test_the_grades_are_those_of_sqlite(graded):
    """Which are, in test_class, what the checks give in one process."""
    grades, made = graded.course.grades(), sample_class()
    made["deleted-cell"] = made["reference"]  # the check is put back
    for student in set(CLASS) - {"corrupt-json"}:
        total = sum(v.score for v in in_process_grading.judge(made[student]).values())
        assert grades[TOPIC, student] == (f"{total}", "0.0", f"{total}", "9.0")
    assert grades[TOPIC, "corrupt-json"][2] == "0.0" != grades[TOPIC, "partly-done"][2]
    assert not (graded.course.root / "gradebook.db").exists()


def test_exports_by_nbgraders_own_command(graded):
    """`nbgrader export` finds the plugins, and writes what grading wrote."""
    root = graded.course.root
    for plugin, name in (
        ("tables.Grades", "grades.csv"),
        ("canvas.Canvas", "canvas.csv"),
        ("moodle.Moodle", "moodle.csv"),
    ):
        to = root / f"again-{name}"
        graded.nbgrader("export", f"--exporter=autograder.lms.{plugin}", "--to", str(to))
        assert (root / name).read_bytes() == to.read_bytes(), name


@pytest.mark.parametrize("what", ["halves of a class", "assignments of the same students"])
def test_two_graders_at_once(graded, url, tmp_path, what):
    """Two clones with one gradebook."""
    first, second, made = graded.course, Course(tmp_path, url), dict(some(sample_class().items(), 2))
    if what == "halves of a class":
        work = (first, TOPIC, "a"), (second, TOPIC, "b")
    else:
        work = (first, TOPIC, "c"), (second, OTHER, "c")
        shutil.copytree(first.root / "source" / TOPIC, first.root / "source" / OTHER)
        graded.nbgrader("generate_assignment", OTHER, "--force")
        for student in made:  # else both might add the same one at once
            graded.nbgrader("db", "student", "add", f"{student}-c")
    for folder in ("source", "release"):
        shutil.copytree(first.root / folder, second.root / folder)
    for course, topic, end in work:
        course.hand_in(topic, {f"{s}-{end}": nb for s, nb in made.items()})
    finished(*(course.grading(topic) for course, topic, _ in work))
    grades = second.grades()
    for student in made:
        assert [grades[topic, f"{student}-{end}"] for _, topic, end in work] == [grades[TOPIC, student]] * 2
