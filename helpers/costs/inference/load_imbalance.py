"""Imbalance: the fullest device's tokens over the mean, and what chance alone makes of it where routing is uniform (chapter 5).

Devices that work on one pass wait for the one that has most to do. So a pass takes as many times its even share as this says,
where tokens decide its time; where weights are read for few tokens it does not matter.

Source: tokens that go to k of E experts at random have a hypergeometric distribution on each device; the largest of many nearly
normal numbers is the usual order statistic (David and Nagaraja, "Order Statistics", 2003).
"""

from collections.abc import Sequence
from math import erf, sqrt
from random import Random

from helpers.arguments import Count, entries


def imbalance(tokens: Sequence[float]) -> float:
    """The fullest device's tokens over the mean of all: 1 if even, the number of devices if one has them all.

    >>> imbalance([10, 30, 20, 20]), imbalance([5, 5]), imbalance([0, 0, 9])
    (1.5, 1.0, 3.0)
    """
    if not len(tokens) or sum(tokens) <= 0:
        raise ValueError(f"imbalance is of devices that have tokens, not of {list(tokens)}")
    return max(tokens) * len(tokens) / sum(tokens)


def routed(tokens: Count, E: Count, k: Count, devices: Count, seed: int = 0) -> tuple[int, ...]:
    """Rows on each device when every token goes to k experts at random, E/devices of which lie on each; a draw by the seed.

    >>> routed(64, E=16, k=2, devices=4, seed=1), sum(routed(64, 16, 2, 4))
    ((25, 41, 30, 32), 128)
    """
    each, draw, on = _experts(E, k, devices), Random(seed), [0] * devices
    for _ in range(tokens):
        for expert in draw.sample(range(E), k):
            on[expert // each] += 1
    return tuple(on)


def expected_imbalance(tokens: Count, E: Count, k: Count, devices: Count) -> float:
    """Mean imbalance of `routed`, if each device's rows are many enough to be nearly normal.

    A token has k/n of its rows on one of n devices on the average, with the hypergeometric variance
    k (1/n) (1 - 1/n) (E - k) / (E - 1); tokens add up. The rows of all devices add up to a fixed number, so the fullest has
    sqrt(n/(n - 1)) standard deviations more than the mean for each of those that the largest of n normal numbers has. With 8
    rows a device it is a few per cent too little.

    >>> [round(expected_imbalance(B, 256, 8, 32), 2) for B in (64, 1024, 16384)]         # DeepSeek-V3's experts on 32 devices
    [1.51, 1.13, 1.03]
    """
    _experts(E, k, devices)
    if devices == 1 or k == E:
        return 1.0
    variance = tokens * k / devices * (1 - 1 / devices) * (E - k) / (E - 1)
    mean = tokens * k / devices
    return 1 + sqrt(variance * devices / (devices - 1)) * largest_normal(devices) / mean


def largest_normal(n: Count) -> float:
    """Mean of the largest of n independent standard normal numbers: the integral of 1 - F^n above 0, less that of F^n below.

    >>> [round(largest_normal(n), 3) for n in (1, 2, 10, 100)]                  # 0, 1/sqrt(pi), and as in tables
    [0.0, 0.564, 1.539, 2.508]
    """
    steps, end, total = 4000, 10.0, 0.0
    for i in range(steps):
        x = (i + 0.5) * end / steps
        half = erf(x / sqrt(2)) / 2
        total += 1 - (0.5 + half) ** n - (0.5 - half) ** n
    return total * end / steps


def _experts(E: int, k: int, devices: int) -> int:
    """Experts of one device."""
    if k > E or E % devices:
        raise ValueError(
            f"a token goes to k of E experts, of which each device has as many: not k={k}, E={E}, {devices} devices"
        )
    return E // devices


entries(__name__)
