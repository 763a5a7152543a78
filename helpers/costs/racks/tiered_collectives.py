"""Collectives over two tiers: m domains of g chips each, g·m = n in all (chapter 7).

Each formula lists the `roofline.Move`s of the busiest chip: its bytes over NVLink ("ici") and over its network card ("dcn"), in
ONE direction, and the hops one after the other. `alpha_beta` prices them: a hop takes its time, and then bytes follow.

V    bytes of the array on one chip where it is whole, as in `costs.sharding.collectives`; for an AllToAll of all shards together
g    chips of a domain, behind a switch: every one has its NVLinks and its own network card
m    domains; 1: no network

nccl-tests prints size/time as algbw, and algbw times `bus_factor` as busbw: what each link of a flat ring would carry. Where an
algorithm sends fewer bytes than a flat ring, busbw is larger than what any link carries.

Source: derived here; Patarasuk and Yuan 2009 (rings); Sanders et al. 2009 (two trees); NVIDIA, nccl-tests, PERFORMANCE.md
(busbw); Graham et al. 2016 (SHARP).
"""

from collections.abc import Iterable

from helpers.arguments import Count, entries, whole
from helpers.costs.rooflines.roofline import Move, Time
from helpers.costs.sharding.collectives import over_dcn
from helpers.costs.sharding.sharded_array import Axis
from helpers.numeric import ceil_near, log, maximum, nonzero, plain, sqrt, where

TIMES = {"AllGather": 1, "ReduceScatter": 1, "AllReduce": 2}
"""How often a ring goes round."""


def bus_factor(kind: str, n):
    """busbw / algbw of nccl-tests: the share of its size that each chip of a flat ring sends.

    >>> bus_factor("AllReduce", 8), bus_factor("AllGather", 8), bus_factor("AllToAll", 8)
    (1.75, 0.875, 0.875)
    """
    if kind not in TIMES and kind != "AllToAll":
        raise ValueError(f"nccl-tests' busbw is of {', '.join(TIMES)} or AllToAll, not of {kind!r}")
    return TIMES.get(kind, 1) * (n - 1) / n


def _times(kind: str) -> int:
    if kind not in TIMES:
        raise ValueError(f"over tiers there are {', '.join(TIMES)}, not {kind!r}")
    return TIMES[kind]


def flat_ring(kind: str, V, g, m=1) -> tuple[Move, ...]:
    """One ring through all chips, domain by domain, once for each rail: a g-th of V leaves a domain through each card.

    Each of the g rings has every chip, and leaves a domain at another one, so a chip's NVLink carries g-1 of the rings and its
    card one. A piece that starts at the first chip of a domain makes n-1 hops, m-1 of them over the network, and one that starts
    inside a domain m; an AllReduce goes round twice.

    >>> [(x.link, x.bytes, x.hops) for x in flat_ring("AllReduce", 1024.0, g=8, m=2)]
    [('ici', 1680.0, 28), ('dcn', 240.0, 2)]
    """
    n, times = g * m, _times(kind)
    sent = times * V * (n - 1) / n
    inside = where(m > 1, (g - 1) / g, 1.0)
    return (
        Move("ici", sent * inside, times * (n - m)),
        Move("dcn", where(m > 1, sent / g, 0.0), times * (m - 1)),
    )


def hierarchical(kind: str, V, g, m) -> tuple[Move, ...]:
    """ReduceScatter inside, AllReduce of each shard across, AllGather inside: a card carries 2·(m-1)/m·V/g.

    A flat ring sends (n-1)/n where this sends (m-1)/m: with two domains nearly twice as much, with many the same. What this
    saves there is latency: a ring across has m members, not n. An AllGather is the last two, a ReduceScatter the first two.

    >>> [(x.link, x.bytes, x.hops) for x in hierarchical("AllReduce", 1024.0, g=8, m=2)]
    [('ici', 1792.0, 14), ('dcn', 128.0, 2)]
    """
    times = _times(kind)
    moves = over_dcn(kind, V, Axis(g), m, ways=1)
    return (
        Move("ici", sum(x.bytes for x in moves if x.link == "ici"), times * (g - 1)),
        Move("dcn", sum(x.bytes for x in moves if x.link == "dcn"), times * (m - 1)),
    )


def double_tree(V, g, m) -> tuple[Move, ...]:
    """AllReduce by two binary trees over the domains, one for each half of V, with rings inside: log2 m hops up, as many down.

    A chip is a leaf of one tree and inside the other one: it sends half up in both, and down to two children in one of them,
    that is 2·V/g at most. Of two domains each is the root of one tree, and sends V/g.

    >>> [(x.link, x.bytes, x.hops) for x in double_tree(1024.0, g=8, m=16)]
    [('ici', 1792.0, 14), ('dcn', 256.0, 8)]
    """
    inside, _ = hierarchical("AllReduce", V, g, 1)
    return inside, Move("dcn", _tree_bytes(m) * V / g, _up_and_down(m))


def _tree_bytes(m):
    """Of V, what the busiest member of two trees sends: 3 members have a root with two children, that is a leaf elsewhere."""
    return where(m <= 1, 0.0, where(m <= 2, 1.0, where(m <= 3, 1.5, 2.0)))


def in_network(kind: str, V, g, m=1) -> tuple[Move, ...]:
    """The NVSwitch adds, and sends results to all (NVLink SHARP, NVLS): an AllReduce takes V·(1 + 1/g) of a chip's links.

    Each chip owns a g-th of V. To read it summed, the switch pulls that part from all g chips, and once for every owner: V out
    of each chip, V/g into it. To store it, the owner sends V/g once and all g chips get it: V into each. Both pass at once
    in all, so each direction carries V + V/g, where a ring sends 2·(g-1)/g·V. An AllGather or ReduceScatter needs V in one of
    the directions, more than a ring's (g-1)/g: nothing is won there. Across domains two trees follow, as in `double_tree`.

    >>> [(x.link, x.bytes) for x in in_network("AllReduce", 1024.0, g=8)]
    [('ici', 1152.0), ('dcn', 0.0)]
    """
    if _times(kind) == 2:
        return Move("ici", V * (1 + 1 / g), 2), Move("dcn", _tree_bytes(m) * V / g, _up_and_down(m))
    return Move("ici", V, 1), Move("dcn", V / g * (m - 1) / m, m - 1)


def switches_across(V, g) -> tuple[Move, ...]:
    """AllReduce whose network adds (InfiniBand SHARP), with rings or chains inside: a card carries V/g each way, whatever m is.

    NVLinks have no less to do than before, 2·(g-1)/g·V. So the network may be twice as fast as by rings, and the AllReduce is as
    fast as NVLinks are. NCCL calls it CollnetChain; if the NVSwitch adds as well, NVLinks carry what `in_network` says.

    >>> [(x.link, x.bytes, x.hops) for x in switches_across(1024.0, g=8)]
    [('ici', 1792.0, 14), ('dcn', 128.0, 2)]
    """
    inside, _ = hierarchical("AllReduce", V, g, 1)
    return inside, Move("dcn", V / g, 2)


def _up_and_down(m):
    return 2 * ceil_near(log(m) / log(2))


def nvls_bus_bandwidth(W, g):
    """busbw of an AllReduce that the NVSwitch adds, over links that carry W: 2·(g-1)/(g+1)·W, which is above W from 4 chips on.

    algbw is W/(1 + 1/g), times the flat ring's 2·(g-1)/g. With W = 309e9, 69 % of an H100's 450e9:

    >>> [round(nvls_bus_bandwidth(309, g)) for g in (2, 3, 4, 5, 6, 7, 8)]
    [206, 309, 371, 412, 441, 464, 481]
    """
    return 2 * (g - 1) / (g + 1) * W


def nvls_from(ring, nvls):
    """Chips from which on the switch is faster than a ring: 2·(g-1)/(g+1)·nvls > ring.

    ring, nvls  bytes/s that links carry in a ring, and while the switch adds, which is less: inf if it is not even half

    >>> round(nvls_from(370, 309), 2), nvls_from(370, 180)
    (3.98, inf)
    """
    more = 2 * nvls - ring
    return where(more > 0, (2 * nvls + ring) / nonzero(more), float("inf"))


def swap_tiers(V, g, m, aligned: bool = True) -> tuple[Move, ...]:
    """AllToAll over m domains of g chips: each chip sends a block of V/n² to every other one.

    Directly a chip sends over its own card what is for n-g chips of other domains, whose cards may be on another rail.
    Aligned to rails, it passes a block over NVLink to the chip that stands on the receiver's rail, which sends all of its
    domain's blocks for that receiver in one message: as many bytes over cards, m-1 messages and not n-g, no spine switch.

    >>> for aligned in (False, True):
    ...     print([(x.link, x.bytes, x.hops) for x in swap_tiers(1024.0, g=4, m=4, aligned=aligned)])
    [('ici', 12.0, 3), ('dcn', 48.0, 12)]
    [('ici', 48.0, 3), ('dcn', 48.0, 3)]
    """
    n = g * m
    block = V / n**2
    forwarded = (n - g) * (g - 1) / g if aligned else 0
    return Move("ici", block * (g - 1 + forwarded), g - 1), Move("dcn", block * (n - g), m - 1 if aligned else n - g)


def domains_reached(k, m, E: float | None = None, limit: float | None = None):
    """Domains that have an expert of a token, of m that share E experts evenly, at random.

    E      left out: experts so many that the same one may be drawn twice; else k is a whole number, and one of Python's
    limit  the token's k experts lie in at most so many domains, chosen first (DeepSeek-V3: 4)

    Of a domain a token chooses none with probability (1 - 1/m)^k, or without drawing twice C(E - E/m, k) / C(E, k).

    >>> round(domains_reached(8, 8), 2), round(domains_reached(8, 8, E=256), 2), round(domains_reached(8, 8, E=256, limit=4), 2)
    (5.25, 5.29, 3.63)
    """
    if limit is not None and limit < m:
        return domains_reached(k, limit, None if E is None else E * limit / m)
    if E is None:
        return m * (1 - (1 - 1 / m) ** k)
    whole(0, k=k)
    if plain(E) and k > E:
        raise ValueError(f"a token's {k} experts are different ones, and {m} domains have {E:g}")
    none = 1.0
    for i in range(int(k)):
        none = none * maximum(E - E / m - i, 0.0) / (E - i)
    return m * (1 - none)


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


def alpha_beta(moves: Iterable[Move], W, W_dcn, hop=0.0, hop_dcn=0.0) -> Time:
    """Seconds in each tier: hops, and bytes behind them. `lower` lets the tiers overlap, `upper` does not.

    W, W_dcn      bytes/s one way of a chip's NVLinks and of its card
    hop, hop_dcn  seconds of latency for each hop

    >>> t = alpha_beta(hierarchical("AllReduce", 1e9, 8, 16), 4.5e11, 5e10)
    >>> f"{t.lower * 1e3:.2f} {t.upper * 1e3:.2f} {t.bound}"
    '4.69 8.58 dcn'
    """
    rates = {"ici": (W, hop), "dcn": (W_dcn, hop_dcn)}
    parts = {"ici": 0.0, "dcn": 0.0}
    for x in moves:
        if x.link not in rates:
            raise ValueError(f"two tiers have moves over ici and dcn, not over {x.link!r}")
        rate, each = rates[x.link]
        parts[x.link] = parts[x.link] + x.bytes / rate + x.hops * each
    return Time(parts)


def overtakes(short: tuple[float, float], long: tuple[float, float]):
    """Bytes from which the second of two algorithms is faster: V at which alpha + V·beta is the same for both.

    short, long  (seconds of all hops, seconds for each byte): the first has the shorter hops, the second the smaller beta, or
                 it never overtakes and is refused

    >>> tree, ring = (8 * 1e-5, 2 / 8 / 4e10), (30 * 1e-5, 2 * 15 / 16 / 8 / 4e10)      # 16 domains of 8
    >>> round(overtakes(tree, ring) / 1e6)
    563
    """
    if plain(short[1], long[1]) and short[1] <= long[1]:
        raise ValueError(f"the second never overtakes: a byte takes it {long[1]:.3g} s, and the first {short[1]:.3g} s")
    return (long[0] - short[0]) / (short[1] - long[1])


def pipelined(seconds, fill, launch=0.0):
    """Seconds of a collective that travels in the best number of pieces, each a hop behind the last one.

    seconds  V/W, all bytes at full rate
    fill     seconds that one piece takes through all its hops but the first, at no bytes: (h - 1)·alpha
    launch   before the first byte moves: kernels start and wait for each other

    With p pieces (p + h - 1)·(alpha + V/(p·W)), as in `costs.sharding.collectives.chained` where nothing is free; the best p
    is the root of (h-1)·V/(W·alpha), and gives (√fill + √seconds)². So bandwidth rises slowly, as one root of V more.

    >>> f"{pipelined(1e-3, 1e-6) * 1e3:.3f} {pipelined(0.0, 1e-6, 2e-5) * 1e6:.0f}"
    '1.064 21'
    """
    return launch + fill + seconds + 2 * sqrt(fill * seconds)


def sms_for(W, each):
    """SMs that copy W bytes/s, if one copies `each`: NCCL's channels, DeepEP's.

    >>> sms_for(1.6e11, 8e9)
    20
    """
    return ceil_near(W / each)


def sms_to_take(math, comms, sms):
    """SMs that copy while the others multiply, so that both end together: comms / (math·sms + comms) of all.

    math   seconds of the arithmetic on all `sms` SMs
    comms  seconds of the copies on ONE SM

    With s of them copying arithmetic takes math·sms/(sms - s) and copies comms/s. Both are then math + comms/sms: what
    hiding saves is only what the link cannot give to all SMs at once.

    >>> s = sms_to_take(1e-3, 1e-3 * 20, 132)
    >>> f"{s:.1f} {1e-3 * 132 / (132 - s) * 1e3:.3f} {(1e-3 + 20e-3 / 132) * 1e3:.3f}"
    '17.4 1.152 1.152'
    """
    return comms / (math * sms + comms) * sms


def without_sms(seconds, taken, sms: Count):
    """Seconds of arithmetic, of `seconds` on all SMs, while `taken` of them copy.

    >>> round(without_sms(1.0, 20, 132), 3)
    1.179
    """
    if plain(taken, sms) and taken >= sms:
        raise ValueError(f"of {sms} SMs at most {sms - 1} can copy, not {taken}: none would be left to multiply")
    return seconds * sms / (sms - taken)


entries(__name__)
