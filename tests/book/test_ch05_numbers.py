"""Every number that the sources of chapter 5 state, computed again by `helpers`; values are typed here with where they stand.

S7 is section 7 ("inference") of How To Scale Your Model (2025); En is the row of the course's table of methods.
Where a source is wrong, book/data/errata.json computes the corrected value and says why; examples of docstrings have others.
A product of two numbers that the source gives, as the quiz's cache of 8192 tokens of 100 kB, is part of the row that uses it.
"""

from dataclasses import replace
from math import floor

from helpers.costs.inference import latency_and_throughput, sharded_decode_step, sharding_limits
from helpers.costs.inference.prefill_and_decode_step import Replica, smallest_slice
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.transformers.config import Config, MoE
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.costs.transformers.public_models import model
from helpers.costs.transformers.shares_and_thresholds import attention_intensity
from tests.book.stated import near
from tests.helpers.costs.tables import walks

V5E, V6E = chip("v5e"), chip("v6e")
LLAMA_13B = model("llama-2-13b")
SEED = dict(D=4096, L=64, N=32, K=8, H=256, F=16384, V=32128, tied=True, norm="none")
DENSE, SPARSE = Config(**SEED), Config(**SEED, moe=MoE(E=16, k=2, F=16384))
R = Replica(DENSE, V5E, 16, weights="int8", cache="int8", math="int8")
SOURCE = replace(V5E, hbm_bandwidth=8.2e11, hbm_bytes=16 * 2**30)  # the source's v5e: rounded up, and its 16 GB are GiB
BATCHES = (1, 8, 16, 32, 64, 240)
QUIZ = dict(params=30e9, weights=30e9, C=16 * 1.97e14, W_hbm=16 * 8.1e11)


def table(kv):
    """Bytes of caches, of all, ms, tokens/s of each batch, with the rates that the source's tables were made with."""
    return [
        (row.cache / 1e9, row.total / 1e9, 1e3 * row.step, row.throughput)
        for row in latency_and_throughput.sampling_table(kv, 13e9, 26e9, 8 * 1.97e14, 8 * 8.2e11, BATCHES)
    ]


MHA = [
    (6.7, 32.7, 4.98, 200.61), (53.6, 79.6, 12.13, 659.30), (107.2, 133.2, 20.30, 787.99),
    (214.4, 240.4, 36.65, 873.21), (428.8, 454.8, 69.33, 923.13), (1608.0, 1634.0, 249.09, 963.53),
]  # fmt: skip
FIFTH = [
    (1.34, 27.34, 4.17, 239.94), (10.72, 36.72, 5.60, 1429.19), (21.44, 47.44, 7.23, 2212.48),
    (42.88, 68.88, 10.50, 3047.62), (85.76, 111.76, 17.04, 3756.62), (321.6, 347.6, 52.99, 4529.34),
]  # fmt: skip

CLAIMS = {
    # E3: critical batches, the quiz
    "S7: B_crit of a v5e": (latency_and_throughput.saturating_batch(SOURCE), 240.0),
    "S7: int8 weights, bf16 arithmetic": (latency_and_throughput.saturating_batch(V5E, "int8"), 121.6),
    "S7: int8 for both, as bf16": (
        latency_and_throughput.saturating_batch(V5E, "int8", "int8"),
        latency_and_throughput.saturating_batch(V5E),
    ),
    "S7: prefill's attention": (attention_intensity(480, 480, 1), 240.0),
    "S7: quiz, 256 texts": (1e3 * latency_and_throughput.step_time(256, 100e3 * 8192, **QUIZ), 21.05),
    # E4: LLaMA-2-13B
    "S7: eight chips": (Replica(LLAMA_13B, SOURCE, 8).W_hbm, 6.56e12),
    **{f"S7: MHA, column {i}": (got, stated) for i, (got, stated) in enumerate(zip(table(6.7e9), MHA))},
    **{f"S7: a fifth, column {i}": (got, stated) for i, (got, stated) in enumerate(zip(table(1.34e9), FIFTH))},
    # E16, E17: sharding
    "S7: F over 2200": (16384 / sharding_limits.prefill_limit(16384, V5E.rate(), V5E.link_bandwidth), 2189.0),
    "S7: ways of a prefill": (sharding_limits.prefill_limit(16384, V5E.rate(), V5E.link_bandwidth), 7.5),
    "S7, corrected: beta of a v6e": (sharding_limits.ici_ratio(V6E), 8.9),
    # appendix C
    "S7: eight ways wait for hops below 360 kB": (sharding_limits.latency_limit(1, 360e3, V5E.link_bandwidth), 8.0),
    "S7: 16 texts at D = 8192": (16 * 8192 * 1.0, 131e3),
    "S7: ways from which hops decide": (sharding_limits.latency_limit(16, 8192, V5E.link_bandwidth), 16 * 8192 / 45e3),
    # Questions 1 to 4
    "S7 Q1: parameters": (parameters(DENSE).total * 1.0, 18.4e9),
    "S7 Q2, corrected: K = 1": (floor(R.room / (R.kv(128e3) / 8)), 56),
    "S7 Q2, corrected: K = 1, of 131,072": (floor(R.room / (R.kv(131072) / 8)), 55),
    "S7 Q4: int8 on two lines": (
        sharding_limits.prefill_limit(16384, V5E.rate("int8"), V5E.link_bandwidth / 2, M=2, x=1),
        7.5,
    ),
    "S7 Q4: a step": (1e3 * sharded_decode_step.decode(R, Slice(V5E, (4, 4)), 8, 2, 6, 131072).time.parts["hbm"], 17.3),
    # Questions 5 and 6: E30
    "S7 Q5: in all": (parameters(SPARSE).total * 1.0, 212e9),
    "S7 Q5: critical batch": (latency_and_throughput.saturating_batch(SOURCE, E=16, k=2), 1920.0),
    "S7 Q6: weights of a chip": (sharding_limits.expert_weights(SPARSE, 8, 16, "int8"), 1.65e9),
    "S7 Q6: their reading": (1e3 * sharding_limits.expert_weights(SPARSE, 8, 16, "int8") / V5E.hbm_bandwidth, 2.04),
    "S7 Q6: free": (V5E.hbm_bytes - sharding_limits.expert_weights(SPARSE, 8, 16, "int8"), 14.35e9),
    "S7 Q6: the smallest slice": (smallest_slice(V5E, parameters(SPARSE).total).chips, 16),
}


@walks(CLAIMS)
def test_number(claim):
    near(*CLAIMS[claim])


def test_what_fits_of_the_tables():
    """S7: out of memory beyond 16 with MHA, if the chips' 16 are GiB, and beyond 64 with a fifth of the cache."""
    for K, last in ((40, 16), (8, 64)):
        r = Replica(model("llama-2-13b", K=K), SOURCE, 8)
        assert [B for B in BATCHES if B <= r.largest_batch(8192)][-1] == last


def test_throughput_saturates():
    """S7: from a column to the next, throughput gains less and less, and stays below its limit."""
    for kv in (6.7e9, 1.34e9):
        rates = [row[3] for row in table(kv)]
        limit = 1 / (kv / (8 * 8.2e11) + 2 * 13e9 / (8 * 1.97e14))
        assert rates == sorted(rates) and 0.6 * limit < rates[-1] < limit
