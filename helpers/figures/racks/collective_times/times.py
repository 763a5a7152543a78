"""What the live figure of chapter 7 computes: a collective on a cluster under each algorithm, and its cut.

Every number comes from `costs.racks`; tests hold `collective` against `cluster_time` and `bottleneck`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import inf, nan

from helpers.costs.racks.cluster import HOSTS, Cluster
from helpers.costs.racks.cut import needs, rates_in
from helpers.costs.racks.tiered_collectives import (
    ALGORITHMS,
    HOP_DCN,
    SENT_BY,
    alpha_beta,
    card_across_groups,
    moves_on_torus,
)
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.numeric import choose, maximum, nonzero, where

KINDS = ("AllGather", "AllReduce", "AllToAll")  # a ReduceScatter takes as long as an AllGather
NAMES = {
    "ring": "flat ring",
    "hierarchical": "hierarchical",
    "tree": "two trees",
    "nvls": "switch (NVLS)",
    "direct": "direct",
    "rails": "along rails",
}
ROW = ("in_bytes", "in_hops", "in_all", "out_bytes", "out_hops", "out_all", "lower")
SLOTS = 4  # most algorithms of a kind
SIDES = ("a chip", "a domain", "a group", "half")
GROUP = HOSTS  # under one set of leaf switches, where uplinks are thin


@dataclass(frozen=True)
class Machine:
    """Domains of one kind.

    shape   of a domain
    domain  what one is called
    thin    oversubscription of the leaf switches of each group of GROUP domains; 1: none
    """

    chip_name: str
    shape: tuple[int, ...]
    domain: str
    thin: float = 1.0

    @property
    def chip(self) -> Chip:
        return chip(self.chip_name)

    @property
    def slice(self) -> Slice:
        return Slice(self.chip, self.shape)

    @property
    def g(self) -> int:
        return self.slice.chips

    @property
    def uplink(self) -> float:
        """Bytes/s that a chip has of the links out of a group."""
        return self.chip.dcn_bandwidth / self.thin

    def cluster(self, m: int) -> Cluster:
        """m of them.

        >>> Machine("H100", (8,), "host", 4.0).cluster(64).groups, Machine("GB200", (72,), "rack").cluster(64).groups
        (2, 1)
        """
        grouped = self.thin > 1 and m > GROUP
        return Cluster(self.slice, m, GROUP if grouped else 0, self.thin if grouped else 1.0)


@cache
def sides(machine: Machine) -> tuple[list[tuple[str, int, float]], ...]:
    """What flows into each side of a cut, from the graph itself: in one domain, in several, and in several groups.

    >>> [len(some) for some in sides(Machine("H100", (8,), "host", 4.0))]
    [1, 2, 3]
    """
    return tuple(rates_in(machine.cluster(m)) for m in (1, 2, 2 * GROUP if machine.thin > 1 else 2))


def priced(moves, W, W_dcn, hop, hop_dcn) -> tuple:
    """ROW of an algorithm: seconds of its bytes and hops inside and across, each tier's bytes behind all hops; and the longer one.

    >>> from helpers.costs.rooflines.roofline import Move
    >>> priced((Move("ici", 8.0, 3), Move("dcn", 2.0, 1)), 4.0, 1.0, 1.0, 2.0)
    (2.0, 3.0, 7.0, 2.0, 2.0, 7.0, 7.0)
    """
    of_bytes = alpha_beta([replace(x, hops=0) for x in moves], W, W_dcn).parts
    of_hops = alpha_beta(moves, W, W_dcn, hop, hop_dcn).hops
    waits = of_hops["ici"] + of_hops["dcn"]
    tiers = [part for link in ("ici", "dcn") for part in (of_bytes[link], of_hops[link], waits + of_bytes[link])]
    return (*tiers, maximum(tiers[2], tiers[5]))


def rows(torus: Slice | None, kind: str, V, m, g, W, card, up, hop) -> dict[str, tuple]:
    """`priced` for every algorithm of a kind, in m domains of g GPUs, or on m slices of this torus."""
    if torus:
        name = "direct" if kind == "AllToAll" else "hierarchical"
        return {name: priced(moves_on_torus(torus, m, kind, V), W, card, hop, HOP_DCN)}
    across = card_across_groups(card, up, m, where(m > GROUP, m / GROUP, 1)) if kind == "AllToAll" else card
    return {a: priced(SENT_BY[a](kind, V, g, m), W, across, hop, HOP_DCN) for a in ALGORITHMS[kind]}


def slots(*numbers) -> dict:
    """The numbers of `rows`, row by row, as row0_lower and so on; row0_name is a place in NAMES. Unknown where there is no algorithm."""
    out = {f"row{n}_{what}": nan for n in range(SLOTS) for what in ("name", *ROW)}
    for n, (name, row) in enumerate(rows(*numbers).items()):
        out |= {f"row{n}_name": list(NAMES).index(name)} | {f"row{n}_{what}": x for what, x in zip(ROW, row)}
    return out


def tightest(machine: Machine, kind: str, V, m) -> dict:
    """Seconds that the cut which takes longest needs at least; of equals that of fewest chips. `side` is a place in SIDES."""

    def slowest(flows: Sequence[tuple[str, int, float]]) -> dict:
        bound, chips, side = 0.0, 0, 0
        for name, inside, W in flows:
            seconds = V * (needs(kind, inside, m * machine.g) / W)
            longer = (seconds > bound) | ((seconds == bound) & (inside < chips)) | (chips == 0)
            bound, chips = where(longer, seconds, bound), where(longer, inside, chips)
            side = where(longer, SIDES.index(name.split(" of ")[0]), side)
        return {"bound": bound, "side": side}

    return choose(where(m == 1, 0, where(m > GROUP, 2, 1)), [partial(slowest, some) for some in sides(machine)])


def collective(machines: Sequence[Machine], machine, torus, kind, adds, V, m, g, W, card, up, hop) -> dict:
    """Every number of the figure, and which of its phrases are true, on machine number `machine` of these.

    torus       1 on slices; kind a place in KINDS; adds 1 for an AllReduce; V bytes
    m           domains of g chips
    W, card, …  what `rows` wants of the machine
    """
    slices = next(of.slice for of in machines if of.chip.axes)
    each = [partial(slots, on, name, V, m, g, W, card, up, hop) for on in (None, slices) for name in KINDS]
    found = choose(len(KINDS) * torus + kind, each)
    cuts = [partial(tightest, of, name, V, m) for of in machines for name in KINDS]
    bound, side = choose(len(KINDS) * machine + kind, cuts).values()
    lowers, known = [found[f"row{k}_lower"] for k in range(SLOTS)], lambda x: x == x
    lower = least(lowers)
    first, count = 0 * kind, sum(where(known(x), 1, 0) for x in lowers)
    for k in reversed(range(SLOTS)):
        first = where(lowers[k] == lower, k, first)
    wins = (count == 1) | (sum(where(x > lower, 1, 0) for x in lowers) > 0)
    best = {what: sum(where(first == k, found[f"row{k}_{what}"], 0.0) for k in range(SLOTS)) for what in ROW}
    moved, hops = maximum(best["in_bytes"], best["out_bytes"]), best["in_hops"] + best["out_hops"]
    return found | _drawn(found, bound) | {
        **{f"row{k}_title": where(wins & (count > 1) & (first == k), 1, 0) + 0 * x for k, x in enumerate(lowers)},
        "bound": bound, "lower": lower, "size": V, "n": m * g, "rows": count, "count": where(m == 1, 0, 1),
        "first": sum(where(first == k, found[f"row{k}_name"], 0) for k in range(SLOTS)),
        "best": where(count == 1, 0, where(wins, 1, 2)), "by": where(hops > moved, 1, 0),
        "tier": where(best["in_bytes"] >= best["out_bytes"], 0, 1), "side": side, "cut": where(lower < bound, 1, 0), "made": adds,
    }  # fmt: skip


def least(numbers: Sequence):
    """The least of the numbers that are known; infinite if none is."""
    found = inf
    for x in numbers:
        found = where(x < found, x, found)
    return found


def _drawn(results: dict, bound) -> dict:
    """Shares of the longest bar: of each row its bytes, its hops and both, inside and across; and of the cut."""
    ends = [-results[f"row{k}_{tier}_all"] for k in range(SLOTS) for tier in ("in", "out")]
    longest = nonzero(-least([-bound, *ends]))
    out = {"cut_at": bound / longest}
    for k in range(SLOTS):
        for tier in ("in", "out"):
            some, both = (results[f"row{k}_{tier}_{what}"] / longest for what in ("bytes", "all"))
            out |= {f"{tier}{k}_bytes": some, f"{tier}{k}_hops": both - some, f"{tier}{k}_all": both}
    return out
