"""The course's gradebook on a real PostgreSQL server: the same grades as on SQLite, and two graders at once (slow)."""

import contextlib
import csv
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from autograder import demo, release
from autograder.engine.sandbox import available
from autograder.grade import Class
from autograder.places import COURSE, ROOT, Tree
from tests import postgres
from tests.skip_conditions import needs
from tests.tiers import some

# One process: another would start a server and grade the class once more.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("postgres")]

SAMPLE = ROOT / "tests" / "autograder" / "sample"
TOPIC, OTHER = "ch01_sample", "ch02_sample"
MADE = {"source", "release", "submitted", "autograded", "feedback", "exchange", "gradebook.db", ".grading", "gradescope",
        "grades.csv", "canvas.csv", "moodle.csv"}  # fmt: skip
CLASS = ("reference", "partly-done", "mutant-1", "corrupt-json", "deleted-cell")


@pytest.fixture(scope="module")
def server():
    with postgres.server() as database:
        yield database


@pytest.fixture(scope="module", autouse=True)
def walls():
    needs(available().refusal is None, available().refusal or "")


class Course:
    """A clone of the course with the sample's assignments, graded by its own commands."""

    def __init__(self, folder: Path, source: Path, url: str = "", topics=(TOPIC,), released: Path | None = None):
        self.root, self.url = folder / "autograder", url
        for part in ("autograder", "helpers"):
            shutil.copytree(
                ROOT / part,
                folder / part,
                ignore=lambda where, names: MADE & set(names) if where == str(COURSE) else (),
            )
        self.environment = {
            k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER_", "COURSE_", "PYTHONPATH"))
        }
        self.environment |= {
            "HOME": str(folder), "COURSE_SECRET": "of this test", "COURSE_WORKERS": "1", "PYTHONWARNINGS": "ignore",
            "JUPYTER_CONFIG_PATH": str(self.root),  # as in a terminal of `make lab`
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if Path(p, "psycopg").is_dir()),
        }  # fmt: skip
        if url:
            self.environment["COURSE_DB_URL"] = url
        for topic in topics:
            shutil.copytree(source, self.root / "source" / topic)
            if released:  # by another clone with this gradebook
                shutil.copytree(released / "release" / topic, self.root / "release" / topic)
            else:
                self.run("nbgrader", "generate_assignment", topic, "--force")

    def start(self, module: str, *words: str) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-m", module, *words], cwd=self.root.parent, env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def run(self, module: str, *words: str) -> str:
        return finished(self.start(module, *words))

    def hand_in(self, topic: str, made: dict) -> None:
        demo.hand_in(Class(topic, self.root), made)

    def grades(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """(assignment, student) -> raw score, penalty, score, of so many: as nbgrader exports them."""
        from nbgrader.api import Gradebook
        from nbgrader.plugins import CsvExportPlugin

        with Gradebook(self.url or f"sqlite:///{self.root / 'gradebook.db'}", "rooflines") as gradebook:
            CsvExportPlugin(to=str(self.root / "all.csv")).export(gradebook)
        rows = list(csv.DictReader((self.root / "all.csv").read_text(encoding="utf-8").splitlines()))
        columns = ("raw_score", "late_submission_penalty", "score", "max_score")
        return {(r["assignment"], r["student_id"]): tuple(r[c] for c in columns) for r in rows}

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
    made = demo.sample_class(TOPIC, Tree(SAMPLE), SAMPLE)
    return {s: made[s] for s in CLASS}


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """The sample's assignment with its solutions."""
    folder = tmp_path_factory.mktemp("sample")
    release.generate(Tree(SAMPLE), folder / "course", folder / "notebooks", database=False)
    return folder / "course" / "source" / TOPIC


@pytest.fixture(scope="module")
def courses(server, source, tmp_path_factory):
    """The same class graded on PostgreSQL and on SQLite."""
    found = {}
    for name, url in (("postgresql", server()), ("sqlite", "")):
        found[name] = Course(tmp_path_factory.mktemp(name), source, url)
        found[name].hand_in(TOPIC, sample_class())
        found[name].run("autograder.grade", TOPIC)
    return found


def test_the_grades_are_those_of_sqlite(courses):
    grades = {name: course.grades() for name, course in courses.items()}
    assert grades["postgresql"] == grades["sqlite"]
    assert grades["sqlite"][TOPIC, "reference"] == ("5.0", "0.0", "5.0", "9.0")
    assert grades["sqlite"][TOPIC, "corrupt-json"][2] == "0.0" != grades["sqlite"][TOPIC, "partly-done"][2]
    assert not (courses["postgresql"].root / "gradebook.db").exists()


def test_exports_by_nbgraders_own_command(courses):
    """`nbgrader export` finds the plugins, and writes what grading wrote."""
    root = courses["postgresql"].root
    for plugin, name in (
        ("canvas.Grades", "grades.csv"),
        ("canvas.Canvas", "canvas.csv"),
        ("moodle.Moodle", "moodle.csv"),
        ("gradescope.Gradescope", "gradescope"),
    ):
        to = root / f"again-{name}"
        courses["postgresql"].run("nbgrader", "export", f"--exporter=autograder.lms.{plugin}", "--to", str(to))
        pairs = (
            [(root / name, to)] if to.is_file() else [(root / name / p.relative_to(to), p) for p in to.rglob("*.json")]
        )
        assert len(pairs) == (1 if to.is_file() else len(CLASS))
        for ours, theirs in pairs:
            assert ours.read_bytes() == theirs.read_bytes(), name


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


@pytest.mark.slow("grades a class of five, twice, on a real server")
def test_a_server_that_goes_away_costs_a_run_and_no_work(server, courses, source, tmp_path):
    """In the middle of grading: one sentence; the same command again grades the rest, and the grades are the same."""
    url = server()
    course = Course(tmp_path, source, url)
    course.hand_in(TOPIC, sample_class())
    grading, ends = course.start("autograder.grade", TOPIC), time.monotonic() + 300
    while not course.records() and grading.poll() is None and time.monotonic() < ends:
        time.sleep(0.05)
    with away(url):
        said = grading.communicate(timeout=300)[0]
    assert grading.returncode == 1 and "Traceback" not in said, said
    assert "gradebook" in said and "run the same command again" in said, said
    executed = len(course.records())
    assert "Traceback" not in course.run("autograder.grade", TOPIC)
    assert 0 < executed <= len(CLASS) and course.grades() == courses["sqlite"].grades()


@pytest.mark.full("as test_late does with SQLite")
def test_a_manual_grade_stays_when_a_mended_test_is_graded_again(courses):
    """On both servers: the check of 1.1 is made to ask for nothing, and only it is run again."""
    from nbgrader.api import Gradebook

    for course in courses.values():
        url = course.url or f"sqlite:///{course.root / 'gradebook.db'}"
        with Gradebook(url, "rooflines") as g:
            one = g.find_grade("ch01-q03", "exercises", TOPIC, "reference")
            one.manual_score, one.needs_manual_grade = 3.5, False
            g.find_comment("ch01-q03", "exercises", TOPIC, "reference").manual_comment = "Which one?"
            g.db.commit()
        before = course.records()
        path = course.root / "source" / TOPIC / "exercises.ipynb"
        nb = nbformat.read(path, as_version=4)
        next(c for c in nb.cells if c.id == "ch01-q01-check").source = "2"
        nbformat.write(nb, path)
        course.run("nbgrader", "generate_assignment", TOPIC, "--force")
        course.run("autograder.grade", TOPIC)
        after = course.records()
        for student in set(CLASS) - {"corrupt-json"}:
            assert after[student]["outputs"]["ch01-q02-check"] == before[student]["outputs"]["ch01-q02-check"]
        with Gradebook(url, "rooflines") as g:
            one = g.find_grade("ch01-q03", "exercises", TOPIC, "reference")
            assert (one.manual_score, one.needs_manual_grade) == (3.5, False)
            assert g.find_comment("ch01-q03", "exercises", TOPIC, "reference").comment == "Which one?"
            assert g.find_grade("ch01-q01-check", "exercises", TOPIC, "mutant-1").score == 2
    grades = [course.grades() for course in courses.values()]
    assert grades[0] == grades[1]
    assert grades[0][TOPIC, "reference"][2] == "8.5"


def test_two_graders_at_once(server, source, tmp_path):
    """Two clones with one gradebook: two assignments of the same students, then two halves of a class."""
    url = server()
    first = Course(tmp_path / "one", source, url, (TOPIC, OTHER))
    second = Course(tmp_path / "two", source, url, (TOPIC, OTHER), first.root)
    made = dict(some(sample_class().items(), 3))
    (tmp_path / "students.csv").write_text("id\n" + "\n".join(made) + "\n")  # else both might add the same one at once
    first.run("nbgrader", "db", "student", "import", str(tmp_path / "students.csv"))
    for course, topic in ((first, TOPIC), (second, OTHER)):
        course.hand_in(topic, made)
    finished(first.start("autograder.grade", TOPIC), second.start("autograder.grade", OTHER))
    grades = first.grades()
    assert {s: grades[TOPIC, s] for s in made} == {s: grades[OTHER, s] for s in made}
    assert grades[TOPIC, "reference"][2] == "5.0"
    first.hand_in(TOPIC, {f"{s}-a": nb for s, nb in made.items()})
    second.hand_in(TOPIC, {f"{s}-b": nb for s, nb in made.items()})
    finished(*(c.start("autograder.grade", TOPIC) for c in (first, second)))
    grades = second.grades()
    assert {s: grades[TOPIC, f"{s}-a"] for s in made} == {s: grades[TOPIC, f"{s}-b"] for s in made}
    assert grades[TOPIC, "reference-b"][2] == "5.0"
