"""What the counts of a decoder lead to: 6ND and utilisation, attention's share, batches and contexts that are enough (chapter 3).

6ND and where it fails, seconds to train, MFU and HFU; dot-product attention against the rest of a decoder; the batch at which
experts become compute-bound, and the capacity of each.

Source: Austin et al. 2025, Section 4; PaLM (Chowdhery et al. 2022), appendix B, for MFU and HFU; its MFU counts
attention too, ours does not.
"""

from typing import Literal

from helpers.arguments import formula
from helpers.numeric import ceil_near, nonzero, sqrt, where

from .config import Config
from .parameters_and_flops import PAIRS, flops, parameters


@formula
def six_nd(N, tokens):
    """FLOPs to train N parameters on that many tokens: 2 forward and 4 backward for each; N active ones for experts.

    >>> f"{six_nd(70e9, 15e12):.2e}"                        # LLaMA 3 70B
    '6.30e+24'
    """
    return 6 * N * tokens


@formula
def six_nd_ratio(c: Config, T, count="all"):
    """True training FLOPs of sequences of T tokens, as a multiple of 6·(active parameters)·tokens.

    Above 1 where attention counts, below 1 where tables that multiply nothing do, such as an untied embedding.

    >>> [round(six_nd_ratio(model("llama-3-8b"), T), 2) for T in (1024, 8192, 131072)]
    [0.97, 1.2, 5.21]
    >>> round(six_nd_ratio(model("gpt-2"), 1024), 2)
    1.14
    """
    return flops(c, 1, T, count=count).train / six_nd(parameters(c).active, T)


@formula
def train_seconds(N, tokens, rate, mfu):
    """Seconds to train N (active) parameters on tokens, at a share `mfu` of rate FLOPs/s of all chips together.

    >>> round(train_seconds(70e9, 15e12, rate=18823 * 4.59e14, mfu=0.5) / 86400, 1)       # in days
    16.9
    """
    return six_nd(N, tokens) / (rate * mfu)


@formula
def mfu(N, tokens, seconds, rate):
    """Model FLOPs utilisation: 6·N·tokens in that time, as a share of what the chips could do.

    >>> hours = 2.79e6                                             # DeepSeek-V3: H800 hours, fp8 rate of one
    >>> f"{mfu(37e9, 14.8e12, hours * 3600, 1.979e15):.3f} {mfu(37e9, 14.8e12, hours * 3600, 1.513e15):.3f}"
    '0.165 0.216'
    """
    return six_nd(N, tokens) / (seconds * rate)


@formula
def hfu(flops, seconds, rate):
    """Hardware FLOPs utilisation: all FLOPs that were done, recomputation included, as a share of the same.

    >>> hfu(8 * 37e9 * 14.8e12, 2.79e6 * 3600, 1.979e15) > mfu(37e9, 14.8e12, 2.79e6 * 3600, 1.979e15)
    True
    """
    return flops / (seconds * rate)


@formula
def attention_ratio(c: Config, T, count="all"):
    """FLOPs of dot-product attention over those of all matrices of the layers, the unembedding left out.

    >>> usual = Config(8192, 1, 64, 64, 128, 4 * 8192, 1)
    >>> attention_ratio(usual, 8192), round(attention_ratio(usual, 8192, "causal"), 4)
    (0.125, 0.0625)
    """
    f = flops(c, 1, T, count=count)
    return f.attention / (f.layers - f.attention)


@formula
def crossover(c: Config, flops_of: Literal["matrices", "projections"] = "matrices", count: Literal[*PAIRS] = "all"):
    """Context T at which dot-product attention costs as much as "matrices" (all of the layers) or "projections" (Q, K, V, O).

    Exact; the "causal" one counts pairs and windows, so a model of local layers only may never get there: infinity.

    >>> usual = Config(8192, 1, 64, 64, 128, 4 * 8192, 1)
    >>> crossover(usual), crossover(usual, "projections")       # 8D and 2D
    (65536.0, 16384.0)
    >>> crossover(Config(4096, 1, 32, 32, 128, 4 * 4096, 1), "projections")
    8192.0
    >>> gemma = model("gemma-2-27b", window=None, full_every=None)
    >>> crossover(gemma), crossover(gemma, count="causal")      # not 8D = 36,864: its F is 8D
    (69120.0, 138239.0)
    >>> round(crossover(model("gemma-2-27b"), count="causal")), crossover(model("mistral-7b"), count="causal")
    (268350, inf)
    """
    c.check_usual("the crossover", "shared_gate", "output_gate", "shared_kv", "gemma3n")
    f = flops(c, 1, 1, count="all")  # one token that sees itself: attention is FLOPs for each pair, L times
    rest = f.projections if flops_of == "projections" else f.layers - f.attention
    mean = rest / f.attention * c.L  # keys that a token must see, summed over layers
    if count == "all":
        return mean / c.L
    if count == "half":
        return 2 * mean / c.L
    # full layers: T(T+1)/2 pairs; local ones, with T at least the window w: wT - w(w-1)/2. Their sum is mean·T.
    full = sum(n for kind, n in c.groups if kind.window is None)
    local, w = c.L - full, c.window or 0
    a, b, d = full / 2, full / 2 + local * w - mean, -local * w * (w - 1) / 2
    line = where(b > 0, -d / where(b > 0, b, 1.0), float("inf"))
    root = where(a > 0, (-b + sqrt(b * b - 4 * a * d)) / nonzero(2 * a), line)
    inside = 2 * mean / c.L - 1  # no token has reached a window yet
    return where(inside <= w, inside, root)


@formula
def attention_intensity(T, S, G, bytes_each=2):
    """FLOPs per byte of dot-product attention that keeps its T·S weights on the chip: TSG/(TG + S) in bf16.

    Queries and results are read and written once, keys and values once for the G query heads that share them.
    A prefill (S = T) reaches T·G/(G + 1), a decode step (T = 1) no more than G.

    >>> attention_intensity(480, 480, G=1), round(attention_intensity(1, 1e6, G=8), 2)
    (240.0, 8.0)
    """
    return 2 / bytes_each * T * S * G / (T * G + S)


@formula
def attention_threshold(alpha, G, bytes_each=2):
    """Context at which self-attention over T = S tokens becomes compute-bound at alpha FLOPs per byte: alpha·(G + 1)/G.

    >>> attention_threshold(240, 1), attention_threshold(240, 8)
    (480.0, 270.0)
    """
    return bytes_each / 2 * alpha * (G + 1) / G


@formula
def moe_critical_batch(E, k, alpha, bytes_each=2):
    """Tokens at which experts become compute-bound: all E are read, each token multiplies with k of them.

    alpha  C/W of the type that the arithmetic runs in, whatever the weights are stored in

    >>> moe_critical_batch(256, 8, 240, bytes_each=1), moe_critical_batch(16, 2, 240)     # DeepSeek-V3 in int8
    (3840.0, 1920.0)
    """
    return bytes_each / 2 * alpha * E / k


@formula
def capacity(tokens, E, k, factor=1.0):
    """Places that each expert has for tokens; what is routed to it beyond these is dropped.

    factor  1: just enough if routing is even; E/k: enough whatever the routing

    >>> capacity(1024, 8, 2), capacity(1024, 8, 2, 1.25), capacity(1024, 8, 2, 8 / 2)
    (256, 320, 1024)
    >>> capacity(50, 5, 1, 1.1)                         # 11.000000000000002 in floats
    11
    """
    return ceil_near(factor * tokens * k / E)
