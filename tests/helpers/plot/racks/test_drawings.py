"""Drawings of clusters show the links that are there, and drawings of collectives what chips hold."""

import pytest

from helpers.costs.racks.cluster import hosts, wiring
from helpers.costs.racks.cut import max_flow, sides
from helpers.costs.racks.tiered_collectives import card_messages, hierarchical
from helpers.plot.racks.two_tiers import messages, sums
from helpers.plot.racks.wiring import side_of


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
