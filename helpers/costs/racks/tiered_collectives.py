"""Collectives over two tiers, m domains of g chips each, g·m = n in all; and on a cluster, where one is fastest (chapter 7).

Each formula lists the `roofline.Move`s of the busiest chip: its bytes over NVLink ("ici") and over its network card ("dcn"), in
ONE direction, and the hops one after the other. `alpha_beta` prices them: hops take their time, and then bytes follow.

V    bytes of the array on one chip where it is whole, as in `costs.sharding.collectives`; for an AllToAll of all shards together
g    chips of a domain, behind a switch: every one has its NVLinks and its own network card
m    domains; 1: no network

nccl-tests prints size/time as algbw, and algbw times `bus_factor` as busbw: what each link of a flat ring would carry. Where an
algorithm sends fewer bytes than a flat ring, busbw is larger than what any link carries.

Source: derived here; Patarasuk and Yuan 2009 (rings); Sanders et al. 2009 (two trees); NVIDIA, nccl-tests, PERFORMANCE.md
(busbw); Graham et al. 2016 (SHARP).
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from helpers.arguments import Count, formula, record
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.rooflines.roofline import Move, Time
from helpers.costs.sharding.collective_prices import (
    TIMES,
    domains_reached as domains_reached,
    flat_ring,
    in_two_tiers,
    over_tiers,
    passes,
)
from helpers.costs.sharding.sharded_array import Axis
from helpers.numeric import ceil_near, log, maximum, minimum, nonzero, plain, where

from .cluster import Cluster


@formula
def bus_factor(kind: Literal[*TIMES, "AllToAll"], n):
    """busbw / algbw of nccl-tests: the share of its size that each chip of a flat ring sends.

    >>> bus_factor("AllReduce", 8), bus_factor("AllGather", 8), bus_factor("AllToAll", 8)
    (1.75, 0.875, 0.875)
    """
    return TIMES.get(kind, 1) * (n - 1) / n


@formula
def hierarchical(kind: str, V, g, m) -> tuple[Move, ...]:
    """ReduceScatter inside, AllReduce of each shard across, AllGather inside: a card carries 2·(m-1)/m·V/g.

    A flat ring sends (n-1)/n where this sends (m-1)/m: with two domains nearly twice as much, with many the same. What this
    saves there is latency: a ring across has m members, not n. An AllGather is the last two, a ReduceScatter the first two.

    >>> [(x.link, x.bytes, x.hops) for x in hierarchical("AllReduce", 1024.0, g=8, m=2)]
    [('ici', 1792.0, 14), ('dcn', 128.0, 2)]
    """
    times = passes(kind)
    inside, across = over_tiers(kind, V, (g, m))
    return Move("ici", inside, times * (g - 1)), Move("dcn", across, times * (m - 1))


@formula
def double_tree(kind: str, V, g, m) -> tuple[Move, ...]:
    """AllReduce by two binary trees over the domains, one for each half of V, with rings inside: log2 m hops up, as many down.

    A chip is a leaf of one tree and inside the other one: it sends half up in both, and down to two children in one of them,
    that is 2·V/g at most. Of two domains each is the root of one tree, and sends V/g; 3 have a root with two children, that is a
    leaf elsewhere.

    >>> [(x.link, x.bytes, x.hops) for x in double_tree("AllReduce", 1024.0, g=8, m=16)]
    [('ici', 1792.0, 14), ('dcn', 256.0, 8)]
    """
    busiest = where(m <= 1, 0.0, where(m <= 2, 1.0, where(m <= 3, 1.5, 2.0)))
    return hierarchical(kind, V, g, 1)[0], Move("dcn", busiest * V / g, 2 * ceil_near(log(m) / log(2)))


@formula
def in_network(kind: str, V, g, m=1) -> tuple[Move, ...]:
    """The NVSwitch adds, and sends results to all (NVLink SHARP, NVLS): an AllReduce takes V·(1 + 1/g) of a chip's links.

    Each chip owns a g-th of V. To read it summed, the switch pulls that part from all g chips, and once for every owner: V out
    of each chip, V/g into it. To store it, the owner sends V/g once and all g chips get it: V into each. Both pass at once
    in all, so each direction carries V + V/g, where a ring sends 2·(g-1)/g·V. An AllGather or ReduceScatter needs V in one of
    the directions, more than a ring's (g-1)/g: nothing is won there. Across domains two trees follow, as in `double_tree`.

    >>> [(x.link, x.bytes) for x in in_network("AllReduce", 1024.0, g=8)]
    [('ici', 1152.0), ('dcn', 0.0)]
    """
    if passes(kind) == 2:
        return Move("ici", V * (1 + 1 / g), 2), double_tree(kind, V, g, m)[1]
    return Move("ici", V, 1), Move("dcn", V / g * (m - 1) / m, m - 1)


@formula
def switches_across(kind: str, V, g, m) -> tuple[Move, ...]:
    """AllReduce whose network adds (InfiniBand SHARP), with rings or chains inside: a card carries V/g each way, whatever m is.

    NVLinks have no less to do than before, 2·(g-1)/g·V. So the network may be twice as fast as by rings, and the AllReduce is as
    fast as NVLinks are. NCCL calls it CollnetChain; if the NVSwitch adds as well, NVLinks carry what `in_network` says.

    >>> [(x.link, x.bytes, x.hops) for x in switches_across("AllReduce", 1024.0, g=8, m=4)]
    [('ici', 1792.0, 14), ('dcn', 128.0, 2)]
    """
    more = where(m > 1, 1, 0)  # one domain has no network
    return hierarchical(kind, V, g, 1)[0], Move("dcn", V / g * more, 2 * more)


@formula
def nvls_bus_bandwidth(W, g):
    """busbw of an AllReduce that the NVSwitch adds, over links that carry W: 2·(g-1)/(g+1)·W, which is above W from 4 chips on.

    algbw is W/(1 + 1/g), times the flat ring's 2·(g-1)/g. With W = 309e9, 69 % of an H100's 450e9:

    >>> [round(nvls_bus_bandwidth(309, g)) for g in (2, 3, 4, 5, 6, 7, 8)]
    [206, 309, 371, 412, 441, 464, 481]
    """
    return 2 * (g - 1) / (g + 1) * W


@formula
def nvls_from(ring, nvls):
    """Chips from which on the switch is faster than a ring: 2·(g-1)/(g+1)·nvls > ring.

    ring, nvls  bytes/s that links carry in a ring, and while the switch adds, which is less: inf if it is not even half

    >>> round(nvls_from(370, 309), 2), nvls_from(370, 180)
    (3.98, inf)
    """
    more = 2 * nvls - ring
    return where(more > 0, (2 * nvls + ring) / nonzero(more), float("inf"))


@formula
def swap_tiers(V, g, m, aligned: bool = True) -> tuple[Move, ...]:
    """AllToAll over m domains of g chips: each chip sends a block of V/n² to every other one.

    Directly a chip sends over its own card what is for n-g chips of other domains, whose cards may be on another rail.
    Aligned to rails, it passes a block over NVLink to the chip that stands on the receiver's rail, which sends all of its
    domain's blocks for that receiver in one message: as many bytes over cards, fewer messages (`card_messages`), no spine switch.
    Behind a switch no message waits for another one, so there is one hop in each tier, however many messages there are.

    >>> for aligned in (False, True):
    ...     print([(x.link, x.bytes, x.hops) for x in swap_tiers(1024.0, g=4, m=4, aligned=aligned)])
    [('ici', 12.0, 1), ('dcn', 48.0, 1)]
    [('ici', 48.0, 1), ('dcn', 48.0, 1)]
    """
    n = g * m
    block = V / n**2
    forwarded = (n - g) * (g - 1) / g if aligned else 0
    inside, across = where(g > 1, 1, 0), where(m > 1, 1, 0)
    return Move("ici", block * (g - 1 + forwarded), inside), Move("dcn", block * (n - g), across)


@formula
def card_messages(g, m, aligned: bool = True):
    """Messages that a chip sends over its card in an AllToAll over m domains of g chips, along rails or directly.

    >>> card_messages(8, 32), card_messages(8, 32, aligned=False)
    (31, 248)
    """
    return m - 1 if aligned else g * (m - 1)


@formula
def dispatch(V, k, g, m, reached: float | None = None) -> tuple[Move, ...]:
    """Tokens of V bytes on each chip on their way to k experts each: over cards one copy for each other domain, or for each expert.

    One copy for a domain goes to the chip on the same rail there, and from there over NVLink to its experts. Combine is the same
    backwards, where the domain adds before it sends.

    reached  domains that have an expert of a token, its own with them: `domains_reached`. Left out: every copy travels alone

    >>> for reached in (None, domains_reached(8, 8)):
    ...     print([(x.link, round(x.bytes, 2)) for x in dispatch(1.0, k=8, g=8, m=8, reached=reached)])
    [('ici', 0.88), ('dcn', 7.0)]
    [('ici', 7.0), ('dcn', 4.59)]
    """
    away = (m - 1) / m
    if reached is None:
        return Move("ici", V * k * (1 - away) * (g - 1) / g, 1), Move("dcn", V * k * away, 1)
    return Move("ici", V * k * (g - 1) / g, 1), Move("dcn", V * reached * away, 1)


SENT_BY = {
    "ring": flat_ring,
    "hierarchical": hierarchical,
    "tree": double_tree,
    "nvls": in_network,
    "collnet": switches_across,
    "direct": lambda kind, V, g, m: swap_tiers(V, g, m, aligned=False),
    "rails": lambda kind, V, g, m: swap_tiers(V, g, m),
}
"""What algorithms send over links and cards, by kind, V, chips of a domain and domains; tree and collnet are of an AllReduce, the
last two of an AllToAll."""


@record
class TierTime(Time):
    """Seconds in each tier, {"ici": ..., "dcn": ...}, hops with them, of which the hops alone take `hops`.

    Pieces of an array may be in both tiers at once, but a piece makes its hops one after the other: so `lower` is all hops, and
    then the bytes of the tier that takes longer. `upper` lets nothing overlap.
    """

    hops: dict[str, float]

    @property
    def lower(self) -> float:
        """All hops, and the longer of the tiers' bytes."""
        return sum(self.hops.values()) + maximum(*(self.parts[tier] - self.hops[tier] for tier in self.parts))


@formula
def alpha_beta(moves: Iterable[Move], W, W_dcn, hop=0.0, hop_dcn=0.0) -> TierTime:
    """Seconds in each tier: hops, and bytes behind them. `lower` lets the bytes of the tiers overlap, `upper` does not.

    W, W_dcn      bytes/s one way of a chip's NVLinks and of its card
    hop, hop_dcn  seconds of latency for each hop

    >>> t = alpha_beta(hierarchical("AllReduce", 1e9, 8, 16), 4.5e11, 5e10)
    >>> f"{t.lower * 1e3:.2f} {t.upper * 1e3:.2f} {t.bound}"
    '4.69 8.58 dcn'
    >>> f"{alpha_beta(hierarchical('AllReduce', 0.0, 8, 32), 4.5e11, 5e10, 3e-6, 1e-5).lower * 1e3:.3f}"    # 14 hops and 62
    '0.662'
    """
    rates = {"ici": (W, hop), "dcn": (W_dcn, hop_dcn)}
    parts, hops = {"ici": 0.0, "dcn": 0.0}, {"ici": 0.0, "dcn": 0.0}
    for x in moves:
        if x.link not in rates:
            raise ValueError(f"two tiers have moves over ici and dcn, not over {x.link!r}")
        rate, each = rates[x.link]
        parts[x.link] = parts[x.link] + x.bytes / rate + x.hops * each
        hops[x.link] = hops[x.link] + x.hops * each
    return TierTime(parts, hops)


@formula
def overtakes(low_alpha: tuple[float, float], low_beta: tuple[float, float]):
    """Bytes from which the second of two algorithms is faster: V at which alpha + V·beta is the same for both.

    low_alpha, low_beta  (alpha: seconds of all hops, beta: seconds for each byte) of the first and of the second, which never
                         overtakes and is refused unless its beta is smaller

    >>> tree, ring = (8 * 1e-5, 2 / 8 / 4e10), (30 * 1e-5, 2 * 15 / 16 / 8 / 4e10)      # 16 domains of 8
    >>> round(overtakes(tree, ring) / 1e6)
    563
    """
    if plain(low_alpha[1], low_beta[1]) and low_alpha[1] <= low_beta[1]:
        raise ValueError(
            f"the second never overtakes: a byte takes it {low_beta[1]:.3g} s, and the first {low_alpha[1]:.3g} s"
        )
    return (low_beta[0] - low_alpha[0]) / (low_alpha[1] - low_beta[1])


@formula
def sms_to_take(math_seconds, comms_seconds, sms):
    """SMs that copy while the others multiply, so that both end together: comms_seconds / (math_seconds·sms + comms_seconds) of all.

    math_seconds   seconds of the arithmetic on all `sms` SMs
    comms_seconds  seconds of the copies on ONE SM

    With s of them copying arithmetic takes math_seconds·sms/(sms - s) and copies comms_seconds/s. Both are then
    math_seconds + comms_seconds/sms: what hiding saves is only what the link cannot give to all SMs at once.

    >>> s = sms_to_take(1e-3, 1e-3 * 20, 132)
    >>> f"{s:.1f} {1e-3 * 132 / (132 - s) * 1e3:.3f} {(1e-3 + 20e-3 / 132) * 1e3:.3f}"
    '17.4 1.152 1.152'
    """
    return comms_seconds / (math_seconds * sms + comms_seconds) * sms


@formula
def without_sms(seconds, copying_sms, sms: Count):
    """Seconds of arithmetic, of `seconds` on all SMs, while `copying_sms` of them copy.

    >>> round(without_sms(1.0, 20, 132), 3)
    1.179
    """
    if plain(copying_sms, sms) and copying_sms >= sms:
        raise ValueError(f"of {sms} SMs at most {sms - 1} can copy, not {copying_sms}: none would be left to multiply")
    return seconds * sms / (sms - copying_sms)


# Collectives on a cluster: hosts, racks and slices side by side.

ALGORITHMS = {
    "AllGather": ("ring", "hierarchical", "nvls"),
    "ReduceScatter": ("ring", "hierarchical", "nvls"),
    "AllReduce": ("ring", "hierarchical", "tree", "nvls"),
    "AllToAll": ("direct", "rails"),
}
Kind = Literal[*ALGORITHMS]
HOP_DCN = 1e-5
"""Seconds of a hop over a network card, its software with it: an order of magnitude, from 5e-6 to 5e-5, for want of a published
one; `measured_collectives.REACHED` has what NCCL's runs took."""


@formula
def algorithms(cluster: Cluster, kind: Kind) -> tuple[str, ...]:
    """The algorithms that there are for a collective on a cluster; a torus has the hierarchical one, or for AllToAll the direct.

    >>> algorithms(hosts("H100", 4), "AllReduce"), algorithms(slices("v5p", (4, 4, 4), 2), "AllReduce")
    (('ring', 'hierarchical', 'tree', 'nvls'), ('hierarchical',))
    """
    if cluster.chip.axes:
        return ("direct",) if kind == "AllToAll" else ("hierarchical",)
    return tuple(a for a in ALGORITHMS[kind] if a != "nvls" or cluster.chip.switch_adds)


@formula
def moves(cluster: Cluster, kind: Kind, V, algorithm: str) -> tuple[Move, ...]:
    """What the busiest chip sends in each tier, in one direction, for V bytes on one chip where the array is whole.

    >>> for a in ("ring", "hierarchical"):
    ...     print([(x.link, round(x.bytes / 1e6)) for x in moves(hosts("H100", 2), "AllReduce", 1e9, a)])
    [('ici', 1641), ('dcn', 234)]
    [('ici', 1750), ('dcn', 125)]
    """
    if algorithm not in algorithms(cluster, kind):
        raise ValueError(
            f"{kind} on {cluster.chip.name} is by one of {', '.join(algorithms(cluster, kind))}, not by {algorithm!r}"
        )
    if cluster.chip.axes:
        return moves_on_torus(cluster.domain, cluster.domains, kind, V)
    return SENT_BY[algorithm](kind, V, cluster.domain.chips, cluster.domains)


@formula
def moves_on_torus(slice: Slice, m, kind: str, V) -> tuple[Move, ...]:
    """`moves` on m slices of TPUs: all axes at once inside, and the network, a switch, which an AllToAll passes in one hop.

    >>> [(x.link, round(x.bytes / 1e6)) for x in moves_on_torus(Slice(chip("v5p"), (4, 4, 4)), 2, "AllGather", 1e9)]
    [('ici', 167), ('dcn', 8)]
    """
    links, network = in_two_tiers(kind, V, tuple(Axis(n, wraps) for n, wraps in zip(slice.shape, slice.wraps)), m)
    return links, replace(network, hops=where(m > 1, 1, 0)) if kind == "AllToAll" else network


@formula
def card_across_groups(W_dcn, W_up, m, groups):
    """Bytes/s of a card in an AllToAll of m domains, where a chip's share of the uplinks of its group is W_up.

    Of what crosses domains a share (1 - 1/groups)·m/(m - 1) crosses groups. Of one group nothing does.

    >>> [round(card_across_groups(5e10, 1.25e10, 64, groups) / 1e9, 1) for groups in (1, 2, 4)]
    [50.0, 24.6, 16.4]
    """
    far = (m - m / groups) / nonzero(m - 1)
    return where(groups > 1, minimum(W_dcn, W_up / nonzero(far)), W_dcn)


@formula
def cluster_time(
    cluster: Cluster, kind: Kind, V, algorithm: str, hop: float | None = None, hop_dcn=HOP_DCN
) -> TierTime:
    """Seconds in each tier; `lower` if the tiers work on different pieces at once, `upper` if one waits for the other.

    A thin uplink of leaf switches (oversubscription) slows the blocks of an AllToAll that go to other groups; rings and trees
    cross it once for many domains, and are not slowed.

    hop  seconds of a hop inside; left out: the chip's

    >>> for c in (hosts("H100", 8), racks("GB200", 1), slices("v5p", (4, 4, 4))):
    ...     t = cluster_time(c, "AllGather", 1e9, "hierarchical")
    ...     print(f"{c.chips} {c.chip.name}: {t.lower * 1e3:.2f} ms, {t.bound}")
    64 H100: 2.28 ms, dcn
    72 GB200: 1.31 ms, ici
    64 v5p: 1.86 ms, ici
    """
    over, chip = moves(cluster, kind, V, algorithm), cluster.chip
    card = chip.dcn_bandwidth
    if kind == "AllToAll":
        card = card_across_groups(card, cluster.tiers[-1].W, cluster.domains, cluster.groups)
    return alpha_beta(over, chip.link_bandwidth, card, chip.hop if hop is None else hop, hop_dcn)
