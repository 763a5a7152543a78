"""Gradient accumulation: a batch goes through in m microbatches, whose gradients add up before one update (chapter 4).

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
"""

from dataclasses import dataclass

from helpers.arguments import Count, entries


@dataclass(frozen=True)
class Way:
    """How often all of a layer's weights are gathered and all of its gradients scattered; an AllReduce is one of each.

    each   (gathers, scatters) for each microbatch
    once   (gathers, scatters) in a step
    cut    each of X devices holds 1/X of the summed gradients
    """

    each: tuple[int, int]
    once: tuple[int, int]
    cut: bool


WAYS = {
    "DP": Way((1, 1), (0, 0), False),
    "DP, summed once": Way((0, 0), (1, 1), False),
    "ZeRO-1": Way((0, 0), (1, 1), False),
    "ZeRO-2": Way((0, 1), (1, 0), True),
    "FSDP": Way((2, 1), (0, 0), True),
    "FSDP, scattered once": Way((2, 0), (0, 1), False),
}


def _way(name: str) -> Way:
    if name not in WAYS:
        raise ValueError(f"{name!r} is no way to add gradients up: there are {', '.join(WAYS)}")
    return WAYS[name]


def accumulation_bytes(way: str, micro: Count, D, F, bytes_each=2):
    """Bytes that a step of a layer sends for weights and gradients, as the strategy table counts: each gather or scatter of
    W_in[D, F] and W_out[F, D] is 2·D·F numbers.

    >>> [accumulation_bytes(way, 1, 1, 1) for way in WAYS]
    [8, 8, 8, 8, 12, 12]
    >>> [accumulation_bytes(way, 8, 1, 1) for way in WAYS]
    [64, 8, 8, 36, 96, 68]
    """
    how = _way(way)
    return (micro * sum(how.each) + sum(how.once)) * 2 * D * F * bytes_each


def accumulated_gradients(way: str, P, X, bytes_each=4):
    """Bytes on one of X devices of the gradients of P parameters, which add up in float32.

    >>> [accumulated_gradients(way, 13e9, 64) / 1e9 for way in ("FSDP", "FSDP, scattered once")]
    [0.8125, 52.0]
    """
    return bytes_each * P / (X if _way(way).cut else 1)


entries(__name__)
