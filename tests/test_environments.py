"""Binder and the devcontainer build what the course pins, on a Python that it supports."""

import json
import os
import re
import subprocess
import sys

from tests import scratch
from tests.scratch import ROOT
from tools.run_all_tests import SUPPORTED

BINDER = ROOT / ".binder"


def test_binder_installs_what_a_clone_installs():
    lines = [s for s in (BINDER / "requirements.txt").read_text(encoding="utf-8").splitlines() if s[0] != "#"]
    assert lines == ["-r ../requirements.txt"] and (BINDER / "../requirements.txt").is_file()
    ours = next(s for s in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines() if s.endswith("-e ."))
    flags = re.search(r"--no-deps --no-build-isolation -e \.", ours)[0]
    assert flags in (BINDER / "postBuild").read_text(encoding="utf-8")


def test_binder_s_python_is_supported():
    assert re.fullmatch(r"python-(3\.\d+)\n", (BINDER / "runtime.txt").read_text(encoding="utf-8"))[1] in SUPPORTED


def test_binder_s_scripts_can_run(tmp_path):
    for name in ("postBuild", "start"):
        assert os.access(BINDER / name, os.X_OK) and not subprocess.run(["bash", "-n", BINDER / name]).returncode
    echo = ["printenv", "JUPYTER_CONFIG_PATH"]
    copy = scratch.copy(tmp_path)
    env = {**os.environ, "PATH": f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([copy / ".binder/start", *echo], cwd=copy, env=env, capture_output=True, text=True)
    assert done.stdout.strip() == f"{copy}/autograder" and (copy / "autograder/jupyter_lab_config.py").is_file()
    assert (copy / "work/README.md").is_file(), done.stderr


def test_the_devcontainer_makes_the_environment_and_shows_jupyterlab():
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    image, version = container["image"].split(":")
    assert image.endswith("/devcontainers/python") and version in SUPPORTED
    assert container["postCreateCommand"] == "make env"
    assert container["postStartCommand"].endswith(
        "-m autograder.own_work copies"
    )  # who opens no JupyterLab works in copies too
    assert re.search(r"^env:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert container["forwardPorts"] == [8888]  # JupyterLab's own
