"""A collective on a cluster: what each algorithm sends in each tier, how long that takes, and which one is fastest (chapter 7).

One function for hosts, racks and slices, so that they can be set side by side. On a torus the inside is that of
`costs.sharding.collectives`, all axes at once; behind switches that of `tiered_collectives`.
"""

from helpers.arguments import entries
from helpers.costs.rooflines.roofline import Move, Time
from helpers.costs.sharding.collectives import all_to_all, over_dcn
from helpers.costs.sharding.sharded_array import Mesh

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
    g, m = c.domain.chips, c.domains
    if c.chip.axes:
        return _on_torus(c, kind, V)
    if kind == "AllToAll":
        return swap_tiers(V, g, m, aligned=algorithm == "rails")
    if algorithm == "tree":
        return double_tree(V, g, m)
    return {"ring": flat_ring, "hierarchical": hierarchical, "nvls": in_network}[algorithm](kind, V, g, m)


def _on_torus(c: Cluster, kind: str, V) -> tuple[Move, ...]:
    mesh = Mesh.on(c.domain, {chr(ord("A") + i): (i,) for i in range(len(c.domain.shape))})
    axes = mesh.wires(mesh.names)
    if kind != "AllToAll":
        return over_dcn(kind, V, axes, c.domains)
    inside = all_to_all(V / c.domains, axes)  # what arrives from other slices is spread inside as well
    return inside, Move("dcn", V / c.chips * (c.domains - 1) / c.domains, c.domains - 1)


def cluster_time(c: Cluster, kind: str, V, algorithm: str, hop=None, hop_dcn=HOP_DCN) -> Time:
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
    if kind == "AllToAll" and c.groups > 1:
        far = (c.chips - c.chips / c.groups) / (
            c.chips - c.domain.chips
        )  # of what crosses domains, what crosses groups
        card = 1 / max(1 / card, far / c.tiers[-1].W)
    return alpha_beta(over, chip.link_bandwidth, card, chip.hop if hop is None else hop, hop_dcn)


def fastest(c: Cluster, kind: str, V, hop=None, hop_dcn=HOP_DCN) -> str:
    """The algorithm whose slower tier is fastest, at published rates: the first one in a tie.

    >>> from .cluster import hosts
    >>> [fastest(hosts("H100", 64), "AllReduce", V) for V in (1e4, 1e10, 1e11)]
    ['tree', 'tree', 'hierarchical']
    """
    return min(algorithms(c, kind), key=lambda a: cluster_time(c, kind, V, a, hop, hop_dcn).lower)


entries(__name__)
