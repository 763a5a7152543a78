"""Every number that the sources of chapter 3 state, computed again by `helpers`; values are typed here with where they stand.

S4 is section 4 ("transformers") of How To Scale Your Model (2025), SI the survey of inference methods (2024).
Where a source is wrong, book/data/errata.json computes the corrected value and says why; examples of docstrings have others.
"""

import pytest

from helpers.costs.sharding.sharded_array import Mesh
from helpers.costs.transformers.config import Config, MoE
from helpers.costs.transformers.layer_products import sharded_flops
from helpers.costs.transformers.parameters_and_flops import kv_cache, parameters
from helpers.costs.transformers.public_models import model
from helpers.costs.transformers.shares_and_thresholds import (
    attention_intensity,
    attention_ratio,
    crossover,
)
from helpers.costs.transformers.training_memory_bytes import recomputed, train_flops, training_memory
from tests.book.stated import near
from tests.helpers.costs.tables import walks

TEXTBOOK = Config(8192, 1, 64, 64, 128, 4 * 8192, 1)
Q1 = Config(4096, 64, 32, 32, 128, 4 * 4096, 32000, norm="none")
Q2 = sharded_flops("A[B_X, D_Y]", "W[D_Y, F]", dict(B=64, D=32, F=16), Mesh({"X": 4, "Y": 8, "Z": 4}))
Q8 = parameters(Config(4096, 64, 32, 8, 256, 16384, 32128, tied=True, norm="none", moe=MoE(E=16, k=2, F=16384)))
MHA = Config(8192, 64, 64, 64, 128, 4 * 8192, 32000)
BATCH, CONTEXT = 3, 16

CLAIMS = {
    # C1, C2, C15: products
    "S4 Q2: each device, 2BDF/(XY)": (Q2[1], 2 * 64 * 32 * 16 / 32),
    "S4 Q2: in all, 2BDF Z": (Q2[0], 2 * 64 * 32 * 16 * 4.0),
    # C4: parameters
    "S4 Q1: parameters": (parameters(Q1).total * 1.0, 17.44e9),
    "S4 Q1: share of attention": (parameters(Q1).attention / parameters(Q1).total, 0.246),
    # C6, C8: attention against the rest
    "S4: 8D at D = 8192": (crossover(TEXTBOOK), 65536.0),
    "S4: causal halves it": (
        attention_ratio(TEXTBOOK, 8192) / attention_ratio(TEXTBOOK, 8192, "causal"),
        2 * 8192 / 8193,
    ),
    # C7: intensity
    "S4 Q4: TSG/(TG + S)": (attention_intensity(7, 100, 3), 7 * 100 * 3 / (7 * 3 + 100)),
    "S4 Q4: prefill, T·G/(G + 1)": (attention_intensity(900, 900, 8), 800.0),
    "SI: generation tends to G": (attention_intensity(1, 1e9, 8), 8.0),
    # C10: experts
    "SI Q6: parameters": ((Q8.total - Q8.router) * 1.0, 211.7e9),
    "SI Q6: active parameters": ((Q8.active - Q8.router) * 1.0, 31.27e9),
    # C11, C12: checkpoints
    "S4 Q6: 4BT²NH a layer": (recomputed(Q1, BATCH, CONTEXT, "matmuls"), 64 * 4 * BATCH * CONTEXT**2 * 32 * 128),
    # C13: KV cache
    "S4: 8 GiB in int8": (kv_cache(MHA, 8192, bytes_each=1) / 2**30, 8.0),
}


@walks(CLAIMS)
def test_number(claim):
    near(*CLAIMS[claim])


def test_block_inputs_cost_nearly_eight_nd():
    """8ND would repeat the whole forward pass; a quarter of it, W_out, is not repeated."""
    wide = Config(16384, 64, 128, 128, 128, 4 * 16384, 1)
    near(train_flops(wide, 1, 64, "block") / parameters(wide).matmul / 64, 7.5)
    near(train_flops(wide, 1, 64, "nothing") / parameters(wide).matmul / 64, 8.0)


def test_latent_attention_of_deepseek_v3():
    """`how much more keys and values of all heads would take`, as the page divides it."""
    c = model("deepseek-v3")
    assert 2 * c.L * c.N * (c.qk + c.mla.v) / kv_cache(c, 1) == pytest.approx(128 * (192 + 128) / 576)


def test_activations_of_the_pages_table():
    """The three formulas with K = GQA's heads, and attention's weights apart."""
    c, T = model("llama-3-70b"), 8192
    rows = 2 * T * c.L * (3 * c.D + 2 * c.K * c.H + 2 * c.F), 2 * T * c.L * (6 * c.D + 2 * c.K * c.H + 3 * c.F)
    weights = 2 * T**2 * c.N * c.L
    assert training_memory(c, 1, T, "block").activations == 2 * T * c.D * c.L
    assert training_memory(c, 1, T, "matmuls").activations == rows[0]
    assert training_memory(c, 1, T, "everything").activations == rows[1] + weights
