"""Every job comes back once, whatever happens to the workers; and nothing of them stays."""

import contextlib
import dataclasses
import importlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import nbformat
import psutil
import pytest

from autograder.engine import sandbox
from autograder.engine.bundle import bundle
from autograder.grading import jobs, one_submission, records
from autograder.places import SourceError
from tests.autograder.engine import small
from tests.autograder.grading import faked
from tests.scratch import ROOT
from tests.skip_conditions import needs
from tests.tiers import repeats

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="workers are killed by signals here")


def run(todo, workers=2, assignment=None):
    """Student -> what was found, of a pool that is closed again."""
    with jobs.Local(assignment or faked.assignment(), workers, faked.graded) as pool:
        found = list(pool.run(iter(todo)))
    assert sorted(g.student for g in found) == sorted(j.student for j in todo)
    return {g.student: g for g in found}


def gone(pids, seconds=20):
    """Wait for processes to end; those that do not. Who adopts an orphan may be slow to notice that it ended."""
    found = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(pid))
    left = []
    for process in psutil.wait_procs(found, timeout=seconds)[1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                left.append(process)
    return left


@pytest.mark.slow("starts workers, and others in place of those that die")
def test_every_job_comes_back_as_it_would_from_here(tmp_path):
    """Also one whose worker died; one that kills its worker twice takes no other with it, and neither is a verdict."""
    good = faked.jobs(*(f"s-{i}" for i in range(30)))
    found = run([*good[:9], *faked.jobs("once-1", "dies-1", "raises-1", marks=tmp_path), *good[9:]])
    for job in good:
        same = dataclasses.replace(found[job.student], seconds=0.0)
        assert same == dataclasses.replace(faked.graded(faked.assignment(), job), seconds=0.0)
    assert {s for s, g in found.items() if g.why == jobs.DIED} == {"dies-1"}
    assert found["dies-1"].fault and jobs.DIED in found["dies-1"].notebook  # for the gradebook, with the reason
    assert found["once-1"].notebook == "1-ecno" and not found["once-1"].why
    assert found["raises-1"].fault and "ZeroDivisionError: no way" in found["raises-1"].why
    pids = {int(found[job.student].seconds) for job in good}
    assert 2 <= len(pids) <= 2 + 3 and os.getpid() not in pids  # two, and one in place of each that died
    assert not gone(pids)


def test_workers_have_cores_of_their_own_where_one_more_is_left(monkeypatch):
    monkeypatch.setattr(os, "sched_setaffinity", None, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    assert len(set(jobs.own_cores(2))) == 2 and jobs.own_cores(3) == jobs.own_cores(4) == []
    monkeypatch.delattr(os, "sched_setaffinity")
    assert jobs.own_cores(1) == []


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no process may choose its core here")
@pytest.mark.slow("starts workers")
def test_a_worker_that_takes_the_place_of_another_has_its_core(monkeypatch):
    core = min(os.sched_getaffinity(0))
    monkeypatch.setattr(jobs, "own_cores", lambda _: [core])
    with jobs.Local(faked.assignment(), 1, faked.graded) as pool:
        for student in ("a", "b"):
            list(pool.run(iter(faked.jobs(student))))
            (worker,) = pool.started
            assert os.sched_getaffinity(worker.process.pid) == {core}
            worker.process.kill()
            worker.process.wait()


def test_no_process_of_jupyter_starts_with_a_parser_of_web_addresses():
    """jsonschema 4.25 and later build one when notebooks are read: longer than all else that a worker or nbgrader imports."""
    said = "import sys, nbformat.validator; print('lark' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", said], cwd=ROOT, text=True) == "False\n"


def test_what_has_no_verdict_runs_once_more_last_and_alone(monkeypatch):
    """Only the checks without one; after the second time the grader is told which they are, and the next run tries these."""
    void, ran, flying, most = {"b": ["ch01-q02-check"], "c": ["ch01-q01-check", "ch01-q02-check"]}, [], [], []
    monkeypatch.setattr(jobs.Processes, "ask", lambda self, job, seconds: dataclasses.asdict(judged(job)))

    def judged(job):
        flying.append(job.student)
        most.append((job.last, len(flying)))
        time.sleep(0.05)
        ran.append((job.student, job.only))
        left = void.get(job.student, []) if job.student == "c" or not job.last else []
        outputs = {f"ch01-q0{i}-check": [f"{job.student} {len(ran)}"] for i in (1, 2)}
        flying.remove(job.student)
        why = dict.fromkeys(left, "Busy.")
        return one_submission.Graded(job.student, outputs=outputs | job.kept, fault=bool(left), void=why)

    todo = faked.jobs(*"abcdef")
    with jobs.Local(faked.assignment(), 3, faked.graded) as pool:
        found = {g.student: g for g in pool.run(iter(todo))}
    assert sorted(ran[:6]) == [(s, None) for s in "abcdef"]
    assert {s: sorted(only) for s, only in ran[6:]} == void
    assert {n for last, n in most if last} == {1}
    assert [s for s in "abcdef" if found[s].fault] == ["c"]
    assert found["c"].trouble == "1.1, 1.2: Busy. All else is graded."
    record = records.Record("c", 1, "", {"ch01-q01-check": "x", "ch01-q03-check": "y"})
    assert records.filled(record, found["c"], None).checks == {"ch01-q03-check": "y"}


@pytest.mark.slow("waits for limits of workers")
def test_a_job_that_hangs_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "SPARE", 0)
    found = run(faked.jobs("a", "hangs-1", "b", marks=tmp_path), assignment=faked.assignment(seconds=1))
    assert found["hangs-1"].why == jobs.HUNG
    assert not found["a"].why and not found["b"].why
    assert not gone([int((tmp_path / "hangs-1").read_text())])


KILLS = repeats(3, 5)  # each costs the start of a worker


@pytest.mark.slow("starts workers")
def test_workers_killed_at_random():
    """Idle, in the middle of a job, or while it hands over a result; jobs are taken when workers are free."""
    chance, kills, taken, most, found = random.Random(7), 0, [], 0, []

    def todo():
        for job in faked.jobs(*(f"s-{i}" for i in range(1000))):
            taken.append(job.student)
            yield job

    with jobs.Local(faked.assignment(), 2, faked.graded) as pool:
        for one in pool.run(todo()):
            most = max(most, len(taken) - len(found))
            found.append(one)
            pid = int(one.seconds)
            if kills < KILLS and chance.random() < 1 / 50 and psutil.pid_exists(pid):
                os.kill(pid, signal.SIGKILL)
                kills += 1
    assert kills == KILLS and most <= 6 + KILLS  # those that lost their worker wait for the end
    assert sorted(g.student for g in found) == sorted(taken) and len(taken) == 1000
    assert not any(g.why for g in found)  # none was lost twice


@pytest.mark.slow
def test_a_worker_has_no_secret_is_quiet_and_apart(monkeypatch, capfd):
    monkeypatch.setenv("COURSE_SECRET", "hush")
    monkeypatch.setenv("COURSE_DB_URL", "postgresql://ada:hush@localhost/grades")
    monkeypatch.setenv("PGPASSWORD", "hush")
    monkeypatch.setenv("LANG", "C.UTF-8")
    with jobs.Local(faked.assignment(), 1, faked.graded) as pool:
        found = next(pool.run(faked.jobs("tells")))
        process = psutil.Process(int(found.seconds))
        assert "LANG=C.UTF-8" in found.notes
        assert not [n for n in [*found.notes, *process.environ().values()] if "hush" in n or n.startswith("COURSE_")]
        assert os.getsid(process.pid) == os.getpgid(process.pid) == process.pid
    assert capfd.readouterr() == ("", "")


class Absent:
    """An object that a worker cannot read."""

    def __reduce__(self):
        return importlib.import_module, ("no_such_module",)


@pytest.mark.slow("waits for limits of workers")
def test_a_worker_that_cannot_start_ends_the_run_with_its_last_words():
    with jobs.Local(faked.assignment(), 2, Absent()) as pool:
        with pytest.raises(SourceError, match="does not start: .*no_such_module"):
            list(pool.run(faked.jobs("a", "b", "c")))


@pytest.mark.slow("starts workers")
def test_a_fault_where_jobs_come_from_is_told():
    def todo():
        yield from faked.jobs("a", "b", "c", "d", "e", "f")
        raise OSError("disk gone")

    with jobs.Local(faked.assignment(), 2, faked.graded) as pool, pytest.raises(OSError, match="disk gone"):
        list(pool.run(todo()))


COORDINATOR = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
from tests.autograder.grading import faked
from autograder.grading import jobs
with jobs.Local(faked.assignment(), 2, faked.graded) as pool:
    found = pool.run(faked.jobs("a", "b", "hangs-1", "hangs-2", marks=sys.argv[1]))
    for _ in range(2):
        print(int(next(found).seconds), flush=True)
    print("waiting", flush=True)
    next(found)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
@pytest.mark.sample(quick=0, slow=1)
def test_workers_end_with_the_coordinator(number, tmp_path):
    """Also in the middle of a job."""
    coordinator = subprocess.Popen(
        [sys.executable, "-c", COORDINATOR, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )  # fmt: skip
    with coordinator:
        pids = [int(coordinator.stdout.readline()) for _ in range(2)]
        assert coordinator.stdout.readline() == "waiting\n"
        while len(list(tmp_path.iterdir())) < 2:  # both are in the middle of one that hangs
            assert coordinator.poll() is None
        coordinator.send_signal(number)
        coordinator.wait(30)
    assert not gone([*pids, *(int(p.read_text()) for p in tmp_path.iterdir())])


@pytest.mark.slow("starts workers")
def test_an_interrupt_that_wakes_nobody_is_seen(tmp_path):
    """One that another thread receives does not end the wait for a result, as one that comes right before it."""

    def interrupt():
        while not (tmp_path / "hangs-1").exists():
            time.sleep(0.05)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with jobs.Local(faked.assignment(), 1, faked.graded) as pool:
            thread = threading.Thread(target=interrupt)
            thread.start()
            began = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                list(pool.run(faked.jobs("hangs-1", marks=tmp_path)))
            thread.join()
    finally:
        signal.signal(signal.SIGINT, old)
    assert time.monotonic() - began < 60  # the job's own limit is three minutes


def test_settings():
    for where in ("0", "-1", "two", "1.5", "http://host"):
        with pytest.raises(SourceError, match="COURSE_WORKERS is"):
            jobs.pool(faked.assignment(), where)
    for where, n in (("3", 3), ("", min(4, os.cpu_count()))):
        with jobs.pool(faked.assignment(), where) as pool:
            assert isinstance(pool, jobs.Local) and pool.workers == n


LONG = "99731"  # seconds, and how a process in a sandbox is recognised


@pytest.mark.slow
def test_sandboxes_end_with_a_worker_that_is_killed(tmp_path, monkeypatch):
    """A real engine, in the middle of a cell: first the worker is killed, then the next one is told to end."""
    host = sandbox.available()
    needs(not host.refusal, host.refusal)
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # of the workers
    released = small.notebook(dict.fromkeys(small.ANSWERS, ""))
    stuck = small.notebook(small.ANSWERS | {"q1": f"import subprocess\nsubprocess.run(['sleep', '{LONG}'])"})
    limits = dataclasses.replace(small.LIMITS, cell=100, submission=100)
    words = "ch01_sample", nbformat.writes(released), bundle(released), "0", limits, True
    assignment = one_submission.Assignment(*words)
    with jobs.Local(assignment, 1) as pool:
        job = one_submission.Job("eve", nbformat.writes(stuck).encode())

        def wait():
            assert pool.graded(job).fault  # no verdict: `run` sends it once more
            with pytest.raises(jobs.Closed):
                pool.graded(job)

        thread = threading.Thread(target=wait)
        thread.start()
        first = busy(pool)
        os.kill(first[0], signal.SIGKILL)
        assert not gone(first)
        second = busy(pool)
    assert not gone(second)
    thread.join()
    for worker in (first[0], second[0]):
        assert not [*Path("/sys/fs/cgroup").rglob(f"grading-{worker}-*")]
    assert not [*tmp_path.iterdir()]


def busy(pool) -> list[int]:
    """The worker of a pool and all below it, once the cell runs there."""
    ends = time.monotonic() + 200
    while time.monotonic() < ends:
        for worker in list(pool.started):
            try:
                found = psutil.Process(worker.process.pid).children(recursive=True)
                if ["sleep", LONG] in [p.cmdline() for p in found]:
                    return [worker.process.pid, *(p.pid for p in found)]
            except psutil.Error:
                pass
        time.sleep(0.1)
    raise TimeoutError("no worker runs the cell")
