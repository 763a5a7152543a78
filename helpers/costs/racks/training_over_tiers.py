"""What a training step sends over each tier of a cluster, how long links are busy with it, and from where on it hides (chapter 7).

The collectives are those of `training.step_operations`, the tiers those of `cluster`: here each collective is only divided
among tiers, by `sharding.collective_prices.over_tiers`; a GPU's axes lie over the tiers in one order, neighbours first. On TPUs
there is the slice, where a collective has the links of all its axes, and the network between slices, which share the batch.

Seconds are those of bytes at published rates, without hops: floors of how long the links of a tier are busy, which other work
may hide. `thresholds` says from where on DP, FSDP, HSDP, TP, CP and EP hide behind arithmetic, on hosts, racks and slices.

Source: derived here; Austin et al. 2025, section 5; errors of its section on GPUs are listed in tests/helpers/costs/racks.
"""

from collections.abc import Mapping
from math import inf, prod

from helpers.arguments import Count, formula, record
from helpers.costs.attention.ring_attention import hidden_block
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.sharding.collective_prices import PUBLISHED, collective_seconds, on_torus, over_tiers
from helpers.costs.sharding.sharded_array import Axis
from helpers.costs.training.closed_forms import expert_width_on_rings
from helpers.costs.training.layout import Layout, along, groups
from helpers.costs.training.training_step import Step
from helpers.numeric import maximum, minimum, nonzero, where

from .cluster import HOSTS, RACKS, Cluster
from .tiered_collectives import alpha_beta, dispatch, domains_reached, hierarchical

KINDS = ("weights", "gradients", "tensor", "context", "experts", "stages")
"""What is sent: weights that are gathered, gradients that are summed, activations around blocks (tp), keys and values (cp), tokens
on their way to experts (ep), and activations between the stages of a pipeline (pp)."""
TIERS = ("domain", "group", "spine")
CAUSAL = 1 / 2  # of the pairs of a block, which a causal mask leaves if tokens lie in stripes


@record
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


@formula
def largest_group(chip: Chip) -> int:
    """Domains under one set of leaf switches, where there are as many: 32 hosts, or 8 racks.

    >>> largest_group(chip("H100")), largest_group(chip("GB200"))
    (32, 8)
    """
    return HOSTS if chip.pod[0] <= chip.chips_per_host else RACKS


@formula
def cluster_of(slice: Slice, domains: Count = 1, group: int | None = None, oversubscription: float = 1.0) -> Cluster:
    """The cluster of so many slices or domains: as a group the largest number up to `largest_group` that divides them.

    >>> [cluster_of(Slice(chip("H100"), (8,)), n).group for n in (4, 32, 64, 48)], cluster_of(Slice(chip("GB200"), (72,)), 16).group
    ([0, 0, 32, 24], 8)
    """
    if slice.chip.axes:
        return Cluster(slice, domains, group or 0, oversubscription)
    if group is None:
        most = largest_group(slice.chip)
        group = 0 if domains <= most else max(n for n in range(1, most + 1) if domains % n == 0)
    return Cluster(slice, domains, group if group < domains else 0, oversubscription)


@formula
def by_tier(step: Step, cluster: Cluster) -> tuple[Over, ...]:
    """What a chip sends over each tier of a cluster, the innermost first; the step's layout lies over that cluster.

    FSDP over 32 hosts sends gradients and weights over the network; inside the hosts and DP across, which is HSDP, gradients alone:

    >>> from helpers.costs.training.training_step import step
    >>> s = Slice(chip("H100"), (8,))
    >>> for laid in (Layout(fsdp=256, pods=32), Layout(fsdp=8, dp=32, pods=32)):
    ...     for x in by_tier(step(model("llama-3-8b"), laid, 2**22, 8192, s), cluster_of(s, 32)):
    ...         print(x.name, {k: round(b / 1e9, 1) for k, b in x.bytes.items() if b}, round(x.seconds, 2))
    domain {'weights': 28.1, 'gradients': 14.1} 0.09
    group {'weights': 3.9, 'gradients': 1.9} 0.12
    domain {'weights': 28.1, 'gradients': 14.1} 0.09
    group {'gradients': 3.9} 0.08
    """
    if (cluster.domain, cluster.domains) != (step.slice, step.layout.pods):
        raise ValueError(
            f"the step is of {step.layout.pods} x {step.slice.chips} chips, and the cluster has {cluster.domains} x {cluster.domain.chips}"
        )
    tiers = cluster.domains // cluster.groups, cluster.groups, cluster.oversubscription
    every = divided(volumes(step), step.layout, step.slice, *tiers)
    return every[: 1 if cluster.domains == 1 else 2 if cluster.groups == 1 else len(TIERS)]


@formula
def is_hsdp(layout: Layout, outer_bytes: Mapping[str, float]) -> bool:
    """Whether fsdp gathers weights inside domains alone, and gradients are summed over several.

    outer_bytes  bytes that a chip sends over all tiers but the first, by KINDS

    >>> outside = dict.fromkeys(KINDS, 0.0) | {"gradients": 3.9e9}
    >>> is_hsdp(Layout(fsdp=8, dp=32), outside), is_hsdp(Layout(dp=32), outside), is_hsdp(Layout(fsdp=8), outside | {"weights": 1.0})
    (True, False, False)
    """
    return layout.fsdp > 1 and outer_bytes["weights"] == 0 and outer_bytes["gradients"] > 0


@record
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


@formula
def volumes(step: Step) -> tuple[Volume, ...]:
    """What a device sends in a step, summed up: of Llama 3 8B under FSDP weights, and half as many bytes of gradients.

    >>> from helpers.costs.training.training_step import step
    >>> at = step(model("llama-3-8b"), Layout(fsdp=8), 2**20, 8192, Slice(chip("H100"), (8,)))
    >>> [(x.kind, x.axes, x.what, round(x.bytes / 1e9, 1)) for x in volumes(at)]
    [('AllGather', ('fsdp',), 'weights', 32.1), ('AllGather', ('fsdp',), 'gradients', 16.1)]
    """
    found: dict[tuple, Volume] = {}
    for collective in step.sent:
        kind = "AllGather" if collective.kind == "ReduceScatter" else collective.kind
        what = {"keys": "context", "tokens": "experts"}.get(collective.role, collective.role)
        if what == "activations":
            what = "stages" if kind == "Permute" else "tensor"
        key = kind, collective.axes, what
        more = collective.bytes * collective.times
        found[key] = Volume(*key, (found[key].bytes if key in found else 0.0) + more, collective.copies)
    return tuple(found.values())


@formula
def divided(
    collectives: tuple[Volume, ...], layout: Layout, slice: Slice, group, groups, oversubscription=1.0
) -> tuple[Over, ...]:
    """Volumes over `groups` groups of so many domains; numbers may be arrays or tracers. All TIERS of GPUs, two of them of TPUs."""
    if slice.chip.axes:
        return _divided_on_torus(collectives, layout, slice)
    rates = slice.chip.link_bandwidth, slice.chip.dcn_bandwidth, slice.chip.dcn_bandwidth / oversubscription
    over = [dict.fromkeys(KINDS, 0.0) for _ in TIERS]
    members = along(layout, (slice.chips, group, groups))
    for volume in collectives:
        tiers = [prod(members[axis][t] for axis in volume.axes) for t in range(len(TIERS))]
        for sent, n_bytes in zip(over, over_tiers(volume.kind, volume.bytes, tiers, volume.copies)):
            sent[volume.what] = sent[volume.what] + n_bytes
    return tuple(Over(name, sent, sum(sent.values()) / rate) for name, sent, rate in zip(TIERS, over, rates))


def _divided_on_torus(collectives: tuple[Volume, ...], layout: Layout, slice: Slice) -> tuple[Over, ...]:
    """A collective has the links of all its axes at once; passing on what is for others is not counted among bytes."""
    inside, across, seconds = dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, 0.0), 0.0
    chips, rates = groups(layout, slice), PUBLISHED.on(slice.chip, hop=0.0)
    for volume in collectives:
        (sends,) = over_tiers(volume.kind, volume.bytes, (prod(getattr(layout, a) for a in volume.axes),))
        sent = across if "pods" in volume.axes else inside
        sent[volume.what] = sent[volume.what] + sends
        if sent is inside:
            seconds = seconds + collective_seconds(volume.kind, volume.bytes, chips(*volume.axes), rates, volume.copies)
    return Over("domain", inside, seconds), Over("group", across, sum(across.values()) / slice.chip.dcn_bandwidth)


# From where on one layer of two products, In[B, D] · W_in[D, F] · W_out[F, D] in bf16, as in `training.dp_fsdp_tp`, hides what it
# sends, with b tokens a chip. A chip multiplies for 4·b·D·F/C seconds in the forward pass. FSDP has gathered 4·D·F bytes until then,
# so what decides is s, the seconds that an AllGather takes for each byte:
#
#     b >= C·s       and TP over Y chips, which gather and scatter 2·B·D bytes beside 4·B·D·F/(Y·C) seconds: F >= Y·C·s
#
# On a cluster s is that of the tier that takes longer, NVLink or network, for the two work on different layers at once; on a torus
# that of `training.layout.groups`. Where TP and FSDP send over the same links, what they take adds up. The backward pass has twice
# the arithmetic and at most twice the bytes, and the same thresholds.
# Latency is left out: these are what large arrays need.


@formula
def data_tokens(C, g, m, W, W_dcn, Y=1, F=inf):
    """Tokens of a chip in each microbatch from which FSDP over all g·m chips, but for TP over Y of a domain, hides.

    A chip gathers a Y-th of the weights over its NVLinks, from the g/Y chips of its domain that have others; a domain gets all
    of them over its g cards, whatever Y. TP sends over the same NVLinks, for a share u = (Y - 1)·C/(W·F) of the arithmetic's time,
    and FSDP has what is left: b >= C·max((1 - Y/g)/(Y·W·(1 - u)), (1 - 1/m)/(g·W_dcn)). Infinite, if TP fills the links.

    F  of the layer; left out: so wide that what TP sends is nothing beside its arithmetic

    >>> [round(data_tokens(9.89e14, 8, 128, 4.5e11, 5e10, Y, F=28672)) for Y in (1, 4, 8)]            # H100 hosts
    [2453, 2453, 2453]
    >>> [round(data_tokens(2.5e15, 72, 16, 9e11, 5e10, Y, F=28672)) for Y in (1, 2, 4, 8)]            # GB200 NVL72
    [2739, 1495, 925, 959]
    """
    left = 1 - tensor_share(C, Y, W, F)
    inside = where(Y < g, where(left > 0, (1 - Y / g) / (Y * W * nonzero(left)), inf), 0.0)
    return C * maximum(inside, (1 - 1 / m) / (g * W_dcn))


@formula
def tensor_share(C, Y, W, F):
    """Share of the arithmetic's time in which TP over Y chips of a domain keeps their links busy: (Y - 1)·C/(W·F).

    An AllGather and a ReduceScatter of b·Y tokens, 4·b·(Y - 1)·D bytes, beside 4·b·D·F FLOPs. Above 1 TP does not hide.

    >>> f"{tensor_share(2.5e15, 8, 9e11, 28672):.2f} {tensor_share(2.5e15, 4, 9e11, 28672):.2f}"
    '0.68 0.29'
    """
    return (Y - 1) * C / (W * F)


@formula
def hsdp_tokens(C, g, m, W, W_dcn):
    """(tokens of a chip in each microbatch, and in the last one) from which FSDP inside each domain and DP across hide.

    Weights are gathered over NVLink alone, for each microbatch. Gradients are scattered inside for each, too, and a g-th of them
    is summed across once in a step, beside the backward pass of the last microbatch, which completes the sums.
    Each chip has a g-th of the model's state.

    >>> [round(b) for b in hsdp_tokens(9.89e14, 8, 128, 4.5e11, 5e10)]
    [1923, 2453]
    """
    return C * (1 - 1 / g) / W, C * (1 - 1 / m) / (g * W_dcn)


@formula
def tensor_width(C, Y, g, W, W_dcn):
    """The least F that keeps TP over Y chips, in domains of g, behind arithmetic: Y·C·s.

    >>> [round(tensor_width(9.89e14, Y, 8, 4.5e11, 5e10)) for Y in (8, 16)], round(tensor_width(2.5e15, 16, 72, 9e11, 5e10))
    ([15384, 30769], 41667)
    """
    inside = minimum(Y, g)
    gather = alpha_beta(hierarchical("AllGather", 1.0, inside, Y / inside), W, W_dcn)
    return Y * C * gather.lower


@formula
def expert_width_over_domains(C, g, m, k, W, W_dcn, reached: float | None = None, matrices=3, bytes_each=2):
    """The least F of an expert that keeps dispatch and combine shorter than its arithmetic, over m domains of g chips.

    reached  domains that a token reaches, for one copy each (`domains_reached`); left out: each copy travels alone

    A token has 2·matrices·k·D·F FLOPs, and twice bytes_each·D bytes for each copy. In one domain it is
    `costs.training.closed_forms.expert_width`. One copy for a domain divides the network's share by k/reached.

    >>> [round(expert_width_over_domains(9.89e14, 8, 8, 8, 4.5e11, 5e10, some)) for some in (None, domains_reached(8, 8), 4)]
    [11538, 7574, 5769]
    >>> round(expert_width_over_domains(2.5e15, 72, 1, 8, 9e11, 5e10))
    1826
    """
    inside, across = dispatch(1.0, k, g, m, reached)
    return bytes_each * C * maximum(inside.bytes / W, across.bytes / W_dcn) / (matrices * k)


@record
class Thresholds:
    """Of one machine; tokens are of one chip.

    fsdp       tokens in a microbatch, from which FSDP over all chips hides; as many for DP in the last one
    with_tp    the same if TP takes a domain's `tp` chips, and FSDP what TP leaves of the links
    hsdp       (tokens in a microbatch, in the last one of a step) of FSDP inside and DP across
    tp         chips, a power of two, over which TP of this F hides
    cp         tokens of a sequence on each chip, from which causal ring attention over one domain hides
    ep         least F of an expert over `ep_chips` chips, whole domains or a cube of a torus
    """

    name: str
    chips: int
    fsdp: float
    with_tp: float
    hsdp: tuple[float, float]
    tp: int
    cp: float
    ep: float
    ep_chips: int


@formula
def thresholds(
    cluster: Cluster,
    F: float,
    k: Count = 8,
    E: Count | None = 256,
    limit: Count | None = None,
    G=8,
    ep_chips: Count = 64,
) -> Thresholds:
    """All of them for one model: F of its dense layers, k of E experts, G query heads for each KV head.

    limit     domains that a token's experts lie in at most, as of `domains_reached`
    ep_chips  chips for the experts: as many whole domains as they fill, of those that there are

    >>> for c in (hosts("H100", 128), racks("GB200", 16), slices("v5p", (16, 16, 16)), slices("v7", (16, 16, 16))):
    ...     t = thresholds(c, F=28672)
    ...     print(f"{t.name:6} {t.fsdp:5.0f} {t.with_tp:5.0f} {t.tp:3} {t.cp:5.0f} {t.ep:6.0f}")
    H100   2453  2453   8   549   7636
    GB200  2739   959   8   694   1823
    v5p    850   319   4   638   3400
    v7     3845  2884   2  2884  15380
    """
    axes, chip, s = cluster.chip.axes, cluster.chip, cluster.domain
    C, W, W_dcn, g, m = chip.rate(), chip.link_bandwidth, chip.dcn_bandwidth, s.chips, cluster.domains
    if axes:
        return _on_torus(cluster, F, G, ep_chips)
    tp = max((Y for Y in _powers(g) if tensor_width(C, Y, g, W, W_dcn) <= F), default=1)
    inside, over = min(g, ep_chips), max(1, min(m, ep_chips // g))
    reached = domains_reached(k, over, E, limit) if over > 1 else None
    ep = expert_width_over_domains(C, inside, over, k, W, W_dcn, reached)
    fsdp, with_tp = (data_tokens(C, g, m, W, W_dcn, Y, F) for Y in (1, tp))
    hsdp = hsdp_tokens(C, g, m, W, W_dcn)
    cp = hidden_block(C, W, G, share=CAUSAL)
    return Thresholds(chip.name, cluster.chips, fsdp, with_tp, hsdp, tp, cp, ep, inside * over)


def _powers(max_power: int) -> list[int]:
    return [2**i for i in range(1, max_power.bit_length()) if 2**i <= max_power]


def _on_torus(cluster: Cluster, F, G, ep_chips: int) -> Thresholds:
    """A slice: its axes carry at once, and TP takes neighbours; slices are summed over the network."""
    chip, s, n = cluster.chip, cluster.domain, cluster.domain.chips
    C, W, across = chip.rate(), chip.link_bandwidth, (1 - 1 / cluster.domains) / (n * chip.dcn_bandwidth)
    whole = groups(Layout(fsdp=n), s)("fsdp").gather / W
    tp = max(
        (Y for Y in _powers(n) if n % Y == 0 and Y * C * groups(Layout(tp=Y, fsdp=n // Y), s)("tp").gather / W <= F),
        default=1,
    )
    # FSDP has the axes that TP leaves alone, after a first gather of little along TP's; or all axes, whenever TP does not send.
    laid = groups(Layout(tp=tp, fsdp=n // tp), s)
    share = tp * C * laid("tp").gather / W / F if tp > 1 else 0.0
    rest = min(_untouched(s, tp), laid("fsdp").gather / (1 - share) if share < 1 else inf) / W / tp
    side = min(round(ep_chips ** (1 / chip.axes)), *s.shape)
    # A cube within a slice has no links round its axes.
    alone = all(n == side and ring for n, ring in zip(s.shape, s.wraps))
    ep = expert_width_on_rings(chip.alpha_ici(), side, is_ring=alone)
    fsdp, with_tp = (C * maximum(x, across) for x in (whole, rest))
    cp = hidden_block(C, 2 * chip.link_bandwidth, G, share=CAUSAL)
    return Thresholds(chip.name, cluster.chips, fsdp, with_tp, (C * whole, C * across), tp, cp, ep, side**chip.axes)


def _untouched(slice: Slice, tp: int) -> float:
    """What a gather puts on a link if it has only those axes of a torus that TP over `tp` neighbours leaves alone."""
    axes = []
    for n, wraps in zip(slice.shape, slice.wraps):
        if tp == 1:
            axes.append(Axis(n, wraps))
        tp = max(1, tp // n)
    return on_torus(tuple(axes)).gather if any(axis.n > 1 for axis in axes) else inf
