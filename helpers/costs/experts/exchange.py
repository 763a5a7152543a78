"""The exchange of tokens: bytes of a copy, devices and hosts that copies reach, and the least F that hides them (chapter 8).

Least F in one domain, on a torus and over hosts is that of earlier rooms (`expert_width`, `expert_width_on_rings`,
`expert_width_over_domains`); here these are asked of a machine, with types that differ there and back, and of a training step.

    dispatch  bytes of a number on its way to an expert
    combine   bytes of a number on its way back

Source: derived here; copies and types as in DeepEP, docs/legacy.md (github.com/deepseek-ai/DeepEP); node limits as in
DeepSeek-V3 (arXiv 2412.19437), section 2.1.2 and its published modeling code.
"""

from collections.abc import Sequence
from random import Random
from typing import Literal

from helpers.arguments import Count, formula, record
from helpers.costs.racks.cluster import Cluster
from helpers.costs.racks.measured_collectives import FP8_COPY
from helpers.costs.racks.tiered_collectives import alpha_beta, dispatch as dispatched
from helpers.costs.racks.training_over_tiers import expert_width_over_domains
from helpers.costs.sharding.collectives import domains_reached
from helpers.costs.training.closed_forms import expert_width_on_rings
from helpers.numeric import maximum

COPIES = {"bf16": 2.0, "fp8": FP8_COPY, "mxfp8": 1 + 1 / 32, "mxfp4": 0.5 + 1 / 32, "nvfp4": 0.5 + 1 / 16}
"""Bytes of a number with its share of a scale: fp8 has an f32 for 128 numbers (DeepEP), mxfp8 and mxfp4 a byte for 32
(OCP, Microscaling Formats 1.0), nvfp4 one for 16 (NVIDIA, Blackwell)."""


@formula
def copy_bytes(D, dtype: Literal[*COPIES] = "fp8"):
    """Bytes of a token's row of D numbers with its scales.

    >>> copy_bytes(7168), copy_bytes(7168, "bf16"), copy_bytes(7168, "nvfp4")
    (7392.0, 14336.0, 4032.0)
    """
    return D * COPIES[dtype]


# Hiding: the least F of an expert whose arithmetic takes as long as its exchange.


@formula
def least_width(
    cluster: Cluster, k, dtype: str = "bf16", dispatch=2, combine=2, reached: float | None = None, share=1.0
):
    """Of a forward pass over all chips of a cluster, or over one slice of TPUs. t, D and E cancel.

    dtype    of the arithmetic, whose rate C is
    reached  domains that a token reaches, for one copy each; left out: each copy travels alone
    share    of the published rate that links and cards reach

    >>> host, rack = hosts("H100", 1), racks("GB200", 1)
    >>> round(least_width(host, 8)), round(least_width(host, 8, "fp8", dispatch=1)), round(least_width(rack, 8, "fp8", dispatch=1))
    (1282, 1924, 2739)
    """
    chip, bytes_each = cluster.chip, (dispatch + combine) / 2
    C = chip.rate(dtype)
    if chip.axes:
        side = max(cluster.domain.shape)
        wraps = cluster.domain.wraps[cluster.domain.shape.index(side)]
        return expert_width_on_rings(C / (2 * share * chip.link_bandwidth), side, wraps, bytes_each=bytes_each)
    W, W_dcn = share * chip.link_bandwidth, share * chip.dcn_bandwidth
    return expert_width_over_domains(
        C, cluster.domain.chips, cluster.domains, k, W, W_dcn, reached, bytes_each=bytes_each
    )


# Bytes and seconds, by tier.


@record
class ExchangeSeconds:
    """Seconds that links and cards are busy with the dispatch and the combine of one layer."""

    links: float
    cards: float

    @property
    def seconds(self) -> float:
        """Those of the tier that takes longer."""
        return maximum(self.links, self.cards)


@formula
def exchange_seconds(t, D, k, g, m, W, W_dcn, dispatch=2, combine=2, reached: float | None = None) -> ExchangeSeconds:
    """Of t tokens of each device, over m domains of g chips, at the rates W and W_dcn.

    >>> x = exchange_seconds(4096, 7168, 8, 8, 8, 1.6e11, 5e10, dispatch=1 + 1 / 32, reached=3.95)    # DeepSeek-V3 on hosts of H800
    >>> round(x.cards * 1e3, 1), round(x.links * 1e3, 1)
    (6.2, 3.9)
    """
    x = alpha_beta(dispatched((dispatch + combine) * t * D, k, g, m, reached), W, W_dcn)
    return ExchangeSeconds(x.parts["ici"], x.parts["dcn"])


# Gather instead: an AllGather of all tokens and a ReduceScatter of all results, in place of two AllToAlls.


@formula
def others_reached(k: Count, n: Count, E: Count) -> float:
    """Devices besides its own that a token's k experts are on, of n that share E: copies that it sends, one for each of them.

    >>> [round(others_reached(8, n, 128), 2) for n in (4, 8, 16, 64)]
    [2.72, 4.67, 6.18, 7.66]
    """
    return domains_reached(k, n, E) * (1 - 1 / n)


@formula
def largest_gather(k, F, alpha, dispatch=2, combine=2):
    """Devices up to which a gather hides behind the experts' arithmetic: n - 1 < 6·k·F/((dispatch + combine)·alpha).

    alpha  C/W of all links of a chip, one way

    >>> round(largest_gather(8, 1536, 2.25e15 / 9e11), 2)                          # Qwen3-235B on a host of B200
    8.37
    """
    return 1 + 6 * k * F / ((dispatch + combine) * alpha)


# Node limits, as DeepSeek-V3's router has them.


@formula(signed="scores")
def limited_choice(scores: Sequence[float], k: Count, groups: Count, limit: Count) -> tuple[int, ...]:
    """The k experts of a token: the best of those `limit` groups whose two best scores add up to most; of equal ones the first.

    >>> limited_choice([0.9, 0.1, 0.6, 0.5, 0.8, 0.2], k=2, groups=3, limit=1), limited_choice([0.9, 0.1, 0.6, 0.5, 0.8, 0.2], 2, 3, 3)
    ((2, 3), (0, 4))
    """
    E = len(scores)
    if E % groups or limit > groups or k > limit * (E // groups):
        raise ValueError(f"{groups} groups divide {E} experts evenly, and {limit} of them have k={k} experts or more")
    size = E // groups
    worth = [sum(sorted(scores[size * i : size * (i + 1)])[-2:]) for i in range(groups)]
    allowed = sorted(range(groups), key=lambda i: -worth[i])[:limit]
    open_ = [e for i in sorted(allowed) for e in range(size * i, size * (i + 1))]
    return tuple(sorted(sorted(open_, key=lambda e: -scores[e])[:k]))


@formula
def groups_met(E: Count, k: Count, groups: Count, limit: Count, draws: Count = 1000) -> float:
    """Mean number of groups that a token's experts are in, drawn with independent scores and a fixed seed: more than of `limit`
    groups drawn at random, because a group is chosen for its good experts.

    >>> round(groups_met(256, 8, 8, 4), 1), round(groups_met(256, 8, 8, 8), 1)                      # with the limit, and without
    (4.0, 5.3)
    """
    random, size = Random(0), E // groups
    chosen = (limited_choice([random.random() for _ in range(E)], k, groups, limit) for _ in range(draws))
    return sum(len({e // size for e in experts}) for experts in chosen) / draws
