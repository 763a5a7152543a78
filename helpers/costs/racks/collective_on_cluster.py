"""A collective on a cluster: what each algorithm sends in each tier, how long that takes, and which one is fastest (chapter 7).

One function for hosts, racks and slices, so that they can be set side by side. On a torus the inside is that of
`costs.sharding.collectives`, all axes at once; behind switches that of `tiered_collectives`.
"""

from helpers.arguments import entries
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.rooflines.roofline import Move, Time
from helpers.costs.sharding.collectives import all_to_all, over_dcn
from helpers.costs.sharding.sharded_array import Mesh
from helpers.numeric import minimum, nonzero, where

from .cluster import Cluster
from .tiered_collectives import alpha_beta, double_tree, flat_ring, hierarchical, in_network, swap_tiers

ALGORITHMS = {
    "AllGather": ("ring", "hierarchical", "nvls"),
    "ReduceScatter": ("ring", "hierarchical", "nvls"),
    "AllReduce": ("ring", "hierarchical", "tree", "nvls"),
    "AllToAll": ("direct", "rails"),
}
ADDS = frozenset({"H100", "H100-500W", "H200", "H800", "H20", "B200", "B300", "GB200", "GB300"})
"""Chips whose NVSwitch adds: NVLink SHARP came with the third NVSwitch, Hopper's."""
HOP_DCN = 1e-5
"""Seconds of a hop over a network card, its software with it: an order of magnitude, from 5e-6 to 5e-5."""


def algorithms(c: Cluster, kind: str) -> tuple[str, ...]:
    """The algorithms that there are for a collective on a cluster; a torus has the hierarchical one, or for AllToAll the direct.

    >>> from .cluster import hosts, slices
    >>> algorithms(hosts("H100", 4), "AllReduce"), algorithms(slices("v5p", (4, 4, 4), 2), "AllReduce")
    (('ring', 'hierarchical', 'tree', 'nvls'), ('hierarchical',))
    """
    if kind not in ALGORITHMS:
        raise ValueError(f"collectives on clusters are {', '.join(ALGORITHMS)}, not {kind!r}")
    if c.chip.axes:
        return ("direct",) if kind == "AllToAll" else ("hierarchical",)
    known = ALGORITHMS[kind]
    return tuple(a for a in known if a != "nvls" or c.chip.name in ADDS)


def moves(c: Cluster, kind: str, V, algorithm: str) -> tuple[Move, ...]:
    """What the busiest chip sends in each tier, in one direction, for V bytes on one chip where the array is whole.

    >>> from .cluster import hosts
    >>> for a in ("ring", "hierarchical"):
    ...     print([(x.link, round(x.bytes / 1e6)) for x in moves(hosts("H100", 2), "AllReduce", 1e9, a)])
    [('ici', 1641), ('dcn', 234)]
    [('ici', 1750), ('dcn', 125)]
    """
    if algorithm not in algorithms(c, kind):
        raise ValueError(f"{kind} on {c.chip.name} is by one of {', '.join(algorithms(c, kind))}, not by {algorithm!r}")
    if c.chip.axes:
        return moves_on_torus(c.domain, c.domains, kind, V)
    return moves_behind_switches(c.domain.chips, c.domains, kind, V, algorithm)


def moves_behind_switches(g, m, kind: str, V, algorithm: str) -> tuple[Move, ...]:
    """`moves` in m domains of g GPUs.

    >>> [round(x.bytes / 1e6) for x in moves_behind_switches(8, 2, "AllReduce", 1e9, "hierarchical")]
    [1750, 125]
    """
    if kind == "AllToAll":
        return swap_tiers(V, g, m, aligned=algorithm == "rails")
    if algorithm == "tree":
        return double_tree(V, g, m)
    return {"ring": flat_ring, "hierarchical": hierarchical, "nvls": in_network}[algorithm](kind, V, g, m)


def moves_on_torus(s: Slice, m, kind: str, V) -> tuple[Move, ...]:
    """`moves` on m slices of TPUs: all axes at once inside, then the network.

    >>> from helpers.costs.rooflines.chips import chip
    >>> [(x.link, round(x.bytes / 1e6)) for x in moves_on_torus(Slice(chip("v5p"), (4, 4, 4)), 2, "AllGather", 1e9)]
    [('dcn', 8), ('ici', 167)]
    """
    mesh = Mesh.on(s, {chr(ord("A") + i): (i,) for i in range(len(s.shape))})
    axes = mesh.wires(mesh.names)
    if kind != "AllToAll":
        return over_dcn(kind, V, axes, m)
    inside = all_to_all(V / m, axes)  # what arrives from other slices is spread inside as well
    return inside, Move("dcn", V / (s.chips * m) * (m - 1) / m, m - 1)


def card_across_groups(W_dcn, W_up, m, groups):
    """Bytes/s of a card in an AllToAll of m domains, where a chip's share of the uplinks of its group is W_up.

    Of what crosses domains a share (1 - 1/groups)·m/(m - 1) crosses groups. Of one group nothing does.

    >>> [round(card_across_groups(5e10, 1.25e10, 64, groups) / 1e9, 1) for groups in (1, 2, 4)]
    [50.0, 24.6, 16.4]
    """
    far = (m - m / groups) / nonzero(m - 1)
    return where(groups > 1, minimum(W_dcn, W_up / nonzero(far)), W_dcn)


def cluster_time(c: Cluster, kind: str, V, algorithm: str, hop: float | None = None, hop_dcn=HOP_DCN) -> Time:
    """Seconds in each tier; `lower` if the tiers work on different pieces at once, `upper` if one waits for the other.

    A thin uplink of leaf switches (oversubscription) slows the blocks of an AllToAll that go to other groups; rings and trees
    cross it once for many domains, and are not slowed.

    hop  seconds of a hop inside; left out: the chip's

    >>> from .cluster import hosts, racks, slices
    >>> for c in (hosts("H100", 8), racks("GB200", 1), slices("v5p", (4, 4, 4))):
    ...     t = cluster_time(c, "AllGather", 1e9, "hierarchical")
    ...     print(f"{c.chips} {c.chip.name}: {t.lower * 1e3:.2f} ms, {t.bound}")
    64 H100: 2.26 ms, dcn
    72 GB200: 1.31 ms, ici
    64 v5p: 1.86 ms, ici
    """
    over, chip = moves(c, kind, V, algorithm), c.chip
    card = chip.dcn_bandwidth
    if kind == "AllToAll":
        card = card_across_groups(card, c.tiers[-1].W, c.domains, c.groups)
    return alpha_beta(over, chip.link_bandwidth, card, chip.hop if hop is None else hop, hop_dcn)


def fastest(c: Cluster, kind: str, V, hop: float | None = None, hop_dcn=HOP_DCN) -> str:
    """The algorithm whose slower tier is fastest, at published rates: the first one in a tie.

    >>> from .cluster import hosts
    >>> [fastest(hosts("H100", 64), "AllReduce", V) for V in (1e4, 1e10, 1e11)]
    ['tree', 'tree', 'hierarchical']
    """
    return min(algorithms(c, kind), key=lambda a: cluster_time(c, kind, V, a, hop, hop_dcn).lower)


entries(__name__)
