"""Notebooks where the course is not, as in Colab: the first cell installs `helpers`, from a clone of this state; the rest works.

Each supported Python that has an environment beside this one (.venv, .venv-python3.13, …) takes part.  An empty one
sees its packages by links, without `helpers`; git is told to take the clone for the repository's address.
"""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import scratch
from tools import run_all_tests
from tests.skip_conditions import needs

ROOT = scratch.ROOT
URL = "https://github.com/rooflines-to-racks/rooflines-to-racks"

# Runs in the empty environment, from a folder elsewhere: the first cell of every notebook, then what imports, then a check.
SESSION = """
import contextlib, importlib.metadata, io, json, pathlib, sys

before = importlib.metadata.version("jax")
said, scope = io.StringIO(), {}
cells = json.load(open("cells.json"))
with contextlib.redirect_stdout(said):
    for source in cells["first"]:
        exec(source, scope)
    once = said.getvalue()
    for source in cells["imports"]:
        exec(source, scope)
import helpers
from helpers import check

said = io.StringIO()
with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):  # a check without points goes to the second
    scope["dot_intensity"] = lambda N, bytes_each=2: N
    exec(cells["check"], scope)
    check.solution("1.1")
place = pathlib.Path(helpers.__file__).parents[1]
print(json.dumps({
    "once": once, "said": said.getvalue(), "at": str(place), "version": helpers.__version__, "jax": importlib.metadata.version("jax"),
    "before": before, "data": [name for name in cells["data"] if not (place / "book" / name).is_file()],
}))
"""


def environments() -> dict[str, Path]:
    """Python version -> environment with the course's packages: this one, and those that `make env PYTHON=…` made."""
    found = {}
    for folder in [Path(sys.prefix), *sorted(Path(sys.prefix).parent.glob(".venv*"))]:
        for packages in folder.glob("lib/python3.*/site-packages"):
            version = packages.parent.name.removeprefix("python")
            if version in run_all_tests.SUPPORTED and (packages / "jax").is_dir():
                found.setdefault(version, folder)
    return found


def empty(base: Path, version: str, to: Path) -> Path:
    """The interpreter of an environment that has the packages of another, but not `helpers`."""
    packages = base / f"lib/python{version}/site-packages"
    links = to / "packages"
    links.mkdir(parents=True)
    for path in packages.iterdir():
        if not re.match(r"(__editable__|rooflines_to_racks|helpers|book)|.*\.pth$", path.name):
            (links / path.name).symlink_to(path)
    python = (base / "bin/python").resolve()
    subprocess.run([python, "-m", "venv", "--without-pip", to / "env"], check=True)
    (to / f"env/lib/python{version}/site-packages/packages.pth").write_text(f"{links}\n")
    return to / "env/bin/python"


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """A repository with the working tree, as a reader would get it."""
    to = scratch.copy(tmp_path_factory.mktemp("clone"))
    git = ["git", "-C", str(to), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for step in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "state"]):
        subprocess.run([*git, *step], check=True)
    return to


def session() -> dict:
    """The cells that a session runs, out of the notebooks."""
    first, imports, check, data = [], [], "", set()
    for path in sorted((ROOT / "notebooks").glob("ch*/*.ipynb")):
        code = [c for c in json.loads(path.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code"]
        text = ["".join(c["source"]) for c in code]
        first.append(text[0])
        nodes = [n for source in text[1:] for n in ast.walk(ast.parse(source))]
        imports.append("\n".join(ast.unparse(n) for n in nodes if isinstance(n, (ast.Import, ast.ImportFrom))))
        check = check or next((s for c, s in zip(code, text) if c["id"] == "ch01-q01-check"), "")
        data |= {name for source in text for name in re.findall(r"\b(?:data|results)/\w+\.json", source)}
    data = {name for name in data if (ROOT / "book" / name).is_file()}  # some are measured on hardware to come
    return {"first": first, "imports": imports, "check": check, "data": sorted(data)}


@pytest.mark.slow
@pytest.mark.parametrize("version", run_all_tests.SUPPORTED)
def test_the_first_cell_brings_the_course(version, clone, tmp_path):
    found = environments()
    if version not in found:
        pytest.skip(f"there is no environment with Python {version} beside this one: make env PYTHON=python{version}")
    needs(os.name == "posix", "links to packages need a system with symbolic links")
    python = empty(found[version], version, tmp_path)
    away = tmp_path / "away"
    away.mkdir()
    (away / "cells.json").write_text(json.dumps(session()))
    config = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.{clone.as_uri()}.insteadOf", "GIT_CONFIG_VALUE_0": URL}
    # Colab fetches setuptools for the build; here the one that is there builds, and no index is asked.
    alone = {"PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PIP_", "VIRTUAL"))} | config | alone
    done = subprocess.run([python, "-c", SESSION], cwd=away, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["once"].count("Installing") == 1  # the second first cell finds it
    assert Path(told["at"]).is_relative_to(tmp_path / "env")
    assert told["jax"] == told["before"]
    assert told["data"] == []
    assert "Exercise 1.1: 0 of 1 points" in told["said"] and "carries no solutions" in told["said"]
