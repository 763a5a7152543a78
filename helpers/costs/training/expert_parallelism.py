"""Expert parallelism: tokens travel to their experts and back, and how wide an expert must be to hide that (chapter 4).

n devices share the batch and the experts. Of each of its t tokens a device sends k copies of D numbers, one for each expert that
the token meets, and gets k results of D numbers back: two AllToAlls. An expert has 3 matrices of D·F numbers (2 without a
gate), so

    T_math  = 2·matrices · t·k·D·F / C          forward; backward twice that, and two AllToAlls again
    T_comms = 2 · x · t·k·D · (1 - 1/n) / W     x bytes a number; a share of 1/n has its expert at home

t, k and D cancel: no batch helps, and a step is bound by arithmetic if F > x·(1 - 1/n)/matrices · C/W, in bf16 with a gate
(2/3)·(1 - 1/n)·C/W. Backward, and in a whole step, half and two thirds of that are enough: forward is the strictest.

Assumed: routing is even, or padded to a capacity, whose empty places are sent and multiplied alike and cancel. Every choice is
sent by itself, also if two experts of a token live on one device. Nothing else hides the AllToAlls: attention, shared experts
or another microbatch may. Experts are bound by arithmetic and not by memory: `moe_batch_and_capacity.moe_critical_batch`.

Source: derived here; Lepikhin et al., "GShard" (2020) for the two AllToAlls.
"""

from math import inf

from helpers.arguments import entries
from helpers.numeric import floor, where


def expert_flops(tokens, D, F, k, matrices=3):
    """FLOPs of the experts that these tokens meet, forward; two more for each in the backward pass.

    >>> expert_flops(1, D=7168, F=2048, k=8) / 1e6                       # DeepSeek-V3, a token and layer
    704.643072
    """
    return 2 * matrices * tokens * k * D * F


def expert_bytes(tokens, D, k, n=inf, bytes_each=2):
    """Bytes that a device sends of its tokens in the two AllToAlls of a forward pass over n devices.

    >>> expert_bytes(1, D=7168, k=8), expert_bytes(1, D=7168, k=8, n=8)
    (229376.0, 200704.0)
    """
    return 2 * bytes_each * tokens * k * D * (1 - 1 / n)


def expert_ratio(F, alpha, n=inf, matrices=3, bytes_each=2):
    """T_math / T_comms of experts of F behind a switch: neither batch, k nor D matters. As in `expert_width`.

    >>> f"{expert_ratio(2048, 9.89e14 / 5e10):.3f}"
    '0.155'
    """
    return F / expert_width(alpha, n, matrices, bytes_each)


def expert_width(alpha, n=inf, matrices=3, bytes_each=2):
    """The least F of an expert that keeps its two AllToAlls shorter than its arithmetic, behind a switch or on a network.

    alpha       C/W of what each device sends, in ONE direction, while as much comes in
    n           devices that share the experts
    bytes_each  mean of the way there and the way back: 1.5 for fp8 there and bf16 back

    >>> round(expert_width(9.89e14 / 5e10)), round(expert_width(9.89e14 / 4.5e11, n=8))      # H100: network, NVSwitch
    (13187, 1282)
    """
    return bytes_each * (1 - 1 / n) * alpha / matrices


def expert_width_on_rings(alpha, n, wraps=True, matrices=3, bytes_each=2):
    """The same on a torus, all of whose axes carry at once; the longest axis decides.

    A choice travels n/4 hops of a ring of even n, and there are two links for each device, so a link carries n/8 of what a
    device sends: T_comms grows with the ring. In bf16 with a gate F > n·alpha/6, on a line twice that.

    alpha  C/(2W) of one axis, W one link in one direction: `Chip.alpha_ici()`
    n      chips of the longest axis
    wraps  whether that is a ring

    >>> [expert_width_on_rings(2550, n) for n in (4, 8, 16)], expert_width_on_rings(2550, 4, wraps=False)    # v5p
    ([1700.0, 3400.0, 6800.0], 3400.0)
    """
    ring = (n > 2) & wraps  # two chips have one link
    pairs = where(ring, (n * n - n % 2) / 8, floor(n / 2) * (n - floor(n / 2)))  # that cross the busiest link
    return bytes_each * pairs / n * 2 * alpha / matrices


entries(__name__)
