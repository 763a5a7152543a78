"""A whole class through nbgrader: what everybody gets, what the platforms take back, and the week after."""

import json
import re

import pytest
from nbconvert.exporters import HTMLExporter
from nbgrader.server_extensions.formgrader import handlers

from autograder import grade
from autograder.grading import feedback_pages
from autograder.making import in_process_grading
from tests.autograder import classes
from tests.autograder.classes import ODD, PICTURE, SAMPLE, STAMPS, TOPIC, exports, penalties
from tests.autograder.lms.platforms import canvas_import, moodle_worksheet_import
from tools import demo

pytestmark = [
    pytest.mark.slow("grades a class of twenty-two, once for all of these"),
    pytest.mark.filterwarnings("default"),  # of others' code
    pytest.mark.xdist_group("class"),
]
ANSWERED_IN_WORDS = {*"reference mutant-1 mutant-2 variant-1 never-ends deleted-cell below deepnote drawn old".split()}


@pytest.fixture
def what(large_class):
    return large_class.what


@pytest.fixture
def results(large_class):
    return large_class.results


def page(what, student) -> str:
    return what.page(student).read_text("utf-8")


def test_nobody_stops_the_others(what, results):
    """The scores are those of `in_process_grading`, and a sentence says what became of the rest."""
    made = demo.sample_class(TOPIC, SAMPLE, SAMPLE.root)
    assert set(results) == {*made, *STAMPS, *ODD}
    for student in ("reference", "untouched", "partly-done", "mutant-1", "mutant-2", "variant-1"):
        judged = in_process_grading.judge(made[student])
        expected = {in_process_grading.exercise_of(k): v.score for k, v in judged.items()}
        assert {e: results[student].scores[e][0] for e in expected} == expected, student
    assert results["deleted-cell"].total == results["reference"].total == 5
    assert results["deleted-cell"].notes == ["The cell ch01-q01-check was missing; it was put back."]
    assert results["never-ends"].scores["ch01-q01"] == (0, 2)
    assert results["never-ends"].scores["ch01-q02"] == (3, 3)
    assert results["never-ends"].notes[0] == "ch01-q01: Stopped: the cell used more than 8 s of a processor."
    assert {s for s, r in results.items() if r.why} == {"corrupt-json", "several", "script"}
    assert results["corrupt-json"].total == 0
    shown = grade.table([*results.values()])
    assert "corrupt-json: The submitted file is not a notebook" in shown
    assert "older encoding" in shown and "only answers.py (Python code)" in shown
    assert "several others are: exercises-Copy1.ipynb, exercises-Copy2.ipynb" in results["several"].why


def test_pages_of_feedback_tell_no_secret_and_load_nothing(what, results):
    for student, found in results.items():
        text = page(what, student)
        assert "10**9" not in text and "HIDDEN" not in text
        assert "cdnjs" not in text and 'src="http' not in text
        assert ("could not be graded" in text) == bool(found.why), student


def test_all_that_was_written_waits_for_a_person(results):
    assert {s for s, r in results.items() if r.open} == ANSWERED_IN_WORDS
    taken = {s for s in ODD if results[s].scores["ch01-q01"][0] == 2}
    assert taken == {"below", "deepnote", "drawn", "old", "copy-beside-the-release"}


def test_pages_show_what_was_written(what):
    assert "Latency, as I" in page(what, "below") and "<b>measured" not in page(what, "below")
    assert [page(what, s).count("No response") for s in ("untouched", "below")] == [3, 1]
    assert re.search(f'<img[^>]* src="data:image/png;base64,{re.escape(PICTURE)}"', page(what, "drawn"))
    assert "svg+xml;base64,PHN2Zz4=" in page(what, "drawn") and "attachment" not in page(what, "drawn")
    assert "Größe" in page(what, "old")


def test_the_formgrader_shows_what_was_written(what):
    """By its own template and settings."""
    templates = {"template_name": "formgrade", "extra_template_basedirs": [handlers.template_path]}
    exporter = HTMLExporter(config=what.config(), **templates)
    names = "assignment_id notebook_id submission_id student last_name first_name notebook_path base_url".split()
    resources = dict.fromkeys(names, "x") | {"index": 0, "total": 1, "assignment_id": TOPIC, "notebook_id": "exercises"}
    below, drawn = (
        exporter.from_filename(str(what.notebook("autograded", s)), resources=dict(resources))[0]
        for s in ("below", "drawn")
    )
    assert "Latency, as I" in below and "<b>measured" not in below
    assert f"data:image/png;base64,{PICTURE}" in drawn
    folded = re.findall(r"<summary>Our answer, and its rubric</summary>(.*?)</details>", below, re.S)
    assert len(folded) == 1 and "BEGIN SOLUTION" not in folded[0] and "its rubric" not in page(what, "below")


def test_the_rule_for_late_work_counts_in_every_export(what):
    found = penalties(what)
    late = {"late@example.org": 2, "very-late@example.org": 5, "other-zone@example.org": 2}
    assert {s: p for s, p in found.items() if p} == late
    got = exports(what)
    assert {s: got[s] for s in STAMPS} == {s: (5 - found[s],) * 2 for s in STAMPS}


def test_canvas_and_moodle_find_everybody(large_class, tmp_path):
    """From each platform's archive to what imitates its import."""
    what, results = large_class.what, large_class.results
    numbers = {m.login or m.email: m.number for m in (*classes.BY_CANVAS, *classes.BY_MOODLE)}
    text = (what.root / "canvas.csv").read_text(encoding="utf-8")
    found, new = canvas_import(text, classes.BY_CANVAS, {4711: TOPIC})
    ours = {m.number for m in classes.BY_CANVAS}
    assert {n: float(g) for (n, _), g in found.items()} == {
        numbers[s]: r.total for s, r in results.items() if numbers.get(s) in ours
    }
    assert not {m.sortable for m in classes.BY_CANVAS} & {*new}  # the others are strangers to Canvas
    again = classes.copied(what, tmp_path)
    classes.by_moodle(again, tmp_path)  # the class list that counts is now Moodle's
    grade.export(again)
    found = moodle_worksheet_import((again.root / "moodle.csv").read_text(encoding="utf-8"), classes.BY_MOODLE, 5)
    late = penalties(what)
    assert {n: g for n, (g, _) in found.items()} == {numbers[s]: 5 - late[s] for s in STAMPS}
    assert grade.missing(what) == ["absent", "away@example.org"]


@pytest.fixture(scope="module")
def week_after(large_class, tmp_path_factory):
    """A page is lost, a person wrote a comment and a score, and a student filled in another file: graded again, twice."""
    folder = tmp_path_factory.mktemp("after")
    written, pages = [], feedback_pages.write_pages

    def noted(what, students):
        written.append(sorted(students))
        return pages(what, students)

    with pytest.MonkeyPatch.context() as patch:
        classes.apart(patch, folder)
        what = classes.copied(large_class.what, folder)
        patch.setattr(feedback_pages, "write_pages", noted)
        what.page("mutant-1").unlink()
        with what.gradebook() as gradebook:
            gradebook.find_comment("ch01-q03", "exercises", TOPIC, "old").manual_comment = "Say which latency."
            given = gradebook.find_grade("ch01-q03", "exercises", TOPIC, "below")
            assert given.needs_manual_grade
            given.manual_score, given.needs_manual_grade = 3, False
            gradebook.db.commit()
        place = what.notebook("submitted", "copy-beside-the-release").parent
        nb = json.loads((place / "exercises-Copy1.ipynb").read_text("utf-8"))
        classes.cell(nb, "ch01-q01")["source"] = "def seconds(V, W):\n    return W"
        classes.put(nb, place)
        found = {r.student: r for r in grade.grade(what, progress=False)}
        run = classes.checks_run()
        grade.grade(what, progress=False)
        assert classes.checks_run() == {}
    return what, found, run, written


def test_a_score_given_by_hand_stays(week_after):
    _, found, run, _ = week_after
    assert "below" not in run and found["below"].total == 5 and not found["below"].open


def test_another_file_that_counts_is_a_new_submission(week_after):
    """The notebook with the right name is filled in after all: it is graded in place of the copy."""
    _, found, run, _ = week_after
    assert run == {"copy-beside-the-release": None}
    assert found["copy-beside-the-release"].total == 0 and found["copy-beside-the-release"].notes == []


def test_feedback_pages_are_there_and_up_to_date(week_after):
    """A page that is missing, or older than a score given by hand, is written by the next grading, and no other."""
    what, _, _, written = week_after
    assert written == [["below", "copy-beside-the-release", "mutant-1", "old"], []]
    assert "Say which latency." in page(what, "old")
