"""Every number that the sources of chapter 4 state, computed again by `helpers`; values are typed here with where they stand.

S5 is section 5 ("training") of How To Scale Your Model (2025); Dn is the row of the course's table of methods.
Where a source is wrong, book/data/errata.json computes the corrected value and says why; examples of docstrings have others.
"""

from math import floor

import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.training import dp_fsdp_tp, pipeline_schedules
from helpers.costs.training.closed_forms import (
    accumulation_bytes,
    expert_width,
    largest_model,
    three_checkpoints,
)
from helpers.costs.training.dp_fsdp_tp import (
    X_opt,
    chips_limit,
    cost,
    data_batch,
    data_ratio,
    mixed_batch,
    mixed_ratio,
)
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.costs.transformers.public_models import model
from helpers.costs.transformers.shares_and_thresholds import six_nd, train_seconds
from helpers.prose import results
from tests.book.conftest import chapter_text
from tests.book.stated import near
from tests.helpers.costs.tables import walks

V5P = chip("v5p")
A, DAY = V5P.alpha_ici(), 24 * 3600
LLAMA_13B = parameters(model("llama-2-13b"))
B, D, F, X, Y = 4096, 1024, 8192, 8, 4


def sent(strategy, keep=False, **axes):
    """Bytes of the forward and of the backward pass."""
    there, back = cost(strategy, B, D, F, keep_gathered=keep, **axes)
    return there.total * 1.0, back.total * 1.0


def recipe(X, Y, B=1e6, F=30000):
    """The longer of the two transfers over arithmetic, of 1M tokens on 8,192 chips: two axes for X, one for Y."""
    there, _ = cost("FSDP+TP", B, 8192, F, X=X, Y=Y)
    parts = there.time(V5P.rate(), V5P.link_bandwidth, {"X": 2, "Y": 1}).parts
    return max(parts["X"], parts["Y"]) / parts["math"]


CLAIMS = {
    # D10, D20: data parallelism and FSDP
    "S5: three axes": (data_batch(A, 3), 850.0),
    "S5: tokens of a pod": (data_batch(A, 3) * 8960, 7.6e6),
    "S5: chips for DeepSeek's batch": (chips_limit(40e6, data_batch(A, 3)), 47e3),
    "S5: chips for LLaMA 3 70B": (floor(chips_limit(16e6, data_batch(A, 3))), 18823),
    "S5: FLOPs of LLaMA 3 70B": (six_nd(70e9, 15e12), 6.3e24),
    "S5: its days at half of peak": (train_seconds(70e9, 15e12, 18823 * V5P.rate(), 0.5) / DAY, 16.9),
    # D15: Adam
    "S5: largest model on 96 GB": (largest_model(V5P.hbm_bytes), 9.6e9),
    "PyTorch FSDP, ZeRO-3 of two microbatches": (accumulation_bytes("FSDP", 2, D, F), 24 * D * F),
    # D20: experts, whose widths are the models'
    "C/W of an H100's network": (9.89e14 / 5e10, chip("H100").alpha_dcn()),
    "an expert over the network": (expert_width(9.89e14 / 5e10), 13187.0),
    "DeepSeek-V3's experts": (model("deepseek-v3").moe.F * 1.0, 2048.0),
    # D5: tensor parallelism
    "S5: from 8 ways": (floor(dp_fsdp_tp.tensor_limit(8 * 2550, A, 1)), 8),
    "S5: for LLaMA 3 70B": (floor(dp_fsdp_tp.tensor_limit(28672, A, 1)), 11),
    "S5: int8 sends half and computes twice": (
        dp_fsdp_tp.tensor_limit(F, V5P.rate("int8") / (2 * V5P.link_bandwidth) / 2, 1),
        dp_fsdp_tp.tensor_limit(F, A, 1),
    ),
    # D7: both
    "S5: B/N above 99": (mixed_batch(32768, A, 2, 1), 99.2),
    "S5: eight times less": (floor(data_batch(A, 3) / mixed_batch(32768, A, 2, 1)), 8),
    # D8, D9
    "S5: FSDP alone there": (data_batch(A, 3) * 4096, 3.48e6),
    # D19: the table, bytes forward and backward
    "S5: DP": (sent("DP", X=X), (0.0, 8.0 * D * F)),
    "S5: FSDP": (sent("FSDP", X=X), (4.0 * D * F, 8.0 * D * F)),
    "S5, corrected: FSDP + TP": (
        sent("FSDP+TP", X=X, Y=Y),
        (4.0 * B * D / X + 4 * D * F / Y, 6.0 * B * D / X + 8 * D * F / Y),
    ),
    "S5: FLOPs forward and backward": (
        tuple(p.flops for p in cost("FSDP+TP", B, D, F, X=X, Y=Y)),
        (4.0 * B * D * F / (X * Y), 8.0 * B * D * F / (X * Y)),
    ),
    # D14: pods
    "S5, corrected: 1M as 1024 x 8 waits": (recipe(1024, 8), 1.31),
    # D16, D17: questions
    "S5 Q1: attention": (LLAMA_13B.attention * 1.0, 4.2e9),
    "S5 Q3: activations": (three_checkpoints(3e6, 5120, 13824, 40) * 1.0, 7.864e12),
    "S5 Q3: a chip's share": ((three_checkpoints(3e6, 5120, 13824, 40) + 10 * 13e9) / 4096, 1.95e9),
    "S5 Q3: least tokens of a chip": (mixed_batch(13824, A, 2, 1), 235.0),
    "S5 Q3: a step": (train_seconds(13e9, 3e6, 4096 * V5P.rate(), 0.4), 0.31),
    # D12: pipelines
    "Narayanan 2021: bubble of p = 4, m = 8": (pipeline_schedules.bubble("1F1B", 4, 8), 3 / 11),
    "the same, over the time without it": (pipeline_schedules.idle("1F1B", 4, 8) / (8 * 3.0), 3 / 8),
}


@walks(CLAIMS)
def test_number(claim):
    near(*CLAIMS[claim])


def test_no_power_of_two_passes_where_the_source_has_one():
    """S5, several pods: 1M tokens on 8,192 chips wait under every split of powers of two, and not at the real optimum."""
    assert min(recipe(2**i, 2 ** (13 - i)) for i in range(14)) > 1
    best = X_opt(1e6, 30000, 8192, 2, 1)
    assert recipe(best, 8192 / best) < 1


def test_worked_problems_of_the_page():
    """Question 3 of section 5: FSDP alone waits, and is bound by arithmetic with TP beside it."""
    assert data_ratio(3e6, 4096, A, 3) < 1 < mixed_ratio(3e6, 13824, 4096, A, 2, 1)
    assert (
        pipeline_schedules.bubble("1F1B", 8, 39)
        <= pipeline_schedules.bubble("1F1B", 8, 16) / 2
        < pipeline_schedules.bubble("1F1B", 8, 38)
    )


@pytest.mark.parametrize(("gpus", "rate", "days"), [(384, 144, 90), (768, 88, 74), (1536, 44, 74), (1536, 141, 23)])
def test_the_first_figures_seconds_give_the_days_of_the_papers_table(gpus, rate, days):
    """Narayanan 2021, Table 2: 300 billion tokens at so many TFLOP/s a GPU; three rows of ZeRO-3, and the last of TP, PP and DP."""
    few = results("estimate")["rows"]["narayanan2021_t2_zero3_gpt3-175b_384"]["measured"]
    seconds = few * 384 * 144 / (gpus * rate)
    assert round(300e9 / (1536 * 2048) * seconds / DAY) == days
    assert f"({gpus}, {rate})" in chapter_text("ch04_training")
