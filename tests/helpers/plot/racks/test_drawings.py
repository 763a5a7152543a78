"""Drawings of clusters show the links that are there, and drawings of collectives what chips hold."""

import pytest
from matplotlib.collections import LineCollection

from helpers import plot
from helpers.costs.racks.cluster import Cluster, hosts, racks, slices, wiring
from helpers.costs.racks.cut import max_flow, sides
from helpers.costs.racks.tiered_collectives import card_messages, hierarchical
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.gpu_machine import gpu, waves
from helpers.costs.rooflines.hardware import Slice
from helpers.plot.racks.two_tiers import blocks, messages, sums
from helpers.plot.racks.wiring import places, side_of

CLUSTERS = {
    "two hosts": (hosts("H100", 2), 4, 1),
    "two groups": (hosts("H100", 4, group=2, chips=4), 1, 2),
    "a rack": (racks("GB200", 1), 18, 1),
    "two slices": (slices("v5e", (4, 4), 2), 1, 1),
    "slices of less than a host": (slices("v5e", (2, 1), 2), 1, 1),
    "a flat slice of three axes": (slices("v5p", (4, 2, 1)), 1, 1),
    "domains of ten": (Cluster(Slice(chip("GB200"), (10,)), 2), 1, 1),
}


def drawn(picture) -> int:
    return sum(
        len(c.get_segments()) for ax in picture.figure.axes for c in ax.collections if isinstance(c, LineCollection)
    )


@pytest.mark.parametrize("name", CLUSTERS)
@pytest.mark.sample(quick=3)
def test_every_link_is_drawn_and_no_two_nodes_share_a_place(name):
    c, switches, spines = CLUSTERS[name]
    w = wiring(c, switches, spines)
    assert drawn(plot.wiring(c, "the wiring of a cluster", switches=switches, spines=spines)) == len(w.links)
    at = places(c, w)
    assert len(at) == len(w.nodes) == len({(round(x, 3), round(y, 3)) for x, y in at.values()})


@pytest.mark.parametrize("side", ["a chip", "a domain", "a group"])
def test_bold_links_are_a_smallest_cut_around_the_side(side):
    c = hosts("H100", 4, group=2, chips=4)
    w = wiring(c)
    inside = side_of(c, w, side)
    chips = dict(sides(c, w))[side]
    assert inside & set(w.chips) == set(chips)
    cut = sum(x.W for x in w.links if (x.a in inside) != (x.b in inside))
    assert cut == pytest.approx(max_flow(w.links, set(w.chips) - inside, chips))


@pytest.mark.parametrize(("g", "m"), [(4, 2), (2, 4), (3, 3), (8, 1)])
def test_pieces_are_added_once_and_all_chips_end_with_the_sum(g, m):
    n, sent = g * m, {"ici": 0, "dcn": 0}
    moments = list(sums(g, m))
    for step, _ in moments[1:]:
        (pieces,) = {len(x.pieces) for x in step.messages}
        sent[step.link] += pieces
    assert {x for pieces in moments[-1][1].values() for x in pieces} == {n}
    for move in hierarchical("AllReduce", n, g, m):
        assert sent[move.link] == pytest.approx(move.bytes)


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize(("g", "m"), [(4, 3), (8, 2)])
def test_messages_of_an_all_to_all_are_as_many_as_is_said(g, m, aligned):
    across = sum(link == "dcn" for *_, link in messages(g, m, aligned))
    assert across == card_messages(g, m, aligned)


def test_shards_are_those_of_the_notation():
    fsdp, hsdp = blocks("W_in[D_XY, F]", 2, 4), blocks("W_in[D_Y, F]", 2, 4)
    assert sorted(fsdp.values()) == [(i / 8, (i + 1) / 8) for i in range(8)]
    assert all(hsdp[0, y] == hsdp[1, y] == (y / 4, (y + 1) / 4) for y in range(4))


@pytest.mark.parametrize("name", ["H100", "A100", "B200"])
@pytest.mark.sample(quick=1)
def test_a_gpu_is_drawn_with_its_numbers(name):
    g = gpu(name)
    words = " ".join(t.get_text() for t in plot.gpu(g, "a GPU with its parts").figure.axes[0].texts)
    assert f"{g.chip.cores} SMs" in words and f"{g.clock / 1e9:.2f} GHz" in words and "675 cycles" in words


def test_a_wave_that_has_begun_is_drawn_to_its_end():
    for ax, tiles in zip(plot.wave_rows({"full": 24, "one more": 25}, 12, "tiles on twelve SMs").figure.axes, (24, 25)):
        squares = [p for p in ax.patches if p.get_width() == 1]
        assert len(squares) == 12 * waves(tiles, 12)
        assert sum(p.get_linestyle() == "-" for p in squares) == tiles


@pytest.mark.parametrize("tiles", [36, 5, 61])
@pytest.mark.sample(quick=1)
def test_all_waves_are_on_the_paper_and_have_a_number(tiles):
    (ax,) = plot.wave_rows({"many": tiles}, 12, "tiles on twelve SMs").figure.axes
    right = max(p.get_x() + p.get_width() for p in ax.patches)
    assert right == waves(tiles, 12) <= ax.get_xlim()[1]
    assert [t.get_text() for t in ax.get_xticklabels()][: int(right)] == ["wave 1", "2", "3", "4", "5", "6"][
        : int(right)
    ]
