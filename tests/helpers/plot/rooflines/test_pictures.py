"""The drawings of chapter 1: what they show is what they were given."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import FancyArrowPatch, Rectangle

from helpers import plot
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.kernels.rooflines import systolic_array

ALT = "what the picture shows, in words"


def texts(ax):
    return [t.get_text() for t in ax.texts]


def test_systolic_frames_show_each_pe_and_what_leaves():
    frames = list(systolic_array.frames((np.ones((2, 3)), np.ones((3, 2)))))
    picture = plot.systolic(frames, ALT, columns=3)
    axes = [ax for ax in picture.figure.axes if ax.patches]
    assert len(axes) == len(frames) == systolic_array.cycles([2], 3, 2)
    for ax, frame in zip(axes, frames):
        assert sum(isinstance(p, Rectangle) for p in ax.patches) == 6
        shown = [t for t in texts(ax) if t]
        assert len(shown) == np.sum(frame.row != systolic_array.IDLE) + len(frame.finished)


@pytest.mark.parametrize(
    "shape, wraps, links", [((4, 4), (False, False), 24), ((4, 4), (True, True), 32), ((2, 3), (False, True), 9)]
)
def test_torus_draws_every_link_once_and_hops_on_every_chip(shape, wraps, links):
    s = Slice(chip("v5e"), shape, wraps)
    ax = plot.torus(s, (0, 0), (1, 1), ALT).figure.axes[0]
    assert sum(isinstance(p, FancyArrowPatch) for p in ax.patches) == links
    assert sorted(texts(ax)) == sorted(
        str(min(a, shape[0] - a if wraps[0] else a) + min(b, shape[1] - b if wraps[1] else b))
        for a in range(shape[0])
        for b in range(shape[1])
    )


def test_timeline_places_spans_and_shares_colours():
    rows = {"PCIe, alone": [(0, 2, "a")], "ICI, alone": [(2, 3, "b")], "PCIe, streamed": [(0, 2, "c")]}
    ax = plot.timeline(rows, "ms", ALT).figure.axes[0]
    assert [(p.get_x(), p.get_width()) for p in ax.patches] == [(0, 2), (2, 3), (0, 2)]
    first, second, third = (to_hex(p.get_facecolor()) for p in ax.patches)
    assert first == third != second


def test_a_picture_is_the_same_bytes_every_time_and_needs_alt_text():
    draw = lambda: plot.levels({"HBM": (8.1e11, "x")}, "bytes/s", ALT).svg()  # noqa: E731
    assert draw() == draw()
    with pytest.raises(ValueError, match="alt text"):
        plot.levels({"HBM": (8.1e11, "x")}, "bytes/s", "figure")
