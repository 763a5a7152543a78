"""Grading on Dask: the same jobs in the same processes, on as many machines as a scheduler has workers.

COURSE_WORKERS=dask starts a scheduler and workers on this machine; COURSE_WORKERS=tcp://host:port uses those that run already,
however they were started: by hand, over SSH, by Slurm, on Kubernetes. Each needs this version of the course on its Python path.
Who can reach a scheduler can run code on its workers, so keep it inside a private network or use Dask's TLS.
"""

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError

import dask
from distributed import Client, KilledWorker, LocalCluster, Reschedule, WorkerPlugin

from autograder.engine.peers import last_words
from autograder.places import SourceError

from . import jobs, one_submission
from .one_submission import Assignment, Graded, Job

LOST = "The Dask worker that graded it died again and again."
QUIET = {"distributed.admin.large-graph-warning-threshold": "1 GB"}  # a submission may have 20 MB


class Grader(WorkerPlugin):
    """What every Dask worker gets once, also one that comes later: the assignment, and processes that grade."""

    def __init__(self, assignment: Assignment, grade: jobs.Grade):
        self.assignment, self.grade = assignment, grade
        self.name, self.fingerprint = f"grading-{uuid.uuid4()}", one_submission.fingerprint()
        self.local: jobs.Local | None = None
        self.why = ""  # why this Dask worker is refused

    def setup(self, worker) -> None:
        if one_submission.fingerprint() != self.fingerprint:
            self.why = (
                f"The Dask worker {worker.address} has another version of the course, of Python or of JAX:"
                " bring it to this machine's, and start it again."
            )
            raise SourceError(self.why)
        self.local = jobs.Local(self.assignment, worker.state.nthreads, self.grade)

    def graded(self, job: bytes) -> Graded:
        if self.why:  # it came late, and Dask lets it stay
            raise SourceError(self.why)
        try:
            return self.local.graded(pickle.loads(job))
        except jobs.Closed:  # this Dask worker is on its way out: another one
            raise Reschedule() from None

    def teardown(self, worker) -> None:
        if self.local:
            self.local.close()


class Dask:
    """The workers of a Dask scheduler. What it starts it ends, and nothing else."""

    def __init__(self, assignment: Assignment, where: str = "dask", grade: jobs.Grade = one_submission.graded):
        dask.config.set(QUIET)
        self.assignment, self.grader = assignment, Grader(assignment, grade)
        with contextlib.ExitStack() as opened:
            address, security = opened.enter_context(here()) if where == "dask" else (where, None)
            try:
                self.client = opened.enter_context(Client(address, security=security, timeout=10, set_as_default=False))
            except (OSError, ValueError) as e:
                raise SourceError(f"No Dask scheduler answers at {where}: {e}") from None
            opened.callback(self._unregister)  # also if it is refused: the scheduler has it all the same
            self._register()
            self.opened = opened.pop_all()
        if not self._threads():
            print(f"The Dask scheduler at {where} has no workers yet: waiting for some.", file=sys.stderr)

    def _register(self) -> None:
        try:
            self.client.register_plugin(self.grader, name=self.grader.name)
        except Exception as e:  # Dask turns some into plain ones
            if "No module named" not in str(e):
                raise
            raise SourceError(
                f"A Dask worker does not find the course ({e}): start it with the course's folder on PYTHONPATH."
            ) from None

    def _unregister(self) -> None:
        with contextlib.suppress(Exception):  # the scheduler is gone, or a worker that was refused has nothing to close
            self.client.unregister_worker_plugin(self.grader.name)

    def _threads(self) -> int:
        with answering():
            return sum(self.client.nthreads().values())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def run(self, jobs_: Iterable[Job]) -> Iterator[Graded]:
        """Grade jobs, which are taken as workers get free; results in the order in which they are ready."""
        return jobs.verdicts(jobs_, self._submit, self._result, lambda: 2 * self._threads() or 2)

    def _submit(self, job: Job):
        def graded(name, job):  # in here and of no type of ours, so that it travels whole: schedulers have no course
            import distributed

            grader = distributed.get_worker().plugins.get(name)
            if grader is None:
                raise distributed.Reschedule()
            return grader.graded(job)

        with answering():
            return self.client.submit(graded, self.grader.name, pickle.dumps(job), pure=False)

    def _result(self, job: Job, future) -> Graded:
        try:
            if future.status == "error":  # what grading raised, and not the scheduler
                return future.result()
            with answering():
                return future.result()
        except KilledWorker:
            found = one_submission.gave_up(self.assignment, job, LOST)
            found.fault = True  # hosts go; the next run tries again
            return found

    def close(self) -> None:
        """Leave the scheduler, and end what was started here."""
        self.opened.close()


@contextlib.contextmanager
def answering():
    """A question to the scheduler; Dask raises one error or another if it is gone, by the moment at which it went."""
    try:
        yield
    except (OSError, RuntimeError, CancelledError, TimeoutError):
        raise SourceError(
            "The Dask scheduler does not answer any more. What was graded is kept: start it, and run the same command again."
        ) from None


@contextlib.contextmanager
def here():
    """Address and credentials of a scheduler with a worker for each core: in a process of its own, without our settings."""
    with tempfile.TemporaryFile() as said:
        host = jobs.started(__name__, said)
        try:
            try:
                found = pickle.load(host.stdout)
            except EOFError:
                raise SourceError(f"Dask does not start on this machine: {last_words(said)}") from None
            yield found
        finally:
            host.stdin.close()  # which ends it, as our death would
            with contextlib.suppress(subprocess.TimeoutExpired):
                host.wait(60)
            host.kill()
            host.wait()
            host.stdout.close()


def main() -> None:
    """A cluster on loopback until the other side closes or dies. TLS, so that no other user of this machine can enter."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    loopback = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}
    with (
        tempfile.TemporaryDirectory(prefix="grading-dask-") as folder,
        dask.config.set({"temporary-directory": folder}),  # the scheduler's, which has no argument for it
        LocalCluster(
            n_workers=os.cpu_count() or 1, threads_per_worker=1, memory_limit=0, security=True, local_directory=folder,
            silence_logs=50, **loopback,
        ) as cluster,
    ):  # fmt: skip
        pickle.dump((cluster.scheduler_address, cluster.security), answer)
        answer.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
