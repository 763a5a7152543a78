"""The benchmark runs; what it measures is for people to read, but for the one figure that is promised."""

import pytest

from tools import bench_startup


def test_costs_import_in_under_a_fifth_of_a_second():
    t = bench_startup.imports(3)
    assert t["helpers.costs"] - t["nothing"] < 0.2


@pytest.mark.slow
def test_the_planner_keeps_its_promise():
    assert bench_startup.planning()[1] > 1000


@pytest.mark.slow
def test_jupyterlab_comes_to_a_first_cell():
    assert bench_startup.first_cell() > 0
