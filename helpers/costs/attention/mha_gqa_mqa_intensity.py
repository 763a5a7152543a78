"""FLOPs for each number in memory of whole attention layers, projections included: MHA, GQA and MQA (chapter 6).

As the sources count: one for each multiply-add, one for each number, and neither the number of matrices nor of vectors, so
what holds is the shape of a curve and its limit. D = N·H is the width of the model; K KV heads, N of them for MHA, one for
MQA. `layer_intensity` counts all of it, in FLOPs per byte.

Source: Shazeer, "Fast Transformer Decoding: One Write-Head is All You Need" (2019); Ainslie et al., "GQA" (2023). Errors of
the course's sources, GPT-3's limits among them, are listed in its errata (E004).
"""

from dataclasses import dataclass

from helpers.arguments import entries
from helpers.numeric import plain


def prefill_intensity(L, D, N):
    """(L²D + LD²) / (L²N + LD + D²): L tokens; scores pass through memory. Whatever K, since K and V are small beside them.

    >>> [round(prefill_intensity(L, 12288, 96)) for L in (128, 2048, 10**9)]                # GPT-3
    [127, 623, 128]
    """
    return (L * L * D + L * D * D) / (L * L * N + L * D + D * D)


def prefill_intensity_limit(D, N):
    """What `prefill_intensity` tends to for long prompts: D/N, the size of a head.

    >>> prefill_intensity_limit(12288, 96)                        # GPT-3, below the 201 FLOPs per byte of an A100
    128.0
    """
    return D / N


def decode_intensity(L, D, N, K=None, B=1):
    """(LD + D²) / (LDK/N + LN + D²/B), for each of B sequences: one token that sees L keys in K of N heads.

    >>> [round(decode_intensity(4096, 12288, 96, K), 3) for K in (96, 8, 1)]                # GPT-3: MHA, GQA, MQA
    [0.998, 1.294, 1.325]
    """
    K = N if K is None else K
    return (L * D + D * D) / (L * D * K / N + L * N + D * D / B)


def decode_intensity_limit(D, N, K=None):
    """What `decode_intensity` tends to for many keys: DN / (DK + N²). Below 1 for MHA; about N for MQA only if N² is small
    beside D.

    >>> [round(decode_intensity_limit(12288, 96, K), 2) for K in (96, 8, 1)]
    [0.99, 10.97, 54.86]
    """
    K = N if K is None else K
    return D * N / (D * K + N * N)


def decode_speed_up(D, N, K=1):
    """Times faster than MHA that a step with K heads can be when its cache decides, scores read and written as well.

    >>> round(decode_speed_up(12288, 96), 1)                                                # GPT-3: not 96
    55.3
    """
    return (D + N) / (D * K / N + N)


@dataclass(frozen=True)
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


def layer_flops(B, T, S, D, N, H, K, pairs=None):
    """FLOPs of the products of an attention layer: projections of Q, K, V and O, and both of attention.

    pairs  of query and key, each head; None: T·S, what a plain einsum computes
    """
    width = 2 * N * H + 2 * K * H
    return 2 * B * T * D * width + 4 * B * N * H * (T * S if pairs is None else pairs)


def layer_bytes(B, T, S, D, N, H, K, x=2, scores=True):
    """Bytes through memory: weights; x in and y out; Q, K, V and O of new tokens written and read; the cache of the others
    read; and, unless a Flash kernel keeps them on the chip, the scores and the shares, written and read."""
    weights = D * (2 * N * H + 2 * K * H)
    tokens = B * T * (2 * D + 4 * N * H + 4 * K * H)
    old = B * (S - T) * 2 * K * H
    return x * (weights + tokens + old + (4 * B * N * T * S if scores else 0))


def layer_intensity(B, T, S, D, N, H, K, x=2, scores=True, pairs=None):
    """FLOPs per byte of an attention layer, nothing left out but norms and softmax.

    >>> gpt3 = dict(D=12288, N=96, H=128)
    >>> [round(layer_intensity(1, 1, 2**17, **gpt3, K=K), 1) for K in (96, 1)]                  # a decode step
    [1.0, 9.1]
    >>> [round(layer_intensity(1, 2**17, 2**17, **gpt3, K=96, scores=s)) for s in (True, False)]      # a prefill
    [76, 30004]
    """
    return layer_flops(B, T, S, D, N, H, K, pairs) / layer_bytes(B, T, S, D, N, H, K, x, scores)


entries(__name__)
