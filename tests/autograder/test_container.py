"""The container's files say what the walls need; whether an image builds is not tried: that takes Docker."""

import os
import re
import subprocess

import pytest
import yaml

from autograder.engine import host
from autograder.places import ROOT

INSTALL = "autograder/container/install-system-packages.sh"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def steps() -> list[tuple[str, str]]:
    """(instruction, its words) of the Dockerfile."""
    lines = [line for line in DOCKERFILE.splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def test_what_is_copied_is_there():
    """By a clone, and not left out by .dockerignore."""
    for kind, words in steps():
        if kind == "COPY":
            *sources, _ = [w for w in words.split() if not w.startswith("--")]
            assert all((ROOT / s).exists() for s in sources), words
    assert os.access(ROOT / INSTALL, os.X_OK)


def test_no_student_s_work_gets_into_an_image():
    """What git leaves out because a person or a student made it, the build leaves out too."""
    left_out = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for line in (ROOT / ".gitignore").read_text(encoding="utf-8").split():
        if line.startswith(("/", "_build", ".venv")):
            name = line.strip("/")
            assert any(
                name == other or re.fullmatch(other.replace(".", r"\.").replace("*", ".*"), name) for other in left_out
            ), line


def test_an_ordinary_user_grades():
    kinds = [kind for kind, _ in steps()]
    users = [words for kind, words in steps() if kind == "USER"]
    assert users and users[-1] not in ("root", "0")
    assert kinds.index("USER") < kinds.index("CMD")


def test_one_list_of_packages():
    """CI and the container call the same script, and nothing else installs from the distribution."""
    for name in ("Dockerfile", ".ci/run"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "install-system-packages.sh" in text and "apt-get" not in text, name


@pytest.mark.parametrize(
    ("kind", "some"), [("grading", {"bubblewrap", "libseccomp2"}), ("tests", {"chromium", "postgresql"})]
)
def test_the_script_lists_what_it_installs(kind, some):
    found = subprocess.run([ROOT / INSTALL, "--list", kind], capture_output=True, text=True, check=True).stdout.split()
    assert some < set(found)
    assert {"bubblewrap", "libseccomp2"} < set(found)


def test_what_is_there_is_not_installed(tmp_path):
    """With everything found, no package manager is called; a kind that does not exist is refused."""
    tried = tmp_path / "tried"
    for name in ("make", "bwrap", "ls", "apt-get", "id", "sudo"):
        (tmp_path / name).write_text(
            f"#!/bin/bash\ncase {name} in apt-get|sudo) echo {name} >>{tried};; id) echo 0;; esac\n"
        )
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run([ROOT / INSTALL, "grading"], env=env, check=True)
    assert not tried.exists()
    (tmp_path / "ls").write_text("#!/bin/bash\nexit 2\n")
    subprocess.run([ROOT / INSTALL, "grading"], env=env, check=True)
    assert tried.read_text().split() == ["apt-get", "apt-get"]
    assert subprocess.run([ROOT / INSTALL, "all"], env=env, capture_output=True).returncode == 2


def test_compose_gives_what_the_walls_need():
    """The options that `make grade` names where walls are missing, and no right besides."""
    service = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]["course"]
    named = set(re.findall(r"\w+=unconfined", host.NAMESPACES))
    assert {"seccomp=unconfined", "apparmor=unconfined"} < named
    assert set(service["security_opt"]) == named
    assert service["cap_drop"] == ["ALL"] and "cap_add" not in service and "privileged" not in service
    assert all(p.startswith("127.0.0.1:") for p in service["ports"])  # who reaches JupyterLab can run code
    made = [words for kind, words in steps() if kind == "ENV"]
    environment = next(v.split(":")[1] for v in service["volumes"] if v.startswith("environment:"))
    assert any(f"{environment}/bin" in words for words in made)
