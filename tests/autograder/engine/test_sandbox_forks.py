"""One warm interpreter serves a class: hundreds of forks, and it is as it was after the first ones."""

import inspect
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autograder.engine import run_submission as engines
from autograder.places import ROOT
from tests.autograder.engine.small import LIMITS, notebook
from tests.autograder.engine.test_sandbox import LESS, host_of
from tests.tiers import repeats

LEFT = "x = np.ones(1000)\nopen('left', 'w').write('x')\nimport os\nif os.fork() == 0:\n    os.setsid()\n    while True: pass"


def family(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for p in found:
        for task in Path(f"/proc/{p}/task").glob("*/children"):
            found += map(int, task.read_text().split())
    return found


def alive(pid: int) -> bool:
    """Whether it does anything any more: who adopts it may be slow to notice that it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def state(engine) -> dict:
    """What could grow: processes, descriptors, groups, folders, memory of the warm interpreter."""
    pids = family(engine.zygote.sandbox.process.pid)
    status = Path(f"/proc/{pids[-1]}/status").read_text()
    folder = engine.zygote.sandbox.folder
    return {
        "processes": len(pids),
        "own descriptors": len(os.listdir("/proc/self/fd")),
        "its descriptors": len(os.listdir(f"/proc/{pids[-1]}/fd")) if os.getuid() == 0 else 0,
        "groups": sum(
            len(list(g.parent.glob(f"grading-{os.getpid()}-*"))) for g in engine.zygote.sandbox.group.folders
        ),
        "folders": os.listdir(folder) if folder else [],
        "mounts": len(Path(f"/proc/{pids[-1]}/mounts").read_text().splitlines()),
        "memory": int(status.split("VmRSS:")[1].split()[0]),
    }


FEW, MANY = 12, repeats(100, 500)
TIMES = [
    ("bubblewrap", FEW),
    *(pytest.param(level, FEW, marks=pytest.mark.slow) for level in LESS if level != "bubblewrap"),
    pytest.param("bubblewrap", MANY, marks=pytest.mark.slow),
    *(pytest.param(level, MANY, marks=pytest.mark.full) for level in LESS if level != "bubblewrap"),
]


@pytest.mark.parametrize(("level", "times"), TIMES)
def test_forks_leave_nothing_nor_does_an_engine(level, times, tmp_path, monkeypatch):
    """No process, group, folder or descriptor more than after the first ones, and none after the engine is closed."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    descriptors = os.listdir("/proc/self/fd")
    empty = notebook({})
    bundle = engines.bundle(empty)
    with engines.Engine(LIMITS, host_of(level)) as e:
        e.open_checker(bundle)
        for i in range(times + 3):
            got = e.grade(bundle, notebook({}, LEFT if i % 2 else "print('alive')"))
            assert not got.notes
            if i == 2:
                before = state(e)
        after = state(e)
        processes = family(e.zygote.sandbox.process.pid) + family(e.checker.sandbox.process.pid)
        groups = e.zygote.sandbox.group.folders + e.checker.sandbox.group.folders
    assert after.pop("memory") < before.pop("memory") + 5_000  # kB
    assert after == before
    assert not [p for p in processes if alive(p)]
    assert not [g for g in groups if g.exists()]
    assert os.listdir(tmp_path) == []
    assert len(os.listdir("/proc/self/fd")) == len(descriptors)


BY_A_WORKER = pytest.param("bubblewrap", marks=pytest.mark.full("as tests/autograder/grading/test_jobs.py does"))
KILLED = """
    import dataclasses, sys
    from autograder.engine import run_submission, sandbox
    from tests.autograder.engine.small import LIMITS, notebook
    host = dataclasses.replace(sandbox.available(), **eval(sys.argv[1]))
    e = run_submission.Engine(dataclasses.replace(LIMITS, cell=60), host)
    e.open_checker(run_submission.bundle(notebook({})))
    print(e.warm_zygote().sandbox.process.pid, e.checker.sandbox.process.pid, flush=True)
    e.grade(run_submission.bundle(notebook({})), notebook({}, sys.argv[2]))"""


@pytest.mark.slow("starts an interpreter and its engine")
@pytest.mark.parametrize("level", [*[x for x in LESS if x != "bubblewrap"], BY_A_WORKER])
def test_a_killed_engine_takes_all_with_it(level, tmp_path):
    """Whatever an answer does at that moment; its folder goes with the next engine."""
    host_of(level)
    code = f"{LEFT}\nimport signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    command = [sys.executable, "-B", "-c", inspect.cleandoc(KILLED), repr(LESS[level]), code]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        tops = [int(pid) for pid in process.stdout.readline().split()]
        assert wait_for(lambda: len(family(tops[0])) >= len(family(tops[1])) + 2)  # the orphan, too
        pids = [p for top in tops for p in family(top)]
        process.kill()
    assert wait_for(lambda: not any(map(alive, pids))), [p for p in pids if alive(p)]


def wait_for(condition, seconds: float = 60) -> bool:
    ends = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends:
            return False
        time.sleep(0.05)
    return True
