"""Hosts that forbid something, as truly as one machine can be made so: which probes hold there, and what is said to be missing (slow).

What forbids stands before the grader starts, so it finds it as it would elsewhere: a filter of system calls, covered files,
another user.
"""

import contextlib
import inspect
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.autograder.attacks import forge, kinds, outside, protocol
from tests.autograder.engine.sandbox_escape_probes import PROBES
from tests.scratch import ROOT
from tests.skip_conditions import needs

NO_NAMESPACES = """
import ctypes
from autograder.engine import linux_isolation as li
li.no_new_privs()
lib = ctypes.CDLL("libseccomp.so.2")
lib.seccomp_init.restype = ctypes.c_void_p
number = lambda name: lib.seccomp_syscall_resolve_name(name)
context = ctypes.c_void_p(lib.seccomp_init(ctypes.c_uint32(li.SECCOMP_ALLOW)))
add = lambda action, name, *rules: lib.seccomp_rule_add_array(
    context, ctypes.c_uint32(action), number(name), len(rules), (li._Compare * len(rules))(*rules) if rules else None)
add(li.SECCOMP_EPERM, b"unshare"), add(li.SECCOMP_EPERM, b"setns"), add(li.SECCOMP_ENOSYS, b"clone3")
add(li.SECCOMP_EPERM, b"clone", li._Compare(0, 7, li.NEWUSER, li.NEWUSER))
assert lib.seccomp_load(context) == 0
"""
"""As in a container with Docker's own list of system calls."""

GRADE = """
import ctypes, json, os, sys
from autograder.engine import run_submission, sandbox
libc = ctypes.CDLL(None)
libc.syscall(250, 1, None), libc.syscall(248, b"user", b"ticket", b"of the host", 11, -3)  # in a keyring of this process
from tests.autograder.engine.small import ANSWERS, LIMITS, WRONG, notebook
host = sandbox.available()
said = {"level": host.level, "refused": host.refused}
if not host.refused:
    probes = f"HOST, PROOF, SOCKET = {os.getpid()}, {sys.argv[1]!r}, '/tmp/none'\\n" + sys.argv[2]
    said["walls"] = host.walls
    with run_submission.Engine(LIMITS, host) as e:
        b = run_submission.bundle(notebook(ANSWERS))
        got = e.grade(b, notebook(ANSWERS, probes + "\\nimport json; print(json.dumps(leaks))"))
        said["leaks"] = json.loads("".join(o.get("text", "") for o in got.outputs["own-1"]))
        bomb = "import os, time\\nfor _ in range(5000):\\n    if os.fork() == 0:\\n        time.sleep(9)"
        more = [e.grade(b, nb) for nb in (notebook(WRONG), notebook(ANSWERS, bomb))]
        said["scores"] = [sum(g.scores.values()) for g in (got, *more)]
        forged = [e.grade(b, notebook(WRONG, code)) for code in json.loads(sys.argv[3])]
        said["forged"] = [sum(g.scores.values()) for g in forged]
        said["leaked"] = [name for name, code in json.loads(sys.argv[4]).items()
                          if "LEAK" in str(e.grade(b, notebook(ANSWERS, code)).outputs["own-1"])]
print(json.dumps(said))
"""

COVER = "mount --bind /dev/null {}"
LIBSECCOMP = "for f in /usr/lib/*/libseccomp.so.2; do mount --bind /dev/null $(readlink -f $f); done"
CGROUP = "for g in /sys/fs/cgroup /sys/fs/cgroup/*; do mount --bind $g $g && mount -o remount,bind,ro $g; done"
OPEN = {"watch", "memory as a file", "personality", "32 bits", "shmget", "shmctl", "msgget", "semget", "abstract socket", "netlink",
        "new namespace", "root"}  # fmt: skip
"""Probes that nothing holds without libseccomp: ordinary calls, which show an answer more of the kernel and none of the host."""

FORGERS = [forge.PATCHES["settrace_jump"], protocol.WIRES["one_reply_ahead"]]
LEAKS = {name: (outside.LEAK | outside.ESCAPE)[name] for name in (
    "network_dns", "read_outside_file", "write_outside", "gradebook_trigger")}  # fmt: skip

FORBID = {
    "no bubblewrap": COVER.format("/usr/bin/bwrap"),
    "no libseccomp": LIBSECCOMP,
    "a covered /proc": COVER.format("/proc/interrupts"),
    "no cgroup": CGROUP,
}
NO_SPACES = "user namespaces"
# what is not there -> level, what is said to be missing, probes that do not hold
HOSTS = {
    "no libseccomp": ("bubblewrap", ["libseccomp"], OPEN),
    "no bubblewrap": ("namespaces", [], set()),
    "no bubblewrap, no libseccomp": ("namespaces", ["libseccomp"], OPEN),
    "no namespaces": ("landlock", [NO_SPACES], set()),
    "a covered /proc": ("landlock", [NO_SPACES], set()),
    "another user, no namespaces": ("landlock", [NO_SPACES, "a limit of", "a cgroup"], set()),  # the least that grades
    "another user": ("bubblewrap", ["a cgroup"], set()),
    "another user, no bubblewrap": ("namespaces", ["a cgroup"], set()),
    "another user, no libseccomp": ("bubblewrap", ["libseccomp", "a cgroup"], OPEN),
    "everything is there": ("bubblewrap", [], set()),
}
REFUSED = {
    "no cgroup": "grade as another user",
    "a covered /proc, no libseccomp": "no user namespaces and no libseccomp",
}


def on_host(name: str) -> tuple[list[str], str]:
    """A command that goes on where these things are missing, and Python that forbids the rest."""
    parts = name.split(", ")
    script = " && ".join([*(FORBID[p] for p in parts if p in FORBID), 'exec "$@"'])
    around = ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh"]
    return around + (readable_by_others() if "another user" in parts else []), NO_NAMESPACES * (
        "no namespaces" in parts
    )


def readable_by_others() -> list[str]:
    """A command that goes on as `nobody`, who can read the interpreter and the course for as long as it runs.

    In a mount namespace of its own, folders on the way that are closed to others are covered by open ones.
    """
    steps = ["mount -t tmpfs -o mode=755 tmpfs /mnt"]
    for i, place in enumerate(dict.fromkeys((sys.base_prefix, sys.prefix, str(ROOT)))):
        closed = next((p for p in reversed(Path(place).parents) if p.stat().st_mode & 0o005 != 0o005), None)
        if closed:
            steps += [f"mkdir /mnt/{i} && mount --bind {place} /mnt/{i}", f"mount -t tmpfs -o mode=755 tmpfs {closed}",
                      f"mkdir -p {place} && mount --bind /mnt/{i} {place}"]  # fmt: skip
    script = " && ".join([*steps, 'exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"'])
    return ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh"]


def graded(name: str) -> dict:
    """What a grader finds, and which probes and attacks an answer gets through with, on this host."""
    needs(os.getuid() == 0, "to be root, so as to forbid something")
    around, before = on_host(name)
    with tempfile.TemporaryDirectory(prefix="weaker-") as folder:  # another user cannot enter those of pytest
        proof, course, canary = (Path(folder, part) for part in ("proof", "course", "canary"))
        proof.mkdir(), course.mkdir(), canary.write_text("untouched")
        with contextlib.closing(sqlite3.connect(course / "gradebook.db")) as base:
            base.execute("create table grade (auto_score)")
        book = (course / "gradebook.db").read_bytes()
        for path in (Path(folder), *Path(folder).rglob("*")):
            path.chmod(0o777)
        places = kinds.PLACES.format(*map(str, (ROOT, course, proof, canary)))
        own = "network_dns" if "libseccomp" in name else ""  # then it reaches its own namespace
        leaks = {n: places + kinds.clean(code) for n, code in LEAKS.items() if n != own}
        words = [str(canary), PROBES, json.dumps([*map(kinds.clean, FORGERS)]), json.dumps(leaks)]
        found = subprocess.run(
            [*around, sys.executable, "-B", "-c", before + inspect.cleandoc(GRADE), *words],
            cwd=ROOT, capture_output=True, text=True, timeout=500, env=os.environ | {"HOME": "/tmp"},
        )  # fmt: skip
        assert found.returncode == 0, found.stderr[-2000:]
        assert canary.read_text() == "untouched" and not os.listdir(proof)
        assert (course / "gradebook.db").read_bytes() == book
    return json.loads(found.stdout.splitlines()[-1])


@pytest.mark.slow("starts an engine where something is forbidden")
@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.sample(quick=0, slow=2)
def test_the_first_line_says_what_does_not_hold(name):
    level, missing, leaks = HOSTS[name]
    said = graded(name)
    assert said["level"] == level, said
    first, *lines = said["walls"].splitlines()
    assert first.startswith("Walls: ")
    assert len(lines) == len(missing), lines
    assert all(x.startswith(f"Missing: {m}") for x, m in zip(lines, missing, strict=True)), lines
    assert set(said["leaks"]) == leaks
    assert said["scores"] == [3, 0, 3]
    assert said["forged"] == [0] * len(FORGERS) and said["leaked"] == []  # attacks win no more than behind full walls


@pytest.mark.slow("looks for walls where something is forbidden")
@pytest.mark.parametrize("name", REFUSED)
def test_nothing_is_graded_where_no_walls_stand(name):
    said = graded(name)
    assert REFUSED[name] in said["refused"] and "docker compose" in said["refused"]
