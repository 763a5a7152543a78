"""A warm interpreter in a sandbox: everything imported, JAX not started, one thread; it forks a child per submission.

Requests on its socket: fork (with the child's socket), interrupt, kill. It never reads a byte that a child wrote.
"""

import contextlib
import errno
import gc
import importlib
import importlib.abc
import importlib.util
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable

from . import answer_process, jax_internals, linux_isolation, wire

LOOK = 0.2  # seconds between two looks at a folder that has no limit of its own


def main(settings: dict, sock: socket.socket, shown: dict[str, str]) -> None:
    """Confine this process, import what answers use, then fork on request until the socket closes.

    shown  module of `helpers` -> source: what answers see of it
    """
    confine(settings)
    sys.path[:] = filter(os.path.isabs, sys.path)  # an editable install's hook is no folder, and answers could make one
    sys.meta_path.insert(0, Shown(shown))
    warm([*shown, "matplotlib.pyplot"])  # which looks for fonts: half a second that nobody who draws has to pay again
    jax_internals.share_context()
    serve(settings, sock, answer_process.serve)


def serve(settings: dict, sock: socket.socket, work: Callable[[socket.socket, dict], None]) -> None:
    """Fork on request until the socket closes; work: what a child does with its socket and the limits."""
    check_forkable()
    gc.collect()
    gc.freeze()
    wire.send(sock, {"ready": True})
    family = None
    while True:
        try:
            request, fds = wire.receive_with_descriptors(sock)
        except wire.WireError:
            os._exit(0)
        match request["op"]:
            case "fork":
                if family:
                    family.kill()
                family = Family(settings, fds[0], sock, work)
            case "interrupt" if family:
                family.signal(signal.SIGINT)
            case "kill" if family:
                family.kill()
                family = None
        try:
            wire.send(sock, {"done": True})
        except wire.Closed:
            os._exit(0)


class Shown(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds `helpers` in these sources and nowhere else, not in an installed copy either."""

    def __init__(self, sources: dict[str, str]):
        self.sources = sources

    def find_spec(self, name, path=None, target=None):
        if name in self.sources:
            return importlib.util.spec_from_loader(name, self, origin=self.place(name))
        if name.partition(".")[0] == "helpers":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None

    def place(self, name: str) -> str:
        return f"/course/{name.replace('.', '/')}.py"

    def is_package(self, name: str) -> bool:
        return any(other.startswith(f"{name}.") for other in self.sources)

    def get_source(self, name: str) -> str:
        return self.sources[name]

    def get_code(self, name: str):
        return compile(self.sources[name], self.place(name), "exec")


def confine(settings: dict) -> None:
    """What bubblewrap has not done: namespaces of our own, or Landlock where there are none."""
    if settings["level"] == "namespaces":
        linux_isolation.confine([tuple(s) for s in settings["shown"]], settings["empty"])
        sys.path[:] = ["/course", *sys.path]  # the old places are gone
        sys.modules[__package__].__path__[:] = [f"/course/{__package__}"]
    elif settings["level"] == "landlock":
        linux_isolation.landlock([*settings["readable"], "/proc"], [settings["job"], "/dev/null"], settings["listed"])


def warm(modules: list[str]) -> None:
    """Import what submissions or checks import, without starting JAX."""
    import jax
    import jax.export  # noqa: F401
    import jaxlib.mlir.dialects.mhlo  # noqa: F401  (the first export asks for it)
    import numpy  # noqa: F401

    jax.config.update("jax_num_cpu_devices", 8)
    for name in modules:
        importlib.import_module(name)


def check_forkable() -> None:
    """A process with a second thread, or with JAX started, must not be forked."""
    for _ in range(100):  # matplotlib's watch over a slow search for fonts is on its way out
        if len(os.listdir("/proc/self/task")) == 1:
            break
        time.sleep(0.02)
    if (threads := len(os.listdir("/proc/self/task"))) != 1:
        raise RuntimeError(f"the warm interpreter has {threads} threads, so it cannot be forked")
    if jax_internals.backend_has_started():
        raise RuntimeError("JAX has started while it was imported, so it cannot be forked")


class Family:
    """One submission: an outer process, which only waits, and the inner one, which runs the answers."""

    def __init__(self, settings: dict, fd: int, control: socket.socket, work: Callable):
        read, write = os.pipe()
        zygote = os.getpid()
        self.outer = os.fork()
        if not self.outer:
            try:
                os.close(read)
                control.close()
                outer(settings, fd, write, zygote, work)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        os.close(fd)
        os.close(write)
        told = os.read(read, 20)
        os.close(read)
        self.inner = int(told or 0)

    def signal(self, number: int) -> None:
        if self.inner:
            try:
                os.kill(self.inner, number)
            except ProcessLookupError:
                pass

    def kill(self) -> None:
        """End the inner process; the outer one sees to the rest of them and ends too."""
        self.signal(signal.SIGKILL)
        os.waitpid(self.outer, 0)


def outer(settings: dict, fd: int, tell: int, zygote: int, work: Callable) -> None:
    """Make the walls, start the inner process, wait for it, and leave nothing of it alive."""
    separate = settings["level"] != "landlock"
    if separate:
        linux_isolation.own_namespaces()
    else:
        linux_isolation.adopt_orphans()  # and end them
        os.setsid()  # and outlives the zygote for it
    inner = os.fork()
    if not inner:
        try:
            os.close(tell)
            inside(settings, fd, separate, work)
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    os.write(tell, str(inner).encode())
    os.close(tell)
    os.close(fd)
    if separate:
        os.waitpid(inner, 0)
    else:
        attend(inner, zygote, _folder(settings, inner), settings["limits"])
    os._exit(0)


def _folder(settings: dict, pid: int) -> str:
    """Where a submission writes if there are no namespaces."""
    return os.path.join(settings["job"], str(pid))


def attend(inner: int, zygote: int, folder: str, limits: dict) -> None:
    """Wait for a submission that has neither processes nor a disk to itself; then end what it leaves.

    It is ended itself if it fills too much, and when the zygote is no more.
    """
    ended, alone = os.pidfd_open(inner), os.pidfd_open(zygote)
    while ended not in (found := select.select([ended, alone], [], [], LOOK)[0]):
        size, files = used(folder)
        if size > limits["disk"] or files > limits["inodes"] or found or os.getppid() != zygote:
            os.kill(inner, signal.SIGKILL)
            select.select([ended], [], [])
    while True:
        try:
            os.wait()
            with open(f"/proc/self/task/{os.getpid()}/children") as f:
                for pid in f.read().split():
                    os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue
        except ChildProcessError:
            break
    subprocess.run(["rm", "-rf", "--", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # however deep


def used(folder: str) -> tuple[float, float]:
    """Bytes and files in a folder that somebody else writes to; endless, where names are too long to look."""
    size, count, folders = 0, 0, [folder]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    count += 1
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError as e:  # gone meanwhile
            if e.errno == errno.ENAMETOOLONG:
                return float("inf"), float("inf")
    return size, count


def lock(settings: dict, job: str) -> None:
    """Close the last doors for good: /proc and files by their names, where Landlock is the wall; rights; keys; system calls."""
    alone = settings["level"] == "landlock"
    if alone:
        linux_isolation.landlock(settings["readable"], [job, "/dev/null"], settings["listed"])
    linux_isolation.no_new_rights()
    linux_isolation.own_keyring()
    if settings["seccomp"]:
        linux_isolation.seccomp(linux_isolation.CHANGES if alone else ())


def inside(settings: dict, fd: int, separate: bool, work: Callable) -> None:
    """Take a small disk and limits, lock, then serve."""
    limits, job = settings["limits"], settings["job"]
    os.setsid()  # kill(0) crosses process namespaces: it means the group
    with contextlib.suppress(OSError):  # Landlock forbids it
        with open("/proc/self/oom_score_adj", "w") as first:  # of the group, when its memory is full
            first.write("1000")
    if separate:
        size = f"size={limits['disk']},nr_inodes={limits['inodes']},mode=700"
        linux_isolation.mount("tmpfs", job, "tmpfs", linux_isolation.NOSUID | linux_isolation.NODEV, size)
        linux_isolation.mount(
            "tmpfs",
            "/proc",
            "tmpfs",
            linux_isolation.NOSUID | linux_isolation.NODEV | linux_isolation.RDONLY,
            "size=4k,nr_inodes=2",
        )
    else:
        job = _folder(settings, os.getpid())
        os.mkdir(job)
        os.environ.update({name: job for name, place in os.environ.items() if place == settings["job"]})
    os.chdir(job)
    null = os.open("/dev/null", os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    os.dup2(fd, 3)
    os.closerange(4, 4096)
    processes = limits["processes"] + (
        0 if separate else linux_isolation.tasks()
    )  # there the limit is for the user's together
    seconds = settings.get("cpu", int(limits["submission"]) + 60)  # of each process; the engine counts them together
    linux_isolation.limits(limits["address_space"], limits["disk"], processes, seconds)
    lock(settings, job)
    import numpy

    random.seed(0)
    numpy.random.seed(0)
    work(socket.socket(fileno=3), limits)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), socket.socket(fileno=int(sys.argv[2])), json.load(sys.stdin))
