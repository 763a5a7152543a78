"""Scratch copies of the course, and a JupyterLab started on one."""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def copy(to: Path) -> Path:
    """The working tree as git would clone it, with what is not committed yet."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name)
    return to


WORDS = "--no-browser", "--allow-root", "--expose-app-in-browser", "--ServerApp.port=0", "--IdentityProvider.token=t"


@contextmanager
def jupyterlab(course: Path, own: Path, module: str = "jupyterlab"):
    """The URL (token `t`) of a JupyterLab started on `course` as `make formgrader` does, or by another module.

    own  a folder for settings and workspaces, so that those of the person at this machine play no part
    """
    folders = ("_CONFIG_DIR", "_DATA_DIR", "_RUNTIME_DIR", "LAB_SETTINGS_DIR", "LAB_WORKSPACES_DIR")
    env = {
        **os.environ,
        "JUPYTER_CONFIG_PATH": str(course / "autograder"),
        **{f"JUPYTER{f}": str(own / f) for f in folders},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(course),
    }
    own.mkdir(parents=True, exist_ok=True)
    with open(own / "log", "w") as log:
        server = subprocess.Popen([sys.executable, "-m", module, *WORDS], cwd=course, env=env, stdout=log, stderr=log)
    try:
        yield _address(own / "_RUNTIME_DIR", own / "log")
    finally:
        server.terminate()
        server.wait(30)


def _address(runtime: Path, log: Path) -> str:
    for _ in range(1200):
        for found in runtime.glob("jpserver-*.json"):
            try:
                url = json.loads(found.read_text())["url"]
                urllib.request.urlopen(f"{url}api/status?token=t", timeout=5).close()
                return url
            except (OSError, ValueError):
                pass
        time.sleep(0.1)
    raise TimeoutError(f"JupyterLab did not start within two minutes:\n{log.read_text()[-3000:]}")
