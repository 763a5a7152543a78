"""The workflows name what is there: make's targets, the supported Pythons, actions by commit, few permissions."""

import re
import subprocess
import sys

import pytest
import yaml

from tests.areas import AREAS
from tests.scratch import ROOT
from tools.run_all_tests import SUPPORTED

FOLDER = ROOT / ".github/workflows"
WORKFLOWS = {path.stem: path for path in sorted(FOLDER.glob("*.yml"))}


def read(name: str) -> dict:
    return yaml.safe_load(WORKFLOWS[name].read_text(encoding="utf-8"))


def steps(workflow: dict) -> list[dict]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_every_week_all_cases_are_taken():
    weekly = read("weekly")
    (when,) = weekly[True]["schedule"]  # YAML reads the key `on` so
    minute, hour, day, month, weekday = when["cron"].split()
    assert minute.isdigit() and hour.isdigit() and (day, month) == ("*", "*") and weekday in "0123456"
    assert "FULL=1 .ci/run" in [step.get("run") for step in steps(weekly)]
    assert sorted(weekly["jobs"]["full"]["strategy"]["matrix"]["area"]) == sorted(AREAS)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_what_is_run_exists(name):
    rules = [
        (ROOT / part).read_text(encoding="utf-8") for part in ("Makefile", "autograder/teaching.mk", "tools/course.mk")
    ]
    targets = set(re.findall(r"^([\w-]+):", "\n".join(rules), re.M))
    for run in (step["run"] for step in steps(read(name)) if "run" in step):
        assert set(re.findall(r"\bmake ([\w-]+)", run)) <= targets, run
        for path in re.findall(r"[\w./-]+\.py\b|(?<!\S)\.ci/\w+", run):
            assert (ROOT / path).is_file(), path
        for module in re.findall(r" -m ((?:tests|tools)[\w.]+)", run):
            assert (ROOT / f"{module.replace('.', '/')}.py").is_file(), module


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_are_pinned_and_checkouts_keep_no_credentials(name):
    lines = re.findall(r"uses:.*", WORKFLOWS[name].read_text(encoding="utf-8"))
    assert lines
    for line in lines:
        assert re.fullmatch(r"uses: actions/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", line), line
    for step in steps(read(name)):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"] in ({"persist-credentials": False}, {"persist-credentials": False, "fetch-depth": 0})


def test_what_a_change_touches_is_told_by_the_history():
    everything = read("tests")["jobs"]["everything"]["steps"]
    assert everything[0]["with"]["fetch-depth"] == 0
    assert "github.event.before" in next(s for s in everything if s.get("run") == ".ci/run")["env"]["BASE"]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_permissions_are_the_least(name):
    workflow = read(name)
    assert workflow["permissions"] == {"contents": "read"}
    more = {job: j["permissions"] for job, j in workflow["jobs"].items() if "permissions" in j}
    assert more == ({"deploy": {"pages": "write", "id-token": "write"}} if name == "publish" else {})
    assert all(job["timeout-minutes"] <= 180 for job in workflow["jobs"].values())


def test_every_supported_python_is_tested():
    jobs = read("tests")["jobs"]
    assert tuple(jobs["quick"]["strategy"]["matrix"]["python"]) == SUPPORTED
    needed = re.search(r'requires-python = "(.+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))[1]
    assert needed == f">={SUPPORTED[0]},<3.{int(SUPPORTED[-1].split('.')[1]) + 1}"
    assert ".ci/run" in [step.get("run") for step in jobs["everything"]["steps"]]


def test_the_key_of_the_cache_is_its_folder():
    sys.path.insert(0, str(ROOT / "book/_ext"))
    try:
        from execution_cache import code_hash
    finally:
        sys.path.pop(0)
    printed = subprocess.run(
        [sys.executable, "book/_ext/execution_cache.py"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert printed == f"{code_hash()}\n" and re.fullmatch(r"[0-9a-f]{12}\n", printed)
    cache = next(step for step in steps(read("publish")) if step.get("uses", "").startswith("actions/cache@"))
    assert cache["with"]["path"] == "_build/.jupyter_cache"
    assert "steps.runs.outputs.key" in cache["with"]["key"]
