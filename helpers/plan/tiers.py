"""What a training step sends over each tier of a cluster, in words: bytes of a chip, and for how long the links are busy."""

from helpers import show
from helpers.costs.racks.cluster import Cluster
from helpers.costs.racks.step_by_tier import Over, by_tier, is_hsdp
from helpers.costs.training.training_step import Step

KINDS = {
    "tiers.bytes": "count, of one chip in a step",
    "tiers.seconds": "floor, bytes at published rates: how long the links of a tier are busy",
}
SENT = {
    "weights": "weights",
    "gradients": "gradients",
    "tensor": "activations of tp",
    "context": "keys and values of cp",
    "experts": "tokens of experts",
    "stages": "activations of pp",
}
"""What each of `step_by_tier.KINDS` is called."""
HSDP = "Weights are gathered inside a {inside}, and only gradients leave it: this is HSDP."
RINGS = (
    "The estimate is that of a network without oversubscription, because a ring visits all domains of a group before "
    "it crosses the spine switches; the floor above is with it."
)
ONE_GROUP = "All domains are under one set of leaf switches, where oversubscription changes nothing."


def names(c: Cluster) -> dict[str, str]:
    """What has the links of each tier.

    >>> from helpers.costs.racks.step_by_tier import cluster_of
    >>> from .ask import room
    >>> [", ".join(names(cluster_of(*room(text))).values()) for text in ("512xH100", "64xH100", "2048xv5e")]
    ['domain, leaf switches, spine switches', 'domain, network, spine switches', 'slice, network']
    """
    if c.chip.axes:
        return {"domain": "slice", "group": "network"}
    return {"domain": "domain", "group": "network" if c.groups == 1 else "leaf switches", "spine": "spine switches"}


def record(at: Step, c: Cluster) -> list[dict]:
    """What --json prints of each tier: units of the tier below, bytes of a chip by what is sent, seconds."""
    units = {"domain": c.domain.chips, "group": c.domains // c.groups, "spine": c.groups}
    tiers = by_tier(at, c)
    return [{"name": x.name, "units": units[x.name], "bytes": x.bytes, "seconds": x.seconds} for x in tiers]


def account(at: Step, c: Cluster) -> list[str]:
    """The lines of one step: a column for each tier; none if nothing is sent."""
    over, called = by_tier(at, c), names(c)
    if not any(x.total for x in over):
        return []
    line = lambda kind, said, texts: f"  {kind:9}{said:30}{''.join(f'{text:>17}' for text in texts)}"  # noqa: E731
    lines = [line("count", "a chip sends in a step, over", (called[x.name] for x in over))]
    for kind, said in SENT.items():
        if any(x.bytes[kind] for x in over):
            lines.append(line("", said, (show.bytes(x.bytes[kind]) for x in over)))
    lines.append(line("floor", "the links are busy for", (show.seconds(x.seconds) for x in over)))
    return [*lines, *(f"{'':11}{said}" for said in remarks(at, c, over))]


def remarks(at: Step, c: Cluster, over: tuple[Over, ...]) -> list[str]:
    """The tier that limits, and what follows from the layout and from the network."""
    most = max(over, key=lambda x: x.seconds)
    share = f"{most.seconds / at.estimate.mid:.0%} of the estimate"
    beside = f"{most.seconds / at.math:.0%} of what the products take at published rates"
    out = [f"The links of the {names(c)[most.name]} are busy longest: {share}, or {beside}."]
    if is_hsdp(at.layout, {kind: sum(x.bytes[kind] for x in over[1:]) for kind in SENT}):
        out.append(HSDP.format(inside=names(c)["domain"]))
    if c.oversubscription > 1:
        out.append(RINGS if c.groups > 1 else ONE_GROUP)
    return out
