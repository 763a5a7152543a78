"""Where answers and checks run: what this host can isolate, found by trying, and processes that see nothing else."""

import contextlib
import functools
import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import IO

from . import linux_isolation
from .host import Host
from .importable_helpers import HELPERS, view

PACKAGE = Path(__file__).resolve().parent
# Modules of this package that the zygote and its children use.
CHILD = ("__init__", "wire", "wire_types", "answer_process", "zygote", "linux_isolation", "jax_internals")

ACCOUNTS = Path("/sys/fs/cgroup/cpuacct")  # where a kernel with the first kind of groups counts seconds of a processor
INSIDE = "/course"  # where a sandbox has the two
JOB = "/job"  # where a child has its own small disk

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin", "HOME": JOB, "TMPDIR": JOB, "LANG": "C.UTF-8", "PYTHONPATH": INSIDE, "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1", "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2", "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "MPLBACKEND": "agg", "MPLCONFIGDIR": JOB, "JAX_TRACEBACK_FILTERING": "off",
}  # fmt: skip
# A third to two thirds of the time to compile; jaxlib ends at a flag that it does not know.
QUICK_COMPILES = {"0.10": "--xla_cpu_use_fusion_emitters=false", "0.12": "--xla_cpu_use_new_xtile_lowering=false"}
ENVIRONMENT["XLA_FLAGS"] = QUICK_COMPILES.get(metadata.version("jaxlib")[:4], "")


@dataclass(frozen=True)
class Limits:
    """What one submission may use: seconds are those of a processor, of all its processes and threads together.

    Our own answers took, on one core of an AMD EPYC, at most 0.02 s for a cell, 1.2 s in one check, 1.9 s for the check itself
    where the checker was new, and 12 s in all: these limits are 15 times that and more. Threads that wait for each other on
    many cores may turn in circles meanwhile, which counts.
    """

    cell: float = 30  # seconds for a cell
    check: float = 30  # seconds of the answers in one check, and as many of the check itself
    submission: float = 180  # seconds for all cells, and as many for them with their checks
    clock: float = 4  # by the clock anything may take so many times as long, after which there is no verdict
    memory: int = 3_000_000_000  # bytes, of all its processes where there is a cgroup
    address_space: int = 6_000_000_000  # bytes that one process may map; JAX on eight devices maps 1.7e9
    disk: int = 64_000_000
    inodes: int = 4096
    processes: int = 200
    output: int = 200_000  # characters that a cell may print
    displays: int = 50  # things that a cell may display
    outputs: int = 2_000_000  # characters that all cells together may print and display


@functools.cache
def available() -> Host:
    """What the host can isolate, found by trying."""
    if sys.platform != "linux":
        return Host(False, False, 0, False, "", root=False, linux=False)
    return Host(
        # With a /proc of their own, which a container that hides a part of its own forbids.
        user_namespaces=_works("linux_isolation.confine([], []); import os; os._exit(0)"),
        bubblewrap=bool(shutil.which("bwrap"))
        and _quiet(["bwrap", "--unshare-all", "--unshare-user", "--ro-bind", "/", "/", "--proc", "/proc", "true"]) == 0,
        landlock=linux_isolation.landlock_version(),
        seccomp=_works("linux_isolation.no_new_privs(); linux_isolation.seccomp()"),
        cgroup=_cgroup(),
        root=os.getuid() == 0,
    )


def _works(code: str) -> bool:
    """Whether a line works, in a process that it cannot be undone in."""
    code = f"import sys; sys.path.insert(0, {str(PACKAGE)!r}); import linux_isolation; {code}"
    return _quiet([sys.executable, "-c", code]) == 0


def _quiet(command: list[str]) -> int:
    nothing = subprocess.DEVNULL
    return subprocess.run(command, stdin=nothing, stdout=nothing, stderr=nothing).returncode


def _cgroup() -> str:
    """Where groups can be made."""
    v1 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup/pids")
    if all(os.access(p, os.W_OK) and (p / "cgroup.procs").exists() for p in v1):
        return "v1"
    try:
        own = next(x for x in Path("/proc/self/cgroup").read_text().splitlines() if x.startswith("0::"))
    except (OSError, StopIteration):
        return ""
    return _cgroup_2(Path("/sys/fs/cgroup"), own[4:])


def _cgroup_2(top: Path, own: str) -> str:
    """The nearest group above this process in which it may make others, and go from its own to them."""
    here = top / own.strip("/")
    for folder in (here, *here.parents):
        try:
            given = set((folder / "cgroup.subtree_control").read_text().split())
        except OSError:
            given = set()
        if {"memory", "pids"} <= given and all(os.access(p, os.W_OK) for p in (folder, folder / "cgroup.procs")):
            return str(folder)
        if folder == top:
            break
    return ""


def _sweep(where: Path) -> None:
    """Remove the empty groups of engines that are no more."""
    for folder in where.glob("grading-*-*"):
        if not os.path.exists(f"/proc/{folder.name.split('-')[1]}"):
            try:
                folder.rmdir()
            except OSError:
                pass


@dataclass
class Group:
    """A cgroup for one sandbox: memory and processes of everything in it together."""

    folders: list[Path] = field(default_factory=list)

    @classmethod
    def make(cls, where: str, name: str, limits: Limits) -> "Group":
        if where == "v1":
            made = {Path("/sys/fs/cgroup/memory", name): {"memory.limit_in_bytes": limits.memory},
                    Path("/sys/fs/cgroup/pids", name): {"pids.max": limits.processes}}  # fmt: skip
            if os.access(ACCOUNTS, os.W_OK):
                made[ACCOUNTS / name] = {}
        else:
            settings = {"memory.max": limits.memory, "memory.swap.max": 0, "pids.max": limits.processes}
            made = {Path(where, name): settings} if where else {}
        for folder, settings in made.items():
            _sweep(folder.parent)
            folder.mkdir()
            for file, value in settings.items():
                try:
                    (folder / file).write_text(str(value))
                except OSError:
                    if "swap" not in file:  # which not every kernel counts
                        raise
        return cls(list(made))

    def around(self, command: list[str]) -> list[str]:
        """The command, begun inside of the group, so that nothing of it was ever outside."""
        enter = "".join(f"echo $$ > {shlex.quote(str(folder))}/cgroup.procs && " for folder in self.folders)
        return ["/bin/sh", "-c", f'{enter}exec "$@"', "sh", *command]

    def processor(self) -> float | None:
        """Seconds of a processor that all in it have used, also those that have ended; None where nobody counts them."""
        for folder in reversed(self.folders):  # the last one counts, if any
            for file, name, unit in (("cpuacct.usage", "", 1e-9), ("cpu.stat", "usage_usec ", 1e-6)):
                if (found := _number(folder / file, name)) is not None:
                    return found * unit
        return None

    def out_of_memory(self) -> int:
        """How often the kernel has ended one of it for its memory."""
        return max((_number(file, "oom_kill ") or 0 for file in self.counters), default=0)

    @functools.cached_property
    def counters(self) -> list[Path]:
        """The files that count what was ended."""
        files = [folder / file for folder in self.folders for file in ("memory.oom_control", "memory.events")]
        return [file for file in files if file.exists()]

    def remove(self) -> None:
        """End whatever is still in it, wait until that is gone, and remove it."""
        deadline = time.monotonic() + 10
        for folder in self.folders:
            while folder.exists() and time.monotonic() < deadline:
                try:
                    for pid in (folder / "cgroup.procs").read_text().split():
                        os.kill(int(pid), signal.SIGKILL)
                    folder.rmdir()
                except OSError:  # some of them are still on their way out
                    time.sleep(0.01)
        self.folders = []


def _number(file: Path, name: str) -> int | None:
    """The number that stands behind a name in a file of the kernel's."""
    try:
        return next((int(x.removeprefix(name)) for x in file.read_text().splitlines() if x.startswith(name)), None)
    except (OSError, ValueError):
        return None


class Sandbox:
    """A process of this package that sees an interpreter, `helpers` or a part of it, and nothing else; no network."""

    made = 0

    def __init__(self, module: str, socket, host: Host, limits: Limits, helpers: tuple[str, ...] | None = None):
        """Start `module` with one socket, whose number is its argument.

        helpers  the modules of `helpers` that it sees as they are, beside stand-ins for the others and no other file of
                 the repository; None shows them all, and this package
        """
        Sandbox.made += 1
        self.used = self.counted = 0.0  # seconds of a processor
        self.folder, self.held = _folder() if host.level == "landlock" else (None, None)
        self.said, told = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        told.write(json.dumps(None if helpers is None else view(helpers)).encode())
        told.seek(0)
        self.group = Group.make(host.cgroup, f"grading-{os.getpid()}-{Sandbox.made}", limits)
        command, environment = self._command(module, host, limits, helpers is None)
        self.ended, alive = os.pipe()  # every process of ours in it holds the second end, and nobody writes
        with told, open(alive, "wb"):
            self.process = subprocess.Popen(
                self.group.around([*command, str(socket.fileno())]), pass_fds=[socket.fileno(), alive], env=environment, cwd="/",
                start_new_session=True, stdin=told, stdout=subprocess.DEVNULL, stderr=self.said,
            )  # fmt: skip

    def _command(self, module: str, host: Host, limits: Limits, whole: bool) -> tuple[list[str], dict[str, str]]:
        """The command without the socket's number, and its environment."""
        settings = {"level": host.level, "seccomp": host.seccomp, "limits": vars(limits), "job": self.folder or JOB}
        environment = {k: self.folder if self.folder and v == JOB else v for k, v in ENVIRONMENT.items()}
        if whole:
            environment["PYTHONHASHSEED"] = "random"  # it reads texts of answers: nobody may know which have one hash
        around, shown = [], _shown(whole)
        if host.level == "bubblewrap":
            around = _bwrap(shown)
        else:  # it starts outside and locks itself in
            environment["PYTHONPATH"] = f"{PACKAGE.parent}:{HELPERS.parent}" if whole else f"{PACKAGE.parent}"
        if host.level == "namespaces":
            settings |= {"shown": shown, "empty": [JOB]}
        elif host.level == "landlock":
            readable, listed = _open(shown)
            settings |= {"readable": readable, "listed": listed}
        return [*around, sys.executable, "-s", "-B", "-m", f"engine.{module}", json.dumps(settings)], environment

    def processor(self) -> float:
        """Seconds of a processor that all in it have used so far."""
        counted = self.group.processor()
        if counted is None:
            counted = sum(map(_used, _family(self.process.pid)))
        self.used += max(0.0, counted - self.counted)  # what ends and has nobody who waits takes its seconds along
        self.counted = counted
        return self.used

    def wants(self) -> bool:
        """Whether a thread in it runs or stands in line for a processor.

        How long its threads stood there says less of the machine: in line behind each other they wait as long as they like.
        """
        return any(map(_wants, _family(self.process.pid)))

    def stop(self) -> None:
        """End it and all in it, and wait for that."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        select.select([self.ended], [], [], 10)
        os.close(self.ended)
        self.said.close()
        self.group.remove()
        if self.folder:
            _remove(self.folder)
            self.held.close()


def _family(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for parent in found:
        for text in _of_threads(parent, "children"):
            found += map(int, text.split())
    return found


def _of_threads(pid: int, name: str) -> Iterator[bytes]:
    """A file of the kernel's about each thread of a process; it is looked at so often that `pathlib` would take longest."""
    with contextlib.suppress(OSError):  # gone meanwhile
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/{name}", "rb", buffering=0) as file:
                yield file.read()


def _used(pid: int) -> float:
    """Seconds of a processor that a process has used, and those below it for which somebody has waited."""
    try:
        numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, numbers[11:15])) / os.sysconf("SC_CLK_TCK")


def _wants(pid: int) -> bool:
    return any(text.rpartition(b")")[2].split()[0] == b"R" for text in _of_threads(pid, "stat"))


def _folder() -> tuple[str, IO]:
    """A folder for one sandbox and the lock that says it is in use; those of engines that were killed go."""
    import fcntl

    for old in Path(tempfile.gettempdir()).glob("grading-*/held"):
        try:
            with open(old, "r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(old.parent)
        except OSError:  # in use, or another user's
            pass
    folder = tempfile.mkdtemp(prefix="grading-")
    held = open(os.path.join(folder, "held"), "w")
    fcntl.flock(held, fcntl.LOCK_EX)
    return folder, held


def _remove(folder: str | Path) -> None:
    """A folder with all in it, however deep that is."""
    _quiet(["rm", "-rf", "--", str(folder)])


def _shown(whole: bool) -> list[tuple[str, str]]:
    """(place here, place in the sandbox) of what it may read; without a place here, it is empty there."""
    system = ["/usr", *(p for p in ("/lib", "/lib64", "/bin") if not os.path.islink(p) and os.path.isdir(p))]
    others = [p for p in ("/etc/ld.so.cache", "/etc/alternatives") if os.path.exists(p)]
    places = [*system, *others, *(p for p in (sys.prefix, sys.base_prefix) if not _below(p, "/usr"))]
    # The course may lie below one of these, and be installed there a second time.
    course = {str(HELPERS.parent), *(p for s in sys.path if os.path.isdir(p := os.path.join(s, "helpers")))}
    hidden = [c for c in sorted(course) if any(_below(c, p) for p in places)]
    places += [p for p in (sys.prefix, sys.base_prefix) if any(_below(p, h) for h in hidden)]
    listed = [*((p, p) for p in dict.fromkeys(places)), *(("", h) for h in hidden)]
    listed.sort(key=lambda pair: pair[1].count("/"))  # what covers comes after what it covers
    if whole:
        return [*listed, (str(HELPERS), f"{INSIDE}/helpers"), (str(PACKAGE), f"{INSIDE}/engine")]
    return listed + [(str(PACKAGE / f"{m}.py"), f"{INSIDE}/engine/{m}.py") for m in CHILD]


def missing() -> str:
    """A sentence about folders from which this Python takes packages, as by a `.pth` file, and which no sandbox shows."""
    shown = [os.path.realpath(source) for source, _ in _shown(True) if source]
    folders = dict.fromkeys(
        os.path.realpath(p) for p in sys.path if os.path.isdir(p) and not os.path.isdir(f"{p}/helpers")
    )
    lacking = [p for p in folders if not any(_below(p, s) for s in shown)]
    if not lacking:
        return ""
    return f" The sandbox lacks {' and '.join(lacking)}, where this Python finds packages too: install these into {sys.prefix}."


def _below(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it.

    >>> _below("/usr/src/course", "/usr"), _below("/usr2", "/usr")
    (True, False)
    """
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")


def _open(shown: list[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """What Landlock has to allow, which can open a folder with all in it and close nothing in there again.

    What can be read, and which folders can only be listed, because something in them is hidden.
    """
    hidden = [place for source, place in shown if not source]
    readable, listed = [*linux_isolation.DEVICES], [str(PACKAGE)]
    waiting = [source for source, _ in shown if source]
    while waiting:
        path = waiting.pop()
        if path in hidden:
            continue
        if any(_below(h, path) for h in hidden):
            listed.append(path)
            waiting += [e.path for e in os.scandir(path) if not e.is_symlink()]
        else:
            readable.append(path)
    return readable, listed


def _bwrap(shown: list[tuple[str, str]]) -> list[str]:
    command = ["bwrap", "--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL",
               "--die-with-parent", "--new-session"]  # fmt: skip
    for link in ("lib", "lib64", "bin"):
        if os.path.islink(f"/{link}"):
            command += ["--symlink", f"usr/{link}", f"/{link}"]
    for source, place in shown:
        command += ["--ro-bind", source, place] if source else ["--tmpfs", place, "--remount-ro", place]
    command += ["--proc", "/proc", "--dev", "/dev", "--dir", "/tmp", "--size", "64000000", "--tmpfs", JOB]
    return [*command, "--remount-ro", "/dev", "--remount-ro", "/", "--"]
