"""Grading in processes of this machine: each job comes back once, whatever happens to the worker that has it.

A worker has no database and no secret, prints nothing, ends when whoever started it ends, and its sandboxes end with it.
"""

import contextlib
import functools
import itertools
import json
import os
import pickle
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import IO

import nbformat

from autograder.engine.peers import last_words
from autograder.places import ROOT, SourceError

from . import one_submission
from .one_submission import Assignment, Graded, Job

LINE = 100_000_000  # bytes of a result; a longer one is lost
START = 120  # seconds until a worker is ready
SPARE = 120  # seconds that a submission may take beyond its own limit
STOCK = 900  # seconds for a submission in an ordinary kernel
END = 15  # seconds for a worker to end its sandboxes
LOOK = 0.5  # seconds: a Ctrl-C right before a wait is seen only after it
DIED = "The process that graded it died twice: the machine is at fault, and not the notebook."
HUNG = "The process that graded it hung twice: the machine is at fault, and not the notebook."

Grade = Callable[[Assignment, Job], Graded]


def flow(jobs: Iterable[Job], submit: Callable, result: Callable, ahead: Callable[[], int]) -> Iterator[Graded]:
    """Results as they come, with no more than `ahead()` jobs under way: the next are taken when these are done.

    submit  starts a job and returns its future, of which `result` makes what is wanted
    """
    jobs, done, flying = iter(jobs), queue.SimpleQueue(), {}

    def refill():
        for job in itertools.islice(jobs, max(0, ahead() - len(flying))):
            flying[future := submit(job)] = job
            future.add_done_callback(done.put)

    try:
        refill()
        while flying:
            try:
                future = done.get(timeout=LOOK)
            except queue.Empty:
                continue
            job = flying.pop(future)
            refill()
            yield result(job, future)
    finally:
        for future in flying:
            future.cancel()


def verdicts(jobs: Iterable[Job], submit: Callable, result: Callable, ahead: Callable[[], int]) -> Iterator[Graded]:
    """The results of a `flow`; what has no verdict through a fault of ours is done once more at the end, alone."""
    with_job, again = (lambda job, future: (job, result(job, future))), []
    for job, found in flow(jobs, submit, with_job, ahead):
        if found.fault:
            again.append(job.again(found))
        else:
            yield found
    for job in again:
        yield from flow([job], submit, result, lambda: 1)


class Lost(Exception):
    """A job did not come back; the sentence says why."""


class Closed(RuntimeError):
    """The workers were told to end while a job was under way."""


class Processes:
    """Processes of this machine that answer one request at a time, started when they are needed, replaced when they are lost."""

    def __init__(self, workers: int, opening: bytes, environment: dict[str, str] | None = None, end: float = END):
        """opening      a pickle of what is the same for all requests, and of the function that gets it with each of them
        environment  of the processes, if they may have more than `environment()` gives
        end          seconds that they have to end by themselves
        """
        self.workers, self.opening, self.environment, self.end = workers, opening, environment, end
        self.threads = ThreadPoolExecutor(workers)
        self.idle: queue.SimpleQueue[Worker | None] = queue.SimpleQueue()
        for _ in range(workers):
            self.idle.put(None)
        self.lock, self.started, self.closed = threading.Lock(), set(), False
        self.cores = own_cores(workers)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def ask(self, request, seconds: float) -> dict:
        """What the next free process answers; Lost if it does not in so many seconds, or fails."""
        worker = self.idle.get()
        try:
            if worker is None or not worker.alive:
                worker = self._drop(worker) or self._start()
            return worker.ask(request, seconds)
        except Lost:
            worker = self._drop(worker)
            if self.closed:  # by us, so it is no verdict
                raise Closed("The workers were closed.") from None
            raise
        finally:
            self.idle.put(worker)

    def _start(self) -> "Worker":
        for _ in range(3):  # one may be killed while it starts
            with self.lock:
                if self.closed:
                    raise Closed("The workers were closed.")
                self.started.add(worker := Worker(self.environment, self.cores.pop() if self.cores else None))
            try:
                worker.open(self.opening)
                return worker
            except Lost as e:
                self._drop(worker)
                words = str(e)
        raise SourceError(f"A process that grades does not start: {words}")

    def _drop(self, worker: "Worker | None") -> None:
        if worker:
            with self.lock:
                self.started.discard(worker)
                self.cores += [] if worker.core is None else [worker.core]
            worker.kill()

    def close(self) -> None:
        """End all workers, whatever they are doing."""
        with self.lock:
            self.closed, ended = True, list(self.started)
        for worker in ended:
            worker.process.terminate()
        ends = time.monotonic() + self.end
        for worker in ended:
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(max(0.0, ends - time.monotonic()))
            worker.kill()
        self.threads.shutdown(cancel_futures=True)


class Local(Processes):
    """Grading in processes of this machine, each with an engine of its own."""

    def __init__(self, assignment: Assignment, workers: int, grade: Grade = one_submission.graded):
        super().__init__(workers, pickle.dumps((assignment, grade)))
        self.assignment = assignment
        limit = 2 * assignment.limits.clock * assignment.limits.submission + SPARE  # all cells run twice
        self.limit = limit if assignment.isolated else max(limit, STOCK)

    def run(self, jobs: Iterable[Job]) -> Iterator[Graded]:
        """Grade jobs, which are taken as workers get free; results in the order in which they are ready."""
        submit = functools.partial(self.threads.submit, self.graded)
        return verdicts(jobs, submit, lambda _, future: future.result(), lambda: 2 * self.workers)

    def graded(self, job: Job) -> Graded:
        """One job, in the next free worker."""
        try:
            return Graded(**self.ask(job, self.limit))
        except Lost as e:
            nb = one_submission.refused(nbformat.reads(self.assignment.released, as_version=4), str(e))
            return Graded(job.student, nbformat.writes(nb, version=4), why=str(e), fault=True)


def pool(assignment: Assignment, workers: str = "", grade: Grade = one_submission.graded) -> Local:
    """So many processes, or as many as there are cores, up to four."""
    if workers and not (workers.isdecimal() and int(workers)):
        raise SourceError(f'COURSE_WORKERS is "{workers}": give a number of processes.')
    return Local(assignment, int(workers or min(4, os.cpu_count() or 1)), grade)


class Worker:
    """A process that grades one job at a time: jobs go in as pickles, results come out as lines of JSON, never as code."""

    def __init__(self, environment: dict[str, str] | None = None, core: int | None = None):
        """core: the one that it runs on, with all that it starts, if not on any"""
        self.said, self.core = tempfile.TemporaryFile(), core
        self.process = started(__name__, self.said, environment)
        if core is not None:
            with contextlib.suppress(OSError):  # it was taken away meanwhile, or the process has ended
                os.sched_setaffinity(self.process.pid, {core})

    def open(self, opening: bytes) -> None:
        """Give it the assignment, and wait until it is ready."""
        try:
            self._send(opening)
            self._receive(START)
        except Lost:
            raise Lost(last_words(self.said)) from None

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def ask(self, job: Job, seconds: float) -> dict:
        self._send(pickle.dumps(job))
        reply = self._receive(seconds)
        if "failed" in reply:
            raise Lost(f"Grading failed, and not by this notebook: {reply['failed']}")
        return reply

    def _send(self, data: bytes) -> None:
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except (OSError, ValueError):  # ValueError: closed meanwhile
            raise Lost(DIED) from None

    def _receive(self, seconds: float) -> dict:
        """The next line; a worker that hangs is ended."""
        slow = threading.Event()

        def stop():
            slow.set()
            self.process.kill()

        timer = threading.Timer(seconds, stop)
        timer.daemon = True
        timer.start()
        try:
            line = self.process.stdout.readline(LINE)
        finally:
            timer.cancel()
        if not line.endswith(b"\n"):
            raise Lost(HUNG if slow.is_set() else DIED)
        return json.loads(line)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.stdout.close()
        self.said.close()


def own_cores(workers: int) -> list[int]:
    """A core for each worker, if at least one more is left; none where the system does not let a process choose.

    An engine's processes take turns, a thousand times for each submission. On a virtual machine it takes several times as
    long to wake a process on another core that sleeps as to go on with one on the same core.
    """
    cores = list(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    return random.sample(cores, workers) if workers < len(cores) else []


def environment() -> dict[str, str]:
    """What a worker gets of ours: no setting of the course, for these name its database and its secret."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("COURSE_", "PGPASS"))}


def started(module: str, said: IO[bytes], variables: dict[str, str] | None = None) -> subprocess.Popen:
    """A process of ours at the other end of two pipes; it gets no Ctrl-C of ours, and who ends its group ends nothing of ours.

    said       where it complains
    variables  its environment, if not `environment()`
    """
    return subprocess.Popen(
        [sys.executable, "-m", module], cwd=ROOT, env=variables or environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=said, start_new_session=True, creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )  # fmt: skip


# -- in the worker


def serve() -> None:
    """A worker's life: the assignment, then job after job, until the other side closes or dies."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "w")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)  # what anything prints goes nowhere
    signal.signal(signal.SIGTERM, leave)
    waiting = queue.SimpleQueue()
    threading.Thread(target=listen, args=(requests, waiting), daemon=True).start()
    assignment, grade = waiting.get()
    try:
        if grade is one_submission.graded:
            one_submission.warm(assignment)
        print(json.dumps({"ready": True}), file=replies, flush=True)
        os.dup2(null, 2)
        while True:
            print(answer(assignment, waiting.get(), grade), file=replies, flush=True)
    finally:
        one_submission.close()  # before the other side sees the end of `replies`, and kills what is left


def answer(assignment: Assignment, job: Job, grade: Grade) -> str:
    """What a job gave, or how grading it failed, as a line."""
    try:
        return json.dumps(asdict(grade(assignment, job)))
    except Exception as e:
        return json.dumps({"failed": f"{type(e).__name__}: {str(e)[:300]}"})


def leave(number: int, _) -> None:
    """Told to end: once, so that closing is not disturbed."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(0)


def listen(requests, waiting: queue.SimpleQueue) -> None:
    """Pass on what comes; when nothing comes any more, end this process in the middle of whatever it does."""
    try:
        while True:
            waiting.put(pickle.load(requests))
    except BaseException as e:
        if not isinstance(e, EOFError):
            sys.excepthook(type(e), e, None)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(END - 5)
        os._exit(1)  # something swallowed the exit


if __name__ == "__main__":
    serve()
