"""What a learner has read, answered and reviewed: one file for all processes, one line of text, and the same in the browser."""

import json
import random
import re
import shutil
import subprocess
import sys

import pytest

from helpers import check, study_time
from helpers.check import progress, record
from helpers.check.record import Entry, Record, as_line, of_line
from tests.helpers.check.conftest import PAGE
from tests.scratch import ROOT
from tests.tiers import repeats

LABELS = [*study_time.sections()][:60]
QUESTIONS = [f"{label}.{n}" for label in LABELS[:20] for n in (1, 2)]
NUMBERS = [*study_time.exercises()][:40]


def drawn(draw: random.Random) -> Record:
    """A record that days of work could have made."""

    def some(names, states):
        return {
            name: Entry(draw.randrange(300, 400), draw.choice(states))
            for name in draw.sample(names, draw.randrange(20))
        }

    return Record(some(LABELS, [0]), some(QUESTIONS, [0, 1]), some(NUMBERS, [0]), some(QUESTIONS, [0, 1, 2, 3, 4]))


def merged(*records: Record) -> Record:
    result = Record()
    for one in records:
        result.bring(one)
    return result


def test_a_line_says_all_and_may_come_twice_in_any_order():
    draw = random.Random(52)
    for _ in range(repeats(40, 400)):
        a, b, c = drawn(draw), drawn(draw), drawn(draw)
        assert of_line(as_line(a)) == a
        assert merged(a, b, c) == merged(c, b, a, b) == merged(merged(b, c), a)


@pytest.mark.skipif(not shutil.which("node"), reason="there is no node here")
def test_the_browser_reads_writes_and_merges_lines_alike(tmp_path):
    """Each pair of lines is brought to a page, one after the other; a store of its own stands for the browser's."""
    draw = random.Random(7)
    pairs = [[as_line(drawn(draw)), as_line(drawn(draw))] for _ in range(repeats(40, 400))]
    broken = ["", "hello 3", "r2r1 2 s:sec-bounds=332", "r2r1 1 s:sec-bou", "r2r1 1 r:sec-a.1=3", "r2r1 1 s:<b>=3"]
    program = """
        const held = {}; globalThis.localStorage = { getItem: k => held[k] ?? null, setItem: (k, v) => { held[k] = v; } };
        const say = f => { try { return f(); } catch (error) { return error.message; } };
        const { pairs, broken } = JSON.parse(require("fs").readFileSync(0));
        console.log(JSON.stringify([
          pairs.map(lines => { held.r2r = ""; for (const l of lines) courseRecord.bring(courseRecord.parse(l)); return held.r2r; }),
          broken.map(l => say(() => courseRecord.line(courseRecord.parse(l)))),
          courseRecord.today(new Date(2026, 10, 30, 23, 59)), courseRecord.today(new Date(2027, 0, 1, 0, 1))]));"""
    script = tmp_path / "twin.js"
    script.write_text((ROOT / "book/_static/record.js").read_text(encoding="utf-8") + program, encoding="utf-8")
    done = subprocess.run(
        ["node", script], input=json.dumps({"pairs": pairs, "broken": broken}), capture_output=True, text=True
    )
    lines, said, *days = json.loads(done.stdout)
    assert lines == [as_line(merged(*map(of_line, pair))) for pair in pairs]
    assert said[0].startswith("This is no line of the course") and "cut short" in said[2] and "'s:sec-bou'" in said[3]
    for line, told in zip(broken, said, strict=True):
        with pytest.raises(ValueError, match=re.escape(told)):
            of_line(line)
    assert days == [333, 365] == [record.day_of(progress.date.fromisoformat(d)) for d in ("2026-11-30", "2027-01-01")]


WRITES = """
import sys
from pathlib import Path
from helpers.check import progress, record

path, kind, *names = Path(sys.argv[1]), *sys.argv[2:]
progress.attended, progress.place = (lambda: True), (lambda: path)
for name in names:
    if kind == "sections":
        record.note_sections(path, [name])
    elif kind == "questions":
        record.note_question(name, True)
    else:
        progress.note(name, "", 1, 1, 0)
"""


def test_processes_that_write_at_once_lose_nothing(tmp_path):
    """Two read sections, a third answers questions, and a fourth passes exercises, all into one file."""
    path = tmp_path / "progress.json"
    jobs = [("sections", LABELS[:30]), ("sections", LABELS[30:]), ("questions", QUESTIONS[:30]), ("exercises", NUMBERS)]
    run = [sys.executable, "-c", WRITES, str(path)]
    workers = [subprocess.Popen([*run, kind, *names], cwd=ROOT) for kind, names in jobs]
    assert [worker.wait() for worker in workers] == [0] * 4
    kept = json.loads(path.read_text())
    assert {*kept["sections"]} == {*LABELS} and {*kept["questions"]} == {*QUESTIONS[:30]}
    assert {*kept["exercises"]} == {*NUMBERS}


def test_a_guess_in_a_notebook_is_kept_and_a_right_one_stays_right(work, capsys):
    replies = {6: "two hops each way.", 3: "one way."}
    for guess in (None, 3, 6, 3):
        check.question(guess, replies, right=6, unit="hops", name="sec-bounds.1")
    assert record.read(work / "progress.json").questions == {"sec-bounds.1": Entry(record.today(), 1)}
    check.question(6, replies, right=6, unit="hops")  # of a notebook from before questions had names
    assert len(record.read(work / "progress.json").questions) == 1


def test_the_start_page_has_ticks_along_the_path_and_a_link_to_what_is_next(work):
    path = work / "progress.json"
    record.note_sections(path, ["sec-bounds", "sec-of-another-edition"])
    record.refresh(work)
    page = (work / "README.md").read_text(encoding="utf-8")
    assert "✓ [Two times]" in page and page.count("✓") == 1
    assert page.startswith(
        "# A course\n\n**Go on: [Arithmetic intensity](ch01_rooflines/reading.ipynb#sec-intensity)**"
    )
    record.change(path, lambda r: r.bring(of_line("r2r1 1 e:1.1=300")))
    record.refresh(work)
    page = (work / "README.md").read_text(encoding="utf-8")
    assert "✓ [Exercise 1.1]" in page and "| passed 2026-10-28 |" in page and page.count("**Go on:") == 1
    assert record.start_page(page, {}, Record()) == progress.with_state(PAGE, {})


def test_what_a_line_brought_stays_passed_and_is_carried_on(work):
    path = work / "progress.json"
    record.change(path, lambda r: r.bring(of_line("r2r1 2 e:1.1=300 r:sec-bounds.1=310@2")))
    progress.note("1.1", "f", 0, 2, 1)  # a wrong try afterwards
    progress.note("1.2", "f", 1, 2, 1)  # one part of two
    assert as_line(record.read(path)) == "r2r1 2 e:1.1=300 r:sec-bounds.1=310@2"


def test_a_file_with_something_else_in_it_costs_only_that(work):
    path = work / "progress.json"
    path.write_text(
        '{"exercises": {}, "sections": {"sec-bounds": [300, 0], "x": 3}, "reviews": [], "path": 7, "mine": 1}'
    )
    assert record.read(path).sections == {"sec-bounds": Entry(300)} and record.read(path).path == "45 minutes"
    record.note_sections(path, ["sec-matmul"])
    assert json.loads(path.read_text())["mine"] == 1
