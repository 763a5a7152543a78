"""The film of chapter 8: tokens reach the experts that were chosen, by the copies that a formula counts, and come home."""

import pytest

from helpers import figures
from helpers.figures.experts.dispatch_film.figure import CHIPS, HOSTS, TITLES, dispatch, experts_of_tokens, home

FIGURE = figures.figure("expert-dispatch")
CHOSEN = [{home(e) for e in chosen} for chosen in experts_of_tokens()]
AT = [divmod(t, CHIPS) for t in range(HOSTS * CHIPS)]


@pytest.mark.parametrize("way", TITLES)
def test_every_expert_gets_its_rows_and_every_token_comes_home(way):
    film = dispatch(way)
    start, _, _, work, _, end = film.frames
    for chip, rows in work.held.items():
        assert sorted(rows) == sorted(
            t for t, chosen in enumerate(experts_of_tokens()) for e in chosen if home(e) == chip
        )
    assert start.held == end.held and not start.results and end.results


def test_hosts_and_devices_are_counted_as_tokens_meet_them():
    hosts = sum(len({h for h, _ in met} - {AT[t][0]}) for t, met in enumerate(CHOSEN))
    devices = sum(len({c for c in met if c[0] != AT[t][0]}) for t, met in enumerate(CHOSEN))
    experts = sum(home(e)[0] != AT[t][0] for t, chosen in enumerate(experts_of_tokens()) for e in chosen)
    assert [dispatch(way).frames[1].sent[0] for way in ("host", "device", "expert")] == [hosts, devices, experts]
    assert hosts < devices < experts


@pytest.mark.parametrize("way", TITLES)
def test_what_goes_out_comes_back_and_is_drawn(way):
    film = dispatch(way)
    there, back = film.frames[1].arrows + film.frames[2].arrows, film.frames[4].arrows + film.frames[5].arrows
    assert sorted(there) == sorted((a, b) for b, a in back)
    assert sum(film.frames[-1].sent) == 2 * len(there)
    for frame in film.frames:
        assert FIGURE.drawing(film, frame).count("<path") == len(frame.arrows)


def test_only_cards_cross_hosts():
    for film in FIGURE.films.values():
        for frame in film.frames:
            assert {a[0] != b[0] for a, b in frame.arrows} <= {"over cards" in frame.label}
