"""A term with forty students, in the order in which an instructor meets it: most of them are from public reports (slow)."""

import contextlib
import dataclasses
import json
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import pytest

from autograder import collect, course, grade, release
from autograder.engine.sandbox import available
from autograder.places import ROOT
from tests import scratch
from tests.autograder.attacks import batch, target
from tests.autograder.attacks.kinds import POINTS, RIGHT, WRONG, filled
from tests.autograder.classes import DUE, Strict, penalties
from tests.autograder.lms.platforms import Member, canvas_gradebook, canvas_import, canvas_name, csv_text, zipped
from tests.skip_conditions import needs
from tools.term.reports import NAME, REPORTS, Report, dumped

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default"), pytest.mark.xdist_group("term")]

TOPIC = target.TOPIC
ASSIGNMENTS = {4711: TOPIC}
WRITTEN = "ch01-q03"


@dataclass
class Student:
    """Who hands in what, and how."""

    member: Member
    files: dict[str, bytes]
    way: str  # zip, exchange, folder, or nothing
    worth: dict[str, float] = field(default_factory=lambda: dict(POINTS))
    report: Report | None = None
    stamp: str = "2030-01-31 12:00:00 UTC"

    @property
    def id(self) -> str:
        return str(self.member.number) if "\\" in self.member.login else self.member.login

    @property
    def reads(self) -> bool:
        """Whether a person has to read the written answer."""
        return self.report.read if self.report else self.way != "nothing"


def students(released: dict) -> list[Student]:
    """One for each report, on the three ways in turn, and those whom no report is about."""
    ways = "zip", "exchange", "folder"
    found = []
    for i, one in enumerate(REPORTS):
        member = Member("Student", one.name, 1000 + i, one.name, f"{one.name}@example.org")
        found.append(Student(member, one.files(released), ways[i % 3], one.worth, one))
    solved, first = (dumped(filled(released, answers)) for answers in (RIGHT, RIGHT | {"ch01-q01": WRONG["ch01-q01"]}))

    def person(number, first_name, last, login, files, way, **more):
        found.append(Student(Member(first_name, last, number, login, f"{number}@example.org"), files, way, **more))

    # jupyter/nbgrader#912, #1403, CodeGra-de/CodeGra.de#227: ids and names that a path or an archive does not like
    person(1, "Ada", "von der Domäne", "AD\\ada", {NAME: solved}, "zip")
    person(2, "Jessica", "Hamrick", "jessica hamrick", {NAME: solved}, "folder")
    person(3, "Zoë", "Šķēle-O'Neill", "zoe", {NAME: solved}, "zip")
    person(4, "Late", "Lovelace", "late", {NAME: solved}, "exchange", stamp="2030-02-01 13:30:00 UTC")
    person(5, "Second", "Try", "second-try", {NAME: first}, "zip", worth=POINTS | {"ch01-q01": 0})
    person(6, "Not", "There", "not-there", {}, "nothing", worth={})
    return found


@dataclass
class Term:
    """A course, its students, and what is done in it."""

    what: grade.Class
    students: list[Student]
    folder: Path

    def on(self, way: str) -> list[Student]:
        return [s for s in self.students if s.way == way]

    def graded(self) -> dict[str, grade.Result]:
        return {r.student: r for r in grade.grade(self.what, progress=False)}

    def by_zip(self, name: str, sent: list[Student], file_id: int = 9000) -> collect.Collected:
        """As Canvas zips it, collected with the class list that Canvas exported."""
        everybody = self.folder / "class.csv"
        members = [s.member for s in self.students]
        everybody.write_text(csv_text(canvas_gradebook(members, title=f"{TOPIC} (4711)")), encoding="utf-8")
        files = {canvas_name(s.member, f, file_id): data for s in sent for f, data in s.files.items()}
        return collect.collect(self.what, zipped(self.folder / name, files), everybody)

    def by_folders(self) -> collect.Collected:
        """Homes of a JupyterHub, with the assignment's folder in each."""
        for s in self.on("folder"):
            for name, data in s.files.items():
                place = self.folder / "home" / s.id / TOPIC / name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
        return collect.collect(self.what, self.folder / "home")

    def by_exchange(self) -> None:
        """What `nbgrader submit` leaves in the exchange, and `nbgrader collect`."""
        api = course.api(self.what.config())
        worked, why = course.run(api.release_assignment, TOPIC)
        assert worked, why
        inbound = next((self.what.root / "exchange").glob("*/inbound"))
        for s in self.on("exchange"):
            place = inbound / f"{s.id}+{TOPIC}+{s.stamp}+random"
            place.mkdir()
            for name, data in s.files.items():
                (place / name).write_bytes(data)
            (place / "timestamp.txt").write_text(s.stamp, encoding="utf-8")
            (place / "submission_secret.txt").write_text(f"secret of {s.id}", encoding="utf-8")
        worked, why = course.run(api.collect, TOPIC)
        assert worked, why


def begun(folder: Path, monkeypatch) -> Term:
    """The course, released, with a deadline; its students have not handed in yet."""
    for name in ("HOME", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(folder / "home-of-mine"))
    monkeypatch.setenv("COURSE_SECRET", "of this term, and as long as it has to be")
    limits = dataclasses.replace(batch.LIMITS, memory=1_500_000_000)
    assignment = grade.Class.assignment
    monkeypatch.setattr(grade.Class, "assignment", lambda self: dataclasses.replace(assignment(self), limits=limits))
    opened = target.opened(folder)
    what = Strict(opened.topic, opened.scratch, timeout=8)
    with what.gradebook() as g:
        g.update_or_create_assignment(TOPIC, duedate=DUE)
    return Term(what, students(target.released(what)), folder)


@pytest.fixture
def term(tmp_path, monkeypatch):
    needs(available().refusal is None, available().refusal or "")
    return begun(tmp_path, monkeypatch)


def test_a_term(term):
    assert len(term.students) >= 40 and len(REPORTS) >= 30
    everybody_hands_in(term)
    first = term.graded()
    everybody_is_graded_or_before_a_person(term, first)
    people_read(term)
    second_try_and_mended_exercise(term)
    feedback_and_grades_go_back(term)


def everybody_hands_in(term: Term) -> None:
    """Three ways in; the table names who sent nothing, and nothing belongs to nobody."""
    zipped_in = term.by_zip("first.zip", term.on("zip"))
    assert sorted(r.student for r in zipped_in.rows) == sorted(s.id for s in term.on("zip"))
    assert not zipped_in.unclaimed and not zipped_in.strangers and not zipped_in.complaints
    assert set(zipped_in.missing) == {s.id for s in term.students if s.way != "zip"}
    term.by_folders()
    term.by_exchange()
    assert set(term.what.students) == {s.id for s in term.students if s.way != "nothing"}


def everybody_is_graded_or_before_a_person(term: Term, found: dict[str, grade.Result]) -> None:
    wrong = []
    for s in term.students:
        if s.way == "nothing":
            assert s.id not in found
            continue
        row, refused = found[s.id], s.report.refused if s.report else ""
        got = {e: row.scores[e][0] for e in POINTS}
        wrong += [f"{s.id} ({s.report and s.report.source}): {got}, {row.notes}, {row.why}"] * (got != s.worth)
        wrong += [f"{s.id}: a person waits for nothing or is not told"] * ((WRITTEN in row.open) != s.reads)
        wrong += [f"{s.id}: why {row.why!r}"] * (refused not in row.why or bool(row.why) != bool(refused))
    assert not wrong, "\n".join(wrong)
    rows = (term.what.root / "grades.csv").read_text(encoding="utf-8")
    assert [s.id for s in term.students if s.id not in rows] == []  # who sent nothing is named, too


def people_read(term: Term) -> None:
    with formgrader(term) as url:
        assert points_given(asking(url)) == sum(s.reads for s in term.students)


def points_given(asked) -> int:
    """How many written answers got three points: the Formgrader's own page asks for grades and puts scores, so does this."""
    waiting = 0
    for submission in asked("GET", f"submitted_notebooks/{TOPIC}/exercises"):
        for one in asked("GET", f"grades?submission_id={submission['id']}"):
            if one["name"] == WRITTEN and one["needs_manual_grade"]:
                waiting += 1
                asked("PUT", f"grade/{one['id']}", {"manual_score": 3, "extra_credit": None})
    return waiting


@contextlib.contextmanager
def formgrader(term: Term):
    """The URL of a JupyterLab with nbgrader's Formgrader on this course; its token is `t`."""
    release.write(
        term.folder / "autograder" / "nbgrader_config.py",
        f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
from autograder import course

c, before = get_config(), os.environ["JUPYTER_CONFIG_PATH"]
c.merge(course.config(Path({str(term.what.root)!r})))
os.environ["JUPYTER_CONFIG_PATH"] = before  # the course puts its own folder in front
""",
    )
    with scratch.jupyterlab(term.folder, term.folder / "own") as url:
        yield url


def asking(url: str):
    """What the Formgrader's API answers."""

    def asked(method: str, what: str, body: dict | None = None):
        head = {"Authorization": "token t", "Content-Type": "application/json"}
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(f"{url}formgrader/api/{what}", data, head, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    return asked


def second_try_and_mended_exercise(term: Term) -> None:
    """A better notebook from Canvas, and a check that passes everybody: what people gave stays."""
    (mine,) = (s for s in term.students if s.id == "second-try")
    mine.files, mine.worth = {"exercises-1.ipynb": dumped(filled(target.released(term.what), RIGHT))}, dict(POINTS)
    again = term.by_zip("second.zip", term.on("zip"), file_id=9100)
    assert {r.student for r in again.rows if r.state == "replaced"} == {"second-try"}
    source = term.what.notebook("source")
    nb = nbformat.read(source, as_version=4)
    check = next(c for c in nb.cells if c.id == "ch01-q01-check")
    check.source = f"{check.metadata.nbgrader.points}"  # calls nothing, so a loop that never ends has it too
    nbformat.write(nb, source)
    worked, why = course.run(course.api(term.what.config()).generate_assignment, TOPIC, force=True)
    assert worked, why
    for s in term.students:
        if s.worth and not (s.report and s.report.refused):
            s.worth = s.worth | {"ch01-q01": POINTS["ch01-q01"]}
    found = term.graded()
    assert {s.id: {e: found[s.id].scores[e][0] for e in POINTS} for s in term.students if s.worth} == {
        s.id: s.worth for s in term.students if s.worth
    }
    for s in term.students:
        if s.worth:
            assert found[s.id].scores[WRITTEN][0] == (3 if s.reads else 0), s.id
    assert {s for s, r in found.items() if WRITTEN in r.open} == {"second-try"}  # other work than was read


def feedback_and_grades_go_back(term: Term) -> None:
    """A page for everybody, through the exchange for those who came by it, and each one's points in Canvas, less those for lateness.

    What becomes of them when a deadline moves: tests/autograder/grading/test_resume.py.
    """
    late = {s: p for s, p in penalties(term.what).items() if p}
    assert late == {"late": 2}
    for s in term.students:
        assert s.way == "nothing" or term.what.page(s.id).is_file(), s.id
    api = course.api(term.what.config())
    for s in term.on("exchange"):
        worked, why = course.run(api.release_feedback, TOPIC, s.id)
        assert worked, why
    assert len(list((term.what.root / "exchange").glob("*/feedback/*.html"))) >= len(term.on("exchange"))
    grades, made = canvas_import(
        (term.what.root / "canvas.csv").read_text(encoding="utf-8"), [s.member for s in term.students], ASSIGNMENTS
    )
    assert not made
    assert {number: float(points) for (number, _), points in grades.items()} == {
        s.member.number: sum(s.worth.values()) + 3 * s.reads - late.get(s.id, 0) for s in term.students if s.worth
    }
