"""Every number of the sources that chapter 6 uses, computed again by `helpers`; values are typed here with where they stand.

I is the survey of inference methods (2024); Fn is the row of the course's table of methods; P is a paper that the row is about.
Where a source is wrong, book/data/errata.json computes the corrected value and says why; examples of docstrings have others.
"""

from helpers.costs.attention import flops_and_bytes, io_complexity, linear_attention, ring_attention, time_and_intensity
from helpers.costs.attention.flops_and_bytes import Attention
from helpers.costs.rooflines.chips import chip
from tests.book.stated import near
from tests.helpers.costs.tables import walks

GPT3 = dict(D=12288, N=96)
A100, A100_40 = chip("A100"), chip("A100-40GB")
EXPS = time_and_intensity.exp_rate(132, 1.83e9)


def cache(K):
    """Bytes of GPT-3's keys and values, 4096 tokens in 96 layers."""
    return 96 * time_and_intensity.complexity(1, 4096, **GPT3, K=K).cache * 2


CLAIMS = {
    # F3, F4, problem 1
    "I, corrected: GPT-3's cache": (cache(96), 19_327_352_832.0),
    "I, corrected: with MQA": (cache(1), 201e6),
    "I: decoding stays below 1": (time_and_intensity.decode_intensity_limit(**GPT3), 0.99),
    # F8, F9
    "I: accesses": (tuple(io_complexity.SOFTMAX_ACCESSES[way] for way in ("naive", "safe", "online")), (3, 4, 3)),
    # F14 to F16
    "I: with a table": (io_complexity.standard_floats(4096, 64), 4 * 4096**2 + 4 * 4096 * 64),
    "P: backward": (flops_and_bytes.flops(Attention(4096), products=5) / flops_and_bytes.flops(Attention(4096)), 2.5),
    # F19
    "P: exponentials of an H100, 1e12 a second": (round(EXPS / 1e12, 1), 3.9),
    "P: half of the products' time at H = 128": (time_and_intensity.exp_share(128, 9.89e14, 3.9e12), 0.495),
    # windows, F5, F6
    "I: features of Taylor": (linear_attention.features("taylor", 16), 1 + 16 + 16**2),
    # F20 to F23
    "F21: NVLink both ways": (ring_attention.hidden_block(3.12e14, 6e11), 520.0),
    "F21: PCIe both ways": (ring_attention.hidden_block(3.12e14, 6.4e10), 4875.0),
    "F21, one way": (ring_attention.hidden_block(A100.rate(), A100.link_bandwidth), 1040.0),
    "F22: waited for, contiguous": (ring_attention.ring_time(4, 6), 129.0),
    "F22: striped": (ring_attention.ring_time(4, 6, "striped"), 84.0),
    "F23: rounds": (tuple(ring_attention.rounds(n) for n in (2, 3, 8, 128)), (1, 2, 3, 7)),
}


@walks(CLAIMS)
def test_number(claim):
    near(*CLAIMS[claim])


def test_a_long_prefill_waits_for_memory():
    """Problem 3: between 21,092 and 21,093 tokens the layer falls below an A100's FLOPs per byte, and stays there."""
    above, below = (time_and_intensity.prefill_intensity(L, **GPT3) for L in (21092, 21093))
    assert above > A100_40.alpha_hbm() > below > time_and_intensity.prefill_intensity(30000, **GPT3) > 128


def test_with_every_factor_a_long_prefill_waits_sooner():
    """Problem 3: about 11,000 tokens, and half of H in the end; the page has the root of a quadratic, this one counts the layer."""

    def intensity(L):
        return time_and_intensity.layer_intensity(1, L, L, **GPT3, H=128, K=96)

    assert intensity(10827) > A100_40.alpha_hbm() > intensity(10828)
    assert round(intensity(10**8)) == 128 / 2
