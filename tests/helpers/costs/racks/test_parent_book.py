"""Numbers of "How To Scale Your Model", section 12 (GPUs), beside ours: where they agree, and where both are computed.

The text is gpus.md of jax-ml/scaling-book at commit 1a55377affc9ee8f10b549f689ad57e813623a7e (2025-08-18).
"""

import pytest

from helpers.costs.racks.cluster import hosts, wiring
from helpers.costs.racks.cut import max_flow
from helpers.costs.racks.tiered_collectives import (
    alpha_beta,
    bus_factor,
    flat_ring,
    in_network,
    swap_tiers,
)
from helpers.costs.racks.training_over_tiers import tensor_width
from helpers.costs.rooflines.chips import chip
from helpers.costs.sharding.collectives import all_to_all
from helpers.costs.sharding.sharded_array import Axis
from tests.helpers.costs.tables import walks

H100 = chip("H100")
NVLINK, CARD = H100.link_bandwidth, H100.dcn_bandwidth


def gathered(V):
    """Seconds of an AllGather of V bytes over one host."""
    return alpha_beta(flat_ring("AllGather", V, 8), NVLINK, CARD).upper


def swapped(m):
    """Seconds of an AllToAll for each byte over m hosts."""
    return alpha_beta(swap_tiers(1.0, 8, m), NVLINK, CARD).lower


DIFFER = {  # where: (theirs, as printed), ours, what it is
    "quiz 2, 3, 'approximately B / 3.6e12'": (536870912 / 3.6e12, lambda: gathered(536870912), 1.044e-3),
    "AllToAll over two hosts, 'more than 4x'": (4.0, lambda: swapped(2) / swapped(1), 2.571),
    "AllToAll of 8 against a TPU's, '2x'": (
        2.0,  # counts both directions of a TPU's link as W, one of a GPU's
        lambda: all_to_all(1.0, Axis(8)).bytes / swap_tiers(1.0, 8, 1)[0].bytes,
        1.143,
    ),
    "gain of SHARP, 'predicted 75 %'": (
        1.75,  # the switch pulls a chip's own part as well (NCCL issue 828), so a link carries V·(1 + 1/8)
        lambda: bus_factor("AllReduce", 8) / in_network("AllReduce", 1.0, 8)[0].bytes,
        1.556,
    ),
    "quiz 3, 1, '400 GB/s per GPU' of the halves": (400e9, lambda: hosts("H100", 128).egress() / 8, 50e9),
    "quiz 4, 4, 'an AllReduce bandwidth of 6.4 TB/s'": (6.4e12, lambda: hosts("H100", 128).egress(32), 12.8e12),
    "DP of DeepSeek-V3, '3300' at 300 GB/s": (3300, lambda: 9.9e14 / chip("H800").link_bandwidth, 4950),
    "quiz 5, 2, 'F / 1995 = 14.372'": (14.372, lambda: 28672 * NVLINK / 9.9e14, 13.03),
    "TP over two hosts, F > 2475·(16 - 8)": (
        2475 * 8,  # NVLink carries what came over the network as well, as in quiz 4, 5
        lambda: tensor_width(9.9e14, 16, 8, NVLINK, CARD),
        30800,
    ),
    "GPUs of a GB200 host, '8'": (8, lambda: chip("GB200").chips_per_host, 4),
}


@walks(DIFFER)
def test_where_we_differ(where):
    theirs, ours, what = DIFFER[where]
    assert ours() == pytest.approx(what, rel=0.001)
    assert abs(theirs / what - 1) > 0.05


def test_half_of_a_host_sends_what_its_links_carry():
    w = wiring(hosts("H100", 1), switches=4)
    assert max_flow(w.links, w.chips[:4], w.chips[4:]) == pytest.approx(4 * NVLINK)
