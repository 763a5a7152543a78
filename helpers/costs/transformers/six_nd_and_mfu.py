"""6ND and where it fails, seconds to train, and utilisation: MFU and HFU (chapter 3).

Source: Austin et al. 2025, Section 4; PaLM (Chowdhery et al. 2022), appendix B, for MFU and HFU; its MFU counts
attention too, ours does not.
"""

from helpers.arguments import entries

from .config import Config
from .parameters_and_flops import flops, parameters


def six_nd(N, tokens):
    """FLOPs to train N parameters on that many tokens: 2 forward and 4 backward for each; N active ones for experts.

    >>> f"{six_nd(70e9, 15e12):.2e}"                        # LLaMA 3 70B
    '6.30e+24'
    """
    return 6 * N * tokens


def six_nd_ratio(c: Config, T, count="all"):
    """True training FLOPs of sequences of T tokens, as a multiple of 6·(active parameters)·tokens.

    Above 1 where attention counts, below 1 where tables that multiply nothing do, such as an untied embedding.

    >>> from .public_models import model
    >>> [round(six_nd_ratio(model("llama-3-8b"), T), 2) for T in (1024, 8192, 131072)]
    [0.97, 1.2, 5.21]
    >>> round(six_nd_ratio(model("gpt-2"), 1024), 2)
    1.14
    """
    return flops(c, 1, T, count=count).train / six_nd(parameters(c).active, T)


def train_seconds(N, tokens, rate, mfu):
    """Seconds to train N (active) parameters on tokens, at a share `mfu` of rate FLOPs/s of all chips together.

    >>> round(train_seconds(70e9, 15e12, rate=18823 * 4.59e14, mfu=0.5) / 86400, 1)       # in days
    16.9
    """
    return six_nd(N, tokens) / (rate * mfu)


def mfu(N, tokens, seconds, rate):
    """Model FLOPs utilisation: 6·N·tokens in that time, as a share of what the chips could do.

    >>> hours = 2.79e6                                             # DeepSeek-V3: H800 hours, fp8 rate of one
    >>> f"{mfu(37e9, 14.8e12, hours * 3600, 1.979e15):.3f} {mfu(37e9, 14.8e12, hours * 3600, 1.513e15):.3f}"
    '0.165 0.216'
    """
    return six_nd(N, tokens) / (seconds * rate)


def hfu(flops, seconds, rate):
    """Hardware FLOPs utilisation: all FLOPs that were done, recomputation included, as a share of the same.

    >>> hfu(8 * 37e9 * 14.8e12, 2.79e6 * 3600, 1.979e15) > mfu(37e9, 14.8e12, 2.79e6 * 3600, 1.979e15)
    True
    """
    return flops / (seconds * rate)


entries(__name__)
