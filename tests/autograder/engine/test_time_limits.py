"""Seconds of a processor decide, on a quiet machine and on a busy one; what the clock ended has no verdict unless it slept."""

import contextlib
import dataclasses
import os
import random
import subprocess
import sys

import pytest
from nbformat.v4 import new_code_cell

from autograder.engine import run_submission as engines
from tests.autograder.engine.small import ANSWERS, LIMITS, notebook
from tests.skip_conditions import needs
from tests.tiers import repeats

BURN = "import time\nfor _ in range(10_000):\n    end = time.process_time() + {}\n    while time.process_time() < end: pass\n    break"
FAMILY = "import os, time\nfor _ in range(3):\n    if os.fork() == 0:\n        while True: pass\ntime.sleep(1000)"
WAYS = {  # what an answer does -> what is said of it
    "import os\nos._exit(1)": "ended",
    "while True: pass": "used more than 1 s of a processor",
    FAMILY: "used more than 1 s of a processor",
    "import time\ntime.sleep(1000)": "waited: in ",
    "keep = []\nwhile True: keep.append(b'x' * 50_000_000)": "used more than 0.9 GB of memory",
}
BRIEF = dataclasses.replace(LIMITS, cell=1, check=1, memory=900_000_000)


@contextlib.contextmanager
def busy(loops: int):
    """This process, and what it starts, on one core with so many endless loops beside it."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    beside = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        for process in beside:
            process.kill()
            process.wait()


def answer(code: str) -> str:
    body = "".join(f"    {line}\n" for line in code.splitlines())
    return f"def double(x):\n{body}    return 2 * x"


@pytest.mark.slow("waits for limits")
@pytest.mark.parametrize("groups", [True, False], ids=["cgroup", "no cgroup"])
def test_the_words_tell_apart_what_ended_an_answer(walls, groups):
    """In a cell and in a check, all processes of the answer together, and those of the next exercise are not meant."""
    needs(walls.cgroup or not groups, "no cgroup can be made here")
    host = walls if groups else dataclasses.replace(walls, cgroup="", root=False)
    with engines.Engine(BRIEF, host) as e:
        for code, said in WAYS.items():
            if not groups and "memory" in said:
                continue
            nb = notebook({"q1": f"{code}\n{ANSWERS['q1']}", "q2": answer(code), "q3": ANSWERS["q3"]})
            got = e.grade(engines.bundle(nb), nb, last=True)
            assert got.scores == {"q1-check": 0, "q2-check": 0, "q3-check": 1}, (code, got)
            assert not got.void, "what slept, alone, slept by itself"
            for words in (got.outputs["q1"][0].text, got.message("q1-check"), got.message("q2-check")):
                assert said in " ".join(words.split()), (code, words)


@pytest.mark.slow("computes for seconds beside other programs")
def test_a_right_answer_scores_on_a_busy_machine_as_on_a_quiet_one(walls):
    """It uses most of what it may, in a cell and in a check, whatever runs beside it."""
    seconds, loops = repeats(2, 6), random.Random(os.getpid()).randrange(2, 5)
    limits = dataclasses.replace(LIMITS, cell=seconds * 1.5, check=seconds * 1.5, submission=10 * seconds, clock=40)
    nb = notebook({"q1": f"{BURN.format(seconds)}\n{ANSWERS['q1']}", "q2": answer(once(seconds))})
    with busy(loops), engines.Engine(limits, walls) as e:
        got = e.grade(engines.bundle(nb), nb)
    assert got.scores == {"q1-check": 1, "q2-check": 1} and not got.notes, (loops, got)


def once(seconds: float) -> str:
    burnt = BURN.format(seconds).replace("range(10_000)", "range(1 - len(double.__dict__))")
    return f"{burnt}\ndouble.done = True"


@pytest.mark.slow("waits for limits beside other programs")
def test_what_a_busy_machine_ends_has_no_verdict(walls):
    """Neither the first time nor the last; exercises that are right all the same keep their points."""
    limits = dataclasses.replace(LIMITS, cell=4, check=4, clock=1)
    nb = notebook({"q1": ANSWERS["q1"], "q2": answer("while True: pass"), "q3": f"while True: pass\n{ANSWERS['q3']}"})
    with busy(4), engines.Engine(limits, walls) as e:
        got = e.grade(engines.bundle(nb), nb, last=True)
        e.limits = LIMITS
    assert {"q2-check", "q3-check"} <= got.void.keys() <= {"q1-check", "q2-check", "q3-check"}, got
    assert "too busy. The machine is at fault, and not your answer" in got.message("q2-check")


@pytest.mark.slow("waits for the clock")
def test_a_sleeper_has_its_verdict_the_second_time(walls):
    nb = notebook({"q1": f"import time\ntime.sleep(1000)\n{ANSWERS['q1']}", "q2": ANSWERS["q2"]})
    with engines.Engine(dataclasses.replace(BRIEF, clock=2), walls) as e:
        first, last = (e.grade(engines.bundle(nb), nb, last=last) for last in (False, True))
    assert first.void.keys() == {"q1-check"} and not last.void
    assert first.scores == last.scores == {"q1-check": 0, "q2-check": 1}


@pytest.mark.slow("computes for seconds")
def test_all_cells_run_twice_and_have_their_limits_each_time(walls):
    """Two thirds of the seconds for all, and cells that end their process."""
    limits, end = dataclasses.replace(LIMITS, cell=2, submission=6), "import os\nos._exit(1)"
    nb = notebook(ANSWERS)
    for i, code in enumerate([BURN.format(0.8)] * 5 + [end] * 3):
        nb.cells.insert(1, new_code_cell(code, id=f"own-{i}"))
    with engines.Engine(limits, walls) as e:
        got = e.grade(engines.bundle(notebook(ANSWERS)), nb)
    assert sum(got.scores.values()) == 3, got


CROWD = """def double(x):
    import os, time
    for _ in range(80):
        if not os.fork():
            full = bytearray(b"x" * 20_000_000)
            time.sleep(1000)
    time.sleep(3)
    return 2 * x
table = double"""  # the kernel may end who waits for it, and not the crowd
ODD = {  # own cells with which a notebook might have no verdict for ever
    "sleeps": ["import time\ntime.sleep(1.5)"] * 6,
    "crowds": [CROWD],
    "long": [f"'{chr(128512) * 90_000}';"] * 4,
}


@pytest.mark.slow("waits for the clock")
@pytest.mark.parametrize("kind", ODD)
def test_no_notebook_makes_itself_void(walls, kind):
    nb = notebook(ANSWERS | {"q3": "def table(n): return 0"})
    limits = dataclasses.replace(BRIEF, check=3, submission=4, clock=2)
    for i, code in enumerate(ODD[kind]):
        nb.cells.append(new_code_cell(code, id=f"own-{i}"))
        nb.cells.insert(-1, nb.cells.pop())
    with engines.Engine(limits, walls) as e:
        got = e.grade(engines.bundle(notebook(ANSWERS)), nb, last=True)
    assert not got.void and got.scores == {"q1-check": 1, "q2-check": 1, "q3-check": 0}, got
