"""What a training step sends over each tier of a cluster, and for how long the links of a tier are busy with it (chapter 7).

The collectives are those of `training.layout_collectives`, the tiers those of `cluster`: here each collective is only divided
among tiers. A GPU's axes lie over the tiers in one order, neighbours first, and a gather goes outside first: of V bytes a chip
sends, in a tier where the group has n members,

    V · (1 - 1/n) / (members in all lower tiers)

so the parts of a tier are the terms of `training.layout.wires`, and those of `tiered_collectives.hierarchical` for two tiers. Tokens
go directly, along rails, one copy for each other domain (`tiered_collectives.swap_tiers`, `dispatch`).
A stage hands on over the highest tier between it and the next one; of the stages in a group, one hands on over spine switches.
On TPUs there is the slice, where a collective has the links of all its axes, and the network between slices, which share the batch.

Seconds are those of bytes at published rates, without hops: floors of how long the links of a tier are busy, which other work
may hide.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from helpers.arguments import Count, entries
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.training.layout import Layout, along
from helpers.costs.training.layout_collectives import Sent, joined, seconds_each
from helpers.costs.training.training_step import Step
from helpers.numeric import where

from .cluster import Cluster
from .tiered_collectives import domains_reached

KINDS = ("weights", "gradients", "tensor", "context", "experts", "stages")
"""What is sent: weights that are gathered, gradients that are summed, activations around blocks (tp), keys and values (cp), tokens
on their way to experts (ep), and activations between the stages of a pipeline (pp)."""
TIERS = ("domain", "group", "spine")
HOSTS, RACKS = 32, 8  # domains of a group, at most: of one host, and of a rack


@dataclass(frozen=True)
class Over:
    """One tier: bytes that a chip sends over it in a step, by KINDS, and seconds that its links are busy at published rates.

    name  one of TIERS: inside a slice or an NVLink domain; between those of one set of leaf switches; over spine switches
    """

    name: str
    bytes: dict[str, float]
    seconds: float

    @property
    def total(self) -> float:
        """All its bytes."""
        return sum(self.bytes.values())


def largest_group(chip: Chip) -> int:
    """Domains under one set of leaf switches, where there are as many: 32 hosts, or 8 racks.

    >>> from helpers.costs.rooflines.chips import chip
    >>> largest_group(chip("H100")), largest_group(chip("GB200"))
    (32, 8)
    """
    return HOSTS if chip.pod[0] <= chip.chips_per_host else RACKS


def cluster_of(s: Slice, domains: Count = 1, group: int | None = None, oversubscription: float = 1.0) -> Cluster:
    """The cluster of so many slices or domains: as a group the largest number up to `largest_group` that divides them.

    >>> from helpers.costs.rooflines.chips import chip
    >>> [cluster_of(Slice(chip("H100"), (8,)), n).group for n in (4, 32, 64, 48)], cluster_of(Slice(chip("GB200"), (72,)), 16).group
    ([0, 0, 32, 24], 8)
    """
    if s.chip.axes:
        return Cluster(s, domains, group or 0, oversubscription)
    if group is None:
        most = largest_group(s.chip)
        group = 0 if domains <= most else max(n for n in range(1, most + 1) if domains % n == 0)
    return Cluster(s, domains, group if group < domains else 0, oversubscription)


def by_tier(at: Step, c: Cluster) -> tuple[Over, ...]:
    """What a chip sends over each tier of a cluster, the innermost first; the step's layout lies over that cluster.

    FSDP over 32 hosts sends gradients and weights over the network; inside the hosts and DP across, which is HSDP, gradients alone:

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.training.training_step import step
    >>> from helpers.costs.transformers.public_models import model
    >>> s = Slice(chip("H100"), (8,))
    >>> for laid in (Layout(fsdp=256, pods=32), Layout(fsdp=8, dp=32, pods=32)):
    ...     for x in by_tier(step(model("llama-3-8b"), laid, 2**22, 8192, s), cluster_of(s, 32)):
    ...         print(x.name, {k: round(b / 1e9, 1) for k, b in x.bytes.items() if b}, round(x.seconds, 2))
    domain {'weights': 28.1, 'gradients': 14.1} 0.09
    group {'weights': 3.9, 'gradients': 1.9} 0.12
    domain {'weights': 28.1, 'gradients': 14.1} 0.09
    group {'gradients': 3.9} 0.08
    """
    if (c.domain, c.domains) != (at.slice, at.layout.pods):
        raise ValueError(
            f"the step is of {at.layout.pods} x {at.slice.chips} chips, and the cluster has {c.domains} x {c.domain.chips}"
        )
    every = divided(volumes(at), at.layout, at.slice, c.domains // c.groups, c.groups, c.oversubscription)
    return every[: 1 if c.domains == 1 else 2 if c.groups == 1 else len(TIERS)]


def is_hsdp(layout: Layout, outside: Mapping[str, float]) -> bool:
    """Whether fsdp gathers weights inside domains alone, and gradients are summed over several.

    outside  bytes that a chip sends over all tiers but the first, by KINDS

    >>> outside = dict.fromkeys(KINDS, 0.0) | {"gradients": 3.9e9}
    >>> is_hsdp(Layout(fsdp=8, dp=32), outside), is_hsdp(Layout(dp=32), outside), is_hsdp(Layout(fsdp=8), outside | {"weights": 1.0})
    (True, False, False)
    """
    return layout.fsdp > 1 and outside["weights"] == 0 and outside["gradients"] > 0


@dataclass(frozen=True)
class Volume:
    """All runs of a step's collectives of one kind, over the same axes, of the same numbers.

    kind   "AllGather" stands for a ReduceScatter, too
    what   one of KINDS
    bytes  of the array where it is whole along the axes, times the runs
    copies  of a token among what an AllToAll sends
    """

    kind: str
    axes: tuple[str, ...]
    what: str
    bytes: float
    copies: float = 1


def volumes(at: Step) -> tuple[Volume, ...]:
    """What a device sends in a step, summed up: of Llama 3 8B under FSDP weights, and half as many bytes of gradients.

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.training.training_step import step
    >>> from helpers.costs.transformers.public_models import model
    >>> at = step(model("llama-3-8b"), Layout(fsdp=8), 2**20, 8192, Slice(chip("H100"), (8,)))
    >>> [(x.kind, x.axes, x.what, round(x.bytes / 1e9, 1)) for x in volumes(at)]
    [('AllGather', ('fsdp',), 'weights', 32.1), ('AllGather', ('fsdp',), 'gradients', 16.1)]
    """
    found: dict[tuple, Volume] = {}
    for one in at.sent:
        key = "AllGather" if one.kind == "ReduceScatter" else one.kind, one.axes, _what(one)
        more = one.bytes * one.times
        found[key] = Volume(*key, (found[key].bytes if key in found else 0.0) + more, one.copies)
    return tuple(found.values())


def _what(one: Sent) -> str:
    named = {"keys": "context", "tokens": "experts", "activations": "stages" if one.kind == "Permute" else "tensor"}
    return named.get(one.what, one.what)


def divided(
    some: tuple[Volume, ...], layout: Layout, s: Slice, group, groups, oversubscription=1.0
) -> tuple[Over, ...]:
    """Volumes over `groups` groups of so many domains; numbers may be arrays or tracers. All TIERS of GPUs, two of them of TPUs."""
    if s.chip.axes:
        return _divided_on_torus(some, layout, s)
    rates = s.chip.link_bandwidth, s.chip.dcn_bandwidth, s.chip.dcn_bandwidth / oversubscription
    over = [dict.fromkeys(KINDS, 0.0) for _ in TIERS]
    members = along(layout, (s.chips, group, groups))
    for one in some:
        for sent, n_bytes in zip(over, _switched(one, members)):
            sent[one.what] = sent[one.what] + n_bytes
    return tuple(Over(name, sent, sum(sent.values()) / rate) for name, sent, rate in zip(TIERS, over, rates))


def _divided_on_torus(some: tuple[Volume, ...], layout: Layout, s: Slice) -> tuple[Over, ...]:
    """A collective has the links of all its axes at once; passing on what is for others is not counted among bytes."""
    inside, across, seconds, ways = dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, 0.0), 0.0, joined(layout, s)
    for one in some:
        n = prod(getattr(layout, a) for a in one.axes)
        sends = one.bytes * {"AllToAll": 1 / n, "AllReduce": 2.0}.get(one.kind, 1.0) * (1 - 1 / n)
        sent = across if "pods" in one.axes else inside
        sent[one.what] = sent[one.what] + where(n > 1, one.bytes if one.kind == "Permute" else sends, 0.0)
        if sent is inside:
            seconds = seconds + where(n > 1, one.bytes * seconds_each(one.kind, ways(one.axes), one.copies), 0.0)
    return Over("domain", inside, seconds), Over("group", across, sum(across.values()) / s.chip.dcn_bandwidth)


def _switched(one: Volume, members: dict[str, list]) -> tuple:
    """Bytes in each tier. members: of each axis, in each tier."""
    if one.kind == "Permute":
        return _handed(one.bytes, members["pp"])
    if one.kind == "AllToAll":
        return _tokens(one, [prod(members[a][t] for a in one.axes) for t in range(len(TIERS))])
    out, lower = [0.0] * len(TIERS), 1.0
    for axis in one.axes:
        for t, n in enumerate(members[axis]):
            out[t] = out[t] + one.bytes * (1 - 1 / n) / lower
            lower = lower * n
    return tuple((2 if one.kind == "AllReduce" else 1) * x for x in out)


def _tokens(one: Volume, n: list) -> tuple:
    """An AllToAll: each chip's share of all shards goes over its NVLinks, and one copy to each other domain that has an expert."""
    inside, group, groups = n
    domains = group * groups
    share = one.bytes / (inside * domains)
    reached = domains_reached(one.copies, domains) / one.copies
    return share * (1 - 1 / inside), share * reached * (group - 1) / domains, share * reached * (1 - 1 / groups)


def _handed(n_bytes, n: list) -> tuple:
    """Between stages: over NVLink alone if no stage is in another domain; over spine switches by one of the stages of a group."""
    inside, group, groups = n
    out = where(group * groups > 1, n_bytes, 0.0)
    far = where(groups > 1, out / group, 0.0)
    return where(group * groups > 1, 0.0, where(inside > 1, n_bytes, 0.0)), out - far, far


entries(__name__)
