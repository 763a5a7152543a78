"""One submission: its cells in a child, the released checks in the checker, outputs by cell. No files, no database.

    with Engine() as engine:
        result = engine.grade(bundle(source_notebook), rebuilt, values=seed(secret, "ch01_rooflines", "ada", 1))

The same notebook and seed give the same outputs, so that a job may be lost and done again, on this machine or another.
"""

import contextlib
import secrets
import socket
import time
from collections.abc import Collection, Iterator, Set

from nbformat import NotebookNode

from . import wire
from .bundle import Bundle, Result, bundle as bundle, seed as seed
from .cell_names import exercise_number, key_of
from .cell_outputs import failure, length, points_of, shown, stopped, verdict
from .peers import Peer, Peers, Refused as Refused
from .sandbox import Sandbox
from .time_limits import Over, Watch

LIVES = 6  # children for one submission: the first, and one for each that had to be ended
ENDED_TWICE = "No verdict: the process that checks this answer ended twice."
OURS = "The machine is at fault, and not your answer: it has to be graded again."


class Engine(Peers):
    """Grades with a zygote and a checker, one submission at a time."""

    def grade(
        self, bundle: Bundle, notebook: NotebookNode, values: str = "", only: Collection[str] | None = None, last=False
    ) -> Result:
        """Run a rebuilt notebook's answers and the bundle's checks, in the notebook's order.

        Outputs are those of a run before it, without checks: afterwards an answer knows what it was called with.

        only  the checks to run, if not all: the others have neither outputs nor scores
        last  what slept until the clock ended it has a verdict: it runs alone, and not for the first time
        """
        self.warm_zygote(bundle.helpers)
        self.open_checker(bundle)
        wanted = bundle.checks.keys() if only is None else bundle.checks.keys() & set(only)
        run = Run(self, bundle, values, wanted, last)
        cells = [(key_of(c), c.source) for c in notebook.cells if c.cell_type == "code"]
        try:
            run.put_out(cells)
            for id, source in cells:
                run.cell(id, source)
            for missing in sorted(run.wanted - run.result.outputs.keys()):
                run.fail(missing, "This check has no cell in the notebook.")
        finally:
            run.end()
        return run.result


class Run:
    """One submission on its way."""

    def __init__(self, engine: Engine, bundle: Bundle, values: str, wanted: Set[str], last: bool):
        self.engine, self.bundle, self.values, self.wanted, self.last = engine, bundle, values, wanted, last
        self.limits, self.result = engine.limits, Result()
        self.checks, self.given = bundle.checks, bundle.given
        self.written = {id for id, *_ in bundle.cells}
        self.good: list[tuple[str, str]] = []  # cells to replay
        self.sources: list[str] = []  # of cells, for the lines of exceptions
        self.asked_by_checks = False  # then what cells put out is kept no more
        self.child: socket.socket | None = None
        self.budget = self.limits.outputs
        self.told, self.started = None, None  # the checkers that have this child, this submission
        self.kills = 0  # processes of answers that the kernel had ended for their memory when the child began
        self.over: Over | None = None  # why the child was ended in the midst of a check
        self.stopped = ""  # why the last cell was interrupted
        self.late = ""  # what the clock has ended: a check that finds no more than a part of its points has no verdict
        self.begin()

    def begin(self) -> None:
        """All cells run from here: an honest notebook that takes most of what it may does so each time."""
        self.lives, self.used, self.clock = 0, 0.0, self.limits.clock * self.limits.submission
        self.ends = time.monotonic() + self.clock
        self.asleep = 0.0  # seconds of the clock that nobody wanted a processor

    def cell(self, id: str, source: str) -> None:
        """Run a cell or its check; whatever happens, it has outputs afterwards, if they are wanted."""
        if id in self.checks and id not in self.wanted:
            return
        if time.monotonic() > self.ends:
            if not (self.last and self.asleep > self.clock / 2):
                self.late = "No verdict: this machine was too busy for the whole notebook."
            self.fail(id, self.late or "Not run: cells and answers above it waited for too long.")
        elif self.used > self.limits.submission:
            self.fail(id, f"Not run: the whole notebook may use {self.limits.submission:g} s of a processor.")
        elif id in self.checks:
            self.check(id)
        else:
            self.run(id, self.given.get(id, source))

    @contextlib.contextmanager
    def watched(self, seconds: float, *sandboxes: Sandbox) -> Iterator[Watch]:
        """A watch over sandboxes, each of which may use so many seconds of a processor, if the submission has as many left."""
        left = max(0.1, min(seconds, self.limits.submission - self.used))
        clock = min(self.limits.clock * seconds, self.ends - time.monotonic())
        watch = Watch(dict.fromkeys(sandboxes, left), max(0.1, clock))
        try:
            yield watch
        finally:
            self.used += watch.used()
            self.asleep += watch.asleep

    # -- answers

    def put_out(self, cells: list[tuple[str, str]]) -> None:
        """Run all cells while no check has called an answer, and keep what they put out; then end the process that they ran in."""
        self.sources = wire.fitting([source for _, source in cells])
        for id, source in cells:
            if id not in self.checks:
                self.cell(id, source)
        self.end()
        self.good.clear()
        self.asked_by_checks = True
        self.begin()

    def run(self, id: str, source: str) -> None:
        """Run a cell in the child."""
        for attempt in range(2):
            if not self.alive():
                return self.fail(id, "Not run: cells of this notebook ended their process too often.")
            reply = self.asked(id, source)
            if isinstance(reply, dict):
                if not self.stopped:
                    self.good.append((id, source))
                self.keep(id, reply)
                return None
            ours = self.lost()
            if not (ours and attempt == 0):  # the warm interpreter died: the cell is not to blame
                return self.fail(id, reply)

    def keep(self, id: str, reply: dict) -> None:
        """What a cell put out, unless checks have asked answers before."""
        if not self.asked_by_checks:
            outputs = self.of_the_course(id, shown(reply, self.limits, self.budget))
            if self.stopped:
                outputs = failure(self.stopped, check=False) + outputs
            self.budget -= length(outputs)
            self.result.outputs[id] = outputs

    def of_the_course(self, id: str, outputs: list[NotebookNode]) -> list[NotebookNode]:
        """A cell that the course wrote may ask for what the sandbox has not; the checker has it, and so has no learner failed."""
        if id not in self.written:
            return outputs
        return [o for o in outputs if o.get("ename") != "OffLimits"]

    def asked(self, id: str, source: str) -> dict | str:
        """The child's reply to a cell, or why there is none; `stopped` says why it was interrupted."""
        self.stopped = ""
        number, answers = secrets.token_hex(8), self.engine.zygote.sandbox
        try:
            with self.watched(self.limits.cell, answers) as watch:
                wire.send(self.child, {"op": "run", "source": source, "name": id, "number": number})
                try:
                    return wire.reply(lambda: watch.receive(self.child), number)
                except Over as over:
                    why = f"Stopped: {over.said('the cell')}."
                    if not (over.sandbox or over.slept and self.last):
                        self.late = f"No verdict: {over.said(f'the cell {id}')}."
            with self.watched(1, answers) as watch:
                self.command("interrupt")
                reply = wire.reply(lambda: watch.receive(self.child), number)
            self.note(f"{id}: {why}")
            self.stopped = why
            return reply
        except Over:
            return why
        except wire.Closed:
            return f"Stopped: the cell {self.too_large}." if self.out_of_memory() else "The cell ended its own process."
        except wire.WireError as e:
            return f"What the cell sent was no reply{'.' if self.asked_by_checks else f': {e}'}"

    def alive(self) -> bool:
        """A child that has run the good cells so far: a new one if there is none."""
        while self.child is None:
            if self.lives >= LIVES or self.used > self.limits.submission or time.monotonic() > self.ends:
                return False
            self.lives += 1
            self.fork()
            for id, source in list(self.good):
                if not isinstance(self.asked(id, source), dict):
                    self.good.remove((id, source))
                    self.note(f"The cell {id} did not run a second time as it did the first time.")
                    self.lost()
                    break
        return True

    def fork(self) -> None:
        """A fresh child."""
        for attempt in range(3):
            before = time.monotonic()
            zygote = self.engine.warm_zygote(self.bundle.helpers)
            self.ends += time.monotonic() - before  # our own start-up is not the submission's time
            self.child, theirs = socket.socketpair()
            try:
                with theirs:
                    zygote.ask(30, [theirs.fileno()], op="fork")
                self.told, self.kills = None, zygote.sandbox.group.out_of_memory()
                return
            except (wire.WireError, TimeoutError):
                self.drop_child()
                self.engine.drop(zygote)
                if attempt == 2:
                    raise

    def command(self, op: str) -> bool:
        """Interrupt or kill by way of the zygote; False if that is dead itself."""
        zygote = self.engine.zygote
        try:
            if zygote:
                zygote.ask(30, op=op)
                return True
        except (wire.WireError, TimeoutError):
            self.engine.drop(zygote)
        return False

    def lost(self) -> bool:
        """End the child; whether the zygote was dead already."""
        self.drop_child()
        return not self.command("kill")

    def drop_child(self) -> None:
        if self.child:
            self.child.close()
        self.child, self.told = None, None

    def out_of_memory(self) -> bool:
        """Whether the kernel has ended a process of the answers for its memory."""
        zygote = self.engine.zygote
        return zygote is not None and zygote.sandbox.group.out_of_memory() > self.kills

    @property
    def too_large(self) -> str:
        return f"used more than {self.limits.memory / 1e9:g} GB of memory"

    def end(self) -> None:
        if self.child:
            self.lost()

    # -- checks

    def check(self, id: str) -> None:
        """Run a check in the checker."""
        for attempt in range(2):
            if not self.alive():
                return self.fail(id, "Not checked: cells of this notebook ended their process too often.")
            kills = self.engine.checker.sandbox.group.out_of_memory() if self.engine.checker else 0
            try:
                reply = self.judged(id)
            except Over as over:
                self.drop_checker()
                if over.sandbox:
                    return self.fail(id, f"Stopped: {over.said('the check of this answer')}.")
                return self.void(id, f"No verdict: {over.said('the check')}.")
            except (wire.WireError, TimeoutError):
                checker = self.engine.checker
                full = checker is not None and checker.sandbox.group.out_of_memory() > kills
                self.drop_checker()
                if full and attempt:  # its memory was empty before
                    return self.fail(id, f"Stopped: the check of this answer {self.too_large}.")
                continue
            if "fault" in reply:
                return self.void(id, f"No verdict: the check failed ({reply['fault']}).")
            if self.over and not (self.over.sandbox or self.over.slept and self.last):
                return self.void(id, f"No verdict: {self.over.said('the check with its answers')}.")
            full = self.out_of_memory()
            ours = reply["child"] != "alive" and self.lost()
            if reply.get("endless"):
                return self.fail(
                    id, f"Stopped: the check of this answer used more than {self.limits.check:g} s of a processor."
                )
            if ours and full and attempt:
                return self.fail(id, f"Stopped: the answer {self.too_large}.")
            if ours:
                continue
            score = points_of(reply["outputs"], self.checks[id])
            if self.late and score < self.checks[id]:
                return self.void(id, self.late)
            self.result.outputs[id], self.result.scores[id] = self.traced_back(id, verdict(reply["outputs"])), score
            return None
        return self.void(id, ENDED_TWICE)

    def judged(self, id: str) -> dict:
        """The checker's reply; meanwhile it may ask why the child ended."""
        checker, answers = self.checker_that_knows(), self.engine.zygote.sandbox
        self.over = None
        with self.watched(self.limits.check, answers, checker.sandbox) as watch:
            watch.most[checker.sandbox] *= 2  # it ends by itself what it computes for too long, and stays
            wire.send(checker.socket, {"op": "check", "id": id})
            while True:
                try:
                    reply = watch.receive(checker.socket)
                except Over as over:
                    if self.over or over.sandbox is checker.sandbox:
                        raise
                    self.over = over
                    self.lost()
                    watch.most.pop(answers)
                    watch.clock += self.limits.check  # for the checker, to see that nobody answers any more
                    continue
                if "ended" not in reply:
                    return reply
                wire.send(checker.socket, {"why": self.why_ended()})

    def why_ended(self) -> str:
        """Why the child is no more, for a learner; "" if it has ended itself."""
        if self.over:
            return self.over.said("the answer")
        return f"the answer {self.too_large}" if self.out_of_memory() else ""

    def drop_checker(self) -> None:
        if self.engine.checker:
            self.engine.drop(self.engine.checker)
        self.lost()

    def traced_back(self, id: str, outputs: list[NotebookNode]) -> list[NotebookNode]:
        """If the names that a check lacks were lost with the answer's cell, it says what happened there."""
        for o in outputs:
            if o.output_type == "stream" and o.text.startswith("Run the cells above first"):
                if why := stopped(self.result.outputs.get(id.split("-check")[0], [])):
                    o.text = f"Exercise {exercise_number(id) or id}: the answer's cell did not end well. {why}\n"
        return outputs

    def checker_that_knows(self) -> Peer:
        """The checker, told whose answers it gets."""
        checker = self.engine.checker
        if checker is None or self.told is not checker:
            before = time.monotonic()
            checker = self.engine.open_checker(self.bundle)
            self.ends += time.monotonic() - before
            if self.started is not checker:
                checker.ask(30, op="start", key=self.bundle.key, values=self.values, cells=self.sources)
                self.started = checker
            checker.ask(30, [self.child.fileno()], op="child")
            self.told = checker
        return checker

    def fail(self, id: str, why: str) -> None:
        """Nothing for this cell, and a sentence; a cell that has put something out keeps that."""
        if id in self.checks and self.late:
            return self.void(id, self.late)
        if id in self.checks or id not in self.result.outputs or not self.asked_by_checks:
            self.result.outputs[id] = failure(why, id in self.checks)
        if id in self.checks:
            self.result.scores[id] = 0.0
        self.note(f"{id}: {why}")

    def void(self, id: str, why: str) -> None:
        """No verdict on this check, and a sentence."""
        self.result.outputs[id], self.result.scores[id] = failure(f"{why} {OURS}", True), 0.0
        self.note(f"{id}: {why}")
        self.result.void[id] = why

    def note(self, said: str) -> None:
        if said not in self.result.notes:
            self.result.notes.append(said)
