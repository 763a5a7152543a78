"""The film of chapter 7: what it counts against `helpers.costs`, and on a page."""

import pytest

from helpers import figures
from helpers.costs.racks.tiered_collectives import hierarchical
from helpers.figures.racks.hierarchical_film.figure import two_tiers

FIGURE = figures.figure("two-tier-all-reduce")


@pytest.mark.parametrize(("g", "m"), [(4, 2), (2, 4), (3, 2)])
def test_it_sends_what_the_formula_says_and_ends_with_whole_sums(g, m):
    film = two_tiers(g, m)
    wanted = {x.link: x.bytes for x in hierarchical("AllReduce", g * m, g, m)}
    assert film.frames[-1].sent == pytest.approx(wanted)
    assert f"sends {wanted['ici']:.0f} pieces inside its host and {wanted['dcn']:.0f} to other hosts" in film.said
    assert {x for pieces in film.frames[-1].held.values() for x in pieces} == {g * m}


def test_only_the_middle_crosses_hosts():
    for film in FIGURE.films.values():
        links = [f.step.link for f in film.frames[1:]]
        crossing = [i for i, link in enumerate(links) if link == "dcn"]
        assert crossing == list(range(film.g - 1, film.g - 1 + 2 * (film.m - 1)))
        for frame in film.frames[1:]:
            far = {x.source[0] != x.target[0] for x in frame.step.messages}
            assert far == {frame.step.link == "dcn"}


def test_it_draws_every_message():
    film = FIGURE.films["2 hosts of 4 chips"]
    for frame in film.frames[1:]:
        assert FIGURE.drawing(film, frame).count("<path") == len(frame.step.messages) == 8
