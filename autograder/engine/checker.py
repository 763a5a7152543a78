"""The trusted side: runs an assignment's checks, hidden tests included, where no learner's code ever runs.

It is long-lived, so that what checks compile is compiled once for a class. Names that a check reads and the course has not
given are fetched from the child; they are dropped after the check, so that the next one sees the newest.
"""

import builtins
import contextlib
import gc
import json
import math
import numbers
import os
import resource
import socket
import sys
import time
import warnings
from collections.abc import Callable

from . import jax_internals, wire
from .answer_process import Bounded, carried_out, compiled, executed, save_time
from .answer_proxy import Link
from .cell_names import free_names
from .exported_program import Readers
from .program_data import Endless

BUILTINS = frozenset(dir(builtins))
WARM = ["helpers.check.sharded_program", "helpers.trace", "helpers.kernels.mesh", "helpers.plot"]


def main(settings: dict, sock: socket.socket) -> None:
    """Confine this process; a fork of it serves the engine until it closes the socket, and itself it forks readers of programs."""
    from . import linux_isolation, zygote

    zygote.confine(settings)
    zygote.warm(WARM)
    zygote.check_forkable()
    control, readers = socket.socketpair()
    if os.fork():  # this one never sees a check, nor does what it forks
        sock.close()
        control.close()
        from . import program_reader

        program_reader.warm()
        zygote.serve(settings | {"cpu": int(settings["limits"]["check"])}, readers, program_reader.serve)
    readers.close()
    os.setsid()  # whoever signals its own group does not mean the other
    linux_isolation.die_with_parent()
    os.chdir(settings["job"])
    linux_isolation.limits(
        2 * settings["limits"]["address_space"], 1 << 30, 1000 + linux_isolation.tasks(), resource.RLIM_INFINITY
    )
    zygote.lock(settings, settings["job"])
    import jax

    from helpers.check import compare

    compare.CLOSED = ()  # no answer runs in this process, and closing formulas takes time with each call
    if settings["level"] != "landlock":  # else there is no small disk of its own to keep them on
        keep_compiled(f"{settings['job']}/compiled")
    jax.devices()
    save_time()
    gc.collect()
    gc.freeze()
    warnings.simplefilter("ignore")  # whatever a check writes on stderr costs its points
    wire.receive(control)  # it is ready
    server = Server(settings["limits"], sock, Readers(control), jax_internals.share_context())
    wire.send(sock, {"ready": True})
    while True:
        try:
            request, fds = wire.receive_with_descriptors(sock)
        except wire.Closed:
            os._exit(0)
        try:
            reply = getattr(server, request.pop("op"))(fds=fds, **request)
        except Exception as e:
            reply = {"fault": f"{type(e).__name__}: {str(e)[:500]}"}
        wire.send(sock, reply)


def keep_compiled(folder: str) -> None:
    """Compile the same program once for a class: on this sandbox's own disk, which no program can write to.

    Programs of several devices are not kept. Read from a disk, one of XLA:CPU has lost the order of a collective in a loop
    and one outside it: devices wait for each other until XLA ends the process (JAX 0.10.2, 0.12.0).
    """
    import jax

    jax_internals.keep_programs_of_one_device()
    for name, value in (
        ("jax_compilation_cache_dir", folder),
        ("jax_persistent_cache_min_compile_time_secs", 0),
        ("jax_persistent_cache_min_entry_size_bytes", -1),
        ("jax_persistent_cache_enable_xla_caches", "none"),
    ):
        jax.config.update(name, value)


class Server:
    """Assignments that were opened, and the submission that is being judged."""

    def __init__(self, limits: dict, engine: socket.socket, readers: Readers, anew: Callable):
        """anew: makes what programs of one submission share"""
        self.limits, self.engine, self.readers, self.anew = limits, engine, readers, anew
        self.assignments, self.link = {}, None

    def open(self, key: str, cells: list[dict], seed: str, fds=()) -> dict:
        """Take an assignment: its given cells run now, its checks wait."""
        os.environ["COURSE_SEED"] = seed
        self.assignments[key] = Assignment(cells)
        return {"ready": True}

    def start(self, key: str, values: str, cells: list[str], fds=()) -> dict:
        """Begin a submission; `values` seeds what the hidden tests draw, `cells` are its sources."""
        from helpers.check import class_values, solutions

        self.readers.end()
        self.anew()
        class_values.kept = self.assignments[key].kept
        solutions._tries.clear()
        solutions._passed.clear()
        os.environ["COURSE_VALUES"] = values
        self.lines = {
            (n, line.strip()) for cell in cells for n, line in enumerate(cell.splitlines(), 1) if line.strip()
        }
        self.assignment, self.scope = self.assignments[key], dict(self.assignments[key].scope)
        return {"ready": True}

    def child(self, fds: list[int]) -> dict:
        """Take the socket of the child that has the learner's names from now on."""
        if self.link:
            self.link.sock.close()
        self.link = Link(socket.socket(fileno=fds[0]), self.readers, self.why_ended, self.lines)
        return {"ready": True}

    def why_ended(self) -> str:
        """Why the child is no more: the engine knows."""
        wire.send(self.engine, {"ended": True})
        return wire.receive(self.engine)["why"]

    def check(self, id: str, fds=()) -> dict:
        """Run a check; its outputs as nbgrader reads them, and the state of the child after it."""
        from helpers.check import class_values

        check = self.assignment.checks[id]
        self.link.deadline = time.process_time() + self.limits["check"]
        fetched = []
        try:
            for name in check.names:
                if name not in self.scope:
                    found, value = self.link.get(name)
                    if found:
                        self.scope[name] = value
                        fetched.append(name)
            class_values.learners = fetched
            outputs = judged(check, self.scope)
        except Endless:
            return {"endless": True, "child": self.link.state}
        except Exception as e:  # of the child, while names were fetched
            outputs = [
                {"kind": "stderr", "text": f"The answer could not be asked: {' '.join(of_fault(e)).strip()}.\n"},
                {"kind": "result", "text": "0"},
            ]
        finally:
            for name in fetched:
                self.scope.pop(name, None)
        return {"outputs": outputs, "child": self.link.state}


class Check:
    """A released check."""

    def __init__(self, id: str, source: str, points: float):
        self.points = points
        self.names = sorted(free_names(source) - BUILTINS)
        self.code = compiled(source, f"<{id}>")  # once for a class


class Assignment:
    """The course's cells of a notebook: names that they make, and checks."""

    def __init__(self, cells: list[dict]):
        self.scope = {"__name__": "__main__", "display": lambda *things, **_: None}
        self.checks, self.kept = {}, {}
        for cell in cells:
            if cell["kind"] == "check":
                self.checks[cell["id"]] = Check(cell["id"], cell["source"], cell["points"])
                continue
            try:
                with contextlib.redirect_stdout(Bounded(0)), contextlib.redirect_stderr(Bounded(0)):
                    executed(cell["source"], f"<{cell['id']}>", self.scope)
            except Exception as e:
                if cell["kind"] == "given":  # a cell that shows what answers draw may fail here, for there are none
                    raise ValueError(f"the given cell {cell['id']} fails: {type(e).__name__}: {e}") from e


def judged(check: Check, scope: dict) -> list[dict]:
    """What a check prints, and its points as the value of the cell; of an error no more than its name."""
    out, err = Bounded(20_000), Bounded(20_000)
    fault, value = None, None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            value = carried_out(*check.code, scope)
        except Exception as e:
            fault = e
    found = [{"kind": k, "text": s.getvalue()} for k, s in (("stdout", out), ("stderr", err)) if s.getvalue()]
    if fault is not None:
        name, text = of_fault(fault)
        return found + [{"kind": "error", "ename": name, "evalue": text}]
    return found + [{"kind": "result", "text": repr(clamped(value, check.points))}]


def of_fault(e: Exception) -> tuple[str, str]:
    """Type and text of an exception; of an answer's own no more than `helpers.check` says of it."""
    from helpers.check import raised

    if getattr(e, "ours", False):
        return "", str(e)
    return raised.kind(e), raised.text(e)


def clamped(value, points: float):
    """Points between none and all: nbgrader loses a submission that has more."""
    if not isinstance(value, numbers.Real) or not math.isfinite(value):
        return 0
    return max(0, min(value, int(points) if points == int(points) else points))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), socket.socket(fileno=int(sys.argv[2])))
