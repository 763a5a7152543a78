"""Seconds of attention on one device, variant beside variant (chapter 6).

Source: Shah et al., "FlashAttention-3" (2024), for what overlaps and for the rate of exponentials.
"""

from dataclasses import dataclass, replace

from helpers.arguments import Count, entries
from helpers.costs.rooflines.roofline import Time
from helpers.numeric import maximum, minimum

from .flops_and_bytes import Attention, Pass, chunked, flash, fused, naive
from .io_complexity import Layout, largest_block
from .linear_attention import linear


@dataclass(frozen=True)
class Rates:
    """What a device does in a second: FLOPs of products, bytes of HBM, exponentials, other FLOPs, bytes over its link one way.

    hop  seconds that a send takes at least
    """

    C: float
    W: float
    exps: float = float("inf")
    other: float = float("inf")
    link: float = float("inf")
    hop: float = 0.0


def exp_rate(cores, clock, each=16):
    """Exponentials a second of `cores` SMs that do `each` in a clock: 16 for the special-function units of A100, H100 (and H200,
    whose SMs are the same) and B200.

    Source: CUDA C++ Programming Guide, arithmetic throughput; Shah et al. (2024) have 3.9e12 for the H100; Zadouri et al.,
    "FlashAttention-4" (2026), for B200.

    >>> f"{exp_rate(132, 1.83e9):.3g}"
    '3.86e+12'
    """
    return cores * clock * each


def seconds(p: Pass, at: Rates) -> Time:
    """Seconds of a pass, resource by resource.

    `lower` has all at once: where products and exponentials overlap, as in Flash 3. `upper` has one thing at a time.

    >>> h100 = Rates(9.89e14, 3.35e12, exp_rate(132, 1.83e9))
    >>> t = seconds(flash(Attention(8192, N=16, causal=False), 128, rows=1024), h100)
    >>> t.bound, round(t.parts["exps"] / t.math, 2)
    ('math', 0.5)
    """
    return Time(
        {
            "math": p.flops / at.C,
            "hbm": p.bytes / at.W,
            "exps": p.exps / at.exps,
            "other": p.other / at.other,
            "link": maximum(p.sent / at.link, p.hops * at.hop),
        }
    )


def exp_share(H, C, exps, products=2):
    """Seconds of exponentials for each second of products, of blocks with heads of H: C / exps for each 2·products·H FLOPs.

    >>> round(exp_share(128, 9.89e14, 3.9e12), 2), round(exp_share(64, 9.89e14, 3.9e12), 2)      # H100 in bf16
    (0.5, 0.99)
    """
    return C / exps / (2 * products * H)


def in_turn(p: Pass, at: Rates):
    """Seconds at least if products, exponentials and the rest take turns, all beside HBM's traffic: what Flash 3 improves on.

    Kernels that follow one another, as in `naive`, take no less.

    >>> h100 = Rates(9.89e14, 3.35e12, exp_rate(132, 1.83e9))
    >>> p = flash(Attention(8192, N=16, causal=False), 128, rows=1024)
    >>> round(in_turn(p, h100) / seconds(p, h100).lower, 2)
    1.5
    """
    t = seconds(p, at).parts
    return maximum(t["hbm"], t["link"], t["math"] + t["exps"] + t["other"])


def variants(a: Attention, M, C: Count = 256, window=None, keep=4) -> dict[str, Pass]:
    """Forward passes side by side on one device whose fast memory has M bytes.

    C       queries of a chunk of `chunked`; blocks of Flash are the largest that fit (`io_complexity.largest_block`), 16 at least;
            versions 2 and 3 compute at most 512 by 512 of one at a time
    window  adds Flash 2 with a window of that many keys and `keep` sinks

    `linear` is another function of Q, K and V, with as many features as H.

    >>> {name: f"{p.bytes / 1e9:.2f}" for name, p in variants(Attention(16384, N=8), 2**20).items()}
    {'naive': '60.26', 'fused': '34.49', 'chunked': '19.70', 'flash1': '3.05', 'flash2': '2.02', 'flash3': '2.02', 'linear': '0.14'}
    """
    b = maximum(largest_block(M, a.H, Layout(a.x, a.s)), 16)
    small = minimum(b, 512)  # a large block on the chip is worked on in parts, so that few masked pairs are computed
    out = {
        "naive": naive(a),
        "fused": fused(a),
        "chunked": chunked(a, minimum(C, a.T)),
        "flash1": flash(a, b, 1),
        "flash2": flash(a, small, rows=b),
        "flash3": flash(a, small, 3, rows=b),
        "linear": linear(a),
    }
    if window is not None:
        near = replace(a, window=window, keep=keep)
        out["window"] = flash(near, small, rows=b)
    return out


def compared(a: Attention, M, at: Rates, C=256, window=None, keep=4) -> dict[str, float]:
    """Bytes, seconds and footprint of each of `variants` under plain names, for a live figure: naive_bytes, naive_seconds, …

    Seconds are `in_turn`, of flash3 those with everything at once.

    >>> v5e = Rates(1.97e14, 8.1e11)
    >>> found = compared(Attention(16384, N=8), 2**27, v5e)
    >>> [round(1e3 * found[name + "_seconds"], 1) for name in ("naive", "fused", "chunked", "flash2")]
    [74.4, 42.6, 24.3, 2.9]
    """
    out = {}
    for name, p in variants(a, M, C, window, keep).items():
        took = seconds(p, at).lower if name == "flash3" else in_turn(p, at)
        out |= {f"{name}_bytes": p.bytes, f"{name}_seconds": took, f"{name}_held": p.held}
    return out


entries(__name__)
