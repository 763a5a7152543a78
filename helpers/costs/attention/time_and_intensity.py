"""Seconds of attention on one device, variant beside variant, and intensities of whole layers: MHA, GQA and MQA (chapter 6).

Intensities of layers, projections included, are counted as the sources do: one for each multiply-add, one for each number, and
neither the number of matrices nor of vectors, so what holds is the shape of a curve and its limit. D = N·H is the width of the
model; K KV heads, N of them for MHA, one for MQA. `layer_intensity` counts all of it, in FLOPs per byte.

Source: Shah et al., "FlashAttention-3" (2024), for what overlaps and for the rate of exponentials; Shazeer, "Fast Transformer
Decoding: One Write-Head is All You Need" (2019); Ainslie et al., "GQA" (2023). Errors of the course's sources, GPT-3's limits
among them, are listed in its errata (E004).
"""

from dataclasses import replace

from helpers.arguments import Count, formula, record
from helpers.costs.rooflines.roofline import Time
from helpers.numeric import maximum, minimum, plain

from .flops_and_bytes import Attention, Pass, chunked, flash, fused, naive
from .io_complexity import Layout, largest_block
from .linear_attention import linear


@record
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


@formula
def exp_rate(cores, clock, exps_per_clock=16):
    """Exponentials a second of `cores` SMs that do `exps_per_clock` in a clock: 16 for the special-function units of A100, H100 (and H200,
    whose SMs are the same) and B200.

    Source: CUDA C++ Programming Guide, arithmetic throughput; Shah et al. (2024) have 3.9e12 for the H100; Zadouri et al.,
    "FlashAttention-4" (2026), for B200.

    >>> f"{exp_rate(132, 1.83e9):.3g}"
    '3.86e+12'
    """
    return cores * clock * exps_per_clock


@formula
def seconds(work: Pass, rates: Rates) -> Time:
    """Seconds of a pass, resource by resource.

    `lower` has all at once: where products and exponentials overlap, as in Flash 3. `upper` has one thing at a time.

    >>> h100 = Rates(9.89e14, 3.35e12, exp_rate(132, 1.83e9))
    >>> t = seconds(flash(Attention(8192, N=16, causal=False), 128, rows=1024), h100)
    >>> t.bound, round(t.parts["exps"] / t.math, 2)
    ('math', 0.5)
    """
    return Time(
        {
            "math": work.flops / rates.C,
            "hbm": work.bytes / rates.W,
            "exps": work.exps / rates.exps,
            "other": work.other / rates.other,
            "link": maximum(work.sent / rates.link, work.hops * rates.hop),
        }
    )


@formula
def exp_share(H, C, exp_rate, products=2):
    """Seconds of exponentials for each second of products, of blocks with heads of H: C / exp_rate for each 2·products·H FLOPs.

    >>> round(exp_share(128, 9.89e14, 3.9e12), 2), round(exp_share(64, 9.89e14, 3.9e12), 2)      # H100 in bf16
    (0.5, 0.99)
    """
    return C / exp_rate / (2 * products * H)


@formula
def in_turn(work: Pass, rates: Rates):
    """Seconds at least if products, exponentials and the rest take turns, all beside HBM's traffic: what Flash 3 improves on.

    Kernels that follow one another, as in `naive`, take no less.

    >>> h100 = Rates(9.89e14, 3.35e12, exp_rate(132, 1.83e9))
    >>> p = flash(Attention(8192, N=16, causal=False), 128, rows=1024)
    >>> round(in_turn(p, h100) / seconds(p, h100).lower, 2)
    1.5
    """
    t = seconds(work, rates).parts
    return maximum(t["hbm"], t["link"], t["math"] + t["exps"] + t["other"])


@formula
def variants(attn: Attention, fast_bytes, C: Count = 256, window=None, sink_tokens=4, sharing=1) -> dict[str, Pass]:
    """Forward passes side by side on one device whose fast memory has `fast_bytes`.

    C        queries of a chunk of `chunked`; blocks of Flash are the largest that fit (`io_complexity.largest_block`), 16 at least;
             versions 2 and 3 compute at most 512 by 512 of one at a time
    window   adds Flash 2 with a window of that many keys and `sink_tokens` sinks
    sharing  blocks of queries that share what is read of K and V, in versions 2 and 3: on a GPU, through its cache

    `linear` is another function of Q, K and V, with as many features as H.

    >>> {name: f"{p.bytes / 1e9:.2f}" for name, p in variants(Attention(16384, N=8), 2**20).items()}
    {'naive': '60.26', 'fused': '34.49', 'chunked': '19.70', 'flash1': '3.05', 'flash2': '2.02', 'flash3': '2.02', 'linear': '0.14'}
    """
    b = maximum(largest_block(fast_bytes, attn.H, Layout(attn.x, attn.s)), 16)
    rows = b * sharing
    small = minimum(b, 512)  # a large block on the chip is worked on in parts, so that few masked pairs are computed
    out = {
        "naive": naive(attn),
        "fused": fused(attn),
        "chunked": chunked(attn, minimum(C, attn.T)),
        "flash1": flash(attn, b, 1),
        "flash2": flash(attn, small, rows=rows),
        "flash3": flash(attn, small, 3, rows=rows),
        "linear": linear(attn),
    }
    if window is not None:
        near = replace(attn, window=window, keep=sink_tokens)
        out["window"] = flash(near, small, rows=rows)
    return out


@formula
def prefill_intensity(L, D, N):
    """(L²D + LD²) / (L²N + LD + D²): L tokens; scores pass through memory. Whatever K, since K and V are small beside them.

    >>> [round(prefill_intensity(L, 12288, 96)) for L in (128, 2048, 10**9)]                # GPT-3
    [127, 623, 128]
    """
    return (L * L * D + L * D * D) / (L * L * N + L * D + D * D)


@formula
def decode_intensity(keys, D, N, K=None, B=1):
    """FLOPs per byte of one token of each of B sequences, which sees L = `keys` in K of N heads: (LD + D²) / (LDK/N + LN + D²/B).

    >>> [round(decode_intensity(4096, 12288, 96, K), 3) for K in (96, 8, 1)]                # GPT-3: MHA, GQA, MQA
    [0.998, 1.294, 1.325]
    """
    K = N if K is None else K
    return (keys * D + D * D) / (keys * D * K / N + keys * N + D * D / B)


@formula
def decode_intensity_limit(D, N, K=None):
    """What `decode_intensity` tends to for many keys: DN / (DK + N²). Below 1 for MHA; about N for MQA only if N² is small
    beside D.

    >>> [round(decode_intensity_limit(12288, 96, K), 2) for K in (96, 8, 1)]
    [0.99, 10.97, 54.86]
    """
    K = N if K is None else K
    return D * N / (D * K + N * N)


@formula
def decode_speed_up(D, N, K=1):
    """Times faster than MHA that a step with K heads can be when its cache decides, scores read and written as well.

    >>> round(decode_speed_up(12288, 96), 1)                                                # GPT-3: not 96
    55.3
    """
    return (D + N) / (D * K / N + N)


@record
class Complexity:
    """A row of the table of variants, for B sequences of L tokens; orders, as in this module.

    compute    of a decode step
    cache      numbers in the KV cache, all of K and V counted
    memory     numbers that a step touches
    intensity  compute / memory
    limit      of the intensity for large L
    """

    compute: float
    cache: float
    memory: float
    intensity: float
    limit: float


@formula
def complexity(B, L, D, N, K) -> Complexity:
    """Batched decoding with K KV heads: K = N is MHA, K = 1 is MQA. Compute is the same for every K.

    >>> gpt3 = {K: complexity(1, 4096, 12288, 96, K) for K in (96, 8, 1)}
    >>> [row.cache // 4096 for row in gpt3.values()], len({row.compute for row in gpt3.values()})
    ([24576.0, 2048.0, 256.0], 1)
    """
    if plain(N, K) and (K < 1 or N % K):
        raise ValueError(f"{N} query heads do not group over {K} KV heads: make N a multiple of K")
    compute = B * (L * D + D * D)
    memory = B * (L * D * K / N + L * N) + D * D
    return Complexity(compute, 2 * B * L * D * K / N, memory, compute / memory, decode_intensity_limit(D, N, K))


@formula
def layer_flops(B, T, S, D, N, H, K, pairs=None):
    """FLOPs of the products of an attention layer: projections of Q, K, V and O, and both of attention.

    pairs  of query and key, each head; None: T·S, what a plain einsum computes
    """
    width = 2 * N * H + 2 * K * H
    return 2 * B * T * D * width + 4 * B * N * H * (T * S if pairs is None else pairs)


@formula
def layer_bytes(B, T, S, D, N, H, K, x=2, scores=True):
    """Bytes through memory: weights; x in and y out; Q, K, V and O of new tokens written and read; the cache of the others
    read; and, unless a Flash kernel keeps them on the chip, the scores and the shares, written and read."""
    weights = D * (2 * N * H + 2 * K * H)
    tokens = B * T * (2 * D + 4 * N * H + 4 * K * H)
    old = B * (S - T) * 2 * K * H
    return x * (weights + tokens + old + (4 * B * N * T * S if scores else 0))


@formula
def layer_intensity(B, T, S, D, N, H, K, x=2, scores=True, pairs=None):
    """FLOPs per byte of an attention layer, nothing left out but norms and softmax.

    >>> gpt3 = dict(D=12288, N=96, H=128)
    >>> [round(layer_intensity(1, 1, 2**17, **gpt3, K=K), 1) for K in (96, 1)]                  # a decode step
    [1.0, 9.1]
    >>> [round(layer_intensity(1, 2**17, 2**17, **gpt3, K=96, scores=s)) for s in (True, False)]      # a prefill
    [76, 30004]
    """
    return layer_flops(B, T, S, D, N, H, K, pairs) / layer_bytes(B, T, S, D, N, H, K, x, scores)
