"""Exercises of chapter 7: the solved functions against the floor's formulas."""

import math
from itertools import product

import pytest

from helpers.costs.racks import tiered_collectives as tiered, training_over_tiers as floor
from helpers.costs.racks.cluster import hosts, wiring
from helpers.costs.racks.cut import bottleneck, every_cut
from helpers.costs.rooflines import gpu_machine as gpu
from helpers.costs.rooflines.chips import chip
from helpers.kernels import mesh
from tests.solutions import course
from tests.solutions.course import agree

mesh.devices(8)  # while tests are collected: another chapter's tests may start JAX with fewer

TOPIC = "ch07_racks"
H100, GB200 = chip("H100"), chip("GB200")


@pytest.fixture(scope="module")
def solved():
    """Every answer, by name."""
    return course.solved(TOPIC)


def test_warps_and_tiles_are_the_floors(solved):
    for size, loads in ((4, 1), (16, 1), (16, 4)):
        got = solved["in_flight"](3.35e12, 4e-7, 132, size, loads, 8)
        assert got["warps"] == gpu.warps_in_flight(3.35e12, 4e-7, 132, size, loads)
        agree(got["bytes"], gpu.bytes_in_flight(3.35e12, 4e-7))
        agree(got["rate"], gpu.rate_in_flight(132 * 8 * 32 * size * loads, 4e-7, 3.35e12))
    for m, n in ((8192, 8448), (8193, 8448), (300, 200)):
        got, ours = solved["tiling"](m, n, 132, [(128, 256)]), gpu.tiled(m, n, 132)
        assert got["waves"] == [ours.waves]
        agree(got["shares"], [ours.efficiency])


@pytest.mark.parametrize("kind", ["AllGather", "AllToAll"])
def test_the_bottleneck_is_the_floors(solved, kind):
    for n, chips in ((2, 2), (2, 3)):
        c = hosts("H100", n, chips=chips)
        w = wiring(c)
        got = solved["least_seconds"](1.0, list(w.chips), [(x.a, x.b, x.W) for x in w.links], kind)
        agree(got, every_cut(c, kind).seconds)
        agree(got, bottleneck(c, kind).seconds)


def test_prices_on_tiers_are_the_floors(solved):
    for g, m, how in product((2, 8, 72), (1, 2, 5, 64), ("ring", "hierarchical")):
        moves = (tiered.flat_ring if how == "ring" else tiered.hierarchical)("AllReduce", 3e8, g, m)
        ours = tiered.alpha_beta(moves, 4.5e11, 5e10, 1e-6, 1e-5).parts
        got = solved["all_reduce_seconds"](3e8, g, m, 4.5e11, 5e10, 1e-6, 1e-5, how)
        agree(got, {"inside": ours["ici"], "across": ours["dcn"]})


def test_where_a_ring_overtakes_a_tree_is_the_floors(solved):
    g, m = 8, 16
    moves = {"ring": tiered.hierarchical("AllReduce", 1.0, g, m), "tree": tiered.double_tree("AllReduce", 1.0, g, m)}
    table = {name: {x.link: (x.bytes, x.hops) for x in both} for name, both in moves.items()}
    (_, first), (size, second) = solved["fastest_by_size"](table, 4.5e11, 4e10, 1e-6, 1e-5)
    assert (first, second) == ("tree", "ring")
    agree(size, tiered.overtakes((8e-5, 2 / 8 / 4e10), (30e-5, 2 * 15 / 16 / 8 / 4e10)))


def test_hosts_that_a_token_meets_are_the_floors(solved):
    for m, limit, k in product((2, 8), (2,), (1, 4, 8)):
        got = solved["token_copies"](m, k, 64, limit, 10.0)
        reached = tiered.domains_reached(k, m, E=64, limit=limit)
        agree(got["hosts"], reached)
        agree(got["once"], tiered.dispatch(10.0, k, 8, m, reached)[1].bytes)
        agree(got["each"], tiered.dispatch(10.0, k, 8, m)[1].bytes)


def test_thresholds_are_the_floors(solved):
    for c, g, m in ((H100, 8, 128), (GB200, 72, 8), (GB200, 72, 1)):
        rates = c.rate(), g, m, c.link_bandwidth, c.dcn_bandwidth
        got = solved["fewest_tokens"](*rates, 2)
        micro, last = floor.hsdp_tokens(*rates)
        agree(got, {"fsdp": floor.data_tokens(*rates), "hsdp": micro, "last": last})


def test_a_layout_hides_from_the_floors_threshold_on(solved):
    """FSDP alone: a model so narrow that TP never pays."""
    rates = H100.rate(), 8, 128, H100.link_bandwidth, H100.dcn_bandwidth
    least = floor.data_tokens(*rates)
    for tokens, share in ((least, 1.0), (least / 2, 0.5), (2 * least, 1.0)):
        got = solved["lay_out"](7e10, 64.0, tokens * 1024, 1, *rates, 8e10)
        assert (got["tp"], got["how"]) == (1, "fsdp")
        agree(got["share"], share)


def test_a_batch_hides_sends_from_the_floors_threshold_on(solved):
    machine = {"price": 1.0, "C": H100.rate(), "g": 8, "W": H100.link_bandwidth, "W_dcn": H100.dcn_bandwidth}
    got = solved["for_money"]({"hosts": machine}, 1024.0, 7e10, 1e9)
    agree(got["hides"]["hosts"] / 1024, floor.data_tokens(H100.rate(), 8, 128, H100.link_bandwidth, H100.dcn_bandwidth))
    agree(got["rates"]["hosts"], 1024 * H100.rate() / 6 / 7e10)
    assert math.isinf(solved["for_money"]({"hosts": machine}, 7.0, 7e10, 1e9)["hides"]["hosts"])
