"""A hub with a teacher and two students: they fetch, answer, submit and get feedback, and nobody looks into the teacher's folder.

Servers are asked what the buttons of the Assignment List ask. Needs root, for three accounts that the test makes and removes,
JupyterHub in this environment and configurable-http-proxy on PATH or in `tests/browser`.
"""

import contextlib
import importlib.util
import json
import os
import pwd
import runpy
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from jupyter_core.paths import jupyter_config_path
from jupyter_server.extension.config import ExtensionConfigManager
from jupyterlab_server.config import get_static_page_config

from autograder import course
from autograder.engine.sandbox import available
from autograder.places import COURSE, ROOT
from tests.autograder import classes
from tests.skip_conditions import needs
from tools import demo

pytestmark = pytest.mark.slow("starts a JupyterHub and three servers")

PROXY = shutil.which("configurable-http-proxy", path=f"{ROOT}/tests/browser/node_modules/.bin:{os.environ['PATH']}")
TOPIC, TOKEN = "ch01_sample", "0123456789abcdef0123456789abcdef"
TEACHER, ADA, BOB = "term-teacher", "term-ada", "term-bob"
RIGHT = "def seconds(V, W):\n    return V / W"
CONFIG = """
load_subconfig("{config}")
c.JupyterHub.services = [{{"name": "test", "api_token": "{token}", "admin": True}}]
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_port = {hub}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api}"
c.ConfigurableHTTPProxy.command = {proxy!r}
c.Spawner.cmd = [{python!r}, "-m", "jupyterhub.singleuser"]
c.Spawner.args = ["--allow-root"]
c.Spawner.start_timeout = 120
c.Spawner.env_keep = ["PATH", "PYTHONPATH", "LANG"]
"""


def ports(count: int) -> list[int]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [s.getsockname()[1] for s in taken]
    for s in taken:
        s.close()
    return found


class Hub:
    """A hub that runs; `ask` is a request to a path of it, with the test's token."""

    def __init__(self, address: str):
        self.address = address

    def ask(self, path: str, data: dict | None = None, method: str = "") -> dict:
        body = None if data is None else json.dumps(data).encode()
        request = urllib.request.Request(
            f"{self.address}/{path}", data=body, method=method or ("POST" if body else "GET")
        )
        request.add_header("Authorization", f"token {TOKEN}")
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.loads(answer.read() or "{}")

    def until(self, what, seconds: float = 120):
        """What a call gives, once it gives something."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if found := what():
                    return found
            except (OSError, urllib.error.URLError):
                pass
            time.sleep(0.5)
        raise TimeoutError(self.address)

    def started(self, who: str) -> str:
        """The path of a user's server, which runs."""
        with contextlib.suppress(urllib.error.HTTPError):  # a teacher is there already
            self.ask(f"hub/api/users/{who}", {})
        self.ask(f"hub/api/users/{who}/server", {})
        self.until(lambda: self.ask(f"hub/api/users/{who}")["servers"].get("", {}).get("ready"))
        return f"user/{who}"


@contextlib.contextmanager
def a_way_to(*places: Path):
    """Others may pass through the folders above `places` for a while: in CI, whose machine is nobody's; elsewhere the test skips."""
    above = {f for place in places for f in (*place.parents, *place.resolve().parents)}
    modes = {f: mode for f in above if not (mode := f.stat().st_mode) & 0o001}
    if modes and not os.environ.get("CI"):
        pytest.skip(f"accounts of others cannot pass through {', '.join(sorted(map(str, modes)))}")
    for folder, mode in modes.items():
        folder.chmod(mode | 0o001)
    yield
    for folder, mode in modes.items():
        folder.chmod(mode)


@pytest.fixture
def accounts():
    if os.geteuid() != 0 or not shutil.which("useradd"):
        pytest.skip("a hub with local accounts needs root and useradd")
    needs(importlib.util.find_spec("jupyterhub"), "needs JupyterHub: pip install jupyterhub")
    needs(PROXY, "needs configurable-http-proxy: npm install configurable-http-proxy")
    needs(available().refusal is None, f"grading needs a sandbox: {available().refusal}")
    names = TEACHER, ADA, BOB
    with a_way_to(Path(sys.executable), ROOT):
        for name in names:
            subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", name], check=True)
        yield names
        for name in names:
            subprocess.run(["userdel", "--remove", name], stderr=subprocess.DEVNULL)


@pytest.fixture
def clone(accounts):
    """The teacher's tree: the course's programs with a small chapter, released."""
    home = Path(pwd.getpwnam(TEACHER).pw_dir)
    tree = home / "course"
    sample, made = (
        ROOT / "tests/autograder/sample",
        ("release", "source", "submitted", "exchange", "feedback", "autograded"),
    )
    skipped = shutil.ignore_patterns("__pycache__", "gradebook.db*", ".grading", *made)
    for name in ("autograder", "helpers"):
        shutil.copytree(ROOT / name, tree / name, ignore=skipped)
    for name in ("book", "solutions"):
        shutil.copytree(sample / name, tree / name)
    shutil.copy(ROOT / "_config.yml", tree)
    shutil.copytree(sample / "wrong", tree / "autograder/samples/wrong", dirs_exist_ok=True)
    subprocess.run(["chown", "-R", f"{TEACHER}:", str(tree)], check=True)
    tree.chmod(0o700)
    return tree


def as_(who: str, tree: Path, *command: str, **more: str) -> str:
    """What a command prints that somebody runs."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": pwd.getpwnam(who).pw_dir,
        "PYTHONPATH": str(tree),
        "JAX_PLATFORMS": "cpu",
        **more,
    }
    done = subprocess.run(
        command, cwd=tree if who == TEACHER else "/", env=env, user=who, group=who, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def test_two_students_fetch_answer_submit_and_get_feedback(clone, tmp_path):
    tmp_path.chmod(0o755)
    exchange, (port, hub_port, api) = Path("/tmp") / f"term-{os.getpid()}" / "exchange", ports(3)
    config = clone / "autograder/jupyterhub_config.py"
    text = CONFIG.format(
        config=config, token=TOKEN, port=port, hub=hub_port, api=api, python=sys.executable, proxy=PROXY
    )
    (tmp_path / "hub.py").write_text(text, encoding="utf-8")
    env = {**os.environ, "COURSE_TEACHERS": TEACHER, "COURSE_EXCHANGE": str(exchange), "PYTHONPATH": str(ROOT)}
    env.pop("JUPYTER_CONFIG_PATH", None)
    log = (tmp_path / "log").open("w")
    run = [sys.executable, "-m", "jupyterhub", "-f", str(tmp_path / "hub.py")]
    running = subprocess.Popen(run, cwd=tmp_path, env=env, stdout=log, stderr=subprocess.STDOUT)
    nbgrader = [sys.executable, "-m", "nbgrader"]
    shared = {"COURSE_EXCHANGE": str(exchange), "JUPYTER_CONFIG_PATH": str(clone / "autograder")}

    def inside(*words: str) -> str:
        return as_(TEACHER, clone, *nbgrader, *words, "--course-dir", str(clone / "autograder"), **shared)

    try:
        hub = Hub(f"http://127.0.0.1:{port}")
        hub.until(lambda: running.poll() is not None or hub.ask("hub/api/"))
        assert running.poll() is None, (tmp_path / "log").read_text(encoding="utf-8")[-2000:]
        as_(TEACHER, clone, sys.executable, "-m", "autograder.release")
        inside("release_assignment", TOPIC)
        for who, answer in ((ADA, RIGHT), (BOB, RIGHT.replace("V / W", "W / V"))):
            server = hub.started(who)
            given = hub.ask(f"{server}/assignments/fetch", {"course_id": "rooflines", "assignment_id": TOPIC})
            assert given["success"], given
            home = Path(pwd.getpwnam(who).pw_dir)
            notebook = next(home.rglob("exercises.ipynb"))
            nb = json.loads(notebook.read_text(encoding="utf-8"))
            cell = next(c for c in nb["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == "ch01-q01")
            cell["source"] = answer
            notebook.write_text(json.dumps(nb), encoding="utf-8")
            sent = hub.ask(f"{server}/assignments/submit", {"course_id": "rooflines", "assignment_id": TOPIC})
            assert sent["success"], sent
            with pytest.raises(urllib.error.HTTPError, match="404"):
                hub.ask(f"{server}/formgrader/api/assignments")
            closed = subprocess.run(["ls", str(clone)], user=who, group=who, capture_output=True)
            assert closed.returncode != 0, "students cannot look into the teacher's folder"
        assert hub.ask(f"{hub.started(TEACHER)}/formgrader/api/assignments")
        inside("collect", TOPIC)
        printed = as_(TEACHER, clone, sys.executable, "-m", "autograder.grade", TOPIC, **shared)
        assert [line.split()[1] for line in printed.splitlines() if line.startswith((ADA, BOB))] == ["2", "0"]
        inside("release_feedback", TOPIC)
        for who in (ADA, BOB):
            hub.ask(f"user/{who}/assignments/fetch_feedback", {"course_id": "rooflines", "assignment_id": TOPIC})
            page = next(Path(pwd.getpwnam(who).pw_dir).rglob("feedback/**/exercises.html")).read_text(encoding="utf-8")
            assert ("too large" in page or "0 of 2" in page) == (who == BOB)
    finally:
        running.terminate()
        running.wait(30)
        log.close()
        shutil.rmtree(exchange.parent, ignore_errors=True)


def test_nobody_takes_the_exchange_of_whoever_teaches(monkeypatch):
    """A student who could move its folder away would hand out and collect."""
    needs(os.geteuid() == 0, "needs root, to be somebody else")
    teacher, student = pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("daemon").pw_uid
    with tempfile.TemporaryDirectory() as folder:
        tree, exchange = Path(folder, "course/autograder"), Path(folder, "shared/exchange")
        shutil.copytree(COURSE / "students", tree / "students")
        config = shutil.copy(COURSE / "jupyterhub_config.py", tree)
        Path(folder).chmod(0o755), tree.parent.chmod(0o700)
        shutil.chown(tree, teacher)
        monkeypatch.setenv("COURSE_TEACHERS", "nobody")
        monkeypatch.setenv("COURSE_EXCHANGE", str(exchange))
        runpy.run_path(config, {"get_config": MagicMock})
        outcome = lambda who, *words: subprocess.run(words, cwd=exchange, user=who, stderr=subprocess.PIPE).returncode  # noqa: E731
        assert outcome(student, "mv", "rooflines", "mine") and outcome(student, "mkdir", "rooflines/outbound")
        assert not outcome(teacher, "mkdir", "rooflines/outbound")
        shutil.chown(exchange / "rooflines", student)  # as if that one had been there first
        with pytest.raises(SystemExit, match="is not of whoever teaches"):
            runpy.run_path(config, {"get_config": MagicMock})


def test_collect_takes_what_students_put_there_themselves(tmp_path, monkeypatch):
    """A link to the teacher's files, another's name, no time, too much or a pipe costs whoever sent it, and nobody else.

    Where names are of no accounts, all share the teacher's, or nbgrader's `check_owner` is off: they are taken at their word.
    """
    needs(os.geteuid() == 0, "needs root, to put there what is others'")
    monkeypatch.setenv("HOME", str(tmp_path))
    what = demo.open_class(TOPIC, classes.SAMPLE, tmp_path / "course")
    inbound = tmp_path / "course/exchange/rooflines/inbound"
    inbound.mkdir(parents=True)

    def sent(name: str, owner: str, stamp: str = "2026-11-02 10:00:00 UTC") -> Path:
        place = inbound / f"{name}+{TOPIC}+{stamp}+{owner}"
        place.mkdir()
        shutil.copy(what.notebook("release"), place / "exercises.ipynb")
        shutil.chown(place, owner)
        return place

    _, linked, full, piped, other = (sent(name, name) for name in ("daemon", "bin", "sys", "games", "lp"))
    sent("ada", "root")
    sent("daemon", "bin", "2026-11-09 10:00:00 UTC").joinpath("exercises.ipynb").write_text("{}")
    sent("lp", "lp", "no time")
    (linked / "exercises.ipynb").unlink()
    (linked / "exercises.ipynb").symlink_to(what.notebook("source"))
    os.truncate(full / "exercises.ipynb", 10**12)
    os.mkfifo(piped / "pipe")
    (piped / "timestamp.txt").write_text("sooner")
    shutil.rmtree(other)
    other.symlink_to(what.notebook("source").parent)
    os.lchown(other, pwd.getpwnam("lp").pw_uid, 0)
    assert course.run(course.api(what.config()).collect, TOPIC) == (True, "")
    assert what.students == ["ada", "bin", "daemon", "games"]
    assert what.sent("bin").why == "The submitted notebook is a link, not a file."
    assert what.sent("daemon").data == what.notebook("release").read_bytes() == what.sent("games").data
    assert what.sent("games").stamp == b"2026-11-02 10:00:00 UTC"
    sent("lin", "lp")
    part = what.notebook("submitted", "lin").parent.with_name(f"{TOPIC}.part")  # as a run leaves it that is stopped
    part.mkdir(parents=True)
    (part / "exercises.ipynb").write_text('{"ce')
    (config := what.config()).ExchangeCollect.check_owner = False
    assert course.run(course.api(config).collect, TOPIC) == (True, "")
    assert {*what.students} >= {"bin", "daemon", "games", "lin"} and not part.exists()
    assert what.sent("lin").data == what.notebook("release").read_bytes()


@pytest.mark.parametrize(("folder", "grades"), [("", True), ("students", False)])
def test_who_has_the_formgrader(folder, grades, monkeypatch):
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(COURSE / folder))
    on_server = ExtensionConfigManager(read_config_path=jupyter_config_path()).get_jpserver_extensions()
    in_lab = get_static_page_config(level="all").get("disabledExtensions", {})
    assert on_server["nbgrader.server_extensions.formgrader"] == grades
    assert in_lab.get("@jupyter/nbgrader:formgrader", False) != grades
    assert on_server["nbgrader.server_extensions.assignment_list"] and "@jupyter/nbgrader:assignment-list" not in in_lab
