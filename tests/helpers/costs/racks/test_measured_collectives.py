"""Predicted bus bandwidths beside published ones, and what they say of algorithms."""

import json
import math
import statistics
from dataclasses import asdict, replace

import pytest

from helpers.costs.racks.measured_collectives import REACHED, bus_bandwidth, exchange, measured_seconds
from helpers.costs.racks.tiered_collectives import nvls_bus_bandwidth
from helpers.costs.rooflines.chips import chip
from tests.helpers.costs.tables import refused, walks
from tests.tiers import some
from tools import bench_collectives as bench

ROWS = bench.rows()
STORED = json.loads(bench.STORE.read_text(encoding="utf-8"))
SOURCES = list(dict.fromkeys(r["source"] for r in ROWS))


@walks(SOURCES)
def test_the_median_error_of_each_source_is_within_15_percent(source):
    errors = [bench.off(r, REACHED) for r in ROWS if r["source"] == source and bench.large(r)]
    assert errors and statistics.median(errors) <= 0.15


@pytest.mark.slow("fits all constants")
def test_the_constants_are_those_of_the_fit():
    fitted = asdict(bench.fit([r for r in ROWS if bench.large(r)]))
    assert all(value == pytest.approx(getattr(REACHED, name), rel=0.02) for name, value in fitted.items())


@pytest.mark.slow("fits all constants once for each source")
def test_what_is_stored_of_them_is_what_their_fits_give():
    found, _ = bench.table(some(STORED["sources"], 5))
    for source, numbers in found.items():
        assert numbers == pytest.approx(STORED["sources"][source], rel=0.05, abs=0.002)


def test_the_data_say_what_they_are():
    data = bench.DATA.read_text(encoding="utf-8")
    assert len(ROWS) == len({str(r) for r in ROWS}) and len(ROWS) > 150
    assert '"url": "https://' in data
    for r in ROWS:
        assert chip(r["chip"]) and r["chips"] % r["domains"] == 0
        if not bench.expert(r):  # a host's or rack's GPUs, and a busbw that its links explain
            assert r["chips"] <= r["domains"] * chip(r["chip"]).pod[0]
            top = 2 if r["algorithm"] != "ring" else 1
            assert r["busbw"] * 1e9 < top * chip(r["chip"]).link_bandwidth


@walks([
    ("A100", "ring", REACHED.ring_ampere), ("H800", "ring", REACHED.ring_hopper),
    ("B200", "ring", REACHED.ring_blackwell), ("MI300X", "ring", REACHED.ring_cdna),
    ("H100", "nvls", REACHED.nvls_hopper), ("B200", "nvls", REACHED.nvls_blackwell),
    ("GB200", "nvls", REACHED.nvls_rack),
])  # fmt: skip
def test_large_arrays_take_the_share_of_their_generation(name, algorithm, share):
    c = chip(name)
    got = bus_bandwidth("AllReduce", 1e18, c, c.pod[0], algorithm=algorithm)
    own = REACHED.own / 2 / (c.pod[0] - 1)  # a chip copies its own shard as well, beside 2(n - 1) others
    links = share * c.link_bandwidth / (1 + own * (algorithm == "ring"))
    assert got == pytest.approx(links if algorithm == "ring" else nvls_bus_bandwidth(links, c.pod[0]), rel=1e-4)


def test_pieces_of_a_collective_tried_one_by_one():
    """With p pieces (p + h)·piece and (1 + h/p)·x, as the head of the module says; the best p is the formula's, nearly."""
    k, size, hops = replace(REACHED, own=0.0), 1e8, 14
    x = 2 * 7 / 8 * size / (k.ring_hopper * 4.5e11)
    tried = min((p + hops) * k.piece + (1 + hops / p) * x for p in range(1, 5000))
    got = measured_seconds("AllReduce", size, chip("H100"), 8, algorithm="ring", reached=k)
    assert got + hops * k.piece == pytest.approx(k.launch + hops * k.latency + tried, rel=1e-3)


@walks([("dispatch", 7168 + 56 * 4 + 16), ("combine", 2 * 7168)])
def test_copies_of_a_token_by_counting_choices(way, token):
    """Of 256 experts eight: how many GPUs of one host, or hosts of four that were chosen first, have one of them."""
    gpus = 8 * (1 - math.comb(224, 8) / math.comb(256, 8))
    hosts = 4 * (1 - math.comb(96, 8) / math.comb(128, 8))
    on = 32 * (1 - math.comb(124, 8) / math.comb(128, 8))  # GPUs of those four hosts
    h800, k = chip("H800"), REACHED
    seconds, sent = exchange(100, 7168, 8, h800, 1, way)
    assert sent == pytest.approx(100 * token * gpus)
    inside = 100 * token * gpus * 7 / 8 / (k.exchange * h800.link_bandwidth)
    assert seconds == pytest.approx(k.deepep + inside)
    seconds, sent = exchange(100, 7168, 8, h800, 8, way)
    assert sent == pytest.approx(100 * token * hosts)
    inside, across = on * 7 / 8 / (k.exchange * h800.link_bandwidth), hosts * 7 / 8 / (k.network * h800.dcn_bandwidth)
    assert seconds == pytest.approx(k.deepep + 100 * token * max(inside, across))
    seconds, sent = exchange(100, 7168, 8, h800, 8, way, low_latency=True)
    assert sent == 100 * token * 8
    assert seconds == pytest.approx(k.deepep + 100 * token * 8 * 7 / 8 / (k.network * h800.dcn_bandwidth))


def test_the_switch_fills_its_pipeline_with_a_block_of_each_chip():
    """So a rack reaches half of its bandwidth at an array that is larger by as much as it has more chips, for the same share."""
    k = replace(REACHED, launch=0.0, latency=0.0, piece=0.0, nvls_rack=REACHED.nvls_blackwell)
    for name, g in (("B200", 8), ("GB200", 72)):
        W = k.nvls_blackwell * 9e11
        round_, full = g * k.block / W, 1 + 1 / g
        for V in (1e6, 1e9, 1e12):
            x = full * V / W
            got = measured_seconds("AllReduce", V, chip(name), g, algorithm="nvls", reached=k)
            assert got == pytest.approx(x + 1 / (1 / x + 1 / round_))
    rows = {r["size"]: r for r in ROWS if r["source"] == "coreweave" and r["chips"] == 72}
    assert all(bench.off(r, REACHED) < 0.12 for r in rows.values()) and min(rows) == 2**29


def test_errors_say_what_would_be_right():
    refused(
        (
            lambda: bus_bandwidth("AllReduce", 1e9, chip("H100"), 8, algorithm="pairs"),
            "algorithm is one of 'ring', .*, not 'pairs'",
        ),
        (lambda: bus_bandwidth("AllGather", 1e9, chip("H100"), 64, 8, "tree"), "an AllReduce, .* not of 'AllGather'"),
        (lambda: bus_bandwidth("AllReduce", 1e9, chip("A100"), 8, algorithm="nvls"), "rings alone"),
        (
            lambda: bus_bandwidth("AllReduce", 1e9, chip("Trn2"), 8),
            "no collectives of Trn2 are measured: there are those of A100",
        ),
        (lambda: exchange(128, 7168, 8, chip("H100-PCIe"), 2), "no collectives of H100-PCIe are measured"),
        (
            lambda: exchange(128, 7168, 8, chip("H800"), 2, "scatter"),
            "exchange: direction is one of 'dispatch', 'combine', not 'scatter'",
        ),
        (lambda: exchange(128, 7168, 300, chip("H800"), 2), "300 experts are different ones, and 16 domains have 256"),
        (
            lambda: bus_bandwidth("AllReduce", 1e9, chip("H100"), 8, reached=3),
            "bus_bandwidth: reached is a Reached, not 3",
        ),
    )
    assert math.isfinite(bus_bandwidth("AllReduce", 1e9, chip("MI300X"), 4))
