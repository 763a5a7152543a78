"""Drawings of experts: each chip once in each mesh, an arrow for each copy, bands that hold all loads."""

import numpy as np
import pytest
from matplotlib.patches import FancyArrowPatch

from helpers import plot
from helpers.plot.experts.copies import WAYS, copies, crosses
from helpers.plot.experts.two_meshes import coordinates

ALT = "what a test of drawings looks at"
CHOSEN = [(0, 2), (1, 1), (1, 1), (1, 2), (2, 0), (2, 3), (3, 1), (3, 1)]


@pytest.mark.parametrize("axes", [(("dp", 2), ("tp", 4)), (("ep", 8),), (("a", 2), ("b", 2), ("c", 2))])
def test_each_place_of_a_mesh_has_one_chip(axes):
    places = [coordinates(chip, axes) for chip in range(8)]
    assert sorted(places) == [tuple(i) for i in np.ndindex(*(n for _, n in axes))]


def test_a_row_for_each_mesh_and_a_box_for_each_chip():
    meshes = {"attention": ((("dp", 2), ("tp", 4)), "a"), "experts": ((("edp", 1), ("ep", 8)), "b")}
    ax = plot.two_meshes(meshes, ALT).figure.axes[0]
    texts = [t.get_text() for t in ax.texts]
    assert "dp 1\ntp 2" in texts and "ep 7" in texts and sum(t.startswith("chip") for t in texts) == 8
    with pytest.raises(ValueError, match="the same product"):
        plot.two_meshes({"a": ((("x", 8),), ""), "b": ((("x", 4),), "")}, ALT)


@pytest.mark.parametrize("way", WAYS)
def test_an_arrow_for_each_copy_and_every_expert_is_reached(way):
    sent = copies((0, 0), CHOSEN, way)
    picture = plot.token_copies(4, 4, (0, 0), CHOSEN, ALT, ways=(way,))
    ax = picture.figure.axes[0]
    assert sum(isinstance(p, FancyArrowPatch) for p in ax.patches) == len(sent)
    assert {b for _, b in sent} | {(0, 0)} >= set(CHOSEN)
    assert f"{sum(map(crosses, sent))} over the card" in ax.get_title(loc="left")


def test_a_host_gets_one_copy_however_many_experts_it_has():
    far = [b for a, b in copies((0, 3), CHOSEN, "host") if a == (0, 3) and b[0] != 0]
    assert far == [(1, 3), (2, 3), (3, 3)]


def test_loads_lie_in_their_band():
    run = np.random.default_rng(0).integers(1, 99, (5, 7))
    ax = plot.expert_loads({"a run": run}, ALT, level=1.2).figure.axes[0]
    most = next(line for line in ax.lines if line.get_label() == "most chosen")
    assert most.get_ydata() == pytest.approx((run / run.mean(1, keepdims=True)).max(1))
