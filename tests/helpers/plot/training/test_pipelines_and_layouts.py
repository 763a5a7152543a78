"""Boxes where the devices worked, the edge where the numbers cross it, marks at predicted over measured."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from helpers import plot
from helpers.costs.training.pipeline_schedules import bubble, pipeline
from helpers.kernels.training.pipeline_parallel import ticks
from helpers.plot.training.pipelines_and_layouts import TASKS
from tests.helpers.plot.drawn import boxes, greys

SAID = "two panels with a row of boxes for each device"


def test_a_box_stands_where_a_device_worked():
    """As many boxes as tasks, each at its tick and device, in the colour of its kind, with its microbatch."""
    t = ticks(pipeline("1F1B", 3, 4))
    (ax,) = plot.pipelines({"1F1B": (t.task, t.micro, 1)}, SAID).figure.axes
    drawn = {(p.get_x(), p.get_y()): to_hex(p.get_facecolor()) for p in boxes(ax)}
    want = {(x, d): to_hex(TASKS[int(k)][1]) for (x, d), k in np.ndenumerate(t.task) if k}
    assert drawn == want and len(drawn) == 3 * 3 * 4
    numbers = {tuple(text.get_position()): text.get_text() for text in ax.texts}
    assert numbers == {(x + 0.5, d + 0.5): str(t.micro[x, d]) for x, d in want}


def test_the_title_says_the_bubble_and_panels_share_the_time():
    made = {name: ticks(pipeline(name, 4, 8)) for name in ("GPipe", "ZB-H1")}
    axes = plot.pipelines({name: (t.task, t.micro, 1) for name, t in made.items()}, SAID).figure.axes
    for ax, name in zip(axes, made):
        assert f"{bubble(name, 4, 8):.0%}" in ax.get_title(loc="left")
        assert ax.get_xlim() == (0, len(made["GPipe"].task)) and ax.get_ylim() == (4, 0)


def test_a_step_of_many_may_wait_less():
    """With ZB-H2 on four devices each works 3 · 8 ticks without a gap, and the next step can begin at once."""
    made = {name: ticks(pipeline(name, 4, 8)) for name in ("1F1B", "ZB-H1", "ZB-H2")}
    axes = plot.pipelines({name: (t.task, t.micro, 1) for name, t in made.items()}, SAID).figure.axes
    *others, last = (ax.get_title(loc="left") for ax in axes)
    assert last == "ZB-H2: 11% idle, 0% as one of many steps" and not any("many" in title for title in others)


def test_kinds_differ_in_grey():
    grey = greys(fill for _, fill, _ in TASKS.values())
    assert all(b - a > 50 for a, b in zip(grey, grey[1:]))


X, Y = [1.0, 2.0, 4.0, 8.0], [10.0, 100.0, 1000.0]


def test_the_edge_lies_where_the_numbers_cross_it():
    z = [[y / 100] * 4 for y in Y]  # 1 at y = 100, whatever x
    ax = plot.plane(X, Y, z, "X", "tokens", "a shaded half of a plane", inside="busy").figure.axes[0]
    edge = ax.collections[-1].get_paths()[0].vertices
    assert edge[:, 1] == pytest.approx(100) and {min(edge[:, 0]), max(edge[:, 0])} == {1, 8}
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


def test_lines_and_dots_lie_where_they_are_put():
    one, two = ([1, 8], [10, 1000]), ([2, 4], [100, 100])
    figure = plot.plane(
        X, Y, np.ones((3, 4)), "X", "y", "a line and two dots", lines={"best": one}, dots={"whole": two}
    ).figure
    assert [[list(a) for a in line.get_data()] for line in figure.axes[0].lines] == [
        list(map(list, one)),
        list(map(list, two)),
    ]
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["best", "whole"]


def test_a_mark_stands_at_predicted_over_measured_in_the_lane_of_its_method():
    rows = {"one": [[2.0, 1.0, 4.0], [10.0, 10.0, 5.0]], "two": [[1.0, 3.0, 0.3]]}
    figure = plot.predicted(rows, ("ours", "rule"), "marks of three rows in two groups").figure
    ax = figure.axes[0]
    marks = [line for line in ax.lines if line.get_marker() != "None"]
    assert [list(m.get_xdata()) for m in marks] == [[0.5, 1.0], [2.0, 0.5], [3.0], [0.3]]
    lanes = [set(m.get_ydata()) for m in marks]
    assert [round(next(iter(lane))) for lane in lanes] == [0, 0, 1, 1] and all(len(lane) == 1 for lane in lanes)
    assert len({m.get_marker() for m in marks[:2]}) == 2 and max(lanes[0]) < min(lanes[1])
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["ours", "rule"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["one\n2 rows", "two\n1 row"]


def test_a_bar_reaches_from_the_low_to_the_high_end_over_what_was_measured():
    rows = {"within": (10.0, 8.0, 9.0, 12.0), "below": (10.0, 4.0, 5.0, 8.0)}
    ax = plot.intervals(rows, "two estimates with their intervals").figure.axes[0]
    bars = [c for c in ax.containers]
    for (measured, low, middle, high), bar in zip(rows.values(), bars, strict=True):
        mark, _, (line,) = bar
        assert mark.get_xdata() == pytest.approx([middle / measured])
        assert line.get_segments()[0][:, 0] == pytest.approx([low / measured, high / measured])
    filled = [bar[0].get_markerfacecolor() for bar in bars]
    assert filled[0] != filled[1] == "#fff"
    with pytest.raises(ValueError, match="upside down: an interval is"):
        plot.intervals({"upside down": (1.0, 3.0, 2.0, 1.0)}, "a figure that is not drawn")
