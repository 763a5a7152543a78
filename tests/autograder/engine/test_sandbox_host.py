"""What a host offers, what is said where it lacks, and grading as another user."""

import contextlib
import dataclasses
import inspect
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from autograder.engine import host, linux_isolation, run_submission as engines, sandbox, zygote
from autograder.places import ROOT
from tests.autograder.engine.small import LIMITS

FULL = sandbox.Host(user_namespaces=True, bubblewrap=True, landlock=7, seccomp=True, cgroup="v1", root=False)


@pytest.mark.parametrize(("less", "level", "words"), [
    ({}, "bubblewrap", ""),
    ({"bubblewrap": False}, "namespaces", ""),
    ({"user_namespaces": False}, "landlock", "user namespaces. An answer can see"),
    ({"user_namespaces": False, "bubblewrap": False, "cgroup": ""}, "landlock", "counted with all others of this user"),
    ({"cgroup": ""}, "bubblewrap", "a cgroup. Memory"),
    ({"seccomp": False}, "bubblewrap", "sudo apt-get install libseccomp2"),
])  # fmt: skip
def test_the_best_walls_that_there_are(less, level, words):
    """A container without user namespaces gets Landlock, and what that lacks is said."""
    found = dataclasses.replace(FULL, **less)
    assert (found.level, found.refusal) == (level, None)
    assert words in " ".join(found.missing)
    assert bool(words) == bool(found.missing)
    first, *lines = found.walls.splitlines()
    assert first.startswith("Walls: ")
    assert ("cgroup" in first, "seccomp" in first) == (bool(found.cgroup), found.seccomp)
    assert lines == [f"Missing: {m}" for m in found.missing]


@pytest.mark.parametrize(("less", "words"), [
    ({"user_namespaces": False, "landlock": 5}, "neither user namespaces nor Landlock 6"),
    ({"user_namespaces": False, "seccomp": False}, "libseccomp"),
    ({"root": True, "cgroup": ""}, "grade as another user"),
])  # fmt: skip
def test_a_host_that_cannot_isolate_says_what_it_lacks(less, words):
    found = dataclasses.replace(FULL, **less)
    assert words in found.refusal
    assert "docker compose" in found.refused
    assert "COURSE_SANDBOX=off grades without walls, so that any answer can read, change and send away" in found.refused
    with pytest.raises(engines.Refused, match=words):
        engines.Engine(LIMITS, found)


@pytest.mark.slow
@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_elsewhere_it_imports_and_says_what_class_grading_needs(system):
    """As on a machine without Linux: no `resource`, no libc to ask, no user number on Windows."""
    code = f"""
        import sys, os
        import ctypes, socket, subprocess
        import nbformat  # of libraries, those that ask for the system while they are imported: it is not that system
        sys.platform = {system!r}
        if sys.platform == "win32":
            sys.modules["resource"] = None
            del os.getuid, os.pidfd_open, socket.send_fds, socket.recv_fds
        import autograder.engine.run_submission as e, autograder.engine.sandbox as s
        import autograder.making.exercises
        print(s.available().refusal)
        try:
            e.Engine()
        except e.Refused as r:
            print(r)"""
    found = run(code)
    assert found.stdout.splitlines() == [host.ELSEWHERE] * 2, found.stderr
    assert "Linux" in host.ELSEWHERE


def run(code: str, *around: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*around, sys.executable, "-B", "-c", inspect.cleandoc(code)], cwd=ROOT, capture_output=True, text=True, timeout=300,
        env=os.environ | environment,
    )  # fmt: skip


def test_a_group_of_cgroup_2(tmp_path, monkeypatch):
    """Its files as the kernel names them; the command begins inside; nothing of it stays."""
    group = sandbox.Group.make(str(tmp_path), "grading-1-1", LIMITS)
    folder = tmp_path / "grading-1-1"
    assert group.folders == [folder]
    assert (folder / "memory.max").read_text() == str(LIMITS.memory)
    assert (folder / "memory.swap.max").read_text() == "0"
    assert (folder / "pids.max").read_text() == str(LIMITS.processes)
    assert (
        subprocess.run(group.around(["/bin/sh", "-c", "echo $$"]), capture_output=True, text=True).stdout
        == (folder / "cgroup.procs").read_text()
    )
    with subprocess.Popen(["sleep", "60"]) as process:
        (folder / "cgroup.procs").write_text(str(process.pid))
        monkeypatch.setattr(Path, "rmdir", shutil.rmtree)  # the kernel's files go with their folder
        group.remove()
        assert process.wait() == -signal.SIGKILL
    assert not folder.exists()


def test_where_groups_of_cgroup_2_can_be_made(tmp_path):
    """Beside this process's own group, which cannot have both processes and groups with limits."""
    own = tmp_path / "user" / "app" / "shell"
    own.mkdir(parents=True)
    for folder, given in ((tmp_path, "cpu"), (tmp_path / "user", "cpu memory pids"), (own.parent, "pids"), (own, "")):
        (folder / "cgroup.subtree_control").write_text(given)
        (folder / "cgroup.procs").touch()
    assert sandbox._cgroup_2(tmp_path, "/user/app/shell") == str(tmp_path / "user")
    (tmp_path / "user" / "cgroup.procs").unlink()
    assert sandbox._cgroup_2(tmp_path, "/user/app/shell") == ""
    assert sandbox._cgroup_2(tmp_path, "/../../elsewhere") == ""


def test_groups_of_engines_that_are_no_more_are_swept(tmp_path):
    gone, here = tmp_path / "grading-999999999-1", tmp_path / f"grading-{os.getpid()}-1"
    gone.mkdir()
    here.mkdir()
    sandbox.Group.make(str(tmp_path), "grading-1-2", LIMITS)
    assert not gone.exists()
    assert here.exists()


def test_a_folder_is_measured_however_deep(tmp_path, monkeypatch):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_bytes(bytes(100_000))
    (tmp_path / "link").symlink_to("/usr")
    size, count = zygote.used(str(tmp_path))
    assert 100_000 <= size < 120_000
    assert count == 4
    monkeypatch.chdir(tmp_path)
    for _ in range(1100):
        os.mkdir("dddd")
        os.chdir("dddd")
    assert zygote.used(str(tmp_path)) == (float("inf"), float("inf"))
    monkeypatch.chdir(tmp_path)
    subprocess.run(["rm", "-rf", "dddd"], check=True)


def test_the_user_s_processes_are_counted():
    """With their threads, as psutil counts them; others of the user's may begin and end meanwhile."""

    def agree() -> bool:
        before, found, after = threads(), linux_isolation.tasks(), threads()
        return min(before, after) <= found <= max(before, after)

    assert any(agree() for _ in range(50))


def threads() -> int:
    count = 0
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            count += process.num_threads() * (process.uids().effective == os.getuid())
    return count


@pytest.mark.slow("starts an engine in another environment")
def test_a_folder_of_a_stacked_environment_is_named(tmp_path, walls):
    """An environment that takes its packages from another one, by a .pth file."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    packages = next(os.path.realpath(p) for p in sys.path if Path(p, "jax").is_dir())
    next((tmp_path / "env").glob("lib/python*/site-packages")).joinpath("other.pth").write_text(packages)
    start = "from autograder.engine.run_submission import Engine; Engine().warm_zygote()"
    command = [tmp_path / "env" / "bin" / "python", "-c", start]
    ended = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(ROOT)}, cwd=ROOT, capture_output=True, text=True
    )
    said = ended.stderr.splitlines()[-1]
    assert ended.returncode == 1 and "No module named" in said
    assert f"The sandbox lacks {packages}, where" in said and said.endswith(f"install these into {tmp_path / 'env'}.")
    assert packages not in sandbox.missing()
