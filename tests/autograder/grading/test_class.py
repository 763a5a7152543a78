"""Whole classes through nbgrader: the demo, the known holes, and nbgrader's own commands (slow)."""

import os
import re
import shutil
import subprocess
import sys

import nbformat
import pytest
from nbformat import from_dict
from nbformat.v4 import new_code_cell

from autograder import demo, grade, grade_own, release
from autograder.grading import feedback_pages
from autograder.making import in_process_grading
from autograder.places import COURSE, ROOT, Tree
from autograder.samples import bank

pytestmark = pytest.mark.slow

SAMPLE = ROOT / "tests" / "autograder" / "sample"
TREE = Tree(SAMPLE)
TOPIC = "ch01_sample"


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    """Nothing of nbgrader's goes into the home folder; warnings of others' code are theirs."""
    for name in ("HOME", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("COURSE_SECRET", "not a secret")
    (tmp_path / "home").mkdir()


def open_class(folder, seconds=8) -> grade.Class:
    what = demo.open_class(TOPIC, TREE, folder / "course")
    return grade.Class(what.topic, what.scratch, timeout=seconds)


@pytest.mark.filterwarnings("default")
def test_sample_class(tmp_path):
    """Nobody stops the others; the scores are those of `in_process_grading`; feedback and grades.csv are there."""
    what, made = open_class(tmp_path), demo.sample_class(TOPIC, TREE, SAMPLE)
    assert set(made) == {"reference", "untouched", "partly-done", "mutant-1", "mutant-2", "variant-1", "never-ends",
                         "corrupt-json", "deleted-cell"}  # fmt: skip
    demo.hand_in(what, made)
    results = {r.student: r for r in grade.grade(what)}
    assert set(results) == set(made)
    for student in ("reference", "untouched", "partly-done", "mutant-1", "mutant-2", "variant-1"):
        expected = {
            in_process_grading.exercise_of(k): v.score for k, v in in_process_grading.judge(made[student]).items()
        }
        assert {e: results[student].scores[e][0] for e in expected} == expected, student
    assert results["deleted-cell"].total == results["reference"].total == 5
    assert results["deleted-cell"].notes == ["The cell ch01-q01-check was missing; it was put back."]
    assert results["never-ends"].scores["ch01-q01"] == (0, 2)
    assert results["never-ends"].scores["ch01-q02"] == (3, 3)
    assert "ch01-q01 did not end in time" in results["never-ends"].notes[0]
    assert results["corrupt-json"].total == 0
    assert {s for s, r in results.items() if r.why} == {"corrupt-json"}
    assert results["reference"].open == {"ch01-q03"}
    assert results["untouched"].open == set()

    table = grade.table(list(results.values()))
    assert "corrupt-json: The submitted file is not a notebook" in table
    assert len((what.root / "grades.csv").read_text().splitlines()) == 1 + len(made)
    for student in made:
        page = (what.root / "feedback" / student / TOPIC / "exercises.html").read_text(encoding="utf-8")
        assert "10**9" not in page and "HIDDEN" not in page
        assert "cdnjs" not in page and 'src="http' not in page
        assert ("could not be graded" in page) == (student == "corrupt-json")


@pytest.mark.full("the sample's class goes the same way, and a chapter's scores are those of stock nbgrader")
@pytest.mark.filterwarnings("default")
def test_chapters_class(tmp_path):
    """nbgrader gives the demo's class of a real chapter what `in_process_grading` gives it; test_against_stock goes through all of them."""
    source = Tree(ROOT).exercises[0]
    what = demo.open_class(source.stem, Tree(ROOT), tmp_path / "course")
    made = demo.sample_class(source.stem, Tree(ROOT), bank.SAMPLES)
    made = {
        s: nb
        for s, nb in made.items()
        if s in ("reference", "untouched", "mutant-1", "mutant-6", "variant-1", "variant-2")
    }
    demo.hand_in(what, made)
    for result in grade.grade(what):
        expected = {}
        for name, verdict in in_process_grading.judge(made[result.student]).items():
            got = expected.get(in_process_grading.exercise_of(name), 0)
            expected[in_process_grading.exercise_of(name)] = got + verdict.score
        assert {e: result.scores[e][0] for e in expected} == expected, result.student


def solved_wrong(released):
    """A submission with a wrong answer to 1.1 and no others."""
    nb = from_dict(released)
    cell(nb, "ch01-q01").source = "def seconds(V, W):\n    return V * W"
    return nb


def cell(nb, cell_id):
    return next(c for c in nb.cells if c.id == cell_id)


def skip_execution(nb):
    for c in nb.cells:
        c.metadata["tags"] = ["skip-execution"]


def edited_tests(nb):
    for c in nb.cells:
        if c.id.endswith("-check"):
            c.source = "2.0"


def checks_as_text(nb):
    for i, c in enumerate(nb.cells):
        if c.id.endswith("-check"):
            nb.cells[i] = from_dict({"cell_type": "markdown", "id": c.id, "metadata": c.metadata, "source": c.source})


def more_points(nb):
    for c in nb.cells:
        c.metadata.get("nbgrader", {})["points"] = 99


def checks_marked_as_answers(nb):
    for c in nb.cells:
        if c.id.endswith("-check"):
            c.metadata["nbgrader"] |= {"solution": True, "locked": False}
            c.source = "2.0"


def checks_deleted(nb):
    nb.cells = [c for c in nb.cells if not c.id.endswith("-check")]


def newer_schema(nb):
    for c in nb.cells:
        c.metadata.get("nbgrader", {})["schema_version"] = 99


def doubled_tests(nb):
    nb.cells += [
        new_code_cell("2.0", id=f"again-{i}", metadata=c.metadata)
        for i, c in enumerate(nb.cells)
        if c.id.endswith("-check")
    ]


def other_kernel(nb):
    nb.metadata["kernelspec"] = {"name": "ruby", "display_name": "Ruby", "language": "ruby"}


def script_in_text(nb):
    nb.cells.insert(0, from_dict({"cell_type": "markdown", "id": "x", "metadata": {"released": True},
                                  "source": "<script>alert(1)</script><img src=x onerror=alert(2)>"}))  # fmt: skip


def script_in_output(nb):
    text = "from IPython.display import HTML\nHTML('<script>alert(1)</script><b onclick=alert(2)>x</b>')"
    nb.cells.append(new_code_cell(text, id="y"))


HOLES = [skip_execution, edited_tests, checks_as_text, more_points, checks_marked_as_answers, checks_deleted, newer_schema,
         doubled_tests, other_kernel, script_in_text, script_in_output]  # fmt: skip


@pytest.mark.filterwarnings("default")
def test_holes(tmp_path):
    """None of these wins a point, loses an honest student's, or stops the class."""
    what = open_class(tmp_path)
    released = nbformat.read(what.notebook("release"), as_version=4)
    for hole in HOLES:
        nb = solved_wrong(released)
        hole(nb)
        release.write(what.notebook("submitted", hole.__name__.replace("_", "-")), nbformat.writes(nb, version=4))
    honest = solved_wrong(released)
    cell(honest, "ch01-q01").source = "def seconds(V, W):\n    return V / W"
    newer_schema(honest), skip_execution(honest), doubled_tests(honest)
    release.write(what.notebook("submitted", "honest-but-damaged"), nbformat.writes(honest, version=4))
    release.write(what.notebook("submitted", "shadow"), nbformat.writes(solved_wrong(released), version=4))
    release.write(
        what.notebook("submitted", "shadow").parent / "ipykernel_launcher.py",
        f"open({str(tmp_path / 'escaped')!r}, 'w')",
    )
    what.notebook("submitted", "link").parent.mkdir(parents=True)
    what.notebook("submitted", "link").symlink_to(what.notebook("source"))
    (what.root / "submitted" / "empty" / TOPIC).mkdir(parents=True)
    release.write(what.notebook("submitted", "killer"), nbformat.writes(solved_wrong(released), version=4).replace(
        "return V * W", "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"))  # fmt: skip
    release.write(what.notebook("submitted", "deaf"), nbformat.writes(solved_wrong(released), version=4).replace(
        "return V * W", "import signal\\n    signal.signal(signal.SIGINT, signal.SIG_IGN)\\n    while True: pass"))  # fmt: skip

    results = {r.student: r for r in grade.grade(what)}
    assert results.pop("honest-but-damaged").total == 2
    assert {s: r.total for s, r in results.items() if r.total} == {}
    assert not (tmp_path / "escaped").exists()
    assert not (what.root / "autograded" / "shadow" / TOPIC / "ipykernel_launcher.py").exists()
    assert {s for s, r in results.items() if r.why} == {"link", "empty"}
    assert "is a link" in results["link"].why
    assert "no notebook exercises.ipynb" in results["empty"].why
    assert "no result after" in results["deaf"].said["ch01-q01"][0]
    assert len((what.root / "grades.csv").read_text().splitlines()) == 2 + len(results)
    for student in ("script-in-text", "script-in-output"):
        page = (what.root / "feedback" / student / TOPIC / "exercises.html").read_text(encoding="utf-8")
        assert "alert(1)" in page
        assert "<script>alert" not in page and "<img src=x" not in page and "<b onclick" not in page


@pytest.mark.filterwarnings("default")
def test_own_work_is_graded_and_left_alone(tree, tmp_path, capsys):
    """`make check` gives the score of the full tests and writes nothing."""
    release.release(tree, tmp_path / "course", database=False)
    mine = tree.released(TOPIC)
    # Passes the visible case, fails the hidden ones.
    mine.write_text(
        mine.read_text(encoding="utf-8").replace("raise NotImplementedError()", "return V / 2", 1), encoding="utf-8"
    )
    before = {p: p.read_bytes() for p in tree.root.rglob("*") if p.is_file()}
    assert grade_own.main([], tree) == 0
    assert {p: p.read_bytes() for p in tree.root.rglob("*") if p.is_file()} == before
    said = capsys.readouterr().out
    assert "Exercise 1.1: 0 of 2 points" in said
    of = re.fullmatch(r"Chapter 1: 0 of (\d) points, 0 of 2 exercises passed; next: 1.1.", said.splitlines()[-1])
    assert re.search(
        rf"^points .* {of[1]}$", said, re.M
    )  # the table and the line count alike, without what a person grades
    assert grade_own.main(["ch09_nothing"], tree) == 1


@pytest.mark.filterwarnings("default")
def test_commands_of_nbgrader(tmp_path):
    """generate, release, fetch, submit, collect, validate, autograde, feedback, export: as its manual says."""
    shutil.copytree(COURSE, tmp_path / "autograder", ignore=lambda folder, names: [
        n for n in names if folder == str(COURSE) and n in
        ("source", "release", "submitted", "autograded", "feedback", "exchange", "gradebook.db")])  # fmt: skip
    shutil.copytree(ROOT / "helpers", tmp_path / "helpers")
    course = tmp_path / "autograder"
    release.generate(TREE, tmp_path / "scratch", tmp_path / "scratch" / "notebooks", database=False)
    shutil.copytree(tmp_path / "scratch" / "source", course / "source")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER_CONFIG", "COURSE_", "PYTHONPATH"))}

    def nbgrader(*words, ok=True):
        done = subprocess.run(
            [sys.executable, "-m", "nbgrader", *words], cwd=course, env=environment, capture_output=True, text=True
        )
        assert (done.returncode == 0) == ok, done.stdout + done.stderr
        return done.stdout + done.stderr

    nbgrader("generate_assignment", TOPIC, "--force")
    assert (course / "gradebook.db").is_file()
    nbgrader("release_assignment", TOPIC)
    assert TOPIC in nbgrader("list")
    nbgrader("fetch_assignment", TOPIC)
    mine = tmp_path / "work" / TOPIC / "exercises.ipynb"
    said = nbgrader("validate", str(mine))
    assert (
        "Nothing that is begun fails." in said
        and re.search(r"0 of \d points, 0 of 2 exercises passed; next: 1.1. Not begun: 1.1, 1.2, 1.3.", said)
        and "cell failed" not in said
    )
    nb = nbformat.read(mine, as_version=4)
    cell(nb, "ch01-q01").source = "def seconds(V, W):\n    return V / W"
    cell(nb, "ch01-q02").source = "def longer(a, b):\n    return max(a, b), max(a, b) / min(a, b)"
    cell(nb, "ch01-q03").source = "Latency."
    nbformat.write(nb, mine)
    assert "Success" in nbgrader("validate", str(mine))
    nbgrader("submit", TOPIC)
    nbgrader("collect", TOPIC)
    nbgrader("autograde", TOPIC)
    nbgrader("generate_feedback", TOPIC)
    nbgrader("release_feedback", TOPIC)
    nbgrader("fetch_feedback", TOPIC)
    nbgrader("export")
    row = (course / "grades.csv").read_text().splitlines()[1].split(",")
    assert row[0] == TOPIC and row[-2:] == ["5.0", "9.0"]
    assert list((tmp_path / "work" / TOPIC).rglob("*.html"))


@pytest.mark.filterwarnings("default")
def test_feedback_pages_are_there_and_up_to_date(tmp_path, monkeypatch):
    """A page that is missing, or older than a score given by hand, is written by the next grading, and no other."""
    what = open_class(tmp_path)
    released = nbformat.read(what.notebook("release"), as_version=4)
    for student in ("ada", "bob", "eve"):
        nb = solved_wrong(released)
        cell(nb, "ch01-q03").source = "Latency."
        release.write(what.notebook("submitted", student), nbformat.writes(nb, version=4))
    written, pages = [], feedback_pages.write_pages
    monkeypatch.setattr(
        feedback_pages, "write_pages", lambda what, students: written.append(students) or pages(what, students)
    )
    grade.grade(what)
    (what.page("bob")).unlink()
    with what.gradebook() as gradebook:
        gradebook.find_comment("ch01-q03", "exercises", TOPIC, "eve").manual_comment = "Say which latency."
        gradebook.db.commit()
    grade.grade(what)
    grade.grade(what)
    assert written == [["ada", "bob", "eve"], ["bob", "eve"], []]
    assert "Say which latency." in what.page("eve").read_text(encoding="utf-8")
