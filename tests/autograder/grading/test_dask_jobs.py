"""The same jobs on Dask give the same, also when a worker is killed in the middle; and nothing of the cluster stays."""

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest

from autograder.grading import jobs, workers
from autograder.places import ROOT, SourceError
from tests.autograder.grading import faked
from tests.autograder.grading.test_jobs import gone
from tests.scratch import copy
from tests.skip_conditions import needs

try:
    from autograder.grading import dask_jobs as cluster
except ImportError:
    cluster = None


pytestmark = pytest.mark.xdist_group("dask")  # they share a scheduler


@pytest.fixture(autouse=True, scope="module")
def dask():
    needs(cluster, "Dask is not installed: make env EXTRA=dask")


def plain(results) -> dict:
    """Student -> what was found, without what differs between two runs."""
    found = list(results)
    assert len({g.student for g in found}) == len(found)
    return {g.student: dataclasses.replace(g, seconds=0.0) for g in found}


def below(before: frozenset[int] | set[int] = frozenset()) -> set[int]:
    """Processes under this one, without those of `before` and their children: a browser of other tests starts some at any time."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if before.isdisjoint([process.pid, *(p.pid for p in process.parents())]):
                found.add(process.pid)
    return found


@pytest.mark.slow
def test_a_worker_killed_in_the_middle(tmp_path, monkeypatch, capfd):
    """One Dask worker of this machine's, with jobs under way; besides, a job that kills its process, and one that raises."""
    monkeypatch.setenv("COURSE_SECRET", "hush")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    names = ["once-1", "dies-1", "raises-1", *(f"slow-{i}" for i in range(30)), *(f"s-{i}" for i in range(100))]
    taken, most, found, before = [], 0, [], below()

    def todo():
        for job in faked.jobs(*names, marks=tmp_path):
            taken.append(job)
            yield job

    with workers.pool(faked.assignment(), "dask", faked.graded) as pool:
        assert pool.client.scheduler.address.startswith("tls://")
        pids = pool.client.run(os.getpid)
        assert len(pids) == (os.cpu_count() or 1)
        for one in pool.run(todo()):
            most = max(most, len(taken) - len(found))
            found.append(one)
            if len(found) == 4:
                started = below(before)
                apart(started)
                os.kill(next(iter(pids.values())), signal.SIGKILL)
    assert not gone(started)
    assert not os.listdir(tmp_path / "temporary")  # Dask's scheduler has a folder of its own, too
    assert most <= 2 * len(pids) + 2 + 3  # jobs are taken when workers are free; three have no verdict the first time
    assert capfd.readouterr() == ("", "")
    here, there = [j for j in taken if j.student.startswith("s-")], plain(found)
    assert {j.student: there[j.student] for j in here} == plain(faked.graded(faked.assignment(), j) for j in here)
    assert there["once-1"].notebook == "1-ecno" and there.keys() == {*names}
    assert {g.student for g in found if g.why} == {"dies-1", "raises-1"}


def apart(pids) -> None:
    """None of these processes has a secret of ours, or listens where others could reach it."""
    listening = set()
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):  # one of them kills itself
            process = psutil.Process(pid)
            assert not [v for v in process.environ().values() if "hush" in v]
            listening |= {c.laddr.ip for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN}
    assert listening == {"127.0.0.1"}


class Somebody:
    """A scheduler and workers that are not ours."""

    def __init__(self, folder):
        self.folder, self.started = folder, []
        self.start("scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", "at.json")
        at = folder / "at.json"
        while not (at.is_file() and at.read_text().rstrip().endswith("}")):  # it is written after it is there
            assert self.started[0].poll() is None
            time.sleep(0.1)
        self.address = json.loads(at.read_text())["address"]

    def start(self, role, *options, path="") -> subprocess.Popen:
        paths = os.pathsep.join(filter(None, [str(path), os.environ.get("PYTHONPATH")]))
        with open(self.folder / f"log-{len(list(self.folder.glob('log-*')))}", "wb") as log:
            command = [sys.executable, "-m", f"distributed.cli.dask_{role}", "--host", "127.0.0.1", *options]
            env = jobs.environment() | {"PYTHONPATH": paths}
            self.started.append(subprocess.Popen(command, cwd=self.folder, env=env, stdout=log, stderr=log))
        return self.started[-1]

    def worker(self, path) -> subprocess.Popen:
        """A worker that has the course that lies in `path`."""
        before = len(list(self.folder.glob("log-*")))
        options = "--nthreads", "2", "--no-dashboard", "--local-directory", str(self.folder)
        started = self.start("worker", self.address, *options, path=path)
        log, ends = self.folder / f"log-{before}", time.monotonic() + 300
        while "Registered to" not in log.read_text():
            assert started.poll() is None and time.monotonic() < ends, log.read_text()
            time.sleep(0.1)
        return started

    def stop(self, *processes: subprocess.Popen) -> None:
        pids = [p.pid for mine in processes for p in psutil.Process(mine.pid).children(recursive=True)]
        for process in reversed(processes):
            process.terminate()
            process.wait(60)
            self.started.remove(process)
        assert not gone(pids)


@pytest.fixture(scope="module")
def somebody(tmp_path_factory):
    made = Somebody(tmp_path_factory.mktemp("somebody"))
    yield made
    made.stop(*made.started)


@pytest.fixture
def alone(somebody):
    """A scheduler that has no worker yet, and none again afterwards."""
    yield somebody
    somebody.stop(*somebody.started[1:])


@pytest.mark.slow("starts a scheduler and workers")
def test_a_scheduler_that_runs_already(alone, tmp_path, capfd):
    """Its workers may come later; a worker with two threads grades two at a time; afterwards it is as it was."""
    todo = faked.jobs(*(f"slow-{i}" for i in range(8)), marks=tmp_path)
    with workers.pool(faked.assignment(), alone.address, faked.graded) as pool:
        assert "has no workers yet" in capfd.readouterr().err
        worker = alone.worker(ROOT)
        found = list(pool.run(todo))
        processes = {int(g.seconds) for g in found}
    assert {g.student for g in found} == {j.student for j in todo} and not any(g.why for g in found)
    assert len(processes) == 2 and not gone(processes)
    assert worker.poll() is None and alone.started[0].poll() is None
    with workers.pool(faked.assignment(), alone.address, faked.graded) as pool:
        assert len(list(pool.run(faked.jobs("a", "b")))) == 2


@pytest.mark.slow("starts a worker")
def test_a_worker_without_the_course_is_refused(alone, tmp_path):
    (tmp_path / "bare" / "autograder").mkdir(parents=True)
    (tmp_path / "bare" / "autograder" / "__init__.py").touch()  # hides the one installed with this Python
    alone.worker(tmp_path / "bare")
    with pytest.raises(SourceError, match="does not find the course .*start it with the course's folder on PYTHONPATH"):
        workers.pool(faked.assignment(), alone.address, faked.graded)


@pytest.mark.slow("starts workers")
def test_a_worker_with_another_version_is_refused(alone, tmp_path):
    other = copy(tmp_path / "other")
    with open(other / "helpers" / "check" / "compare.py", "a") as f:
        f.write("# mended\n")
    refusal = "The Dask worker tcp://127.* has another version of the course"
    with workers.pool(faked.assignment(), alone.address, faked.graded) as pool:
        alone.worker(other)
        with pytest.raises(SourceError, match=refusal):
            list(pool.run(faked.jobs("a")))
    with pytest.raises(SourceError, match=refusal):
        workers.pool(faked.assignment(), alone.address, faked.graded)
    with cluster.Client(alone.address, set_as_default=False) as client:
        left = client.run_on_scheduler(lambda dask_scheduler: [*dask_scheduler.worker_plugins])
    assert not [name for name in left if name.startswith("grading-")]  # each later worker would get it


@pytest.mark.slow("starts schedulers and workers, and waits until they are given up")
@pytest.mark.parametrize("after", [0, 1, 5])
def test_a_scheduler_that_dies(after, tmp_path):
    """Before the first job, and in the middle: one sentence, and nothing more when the pool is closed."""
    mine, taken = Somebody(tmp_path), []
    try:
        mine.worker(ROOT)
        with pytest.raises(SourceError, match="scheduler does not answer any more. What was graded is kept"):
            with workers.pool(faked.assignment(), mine.address, faked.graded) as pool:
                results = pool.run(faked.jobs(*(f"slow-{i}" for i in range(40)), marks=tmp_path))
                taken += [next(results) for _ in range(after)]
                mine.started[0].kill()
                taken += results
    finally:
        mine.stop(*mine.started)
    assert after <= len(taken) < 40


@pytest.mark.slow("waits for a scheduler that never answers")
def test_no_scheduler():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(SourceError, match=f"No Dask scheduler answers at {address}"):
            workers.pool(faked.assignment(), address, faked.graded)
