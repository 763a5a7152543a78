"""What a change touches, and that a sample has a case of every kind, whatever it is drawn by."""

import contextlib
import subprocess
import time

import grimp
import pytest
from hypothesis import given, strategies as st

from tests import areas, tiers
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


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.text(max_size=5))
def test_every_kind_is_drawn(kinds, seed):
    chosen = areas.drawn([str(i) for i in range(len(kinds))], kinds, [2] * len(kinds), seed)
    for kind in set(kinds):
        assert sum(taken for taken, k in zip(chosen, kinds) if k == kind) == min(2, kinds.count(kind))


def test_other_commits_draw_other_cases():
    draws = {tuple(areas.drawn([str(i) for i in range(9)], [0] * 9, [1] * 9, str(seed))) for seed in range(60)}
    assert len(draws) == 9


@pytest.mark.parametrize("seed", "1234567")
def test_where_time_is_up_one_long_test_of_each_file_goes_on(monkeypatch, seed):
    """Six tests of three files: one of each runs, the others are skipped; drawn ones come first, a group's keep their order."""

    class Long:
        def __init__(self, file, number):
            self.path, self.number, self.nodeid, self.stash = file, number, f"{file}::test_{number}", pytest.Stash()

        def get_closest_marker(self, name):
            return name == "slow" or (name == "xdist_group" and "test_c" in self.path)

    items = [Long(f"tests/book/test_{file}.py", number) for file in "abc" for number in range(2)]
    monkeypatch.setattr(tiers, "family", lambda item: (item.nodeid,))
    monkeypatch.setattr(tiers, "kind_of", lambda *_: None)
    monkeypatch.setattr(tiers, "report", lambda *_: None)
    chosen = tiers.long_sample(items, seed, [])

    def begun(end: float) -> list:
        monkeypatch.setenv("TESTS_END", str(end))
        ran = []
        for item in chosen:
            with contextlib.suppress(pytest.skip.Exception):
                tiers.in_time(item)
                ran.append(item)
        return ran

    ran = begun(time.time() - 60)
    assert begun(0) == [] and len(begun(time.time() + 2 * tiers.FOR_OTHERS)) == 6
    assert sorted({item.path for item in ran}) == sorted(item.path for item in ran) and len(ran) == 3 < len(chosen) == 6
    assert [item.path for item in chosen[4:]] == ["tests/book/test_a.py", "tests/book/test_b.py"]
    assert [item.number for item in chosen if "test_c" in item.path] == [0, 1]
