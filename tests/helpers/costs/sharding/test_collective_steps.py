"""Films of collectives: they end as promised, and send what the formulas say."""

import pytest

from helpers.costs.sharding import collective_steps, collectives
from helpers.costs.sharding.sharded_array import Axis
from helpers.kernels.sharding import collectives as kernels
from tests import ppermute_traffic
from tests.helpers.costs.tables import refused, walks

AXES = [(axis, ways) for n in range(2, 10) for axis, ways in ((Axis(n), 2), (Axis(n), 1), (Axis(n, wraps=False), 2))]
COST = {
    "all_gather": "all_gather", "reduce_scatter": "reduce_scatter", "all_reduce": "all_reduce", "all_to_all": "all_to_all",
    "gather_matmul": "all_gather", "matmul_scatter": "reduce_scatter",
}  # fmt: skip


def neighbours(axis: Axis) -> set:
    """Every link in both directions."""
    n = axis.n
    links = {(d, d + 1, 1) for d in range(n - 1)} | {(d + 1, d, -1) for d in range(n - 1)}
    return links | ({(n - 1, 0, 1), (0, n - 1, -1)} if axis.wraps else set())


@walks(COST, AXES)
def test_bytes_and_hops_are_those_of_the_cost_function(kind, axis, ways):
    film = getattr(collective_steps, kind)(axis, ways)
    move = getattr(collectives, COST[kind])(1.0, axis, ways)
    blocks = axis.n**2 if kind == "all_to_all" else axis.n
    assert film.busiest / blocks == pytest.approx(move.bytes, rel=1e-12)
    chained = kind == "all_reduce" and ways == 2 and (axis.n == 2 or not axis.wraps)
    assert film.hops == move.hops + chained * (axis.n - 1)  # n blocks, each one step behind the one before it


@walks(COST, AXES)
def test_blocks_cross_links_that_exist_and_one_way_means_one_way(kind, axis, ways):
    sends = [s for f in getattr(collective_steps, kind)(axis, ways).frames for s in f.sends]
    assert {(s.src, s.dst, s.way) for s in sends} <= neighbours(axis)
    assert ways == 2 or {s.way for s in sends} == {1}


@walks(COST, AXES)
def test_what_is_sent_was_held_and_arrives(kind, axis, ways):
    film = getattr(collective_steps, kind)(axis, ways).frames
    for now, then in zip(film, film[1:]):
        for s in now.sends:
            assert s.parts and s.parts <= now.held[s.src][s.block]
            arrived = then.held[s.dst].get(s.block, frozenset()) | (then.done[s.dst] & {s.block})
            assert s.parts <= arrived or s.block in then.works[s.dst]


@walks(AXES)
def test_they_end_as_promised(axis, ways):
    n = axis.n
    every = frozenset(range(n))
    end = {kind: getattr(collective_steps, kind)(axis, ways).frames[-1] for kind in COST}
    assert [dict(h) for h in end["all_gather"].held] == [{b: {b} for b in range(n)}] * n
    assert [dict(h) for h in end["reduce_scatter"].held] == [{d: every} for d in range(n)]
    assert [dict(h) for h in end["all_reduce"].held] == [dict.fromkeys(range(n), every)] * n
    assert [dict(h) for h in end["all_to_all"].held] == [{(s, d): {1, -1} for s in range(n)} for d in range(n)]
    assert end["gather_matmul"].done == (every,) * n
    assert [dict(h) for h in end["matmul_scatter"].held] == [{d: every} for d in range(n)]
    assert all(not f.sends for f in end.values())


@walks(AXES)
def test_a_collective_matmul_multiplies_every_block_once_and_never_waits(axis, ways):
    for kind in ("gather_matmul", "matmul_scatter"):
        film = getattr(collective_steps, kind)(axis, ways)
        for d in range(axis.n):
            assert sorted(b for f in film.frames for b in f.works[d]) == list(range(axis.n))
        assert len(film.frames) == film.hops + 2  # one matmul more than hops, and the end
    chunks = [len(h) for f in collective_steps.gather_matmul(axis, ways).frames for h in f.held]
    assert max(chunks) <= 2  # never all of the gathered matrix


@walks(COST)
def test_what_makes_no_film_is_refused(kind):
    film = getattr(collective_steps, kind)
    refused(
        (lambda: film(Axis(4, wraps=False), 1), "ways = 1 does not fit"),
        (lambda: film(Axis(4), 3), "ways = 3"),
        (lambda: film(Axis(1), 2), "2 or more devices"),
    )


@walks([3, 4, 5], [{"ways": 1}, {"ways": 2}, {"wraps": False}])
def test_films_show_what_our_programs_send(n, how):
    """Link by link, the blocks of a film are those of the permutes in helpers.kernels."""
    axis, ways = Axis(n, how.get("wraps", True)), how.get("ways", 2)
    programs = {
        "all_gather": (lambda x: kernels.all_gather(x, "X", 0, **how), (1, 1)),
        "reduce_scatter": (lambda x: kernels.reduce_scatter(x, "X", 0, **how), (n, 1)),
        "all_reduce": (lambda x: kernels.all_reduce(x, "X", **how, chunks=n), (n, 1)),
        "all_to_all": (lambda x: kernels.all_to_all(x, "X", 0, 0, **how), (n, 2)),
    }
    for kind, (program, shape) in programs.items():
        film, sent = getattr(collective_steps, kind)(axis, ways), ppermute_traffic.read(program, n, shape)
        block = 4 * shape[1]  # bytes: f32
        assert {(s, d): blocks * block for (s, d, _), blocks in film.links().items()} == {
            k: v for k, v in sent.links.items() if v
        }
        assert film.hops == sent.hops
