"""Every number of the sources that chapter 7 uses, computed again by `helpers`; values are typed here with where they stand.

A is "How To Scale Your Model", section 12; N an issue of NCCL or nccl-tests; V the DeepSeek-V3 report; W a vendor's page; F the
list of topics that the chapter was planned by; P what the page says itself, rounded there.
"""

import pytest

from helpers import prose
from helpers.costs.racks.cluster import hosts, racks, slices
from helpers.costs.racks.cut import bottleneck
from helpers.costs.racks.measured_collectives import REACHED, bus_bandwidth
from helpers.costs.racks.tiered_collectives import (
    HOP_DCN,
    cluster_time,
    domains_reached,
    nvls_bus_bandwidth,
    nvls_from,
    overtakes,
    sms_to_take,
)
from helpers.costs.racks.training_over_tiers import data_tokens, hsdp_tokens, tensor_width, thresholds
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.gpu_machine import bytes_in_flight, gpu, l2_rate, tiled, warps_in_flight
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.costs.transformers.public_models import model
from tests.book.stated import near
from tests.helpers.costs.tables import walks

H100, GB200, H = chip("H100"), chip("GB200"), gpu("H100")
AT = {
    "hosts": hosts("H100", 128),
    "rack": racks("GB200", 16),
    "v5p": slices("v5p", (16, 16, 16)),
    "v7": slices("v7", (16, 16, 16)),
}
AT = {name: thresholds(c, F=28672) for name, c in AT.items()}
LAYER = parameters(model("llama-3-70b"))
GRADS = 2 * (LAYER.attention + LAYER.mlp) / 80
COPIES, EXPERTS = 2 * 2048 * 8 * 7168, 3 * 8 * 7168 * 2048 * 2048  # bytes and FLOPs of 2,048 tokens
FLIGHT = bytes_in_flight(H100.hbm_bandwidth, H.latency("HBM"))

CLAIMS = {
    # one GPU
    "W: SMs, FLOPs of an SM in a cycle": (H100.rate() / H.clock / 132, 4096.0),
    "A: measured L2, half of what 128 x 256 asks for": (l2_rate(H100.rate(), 128, 256) / 5.5e12, 2.11),
    "P: kB in flight for each SM": (FLIGHT / 132 / 1e3, 9.37),
    "P: warps with loads of 4 and 16 bytes": (
        tuple(warps_in_flight(H100.hbm_bandwidth, H.latency("HBM"), 132, n) for n in (4, 16)), (74, 19)),
    "P: waves of 8192 and 8193 rows": (
        tuple(tiled(rows, 8448, 132).waves for rows in (8192, 8193)), (16, 17)),
    # the cluster and its cut
    "A: egress of a host, of a rack": ((hosts("H100", 32).egress(), racks("GB200", 8).egress()), (4e11, 3.6e12)),
    "A: NVLink of a GPU": (H100.link_bandwidth, 450e9),
    "P: nine times as fast inside": (H100.link_bandwidth / H100.dcn_bandwidth, 9.0),
    "P: bound of two hosts": (1 / bottleneck(hosts("H100", 2), "AllGather").seconds, 533e9),
    "A: leaf level": (1 / cluster_time(hosts("H100", 32), "AllGather", 1.0, "hierarchical", 0, 0).lower, 413e9),
    # busbw and the switch
    "N 1455: 5 to 8 GPUs, within a tenth": (tuple(round(nvls_bus_bandwidth(309, n)) for n in (5, 6, 7, 8)), (412, 441, 464, 481)),
    "P: 69 percent": (309e9 / H100.link_bandwidth, 0.687),
    "P: 700 at most": (nvls_bus_bandwidth(H100.link_bandwidth, 8), 7e11),
    "P: overtakes at four": (nvls_from(367.5, 309), 3.93),
    # latency and SMs
    "P: hierarchical overtakes the tree": (
        overtakes((10 * HOP_DCN, 2 / 8 / 5e10), (62 * HOP_DCN, 2 * 31 / 32 / 8 / 5e10)), 3.33e9),
    "P: SMs where both end together": (sms_to_take(1.0, 20.0, 132), 17.4),
    # experts
    "F: hosts reached at random, by drawing, with a limit": (
        (domains_reached(8, 8), domains_reached(8, 8, E=256), domains_reached(8, 8, E=256, limit=4)), (5.25, 5.29, 3.63)),
    # thresholds
    "A: FSDP on H100 hosts, without 1/m": (data_tokens(9.9e14, 8, 1e9, 4.5e11, 5e10), 2475.0),
    "P: FSDP alone": (tuple(AT[n].fsdp for n in AT), (2453.0, 2739.0, 850.0, 3845.0)),
    "P: with TP": (tuple(AT[n].with_tp for n in AT), (2453.0, 959.0, 319.0, 2884.0)),
    "P: with TP over four in a rack": (data_tokens(2.5e15, 72, 16, 9e11, 5e10, 4, 28672), 925.0),
    "P: TP over": (tuple(AT[n].tp for n in AT), (8, 8, 4, 2)),
    "P: tokens of CP": (tuple(AT[n].cp for n in AT), (549.0, 694.0, 638.0, 2884.0)),
    "P: HSDP between slices": (
        tuple(thresholds(slices(n, (4, 4, 8), 32), 28672).hsdp[1] for n in ("v5p", "v7")), (556.0, 1397.0)),
    "P: F of an expert": (tuple(AT[n].ep for n in AT), (7636.0, 1823.0, 3400.0, 15380.0)),
    "P: HSDP on hosts": (AT["hosts"].hsdp, (1923.0, 2453.0)),
    "P: F times layers of a pipeline's stage": (H100.rate() / 2 / H100.dcn_bandwidth, 9890.0),
    "P: a step of four microbatches is longer, in percent, with FSDP and with HSDP": (
        tuple(100 * (hsdp_tokens(H100.rate(), 8, 64, H100.link_bandwidth, H100.dcn_bandwidth)[1] / 2000 - 1) / k for k in (1, 6)),
        (21.7, 3.62)),
    "P: TP over a host": (tensor_width(H100.rate(), 8, 8, H100.link_bandwidth, H100.dcn_bandwidth), 15384.0),
    "A: what a rack's network alone would ask for, and over 16": ((GB200.rate() / 3.6e12, AT["rack"].hsdp[1]), (694.0, 651.0)),
    # the figure of clusters
    "P: gradients of a layer": (GRADS, 1.711e9),
    "P: hierarchical and trees over 16 hosts": (
        tuple(cluster_time(hosts("H100", 16), "AllReduce", GRADS, a).lower for a in ("hierarchical", "tree")), (8.36e-3, 8.68e-3)),
    "P: trees come first below": (
        overtakes((8 * HOP_DCN, 2 / 8 / 5e10), (30 * HOP_DCN, 2 * 15 / 16 / 8 / 5e10)), 7.04e8),
    "P: flat parts over 32 hosts": (
        tuple(cluster_time(hosts("H100", 32), "AllReduce", 0.0, a).lower for a in ("ring", "hierarchical", "tree")),
        (1.964e-3, 6.62e-4, 1.42e-4)),
    "P: an AllGather waits for the network from five hosts on": (
        tuple(int(cluster_time(hosts("H100", n), "AllGather", GRADS, "hierarchical").bound == "dcn") for n in (4, 5)), (0, 1)),
    "P: experts of DeepSeek-V3, AllToAll and half of the arithmetic, on eight hosts and in a rack": (
        (cluster_time(hosts("H100", 8), "AllToAll", 64 * COPIES, "rails").lower, EXPERTS / H100.rate(),
         cluster_time(racks("GB200", 1), "AllToAll", 72 * COPIES, "direct").lower, EXPERTS / GB200.rate()),
        (4.12e-3, 7.3e-4, 2.6e-4, 2.89e-4)),
    # measured
    "P: shares of the links": (
        (bus_bandwidth("AllReduce", 2**34, H100, 8, algorithm="ring") / H100.link_bandwidth, REACHED.nvls_hopper), (0.845, 0.697)),
    "P: what a rack's round takes, in microseconds": (72 * REACHED.block / (REACHED.nvls_rack * 900e9) * 1e6, 534.0),
    "P: a quarter of a rack's bandwidth at half a gigabyte": (
        bus_bandwidth("AllReduce", 2**29, GB200, 72) / bus_bandwidth("AllReduce", 2**34, GB200, 72), 0.746),
    "P: an AllToAll and an oversubscription of 2": (
        cluster_time(hosts("H100", 128, oversubscription=2), "AllToAll", 1.0, "rails", 0, 0).lower
        / cluster_time(hosts("H100", 128), "AllToAll", 1.0, "rails", 0, 0).lower, 1.51),
    "P: domains of 576 need more": (data_tokens(2.5e15, 576, 2, 9e11, 5e10, 8, 28672), 1064.0),
    "P: 64 H100 whose network adds": (
        (387 * 64 / 126, bus_bandwidth("AllReduce", 2**33, H100, 64, 8, "ring") * 64 / 126 / 1e9), (196.6, 163.0)),
    "P: a matrix of LLaMA-3-70B over eight in a ring": (
        bus_bandwidth("AllReduce", 2 * 8192 * 3584, H100, 8, algorithm="ring") / H100.link_bandwidth, 0.618),
    "P: a rack at half a gigabyte": (bus_bandwidth("AllReduce", 2**29, GB200, 72) / 586.06e9, 1.08),
}  # fmt: skip


@walks(CLAIMS)
def test_number(claim):
    near(*CLAIMS[claim])


def test_one_w_explains_the_table_of_the_switch():
    """The four measured values of N 1455 lie within 2 percent of the formula with 309."""
    for n, measured in ((5, 420), (6, 440), (7, 460), (8, 480)):
        assert nvls_bus_bandwidth(309, n) == pytest.approx(measured, rel=0.02)


def test_nvlink_is_the_slower_tier_up_to_four_hosts():
    names = [bottleneck(hosts("H100", m), "AllGather").name for m in range(2, 9)]
    assert names == ["a chip"] * 3 + ["a domain"] * 4
    bounds = [cluster_time(hosts("H100", m), "AllGather", 1.0, "hierarchical", 0, 0).bound for m in range(2, 9)]
    assert bounds == ["ici"] * 3 + ["dcn"] * 4


def test_a_ring_of_a_rack_needs_larger_arrays_for_half_of_its_peak():
    """By much more than 2 times, as the question says."""

    def half(c, chips):
        peak = bus_bandwidth("AllReduce", 1e15, c, chips, algorithm="ring")
        return next(
            2**i for i in range(10, 45) if bus_bandwidth("AllReduce", 2**i, c, chips, algorithm="ring") > peak / 2
        )

    assert half(GB200, 72) >= 8 * half(H100, 8)


def test_errors_are_told_as_they_are_stored():
    stored = prose.results("collectives")
    assert (
        max(s["median"] for s in stored["sources"].values()) < 0.15
        and 0.83 < stored["within 15 percent, sources left out"] < 0.87
    )
