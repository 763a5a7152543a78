"""Mixture of experts: the batch at which experts become compute-bound, and the capacity of each (chapter 3).

Source: Austin et al. 2025, Section 4.
"""

from helpers.arguments import entries
from helpers.numeric import ceil_near


def moe_critical_batch(E, k, alpha, bytes_each=2):
    """Tokens at which experts become compute-bound: all E are read, each token multiplies with k of them.

    alpha  C/W of the type that the arithmetic runs in, whatever the weights are stored in

    >>> moe_critical_batch(256, 8, 240, bytes_each=1), moe_critical_batch(16, 2, 240)     # DeepSeek-V3 in int8
    (3840.0, 1920.0)
    """
    return bytes_each / 2 * alpha * E / k


def capacity(tokens, E, k, factor=1.0):
    """Places that each expert has for tokens; what is routed to it beyond these is dropped.

    factor  1: just enough if routing is even; E/k: enough whatever the routing

    >>> capacity(1024, 8, 2), capacity(1024, 8, 2, 1.25), capacity(1024, 8, 2, 8 / 2)
    (256, 320, 1024)
    >>> capacity(50, 5, 1, 1.1)                         # 11.000000000000002 in floats
    11
    """
    return ceil_near(factor * tokens * k / E)


entries(__name__)
