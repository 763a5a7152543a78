"""Measured expert layers: one kernel's time, a fit on one source, the exchange's share of a step, overlap (chapter 8).

A kernel that dispatches, multiplies and combines in waves takes start + max(weights, arithmetic, links), each at its own share of the
published rate. The shares are fitted on one source and held against others: they do not carry over to another chip.

Source: derived here; the rows of book/data/expert_layers.json, each with its source.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import log

from helpers.arguments import Count, formula, record
from helpers.costs.inference.serving_operations import met
from helpers.costs.training.closed_forms import expert_bytes
from helpers.numeric import maximum

from .exchange import copy_bytes

# One kernel.


@record
class ExpertWork:
    """What a device does in one layer of experts.

    weights  bytes of the experts that are met
    flops    of three products
    links    bytes that it sends
    """

    weights: float
    flops: float
    links: float


@formula
def expert_work(t, D, F, E, k, ep, weights: str = "fp8", dispatch: str = "fp8", combine: str = "bf16") -> ExpertWork:
    """With t tokens of each of ep devices; types as in `exchange.COPIES`, scales with them.

    >>> x = expert_work(1, 4096, 2048, 256, 6, 8, weights="mxfp4")                         # DeepSeek-V4-Flash, a token on each of 8
    >>> round(x.weights / 1e6, 1), round(x.weights / copy_bytes(3 * 4096 * 2048, "mxfp4"), 2)
    (73.9, 5.53)
    """
    copy = copy_bytes(D, dispatch) + copy_bytes(D, combine)
    return ExpertWork(
        weights=met(E, k, t * ep) / ep * copy_bytes(3 * D * F, weights),
        flops=6 * t * k * D * F,
        links=expert_bytes(t, copy, k, ep, 1 / 2),
    )


@record
class KernelShares:
    """Seconds before anything moves, and shares of the published rates that a kernel reaches."""

    start: float
    memory: float
    arithmetic: float
    links: float


@formula
def kernel_seconds(work: ExpertWork, shares: KernelShares, C, W_hbm, W):
    """Seconds of one kernel that overlaps everything but its start.

    >>> work = expert_work(32768, 7168, 3072, 384, 6, 8, weights="mxfp4")                     # DeepSeek-V4-Pro, DeepGEMM #316
    >>> round(kernel_seconds(work, KernelShares(5e-5, 0.64, 0.53, 0.48), 4.5e15, 8e12, 9e11) * 1e3, 1)
    10.9
    """
    parts = (
        work.weights / (shares.memory * W_hbm),
        work.flops / (shares.arithmetic * C),
        work.links / (shares.links * W),
    )
    return shares.start + maximum(*parts)


@record
class MeasuredLayer:
    """What a kernel was measured to take, and on a chip of which rates."""

    work: ExpertWork
    seconds: float
    C: float
    W_hbm: float
    W: float


@formula
def kernel_errors(rows: Sequence[MeasuredLayer], shares: KernelShares) -> list[float]:
    """Predicted over measured, less 1, of each row."""
    return [kernel_seconds(x.work, shares, x.C, x.W_hbm, x.W) / x.seconds - 1 for x in rows]


@formula
def fitted_shares(rows: Sequence[MeasuredLayer]) -> KernelShares:
    """Start and shares with the least squares of log(predicted / measured), by steps that are halved until they are below 0.1 %.

    A rate that decides in no row keeps its share at 1.
    """
    badness = lambda shares: sum(log(1 + e) ** 2 for e in kernel_errors(rows, shares))  # noqa: E731
    best, factor = KernelShares(min(x.seconds for x in rows) / 2, 1.0, 1.0, 1.0), 2.0
    lowest = badness(best)
    while factor > 1.001:
        steps = [(name, x * by) for name, x in vars(best).items() for by in (factor, 1 / factor)]
        tried = [replace(best, **{name: x}) for name, x in steps]
        better = min((s for s in tried if max(s.memory, s.arithmetic, s.links) <= 1), key=badness)
        if badness(better) < lowest:
            best, lowest = better, badness(better)
        else:
            factor = factor**0.5
    return best


# The exchange in a step.


@formula
def half_batches(weights, caches, arithmetic, exchange):
    """(seconds of a decode step with no overlap, seconds of two half batches, of which one computes while the other's tokens travel).

    Each half reads the weights, and caches of its own: it pays where the exchange takes longer than reading the weights once more.

    >>> [round(s, 1) for s in half_batches(6.6, 4.6, 10.8, 22.1)]                          # DeepSeek-V3, 88 sequences, ms
    [44.1, 28.6]
    """
    return weights + caches + arithmetic + exchange, maximum(2 * weights + caches + arithmetic, exchange)


# Attention beside experts.


@formula
def cached_tokens(n: Count, hbm_bytes, expert_bytes, other_bytes, cache_bytes) -> tuple[float, float]:
    """Tokens whose caches n devices hold: with attention data-parallel, and with tp, where each device has every cache.

    hbm_bytes                  bytes of one device
    expert_bytes, other_bytes  bytes of all routed experts, and of everything else

    >>> [round(x / 1e6, 1) for x in cached_tokens(8, 0.9 * 1.41e11, 6.56e11, 1.61e10, 35136)]
    [6.6, 1.2]
    """
    left = hbm_bytes - expert_bytes / n
    return n * (left - other_bytes) / cache_bytes, (left - other_bytes / n) / cache_bytes
