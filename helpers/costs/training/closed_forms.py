"""Closed forms of the sources: memory under ZeRO, gradients that add up over microbatches, tokens on their way to experts (chapter 4).

Gradient accumulation: a batch goes through in m microbatches, whose gradients add up before one update.
Activations of one microbatch are kept at a time, which is why it is done. But what is sent for each of them is sent m times:

                            for each microbatch            once in a step                  gradients held
    DP                      AllReduce of gradients         -                               whole
    DP, summed once         -                              AllReduce                       whole
    ZeRO-1                  -                              ReduceScatter, AllGather        whole
    ZeRO-2                  ReduceScatter                  AllGather of weights            1/X
    FSDP                    2 AllGathers, ReduceScatter    -                               1/X
    FSDP, scattered once    2 AllGathers                   ReduceScatter                   whole

So FSDP is bound by arithmetic if the tokens of a chip in EACH microbatch exceed alpha/M: `dp_fsdp_tp.data_batch`. The last row
sends less, for gradients that are whole; its forward pass still gathers for each microbatch, so its threshold is the same.

Source: Rajbhandari et al., "ZeRO" (2020), section 7; the two ways of FSDP are those of PyTorch's FSDP2,
`set_requires_gradient_sync`.

Expert parallelism: tokens travel to their experts and back, and an expert must be wide enough to hide that.
n devices share the batch and the experts. Of each of its t tokens a device sends k copies of D numbers, one for each expert that
the token meets, and gets k results of D numbers back: two AllToAlls. An expert has 3 matrices of D·F numbers (2 without a
gate), so

    T_math  = 2·matrices · t·k·D·F / C          forward; backward twice that, and two AllToAlls again
    T_comms = 2 · x · t·k·D · (1 - 1/n) / W     x bytes a number; a share of 1/n has its expert at home

t, k and D cancel: no batch helps, and a step is bound by arithmetic if F > x·(1 - 1/n)/matrices · C/W, in bf16 with a gate
(2/3)·(1 - 1/n)·C/W. Backward, and in a whole step, half and two thirds of that are enough: forward is the strictest.

Assumed: routing is even, or padded to a capacity, whose empty places are sent and multiplied alike and cancel. Every choice is
sent by itself, also if two experts of a token live on one device. Nothing else hides the AllToAlls: attention, shared experts
or another microbatch may. Experts are bound by arithmetic and not by memory: `shares_and_thresholds.moe_critical_batch`.

Source: derived here; Lepikhin et al., "GShard" (2020) for the two AllToAlls.
"""

from math import inf

from helpers.arguments import Count, formula, record
from helpers.numeric import floor, where

from .layout import BF16, Bytes


@formula
def zero_memory(P, X, zero: int, sizes: Bytes = BF16):
    """Bytes of weights, gradients and optimizer state on one of X devices that share them by ZeRO-1, 2 or 3.

    sizes  what a number takes: `layout.MASTER` with a master copy of the weights, which is state and shared as that is

    >>> from helpers.costs.training.layout import MASTER
    >>> sum(zero_memory(1, 1, 0)), sum(zero_memory(1, 1, 0, MASTER))           # bytes of a parameter, without and with it
    (12.0, 16.0)
    >>> [tuple(round(b / 1e9, 1) for b in zero_memory(13e9, 64, z)) for z in range(4)]
    [(26.0, 26.0, 104.0), (26.0, 26.0, 1.6), (26.0, 0.4, 1.6), (0.4, 0.4, 1.6)]
    """
    if zero not in (0, 1, 2, 3):
        raise ValueError(f"zero is 0, 1, 2 or 3, not {zero!r}")
    stages = ((sizes.weight, 3), (sizes.gradient, 2), (sizes.state, 1))
    return tuple(size * P / (X if zero >= stage else 1) for size, stage in stages)


@formula
def largest_model(hbm_bytes, bytes_each=10):
    """Parameters that data parallelism can hold on a chip, with bytes for each: bf16 weights and Adam's moments make 2 + 8.

    The source's ten have no gradients (2 more) and no master copy (4 more): a limit that no run in bf16 reaches. With these
    it is 16; activations come on top.

    >>> largest_model(96e9), largest_model(96e9, 16)
    (9600000000.0, 6000000000.0)
    """
    return hbm_bytes / bytes_each


@formula
def three_checkpoints(B, D, F, L, bytes_each=2):
    """Bytes kept of B tokens if each layer keeps the results of three products, two of F numbers and one of D.

    >>> f"{three_checkpoints(16e6, 5120, 13824, 40):.3g} {three_checkpoints(3e6, 5120, 13824, 40):.4g}"   # LLaMA-2 13B
    '4.19e+13 7.864e+12'
    """
    return bytes_each * L * B * (D + 2 * F)


@record
class Way:
    """How often all of a layer's weights are gathered and all of its gradients scattered; an AllReduce is one of each.

    micro  (gathers, scatters) for each microbatch
    step   (gathers, scatters) once in a step
    cut    each of X devices holds 1/X of the summed gradients
    """

    micro: tuple[int, int]
    step: tuple[int, int]
    cut: bool


WAYS = {
    "DP": Way((1, 1), (0, 0), False),
    "DP, summed once": Way((0, 0), (1, 1), False),
    "ZeRO-1": Way((0, 0), (1, 1), False),
    "ZeRO-2": Way((0, 1), (1, 0), True),
    "FSDP": Way((2, 1), (0, 0), True),
    "FSDP, scattered once": Way((2, 0), (0, 1), False),
}


@formula
def accumulation_bytes(strategy: str, microbatches: Count, D, F, bytes_each=2):
    """Bytes that a step of a layer sends for weights and gradients, as the strategy table counts: each gather or scatter of
    W_in[D, F] and W_out[F, D] is 2·D·F numbers.

    >>> [accumulation_bytes(way, 1, 1, 1) for way in WAYS]
    [8, 8, 8, 8, 12, 12]
    >>> [accumulation_bytes(way, 8, 1, 1) for way in WAYS]
    [64, 8, 8, 36, 96, 68]
    """
    if strategy not in WAYS:
        raise ValueError(f"{strategy!r} is no way to add gradients up: there are {', '.join(WAYS)}")
    return (microbatches * sum(WAYS[strategy].micro) + sum(WAYS[strategy].step)) * 2 * D * F * bytes_each


@formula
def expert_bytes(tokens, D, k, n=inf, bytes_each=2):
    """Bytes that a device sends of its tokens in the two AllToAlls of a forward pass over n devices.

    >>> expert_bytes(1, D=7168, k=8), expert_bytes(1, D=7168, k=8, n=8)
    (229376.0, 200704.0)
    """
    return 2 * bytes_each * tokens * k * D * (1 - 1 / n)


@formula
def expert_ratio(F, alpha, n=inf, matrices=3, bytes_each=2):
    """T_math / T_comms of experts of F behind a switch: neither batch, k nor D matters. As in `expert_width`.

    >>> f"{expert_ratio(2048, 9.89e14 / 5e10):.3f}"
    '0.155'
    """
    return F / expert_width(alpha, n, matrices, bytes_each)


@formula
def expert_width(alpha, n=inf, matrices=3, bytes_each=2):
    """The least F of an expert that keeps its two AllToAlls shorter than its arithmetic, behind a switch or on a network.

    alpha       C/W of what each device sends, in ONE direction, while as much comes in
    n           devices that share the experts
    bytes_each  mean of the way there and the way back: 1.5 for fp8 there and bf16 back

    >>> round(expert_width(9.89e14 / 5e10)), round(expert_width(9.89e14 / 4.5e11, n=8))      # H100: network, NVSwitch
    (13187, 1282)
    """
    return bytes_each * (1 - 1 / n) * alpha / matrices


@formula
def expert_width_on_rings(alpha, n, is_ring=True, matrices=3, bytes_each=2):
    """The same on a torus, all of whose axes carry at once; the longest axis decides.

    A choice travels n/4 hops of a ring of even n, and there are two links for each device, so a link carries n/8 of what a
    device sends: T_comms grows with the ring. In bf16 with a gate F > n·alpha/6, on a line twice that.

    alpha    C/(2W) of one axis, W one link in one direction: `Chip.alpha_ici()`
    n        chips of the longest axis
    is_ring  whether that is a ring

    >>> [expert_width_on_rings(2550, n) for n in (4, 8, 16)], expert_width_on_rings(2550, 4, is_ring=False)    # v5p
    ([1700.0, 3400.0, 6800.0], 3400.0)
    """
    ring = (n > 2) & is_ring  # two chips have one link
    pairs = where(ring, (n * n - n % 2) / 8, floor(n / 2) * (n - floor(n / 2)))  # that cross the busiest link
    return bytes_each * pairs / n * 2 * alpha / matrices
