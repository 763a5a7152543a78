"""The house rules that a program can check: lint, format, size, and nothing of one machine."""

import json
import re
import subprocess
import sys

import pytest

from tests.scratch import ROOT

TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
TEXTS = [f for f in TRACKED if (ROOT / f).is_file() and not f.endswith((".png", ".ico", ".woff2", ".xz"))]


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=" ".join)
def test_ruff(command):
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *command, "--quiet", "."], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_python_files_stay_small():
    lengths = {f: len((ROOT / f).read_text(encoding="utf-8").splitlines()) for f in TEXTS if f.endswith(".py")}
    assert not {f: n for f, n in lengths.items() if n > 400}


def test_no_path_of_a_machine_and_no_registry_address():
    pattern = re.compile(r"(?<![\w.])/(?:root|home|work|Users)/\w+/|(?:pypi|npmjs|files\.pythonhosted)\.org|index-url")
    found = [
        (f, m[0])
        for f in TEXTS
        if f != "tests/test_style.py" and (m := pattern.search((ROOT / f).read_text(encoding="utf-8")))
    ]
    assert not found


def test_notebooks_carry_no_output():
    for f in TEXTS:
        if f.endswith(".ipynb"):
            assert not [c for c in json.loads((ROOT / f).read_text(encoding="utf-8"))["cells"] if c.get("outputs")], f


def test_only_generated_notebooks_and_measured_results_are_tracked():
    for f in TEXTS:
        written = f.startswith(("notebooks/", "book/_templates/"))
        assert not f.endswith((".db", ".ipynb", ".html", ".log")) or written, f
