"""What a change touches, and that a sample has a case of every kind, whatever it is drawn by."""

import subprocess

import grimp
import pytest

from tests import areas
from tests.scratch import ROOT


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph("helpers", "autograder", "tests", "tools", cache_dir=None)


def test_an_area_s_deepest_file_touches_it(graph):
    """The module that most of an area's tests stand on, and a module of theirs that nothing else imports."""
    for name in set(areas.AREAS) - {areas.PYTHONS, "house"}:
        tests = [m for m in graph.modules if m.startswith("tests.") and areas.area(f"{m.replace('.', '/')}.py") == name]
        below = [m for t in tests for m in graph.find_upstream_modules(t) if m.startswith(("helpers.", "autograder."))]
        deepest = max(sorted(set(below)), key=below.count)
        path = ROOT / deepest.replace(".", "/")
        found = f"{deepest.replace('.', '/')}{'/__init__' * path.is_dir()}.py"
        assert name in areas.touched([found]), found
        alone = next(t for t in sorted(tests) if ".test_" in t and not graph.find_downstream_modules(t))
        assert areas.touched([f"{alone.replace('.', '/')}.py"]) == {name}


def test_a_floor_touches_what_stands_on_it_and_nothing_below():
    assert areas.touched(["helpers/plot/picture.py"]) == {"site", "exercises", areas.PYTHONS}
    assert areas.touched(["autograder/lms/moodle.py"]) == {"grading", areas.PYTHONS}
    assert areas.touched(["tests/helpers/costs/formulas.py"]) == {"programs"}
    assert (
        areas.touched(["requirements.txt"])
        == areas.touched(["tests/conftest.py"])
        == areas.touched(None)
        == set(areas.AREAS)
    )
    assert areas.touched(["CHANGELOG.md", ".github/workflows/weekly.yml"]) == set()


def test_where_git_cannot_tell_everything_has_changed(monkeypatch):
    assert areas.changed("") is areas.changed("0" * 40) is None
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    status = subprocess.run(["git", "status", "--porcelain", "-uall"], cwd=ROOT, capture_output=True, text=True).stdout
    assert all(path in status for path in areas.changed(head)), "nothing but what is not committed"
    monkeypatch.setenv("SEED", "7")
    assert areas.seed() == "7"
