"""What a learner has won, tried, read and reviewed is kept across days and processes, in one file that the browser reads alike."""

import errno
import json
import os
import random
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from helpers import check, study_time
from helpers.check import progress, record, solutions
from helpers.check.record import Entry, Record, as_line, of_line
from tests.helpers.check.conftest import PAGE
from tests.helpers.check.told import answer, by_scripts, double
from tests.scratch import ROOT
from tests.tiers import repeats


def restart(monkeypatch):
    monkeypatch.setattr(solutions, "_tries", {})
    monkeypatch.setattr(solutions, "_passed", set())
    monkeypatch.setattr(solutions, "_recalled", set())


RIGHT, WRONG = (6, 3), (7, 3)


def report(number, *cases):
    return check.report(number, *(answer(double, *case) for case in cases))


def test_a_restart_forgets_nothing(work, monkeypatch, capsys):
    report("1.1", RIGHT)
    for _ in range(2):
        report("1.2", WRONG)
    restart(monkeypatch)
    assert check.passed("1.1") and not check.passed("1.2")
    check.solution("1.1")
    check.solution("1.2")
    assert "1 more try" in capsys.readouterr().out.splitlines()[-1]
    report("1.2", WRONG)
    assert "After three tries you may look" in "".join(capsys.readouterr())
    held = json.loads((work / "progress.json").read_text())["exercises"]
    assert held["1.1"]["double"]["passed"] and held["1.1"]["double"]["won"] == 2
    assert held["1.2"]["double"] == held["1.2"]["double"] | {"won": 0, "of": 2, "tries": 3, "passed": None}


def test_what_was_won_stays_won_and_by_what_the_exercise_is_worth_now(work):
    report("1.2", RIGHT, WRONG)
    report("1.2", WRONG, WRONG)  # the same answer, spoilt
    held = progress.kept(work / "progress.json")
    assert progress.won(held, "1.2") == 2
    held["1.1"] = {"gone": {"won": 9, "of": 9, "tries": 0, "begun": "2026-01-02", "passed": "2026-01-02"}}
    held["9.9"] = held["1.1"]  # of another edition
    one, two = progress.standings(PAGE, held)
    assert one.passed and not two.passed and two.begun
    assert check_total(PAGE, held) == "Chapter 1: 4 of 6 points, 1 of 2 exercises passed; next: 1.2."


def check_total(page, held):
    return progress.total(progress.standings(page, held))


def test_the_check_and_the_start_page_say_where_one_stands(work, capsys):
    report("1.1", RIGHT)
    assert capsys.readouterr().out.endswith("\n\nChapter 1: 2 of 6 points, 1 of 2 exercises passed; next: 1.2.\n")
    report("1.2", WRONG)
    page = (work / "README.md").read_text(encoding="utf-8")
    today = progress.date.today()
    assert f"| 2 | passed {today} |" in page and f"| 4 | begun {today} |" in page
    assert (
        page.count("| 2 of 6 | 1 of 2 | 1 | 20\u00a0min | [1.2](ch01_rooflines/exercises.ipynb#ex-1-2) |") == 2
    )  # the chapter, and in all
    assert record.GO_ON.sub("", record.start_page(page, {}, record.Record())) == progress.with_state(PAGE, {})
    assert (work.parent / "notebooks/README.md").read_text(encoding="utf-8") == PAGE
    assert {p.name for p in work.iterdir()} == {"ch01_rooflines", "README.md", "progress.json"}  # nothing half-written


def test_an_untouched_answer_leaves_no_trace(work):
    def stub():
        raise NotImplementedError

    check.report("1.1", answer(stub, 1))
    assert not (work / "progress.json").exists()


BROKEN = (
    b"", b"\xff\xfe", b"[]", b"<<<<<<< HEAD\n{}", b'{"exercises": {"1.1": {"f": 3}}}',
    b'{"exercises": {"1.1": {"f": {"won": "3"}}}}', b"[" * 100_000,
    b'{"exercises": {"1.1": {"f": {"won": 1, "of": 1, "tries": 1, "begun": "2026-11-26", "passed": 5}}}}',
    b'{"exercises": {"1.1": {"f": {"won": 1, "of": 1, "tries": 1, "begun": "yesterday"}}}}',
)  # fmt: skip


@pytest.mark.parametrize("held", BROKEN)
def test_a_broken_file_is_put_aside_and_said(work, held, capsys):
    (work / "progress.json").write_bytes(held)
    assert not check.passed("1.1")
    report("1.1", RIGHT)
    said = capsys.readouterr()
    assert said.out.count("progress.json cannot be read: it is progress-broken-") == 1 and said.err == ""
    (aside,) = work.glob("progress-broken-*.json")
    assert aside.read_bytes() == held and set(progress.kept(work / "progress.json")) == {"1.1"}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_disk_that_takes_nothing_costs_one_sentence(work, monkeypatch, capsys, number):
    def full(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(progress.tempfile, "mkstemp", full)
    assert report("1.1", RIGHT) == report("1.2", RIGHT) == 2
    said = capsys.readouterr()
    assert said.out.count("Progress is not kept: ") == 1 and os.strerror(number) in said.out and said.err == ""
    assert not (work / "progress.json").exists()


def test_work_that_is_no_folder_costs_a_sentence(work, capsys):
    for p in (*work.iterdir(), work):
        p.rmdir() if p.is_dir() else p.unlink()
    work.write_text("not a folder")
    here = work.parent / "notebooks/ch01_rooflines"
    here.mkdir()
    os.chdir(here)
    assert report("1.1", RIGHT) == 2
    assert "progress.json cannot be read" in capsys.readouterr().out


def kernel(asked):
    return SimpleNamespace(kernel=SimpleNamespace(get_parent=lambda: asked))


@pytest.mark.parametrize(("shell", "grading", "sits"), [
    (kernel({"content": {"allow_stdin": True}}), None, True),
    (kernel({"content": {"allow_stdin": True}}), "validate", False),
    (kernel({"content": {"allow_stdin": False}}), None, False),  # nbclient: a command
    (kernel({}), None, False),
    (SimpleNamespace(), None, False),  # IPython in a terminal
    (None, None, False),
])  # fmt: skip
def test_only_where_somebody_sits(shell, grading, sits, monkeypatch):
    monkeypatch.setattr(progress, "notebook", lambda: shell)
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    if grading:
        monkeypatch.setenv("NBGRADER_EXECUTION", grading)
    assert progress.attended() is sits


CELL = """\
from helpers import check
def double(x): return 2 * x
a = check.Answer(double, points=2)
a.gives(6, 3)
check.report("1.1", a)"""


@pytest.mark.slow("starts a kernel twice")
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("takes_input", [True, False])
def test_a_kernel_writes_for_a_person_and_not_for_a_command(tmp_path, takes_input):
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(cwd=str(tmp_path))
    try:
        said = []
        client.allow_stdin = takes_input
        client.execute_interactive(CELL, allow_stdin=takes_input, output_hook=said.append, timeout=60)
        assert any("2 of 2 points" in m["content"].get("text", "") for m in said), said
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert (tmp_path / "progress.json").is_file() is takes_input


LABELS = [*study_time.sections()][:60]
QUESTIONS = [f"{label}.{n}" for label in LABELS[:20] for n in (1, 2)]
NUMBERS = [*study_time.exercises()][:40]


def drawn(draw: random.Random) -> Record:
    """A record that days of work could have made."""

    def some(names, states, times=1):
        return {
            name: Entry(draw.randrange(300, 400), draw.randrange(states), draw.randrange(times))
            for name in draw.sample(names, draw.randrange(20))
        }

    return Record(some(LABELS, 1), some(QUESTIONS, 2), some(NUMBERS, 1), some(QUESTIONS, 5, 12))


def merged(*records: Record) -> Record:
    result = Record()
    for one in records:
        result.bring(one)
    return result


def test_what_a_file_holds_has_a_line():
    sections, reviews = {"a": [10**30, 0], "b": [3, 0]}, {"d": ["x"], "e": [5, 2, 7]}
    odd = {"exercises": {}, "sections": sections, "questions": {"c": [4, 9]}, "reviews": reviews}
    assert as_line(record.of_file(odd, "")) == "r2r1 3 q:c=4+ r:e=5@2.7 s:b=3"


def test_a_line_says_all_and_may_come_twice_in_any_order():
    draw = random.Random(52)
    for _ in range(repeats(40, 400)):
        a, b, c = drawn(draw), drawn(draw), drawn(draw)
        assert of_line(as_line(a)) == a
        assert merged(a, b, c) == merged(c, b, a, b) == merged(merged(b, c), a)


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
    lines, said, *days = by_scripts(tmp_path, ("record",), program, {"pairs": pairs, "broken": broken})
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
    before = record.start_page(page, {}, Record())  # one begins where the path does
    assert "# A course\n\n**Begin: [Two times]" in before and record.GO_ON.sub("", before) == progress.with_state(
        PAGE, {}
    )


def test_what_a_line_brought_stays_passed_and_is_carried_on(work):
    path = work / "progress.json"
    record.change(path, lambda r: r.bring(of_line("r2r1 2 e:1.1=300 r:sec-bounds.1=310@2.4")))
    progress.note("1.1", "f", 0, 2, 1)  # a wrong try afterwards
    progress.note("1.2", "f", 1, 2, 1)  # one part of two
    assert as_line(record.read(path)) == "r2r1 2 e:1.1=300 r:sec-bounds.1=310@2.4"


def test_a_file_with_something_else_in_it_costs_only_that(work):
    path = work / "progress.json"
    path.write_text(
        '{"exercises": {}, "sections": {"sec-bounds": [300, 0], "x": 3}, "reviews": [], "path": 7, "mine": 1}'
    )
    assert record.read(path).sections == {"sec-bounds": Entry(300)} and not record.read(path).path
    record.note_sections(path, ["sec-matmul"])
    assert json.loads(path.read_text())["mine"] == 1
