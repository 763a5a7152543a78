"""Collectives over axes inside of slices and between them: every message, and plans against every sequence of steps."""

import random
from math import prod

import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.sharding.collective_prices import in_two_tiers, parted
from helpers.costs.sharding.collectives import Collective, all_gather, all_reduce, all_to_all, over_dcn, scramble
from helpers.costs.sharding.matmul_plans import cheapest, order, plans
from helpers.costs.sharding.resharding import routes
from helpers.costs.sharding.sharded_array import Axis, Mesh
from tests.helpers.costs.sharding.test_cheapest_plan import states, successors
from tests.helpers.costs.tables import refused, walks
from tests.tiers import repeats

ONE = {"AllGather": all_gather, "ReduceScatter": all_gather, "AllReduce": all_reduce, "AllToAll": all_to_all}
MESH = Mesh({"X": Axis(4), "Y": Axis(4, False, "dcn")})


@walks([(Axis(4),), (Axis(8, False),), (Axis(4), Axis(2, False))])
def test_in_one_slice_they_are_those_of_a_slice(axes):
    for kind, formula in (*ONE.items(), ("Permute", scramble)):
        inside, across = in_two_tiers(kind, 4096.0, axes, 1)
        assert (inside, across.bytes) == (formula(4096.0, axes), 0), kind


@walks(["AllGather", "ReduceScatter", "AllReduce"])
def test_over_slices_they_are_those_of_chapter_2(kind):
    for n, m in ((4, 2), (8, 4), (1, 8)):
        moves = over_dcn(kind, 4096.0, Axis(n), m)
        for link, got in zip(("ici", "dcn"), in_two_tiers(kind, 4096.0, Axis(n), m)):
            assert got.bytes == pytest.approx(sum(x.bytes for x in moves if x.link == link))


@walks([(4, 2), (2, 4), (1, 3)])
def test_an_exchange_by_every_message(n, m):
    """Each of n·m chips has a block for each other one; it goes to the counterpart in the right slice, and from there inside."""
    sent, arrives = {}, {}
    for a in range(n * m):
        for b in range(n * m):
            (i, s), (j, t) = divmod(a, m), divmod(b, m)
            if s != t:
                sent[a] = sent.get(a, 0) + 1
            arrives[i, t, j] = arrives.get((i, t, j), 0) + 1
    inside, across = in_two_tiers("AllToAll", float((n * m) ** 2), Axis(n), m)  # a block is one byte
    assert set(sent.values()) == {across.bytes}
    each = {k for k in arrives.values()}  # from chip to chip inside of a slice, as in one AllToAll of blocks so large
    assert each == {m} and inside.bytes == pytest.approx(all_to_all(float(m * n * n), Axis(n)).bytes)


def test_axes_are_parted_by_their_links():
    assert parted(MESH.wires("XY")) == ((Axis(4),), 4) and parted(MESH.wires("Y")) == ((Axis(1),), 4)
    refused(
        (lambda: Axis(4, link="wifi"), "Axis: link is one of 'ici', 'dcn', not 'wifi'"),
        (lambda: Collective("AllGather", ("Y",), (8, 8), (8, 32)).move(MESH), "lies over the network"),
    )


def paths(source, target, names, size, longest):
    """Every sequence of up to `longest` steps from state to state: (kind, axes, before, after)."""
    if source == target:
        yield ()
    if longest:
        for kind, axes, after in successors(source, names, size):
            yield from (((kind, axes, source, after), *rest) for rest in paths(after, target, names, size, longest - 1))


def priced(path, size):
    """Bytes of an array of one byte over links, and over the network."""
    total = [0.0, 0.0]
    for kind, axes, before, after in path:
        if kind == "Slice":
            continue
        held, then = (1 / (size(s[0]) * size(s[1])) for s in (before, after))
        V = {"AllGather": then, "AllToAll": held * size(axes)}.get(kind, held)
        for k, move in enumerate(in_two_tiers(kind, V, *parted(MESH.wires(axes)))):
            total[k] += move.bytes
    return total


def test_no_sequence_of_steps_is_better_on_both_links_than_all_routes():
    size, every, r = lambda t: prod(MESH[a] for a in t), list(states("XY")), random.Random(0)
    as_state = lambda s: ((tuple(s[0]), tuple(s[1])), tuple(sorted(s[2])))  # noqa: E731
    for _ in range(repeats(25, 150)):
        source, target = r.choice(every), r.choice([s for s in every if not s[2]])
        found = routes(as_state(source), as_state(target), MESH, (64, 64))
        for path in paths(source, target, "XY", size, 2):
            ici, dcn = priced(path, size)
            told = source, target, path
            assert any(x.bytes <= ici * (1 + 1e-9) and x.across <= dcn * (1 + 1e-9) for x in found), told


def test_the_cheapest_plan_is_the_first_of_all():
    sizes, v5p = dict(I=1024, J=4096, K=8192), chip("v5p")
    for A, B, C in (
        ("[I_X, J_Y]", "[J, K_Y]", "[I_X, K_Y]"),
        ("[I_X, J_Y]", "[J_Y, K]", "[I_X, K_Y]"),
        ("[I, J_X]", "[J_X, K]", "[I_Y, K]"),
    ):
        case = "A" + A, "B" + B, "C" + C
        every = [order(p.time(v5p)) for p in plans(*case, sizes, MESH)]
        assert order(cheapest(*case, sizes, MESH, v5p).time(v5p)) == min(every)


def test_a_plan_has_a_time_of_its_own_over_the_network():
    """A[I_X, J_Y] gathered over 4 slices: three quarters of its row block, at a chip's share of the network."""
    sizes, v5p = dict(I=1024, J=4096, K=8192), chip("v5p")
    plan = next(p for p in plans("A[I_X, J_Y]", "B[J, K_Y]", "C[I_X, K_Y]", sizes, MESH) if len(p.steps) == 2)
    t = plan.time(v5p)
    assert t.parts["dcn"] == pytest.approx(2 * 1024 * 4096 / 4 * 3 / 4 / v5p.dcn_bandwidth) and t.bound == "dcn"
    assert "dcn" not in plans("A[I_X, J]", "B[J, K]", "C[I_X, K]", sizes, Mesh({"X": 4}))[0].time(v5p).parts
