"""What students really hand in, through the whole grading: text and pictures in odd places, several files, old encodings (slow)."""

import base64
import json
import re

import pytest
from nbconvert.exporters import HTMLExporter
from nbgrader.server_extensions.formgrader import handlers

from autograder import demo, grade
from autograder.engine.sandbox import available
from autograder.grading import records
from autograder.places import ROOT, Tree
from tests.autograder.grading.serial import Serial
from tests.autograder.grading.test_pictures import PNG
from tests.skip_conditions import needs

pytestmark = [
    pytest.mark.slow("grades a class of eight and two again"),
    pytest.mark.filterwarnings("default"),
    pytest.mark.xdist_group("handed_in"),
]

SAMPLE = ROOT / "tests" / "autograder" / "sample"
TOPIC = "ch01_sample"
RIGHT = "def seconds(V, W):\n    return V / W"
PICTURE = base64.b64encode(PNG).decode()


def cell(nb, key):
    return next(c for c in nb["cells"] if c["id"] == key)


def bare(nb):
    for c in nb["cells"]:
        c["metadata"] = {}
        c.pop("id", None)
    nb["metadata"] = {}


@pytest.fixture(scope="module")
def what(tmp_path_factory):
    """A class that handed in, not yet graded."""
    needs(available().refusal is None, available().refusal or "")
    folder = tmp_path_factory.mktemp("handed_in")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HOME", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
            patch.setenv(name, str(folder / "home"))
        patch.setenv("COURSE_SECRET", "not a secret")
        patch.setattr(grade, "pool", Serial)
        made = demo.open_class(TOPIC, Tree(SAMPLE), folder / "course")
        for student, hand_in in STUDENTS.items():
            place = made.notebook("submitted", student).parent
            place.mkdir(parents=True)
            nb = json.loads(made.notebook("release").read_text("utf-8"))
            cell(nb, "ch01-q01")["source"] = RIGHT
            hand_in(nb, place, made)
        yield made


@pytest.fixture(scope="module")
def results(what) -> dict[str, grade.Result]:
    return {r.student: r for r in grade.grade(what, progress=False)}


def put(nb, place, name="exercises.ipynb", coding="utf-8"):
    (place / name).write_bytes(json.dumps(nb, ensure_ascii=coding == "utf-8").encode(coding, "xmlcharrefreplace"))


def text(source, **more):
    return {"cell_type": "markdown", "metadata": {}, "source": source, **more}


def below(nb, place, what):
    nb["cells"].append(text("Latency, as I <b>measured</b>."))
    put(nb, place)


def deepnote(nb, place, what):
    cell(nb, "ch01-q03")["source"] = "Latency, as I measured."
    bare(nb)
    put(nb, place)


def drawn(nb, place, what):
    held = {"image.png": {"image/png": PICTURE}, "b.png": {"image/svg+xml": "PHN2Zz4="}}
    cell(nb, "ch01-q03").update(
        source="As drawn: ![roofline](attachment:image.png) ![b](attachment:b.png)", attachments=held
    )
    put(nb, place)


def copied(nb, place, what):
    put(nb, place, "exercises-Copy1.ipynb")
    (place / "exercises.ipynb").write_bytes(what.notebook("release").read_bytes())


def several(nb, place, what):
    copied(nb, place, what)
    cell(nb, "ch01-q01")["source"] += "\n\n\nkept = 1"
    put(nb, place, "exercises-Copy2.ipynb")


def old(nb, place, what):
    cell(nb, "ch01-q03")["source"] = "Größe"
    put(nb, place, coding="cp1252")


def script(nb, place, what):
    (place / "answers.py").write_text(RIGHT)


def untouched(nb, place, what):
    (place / "exercises.ipynb").write_bytes(what.notebook("release").read_bytes())


STUDENTS = {f.__name__: f for f in (below, deepnote, drawn, copied, several, old, script, untouched)}


def page(what, student) -> str:
    return what.page(student).read_text("utf-8")


def test_all_that_was_written_waits_for_a_person(results):
    assert {s for s, r in results.items() if r.open} == {"below", "deepnote", "drawn", "old"}
    assert {s for s, r in results.items() if r.scores["ch01-q01"][0] == 2} == {
        "below",
        "deepnote",
        "drawn",
        "old",
        "copied",
    }


def test_notes_say_what_was_done(results):
    said = {s: " ".join(r.notes) for s, r in results.items()}
    assert "ch01-q03 stood outside of its cell" in said["below"]
    assert "The picture b.png was left out" in said["drawn"]
    assert "exercises-Copy1.ipynb is, so it was graded" in said["copied"]
    assert "older encoding" in said["old"]
    assert "ch01-q03 stood outside of its cell" in said["deepnote"] and said["untouched"] == ""
    shown = grade.table([*results.values()])
    assert "older encoding" in shown and "only answers.py (Python code)" in shown
    assert "several others are: exercises-Copy1.ipynb, exercises-Copy2.ipynb" in results["several"].why


def test_pages_show_it(what, results):
    assert "Latency, as I" in page(what, "below") and "<b>measured" not in page(what, "below")
    assert [page(what, s).count("No response") for s in ("untouched", "below")] == [3, 1]
    assert re.search(f'<img[^>]* src="data:image/png;base64,{re.escape(PICTURE)}"', page(what, "drawn"))
    assert "svg+xml;base64,PHN2Zz4=" not in page(what, "drawn") and "attachment" not in page(what, "drawn")
    assert "Größe" in page(what, "old")


def test_the_formgrader_shows_it(what, results):
    """By its own template and settings."""
    exporter = HTMLExporter(
        config=what.config(), template_name="formgrade", extra_template_basedirs=[handlers.template_path]
    )
    names = (
        "assignment_id",
        "notebook_id",
        "submission_id",
        "student",
        "last_name",
        "first_name",
        "notebook_path",
        "base_url",
    )
    resources = dict.fromkeys(names, "x") | {"index": 0, "total": 1}
    shown = {
        s: exporter.from_filename(str(what.notebook("autograded", s)), resources=dict(resources))[0]
        for s in ("below", "drawn")
    }
    assert "Latency, as I" in shown["below"] and "<b>measured" not in shown["below"]
    assert f"data:image/png;base64,{PICTURE}" in shown["drawn"]


def test_a_score_given_for_it_stays(what, results):
    with what.gradebook() as gradebook:
        given = gradebook.find_grade("ch01-q03", "exercises", TOPIC, "below")
        assert given.needs_manual_grade
        given.manual_score, given.needs_manual_grade = 3, False
        gradebook.db.commit()
    Serial.jobs = []
    again = {r.student: r for r in grade.grade(what, progress=False)}
    assert Serial.jobs == [] and again["below"].total == 5 and not again["below"].open


def test_another_file_that_counts_is_a_new_submission(what, results):
    """The notebook with the right name is filled in after all: it is graded in place of the copy."""
    place = what.notebook("submitted", "copied").parent
    nb = json.loads((place / "exercises-Copy1.ipynb").read_text("utf-8"))
    cell(nb, "ch01-q01")["source"] = "def seconds(V, W):\n    return W"
    put(nb, place)
    Serial.jobs = []
    again = {r.student: r for r in grade.grade(what, progress=False)}
    assert [j.student for j in Serial.jobs] == ["copied"]
    assert again["copied"].total == 0 and again["copied"].notes == []


def test_what_was_graded_before_is_found(what, results, monkeypatch):
    """Another way to read submissions is no new submission: no check is run, and the text waits."""
    with what.gradebook() as gradebook:
        grade_of = gradebook.find_grade("ch01-q03", "exercises", TOPIC, "deepnote")
        grade_of.auto_score, grade_of.needs_manual_grade = 0, False
        by_hand = gradebook.find_grade("ch01-q03", "exercises", TOPIC, "old")
        by_hand.manual_score, by_hand.needs_manual_grade = 2, False
        gradebook.db.commit()
    monkeypatch.setattr(records, "taking", lambda: "another")
    Serial.jobs = []
    again = {r.student: r for r in grade.grade(what, progress=False)}
    assert {j.student for j in Serial.jobs} == set(STUDENTS)
    assert all(
        j.only == frozenset() for j in Serial.jobs if j.student in ("below", "deepnote", "drawn", "old", "untouched")
    )
    assert again["deepnote"].open == {"ch01-q03"} and again["old"].total == 4 and not again["old"].open
