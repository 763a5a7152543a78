"""Hosts that forbid something, as truly as one machine can be made so: which probes hold there, and what is said to be missing (slow).

What forbids stands before the grader starts, so it finds it as it would elsewhere: a filter of system calls, covered files,
another user.
"""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.autograder.engine.sandbox_escape_probes import PROBES
from tests.autograder.engine.test_sandbox_host import readable_by_others
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
from tests.autograder.engine.small import ANSWERS, LIMITS, cell, notebook
host = sandbox.available()
said = {"level": host.level, "refused": host.refused}
if not host.refused:
    probes = f"HOST, PROOF, SOCKET = {os.getpid()}, {sys.argv[1]!r}, '/tmp/none'\\n" + sys.argv[2]
    said["walls"] = host.walls
    with run_submission.Engine(LIMITS, host) as e:
        b = run_submission.bundle(notebook(ANSWERS))
        got = e.grade(b, notebook(ANSWERS, probes + "\\nimport json; print(json.dumps(leaks))"))
        said["leaks"] = json.loads("".join(o.get("text", "") for o in got.outputs["own-1"]))
        said["score"] = sum(got.scores.values())
print(json.dumps(said))
"""

COVER = "mount --bind /dev/null {}"
LIBSECCOMP = "for f in /usr/lib/*/libseccomp.so.2; do mount --bind /dev/null $(readlink -f $f); done"
CGROUP = "for g in /sys/fs/cgroup /sys/fs/cgroup/*; do mount --bind $g $g && mount -o remount,bind,ro $g; done"
OPEN = set(
    "watch,memory as a file,personality,32 bits,shmget,shmctl,msgget,semget,abstract socket,netlink,new namespace,root".split(
        ","
    )
)
"""Probes that nothing holds without libseccomp: ordinary calls, which show an answer more of the kernel and none of the host."""

# name -> what is forbidden, another user?, code before, level, what is said to be missing, probes that do not hold
HOSTS = {
    "full": ([], False, "", "bubblewrap", [], set()),
    "no bubblewrap": ([COVER.format("/usr/bin/bwrap")], False, "", "namespaces", [], set()),
    "no libseccomp": ([LIBSECCOMP], False, "", "bubblewrap", ["libseccomp"], OPEN),
    "no bubblewrap, no libseccomp": (
        [COVER.format("/usr/bin/bwrap"), LIBSECCOMP],
        False,
        "",
        "namespaces",
        ["libseccomp"],
        OPEN,
    ),
    "no namespaces": ([], False, NO_NAMESPACES, "landlock", ["user namespaces"], set()),
    "a covered /proc": ([COVER.format("/proc/interrupts")], False, "", "landlock", ["user namespaces"], set()),
    "another user": ([], True, "", "bubblewrap", ["a cgroup"], set()),
    "another user, no bubblewrap": ([COVER.format("/usr/bin/bwrap")], True, "", "namespaces", ["a cgroup"], set()),
    "another user, no namespaces": (
        [],
        True,
        NO_NAMESPACES,
        "landlock",
        ["user namespaces", "a limit of", "a cgroup"],
        set(),
    ),
    "another user, no libseccomp": ([LIBSECCOMP], True, "", "bubblewrap", ["libseccomp", "a cgroup"], OPEN),
}
REFUSED = {
    "root without a cgroup": ([CGROUP], False, "", "grade as another user"),
    "a covered /proc, no libseccomp": (
        [COVER.format("/proc/interrupts"), LIBSECCOMP],
        False,
        "",
        "no user namespaces and no libseccomp",
    ),
}


def graded(tmp_path: Path, forbid: list[str], other: bool, before: str) -> dict:
    """What a grader finds, and which probes an answer gets through with, where this is forbidden."""
    needs(os.getuid() == 0, "to be root, so as to forbid something")
    proof = tmp_path / "proof"
    proof.write_text("untouched")
    script = " && ".join([*forbid, 'exec "$@"'])
    around = [
        "unshare",
        "-m",
        "--propagation",
        "private",
        "sh",
        "-c",
        script,
        "sh",
        *(readable_by_others() if other else []),
    ]
    command = [*around, sys.executable, "-B", "-c", before + inspect.cleandoc(GRADE), str(proof), PROBES]
    found = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=500, env=os.environ | {"HOME": "/tmp"}
    )
    assert found.returncode == 0, found.stderr[-2000:]
    assert proof.read_text() == "untouched"
    return json.loads(found.stdout.splitlines()[-1])


@pytest.mark.slow("starts an engine where something is forbidden")
@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.sample(quick=0, slow=4)
def test_the_first_line_says_what_does_not_hold(tmp_path, name):
    forbid, other, before, level, missing, leaks = HOSTS[name]
    said = graded(tmp_path, forbid, other, before)
    assert said["level"] == level, said
    first, *lines = said["walls"].splitlines()
    assert first.startswith("Walls: ")
    assert len(lines) == len(missing) and all(
        x.startswith(f"Missing: {m}") for x, m in zip(lines, missing, strict=True)
    ), lines
    assert set(said["leaks"]) == leaks
    assert said["score"] == 3


@pytest.mark.slow("looks for walls where something is forbidden")
@pytest.mark.parametrize("name", REFUSED)
def test_nothing_is_graded_where_no_walls_stand(tmp_path, name):
    *forbidden, words = REFUSED[name]
    said = graded(tmp_path, *forbidden)
    assert words in said["refused"] and "docker compose" in said["refused"]
