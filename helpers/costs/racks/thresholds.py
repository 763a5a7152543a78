"""From where on DP, FSDP, HSDP, TP, CP and EP hide behind arithmetic, on hosts, racks and slices, side by side (chapter 7).

One layer of two products, In[B, D] · W_in[D, F] · W_out[F, D] in bf16, as in `costs.training.dp_fsdp_tp`, and b tokens a chip. A
chip multiplies for 4·b·D·F/C seconds in the forward pass. FSDP has gathered 4·D·F bytes until then, so what decides is s, the
seconds that an AllGather takes for each byte:

    b >= C·s       and TP over Y chips, which gather and scatter 2·B·D bytes beside 4·B·D·F/(Y·C) seconds: F >= Y·C·s

On a cluster s is that of the slower tier, NVLink or network, for the two work on different layers at once; on a torus that of
`training.layout.wires`. The backward pass has twice the arithmetic and at most twice the bytes, and the same thresholds.

Latency is left out: these are what large arrays need.
Source: derived here; Austin et al. 2025, section 5; errors of its section on GPUs are listed in tests/helpers/costs/racks.
"""

from dataclasses import dataclass

from helpers.arguments import Count, entries
from helpers.costs.attention.ring_attention import hidden_block
from helpers.costs.training.expert_parallelism import expert_width_on_rings
from helpers.costs.training.layout import Layout, wires
from helpers.numeric import maximum, minimum

from .cluster import Cluster
from .tiered_collectives import alpha_beta, dispatch, domains_reached, hierarchical


def gather_seconds(g, m, W, W_dcn):
    """Seconds of an AllGather for each byte over m domains of g chips: that of the slower tier.

    >>> f"{1 / gather_seconds(8, 16, 4.5e11, 5e10):.4g} {1 / gather_seconds(72, 8, 9e11, 5e10):.4g}"
    '4.267e+11 9.127e+11'
    """
    return alpha_beta(hierarchical("AllGather", 1.0, g, m), W, W_dcn).lower


def data_tokens(C, g, m, W, W_dcn, Y=1):
    """Tokens of a chip in each microbatch from which FSDP over all g·m chips, but for TP over Y of a domain, hides.

    A chip gathers a Y-th of the weights over its NVLinks, from the g/Y chips of its domain that have others; a domain gets all
    of them over its g cards, whatever Y: b >= C·max((1 - Y/g)/(Y·W), (1 - 1/m)/(g·W_dcn)).
    So in a domain that is large enough to have the faster network, links inside decide, until TP cuts what they carry.

    >>> [round(data_tokens(9.89e14, 8, 128, 4.5e11, 5e10, Y)) for Y in (1, 8)]            # H100 hosts
    [2453, 2453]
    >>> [round(data_tokens(2.5e15, 72, 16, 9e11, 5e10, Y)) for Y in (1, 4, 8)]            # GB200 NVL72
    [2739, 656, 651]
    """
    return C * maximum((1 - Y / g) / (Y * W), (1 - 1 / m) / (g * W_dcn))


def hsdp_tokens(C, g, m, W, W_dcn):
    """(tokens of a chip in each microbatch, and in the last one) from which FSDP inside each domain and DP across hide.

    Weights are gathered over NVLink alone, for each microbatch. Gradients are scattered inside for each, too, and a g-th of them
    is summed across once in a step, beside the backward pass of the last microbatch, which completes the sums.
    Each chip has a g-th of the model's state.

    >>> [round(b) for b in hsdp_tokens(9.89e14, 8, 128, 4.5e11, 5e10)]
    [1923, 2453]
    """
    return C * (1 - 1 / g) / W, C * (1 - 1 / m) / (g * W_dcn)


def tensor_width(C, Y, g, W, W_dcn):
    """The least F that keeps TP over Y chips, in domains of g, behind arithmetic: Y·C·s.

    >>> [round(tensor_width(9.89e14, Y, 8, 4.5e11, 5e10)) for Y in (8, 16)], round(tensor_width(2.5e15, 16, 72, 9e11, 5e10))
    ([15384, 30769], 41667)
    """
    inside = minimum(Y, g)
    return Y * C * gather_seconds(inside, Y / inside, W, W_dcn)


def expert_width_over_domains(C, g, m, k, W, W_dcn, reached: float | None = None, matrices=3, bytes_each=2):
    """The least F of an expert that keeps dispatch and combine shorter than its arithmetic, over m domains of g chips.

    reached  domains that a token reaches, for one copy each (`domains_reached`); left out: each copy travels alone

    A token has 2·matrices·k·D·F FLOPs, and twice bytes_each·D bytes for each copy. In one domain it is
    `costs.training.expert_parallelism.expert_width`. One copy for a domain divides the network's share by k/reached.

    >>> [round(expert_width_over_domains(9.89e14, 8, 8, 8, 4.5e11, 5e10, some)) for some in (None, domains_reached(8, 8), 4)]
    [11538, 7574, 5769]
    >>> round(expert_width_over_domains(2.5e15, 72, 1, 8, 9e11, 5e10))
    1826
    """
    inside, across = dispatch(1.0, k, g, m, reached)
    return bytes_each * C * maximum(inside.bytes / W, across.bytes / W_dcn) / (matrices * k)


@dataclass(frozen=True)
class Thresholds:
    """Of one machine; tokens are of one chip.

    fsdp       tokens in a microbatch, from which FSDP over all chips hides; as many for DP in the last one
    with_tp    the same if TP takes a domain's `tp` chips
    hsdp       (tokens in a microbatch, in the last one of a step) of FSDP inside and DP across
    tp         chips, a power of two, over which TP of this F hides
    cp         tokens of a sequence on each chip, from which ring attention over one domain hides
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


def thresholds(
    c: Cluster, F: float, k: Count = 8, E: Count | None = 256, limit: Count | None = None, G=8, ep_chips: Count = 64
) -> Thresholds:
    """All of them for one model: F of its dense layers, k of E experts, G query heads for each KV head.

    limit     domains that a token's experts lie in at most, as of `domains_reached`
    ep_chips  chips for the experts: as many whole domains as they fill, of those that there are

    >>> from .cluster import hosts, racks, slices
    >>> for c in (hosts("H100", 128), racks("GB200", 16), slices("v5p", (16, 16, 16)), slices("v7", (16, 16, 16))):
    ...     t = thresholds(c, F=28672)
    ...     print(f"{t.name:6} {t.fsdp:5.0f} {t.with_tp:5.0f} {t.tp:3} {t.cp:5.0f} {t.ep:6.0f}")
    H100    2453  2453   8   275   7636
    GB200   2739   651   8   347   1823
    v5p      850   283   4   319   1700
    v7      3845  2307   2  1442   7690
    """
    axes, chip, s = c.chip.axes, c.chip, c.domain
    C, W, W_dcn, g, m = chip.rate(), chip.link_bandwidth, chip.dcn_bandwidth, s.chips, c.domains
    if axes:
        return _on_torus(c, F, G, ep_chips)
    tp = max((Y for Y in _powers(g) if tensor_width(C, Y, g, W, W_dcn) <= F), default=1)
    inside, over = min(g, ep_chips), max(1, min(m, ep_chips // g))
    reached = domains_reached(k, over, E, limit) if over > 1 else None
    ep = expert_width_over_domains(C, inside, over, k, W, W_dcn, reached)
    fsdp, with_tp = (data_tokens(C, g, m, W, W_dcn, Y) for Y in (1, tp))
    hsdp = hsdp_tokens(C, g, m, W, W_dcn)
    return Thresholds(chip.name, c.chips, fsdp, with_tp, hsdp, tp, hidden_block(C, W, G), ep, inside * over)


def _powers(most: int) -> list[int]:
    return [2**i for i in range(1, most.bit_length()) if 2**i <= most]


def _on_torus(c: Cluster, F, G, ep_chips: int) -> Thresholds:
    """A slice: its axes carry at once, and TP takes neighbours; slices are summed over the network."""
    chip, s, n = c.chip, c.domain, c.domain.chips
    C, across = chip.rate(), (1 - 1 / c.domains) / (n * chip.dcn_bandwidth)
    whole = wires(Layout(fsdp=n), s)["fsdp"].gather
    tp = max(
        (Y for Y in _powers(n) if n % Y == 0 and Y * C * wires(Layout(tp=Y, fsdp=n // Y), s)["tp"].gather <= F),
        default=1,
    )
    rest = wires(Layout(tp=tp, fsdp=n // tp), s)["fsdp"].gather / tp
    side = min(round(ep_chips ** (1 / chip.axes)), *s.shape)
    ep = expert_width_on_rings(chip.alpha_ici(), side, wraps=chip.axes == 3 and side % 4 == 0)
    fsdp, with_tp = (C * maximum(x, across) for x in (whole, rest))
    cp = hidden_block(C, 2 * chip.link_bandwidth, G)
    return Thresholds(chip.name, c.chips, fsdp, with_tp, (C * whole, C * across), tp, cp, ep, side**chip.axes)


entries(__name__)
