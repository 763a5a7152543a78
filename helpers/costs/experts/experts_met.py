"""Experts that a batch meets, and what a layer of them takes in decoding: weights read, arithmetic, exchange (chapter 8).

Experts met evenly are `costs.inference.serving_operations.met`; here some are chosen more often than others.

Source: derived here; tests hold it against DeepGEMM pull request 316 and vLLM pull request 13932.
"""

from collections.abc import Sequence
from math import exp, lgamma

from helpers.arguments import Count, formula, record
from helpers.costs.training.closed_forms import expert_bytes
from helpers.numeric import ceil, log


@formula
def popularity(weights: Sequence[float], k: Count) -> tuple[float, ...]:
    """Probability that a token goes to each expert, k in the sum, in proportion to weights; none above 1.

    >>> popularity([4.0, 1.0, 1.0, 2.0], 2)
    (1.0, 0.25, 0.25, 0.5)
    """
    if sum(w > 0 for w in weights) < k:
        raise ValueError(f"a token goes to k={k} different experts: give as many weights above 0, or more")
    certain: set[int] = set()
    while True:
        rest = [(e, w) for e, w in enumerate(weights) if e not in certain]
        scale = (k - len(certain)) / (sum(w for _, w in rest) or 1.0)
        above = {e for e, w in rest if w * scale > 1}
        if not above:
            return tuple(1.0 if e in certain else w * scale for e, w in enumerate(weights))
        certain |= above


@formula
def met_unevenly(probabilities: Sequence[float], tokens):
    """Experts that some of so many tokens goes to, if each goes to expert e with probabilities[e]: fewer than evenly.

    >>> round(met_unevenly([8 / 256] * 256, 32)), round(met_unevenly(popularity([(1 + e) ** -0.5 for e in range(256)], 8), 32))
    (163, 147)
    """
    if not all(0 <= p <= 1 for p in probabilities):
        raise ValueError("chances are probabilities, from 0 to 1 each: those of an expert to be chosen by a token")
    return sum(1 - (1 - p) ** tokens for p in probabilities)


# One layer of decoding.


@record
class ExpertSeconds:
    """Seconds of a device's experts: weights are read, rows are multiplied, copies are sent; the longest decides."""

    weights: float
    arithmetic: float
    exchange: float


@formula
def expert_seconds(t, experts, D, F, k, C, W_hbm, W, n, weight=1, dispatch=1, combine=2, matrices=3) -> ExpertSeconds:
    """Of one layer, with t tokens of each of n devices.

    experts  those of a device that are read: all E/n of it, or those that are met
    W        bytes/s of a device's links one way, or of its card where copies go over it
    weight   bytes of a number of the weights

    >>> x = expert_seconds(88, 2, 7168, 2048, 8, 1.979e15, 3.35e12, 5e10, 144)                   # DeepSeek-V3, hosts of H800
    >>> [round(s * 1e6, 1) for s in (x.weights, x.arithmetic, x.exchange)]
    [26.3, 31.3, 300.7]
    """
    return ExpertSeconds(
        weights=experts * matrices * D * F * weight / W_hbm,
        arithmetic=2 * matrices * t * k * D * F / C,
        exchange=expert_bytes(t, D, k, n, (dispatch + combine) / 2) / W,
    )


@record
class Crossings:
    """Tokens of a device from which arithmetic, and the exchange, take longer than reading weights; and the least F with which
    arithmetic takes longer than the exchange, whatever the tokens.
    """

    arithmetic: float
    exchange: float
    F: float


@formula
def crossings(experts, F, k, C, W_hbm, W, n, weight=1, dispatch=1, combine=2, matrices=3) -> Crossings:
    """Which of a decode step's three times decides from how many tokens on; D cancels.

    >>> x = crossings(4, 2048, 8, 5e15, 8e12, 9e11, 64)                                        # DeepSeek-V3 on 64 GB200 of a rack
    >>> round(x.arithmetic), round(x.exchange), round(x.F)
    (156, 117, 2734)
    """
    one = expert_seconds(1, experts, 1, F, k, C, W_hbm, W, n, weight, dispatch, combine, matrices)
    return Crossings(one.weights / one.arithmetic, one.weights / one.exchange, F * one.exchange / one.arithmetic)


# Ragged products: a few rows for each expert.


@formula
def row_bytes(D, F, arrives=1, between=1, leaves=2):
    """Bytes that an expert reads and writes for each row: D that arrive, F written and read between the products, D that leave."""
    return D * arrives + 2 * F * between + D * leaves


@formula
def ragged_intensity(rows, D, F, weight=1, matrices=3):
    """FLOPs for each byte of an expert's products with so many rows, which are in fp8, and their results in bf16.

    >>> round(ragged_intensity(350, 7168, 2048))
    582
    """
    return 2 * matrices * rows * D * F / (matrices * D * F * weight + rows * row_bytes(D, F))


@formula
def compute_bound_rows(D, F, C, W_hbm, weight=1, matrices=3):
    """Rows from which an expert's products are compute-bound: more than C·weight/(2·W_hbm), for rows are read and written.

    >>> round(compute_bound_rows(7168, 2048, 1.979e15, 3.35e12)), round(1.979e15 / 3.35e12 / 2)
    (357, 295)
    """
    left = 2 * matrices * D * F * W_hbm / C - row_bytes(D, F)
    return matrices * D * F * weight / left


@formula
def padding(rows: float, tile: Count = 64) -> float:
    """Rows that are multiplied over rows that are there, if an expert has `rows` in the mean, by chance, in whole tiles.

    Exactly, over a Poisson distribution: the mean of tile·ceil(n/tile), over the mean of n.

    >>> [round(padding(rows), 2) for rows in (8, 32, 64, 350)]
    [8.0, 2.0, 1.47, 1.09]
    >>> round(padding(100_000), 4)                  # half a tile of an expert's last one is empty in the mean
    1.0003
    """
    # In logarithms, since exp(-rows) is 0 from 746 rows on; beyond twelve deviations of the mean nothing is left to add.
    spread = 12 * rows**0.5 + 50
    counts = range(max(1, int(rows - spread)), int(rows + spread))
    return tile * sum(exp(n * log(rows) - rows - lgamma(n + 1)) * ceil(n / tile) for n in counts) / rows
