"""What the explorer's page says of its example, held against the plans that the figure lists."""

import re

import pytest

from helpers import figures
from helpers.costs.rooflines.chips import chip

FIGURE = figures.figure("explorer")
SUMS = {"b": "B[J_Y, K]"}  # both operands sharded along what is summed over


def first(I, **chosen):
    return FIGURE.picked({"I": I, **chosen})[0]


def ranked(I, **chosen):
    return [[s.kind for s in p.steps] for p in FIGURE.ranked({"I": I, **chosen})[0]]


def test_it_opens_with_a_gather_over_eight_devices_that_the_arithmetic_hides():
    assert (FIGURE.sizes["I"], FIGURE.operands) == (8192, ("[I_X, J_Y]", "[J, K_Y]", "[I_X, K_Y]"))
    assert ranked(8192)[0] == ["AllGather", "Matmul"] and "bound by arithmetic" in FIGURE.sentence()
    words = [said for said, _ in FIGURE.frames()]
    assert "step 1 of 4" in words[0] and words[-1].endswith("29.4 MB have left the busiest device.")
    held = [[float(x) > 0 for x in re.findall(r'fill-opacity="([\d.]+)"', svg)] for _, svg in FIGURE.frames()]
    assert [sum(cells) for cells in held] == [8, 24, 40, 56, 64]


def test_smaller_rows_meet_the_memory_and_then_another_plan():
    assert ranked(512)[0] == ["AllGather", "Matmul"] and "bound by HBM" in FIGURE.sentence({"I": 512})
    plan = first(256)
    assert [s.kind for s in plan.steps] == ["AllToAll", "AllGather", "Slice", "Matmul", "AllToAll"]
    assert [str(s) for s in plan.product[:2]] == ["A[I, J]", "B[J, K_YX]"]  # all rows, a quarter of B's part


@pytest.mark.parametrize(("I", "place"), [(8192, 3), (512, 1)])
def test_partial_sums_are_worth_reducing_where_the_result_is_small(I, place):
    assert ranked(I, **SUMS).index(["Matmul", "ReduceScatter"]) + 1 == place


def test_between_slices_the_network_decides_and_an_axis_of_rows_sends_nothing_over_it():
    times = lambda **at: [p.time(chip("v5p")) for p in FIGURE.ranked(at)[0]]  # noqa: E731
    far, near = times(y="8 slices"), times()
    assert [s.kind for s in first(8192, y="8 slices").steps] == ["AllGather", "Matmul"]
    assert far[0].bound == "dcn" and far[0].parts["dcn"] > 10 * near[0].parts["ici"]
    small = times(y="8 slices", I=256)
    assert [s.kind for s in first(256, y="8 slices").steps] == ["AllGather", "Matmul"] != ranked(256)[0]
    assert small[0].parts["dcn"] == pytest.approx(small[1].parts["dcn"]) and small[0].upper < small[1].upper
    rows = times(x="4 slices", y="8 in a ring")[0]
    assert rows.parts["dcn"] == 0 and rows.lower == near[0].lower == pytest.approx(near[0].parts["math"])
