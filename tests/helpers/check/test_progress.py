"""What a learner has won and tried is kept across days, never while work is graded, and nothing that goes wrong there is felt."""

import errno
import json
import os
from types import SimpleNamespace

import pytest

from helpers import check
from helpers.check import progress, record, solutions
from tests.helpers.check.conftest import PAGE
from tests.helpers.check.told import answer, double


def restart(monkeypatch):
    monkeypatch.setattr(solutions, "_tries", {})
    monkeypatch.setattr(solutions, "_passed", set())
    monkeypatch.setattr(solutions, "_recalled", set())
    monkeypatch.setattr(progress, "_noted", {})


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
    held = progress.read(work / "progress.json")
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
    assert record.start_page(page, {}, record.Record()) == progress.with_state(PAGE, {})
    assert (work.parent / "notebooks/README.md").read_text(encoding="utf-8") == PAGE
    assert {p.name for p in work.iterdir()} == {"ch01_rooflines", "README.md", "progress.json"}  # nothing half-written


def test_an_untouched_answer_leaves_no_trace(work):
    def stub():
        raise NotImplementedError

    check.report("1.1", answer(stub, 1))
    assert not (work / "progress.json").exists()


BROKEN = (
    b"", b"\xff\xfe", b"[]", b"<<<<<<< HEAD\n{}", b'{"exercises": {"1.1": {"f": 3}}}',
    b'{"exercises": {"1.1": {"f": {"won": "3"}}}}',
)  # fmt: skip


@pytest.mark.parametrize("held", BROKEN)
def test_a_broken_file_is_put_aside_and_said(work, held, capsys):
    (work / "progress.json").write_bytes(held)
    assert not check.passed("1.1")
    report("1.1", RIGHT)
    said = capsys.readouterr()
    assert said.out.count("progress.json cannot be read: it is progress-broken-") == 1 and said.err == ""
    (aside,) = work.glob("progress-broken-*.json")
    assert aside.read_bytes() == held and set(progress.read(work / "progress.json")) == {"1.1"}


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
