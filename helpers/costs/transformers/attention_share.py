"""Dot-product attention against the rest of a decoder: its share of FLOPs, crossovers, intensity (chapter 3).

Source: Austin et al. 2025, Section 4.
"""

from helpers.arguments import entries
from helpers.numeric import nonzero, sqrt, where

from .config import Config
from .parameters_and_flops import flops, pairs


def attention_ratio(c: Config, T, count="all"):
    """FLOPs of dot-product attention over those of all matrices of the layers, the unembedding left out.

    >>> usual = Config(8192, 1, 64, 64, 128, 4 * 8192, 1)
    >>> attention_ratio(usual, 8192), attention_ratio_limit(8192, 8192), round(attention_ratio(usual, 8192, "causal"), 4)
    (0.125, 0.125, 0.0625)
    """
    f = flops(c, 1, T, count=count)
    return f.attention / (f.layers - f.attention)


def attention_ratio_limit(T, D):
    """`attention_ratio` of a model with F = 4D, three MLP matrices, NH = D and K = N: T/(8D)."""
    return T / (8 * D)


def crossover(c: Config, against="matrices", count="all"):
    """Context T at which dot-product attention costs as much as "matrices" (all of the layers) or "projections" (Q, K, V, O).

    Exact; the "causal" one counts pairs and windows, so a model of local layers only may never get there: infinity.

    >>> usual = Config(8192, 1, 64, 64, 128, 4 * 8192, 1)
    >>> crossover(usual), crossover(usual, "projections")       # 8D and 2D
    (65536.0, 16384.0)
    >>> crossover(Config(4096, 1, 32, 32, 128, 4 * 4096, 1), "projections")
    8192.0
    >>> from .public_models import model
    >>> gemma = model("gemma-2-27b", window=None, full_every=None)
    >>> crossover(gemma), crossover(gemma, count="causal")      # not 8D = 36,864: its F is 8D
    (69120.0, 138239.0)
    >>> round(crossover(model("gemma-2-27b"), count="causal")), crossover(model("mistral-7b"), count="causal")
    (268350, inf)
    """
    if against not in ("matrices", "projections"):
        raise ValueError(f"attention is held against 'matrices' or 'projections', not {against!r}")
    pairs(1, count=count)  # refuses a count that it does not know
    c.check_usual("the crossover", "shared_gate", "output_gate", "shared_kv", "gemma3n")
    f = flops(c, 1, 1, count="all")  # one token that sees itself: attention is FLOPs for each pair, L times
    rest = f.projections if against == "projections" else f.layers - f.attention
    mean = rest / f.attention * c.L  # keys that a token must see, summed over layers
    if count == "all":
        return mean / c.L
    if count == "half":
        return 2 * mean / c.L
    # full layers: T(T+1)/2 pairs; local ones, with T at least the window w: wT - w(w-1)/2. Their sum is mean·T.
    full = sum(n for kind, n in c.groups if kind.window is None)
    local, w = c.L - full, c.window or 0
    a, b, d = full / 2, full / 2 + local * w - mean, -local * w * (w - 1) / 2
    root = where(
        a > 0, (-b + sqrt(b * b - 4 * a * d)) / nonzero(2 * a), where(b > 0, -d / where(b > 0, b, 1.0), float("inf"))
    )
    inside = 2 * mean / c.L - 1  # no token has reached a window yet
    return where(inside <= w, inside, root)


def attention_intensity(T, S, G, bytes_each=2):
    """FLOPs per byte of dot-product attention that keeps its T·S weights on the chip: TSG/(TG + S) in bf16.

    Queries and results are read and written once, keys and values once for the G query heads that share them.
    A prefill (S = T) reaches T·G/(G + 1), a decode step (T = 1) no more than G.

    >>> attention_intensity(480, 480, G=1), round(attention_intensity(1, 1e6, G=8), 2)
    (240.0, 8.0)
    """
    return 2 / bytes_each * T * S * G / (T * G + S)


def attention_threshold(alpha, G, bytes_each=2):
    """Context at which self-attention over T = S tokens becomes compute-bound at alpha FLOPs per byte: alpha·(G + 1)/G.

    >>> attention_threshold(240, 1), attention_threshold(240, 8)
    (480.0, 270.0)
    """
    return bytes_each / 2 * alpha * (G + 1) / G


entries(__name__)
