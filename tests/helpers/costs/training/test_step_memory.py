"""Peak memory of a device against closed forms, and against what allocators reported."""

import json
from dataclasses import replace

import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.training.layout import Layout
from helpers.costs.training.operation_seconds import TUNED, USUAL
from helpers.costs.training.training_step import TIGHT, peak_memory
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.costs.transformers.public_models import model
from tools import bench_estimate as bench

GPT = Config(4096, 32, 32, 32, 128, 16384, 51200, gated=False, tied=True, norm="layer")
H100 = chip("H100")
SCORES = json.loads(bench.STORE.read_text(encoding="utf-8"))


def test_zero_shares_what_it_says():
    whole, one, two = (peak_memory(GPT, H100, Layout(dp=8, zero=z), 8, 2048) for z in range(3))
    assert whole.optimizer == 8 * one.optimizer and whole.gradients == one.gradients == 8 * two.gradients
    fsdp = peak_memory(GPT, H100, Layout(fsdp=8), 8, 2048)
    assert whole.weights == 8 * fsdp.weights and fsdp.gathered > 0 == whole.gathered
    assert peak_memory(GPT, H100, Layout(dp=8, zero=3), 8, 2048) == fsdp  # under another name
    pieces = Layout(dp=8, pp=4, v=4, microbatches=8)  # of the stage that is computed gradients are whole
    whole, two = (peak_memory(GPT, H100, replace(pieces, zero=z), 64, 2048).gradients for z in (0, 2))
    assert two == pytest.approx(whole / 8 + whole / 4)


def test_block_inputs_are_all_that_is_kept():
    m = peak_memory(GPT, H100, Layout(policy="block"), 4, 2048)
    assert m.activations == 2 * 4 * 2048 * GPT.D * GPT.L
    whole = peak_memory(GPT, H100, Layout(policy="block", tp=8, sequence_parallel=False), 4, 2048)
    assert whole.activations == m.activations  # each of tp's chips has all tokens
    away = peak_memory(GPT, H100, Layout(policy="block", offload="activations"), 4, 2048)
    assert away.activations == 2 * m.activations / GPT.L  # of one layer on its way to the host, and of the next


def test_what_ran_is_not_called_impossible_and_what_ran_out_of_memory_does_not_fit():
    """Of rows whose source says what is kept; and of BLOOM's tuning, lines 793, 806 and 807 of its chronicle."""
    found = {r.name: r.args for r in bench.rows() if "remat" not in r.missing}
    for name, args in found.items():
        m = peak_memory(*args)
        assert m.total - min(m.logits, m.working) <= (1 + TIGHT) * args[1].hbm_bytes, (name, m)
    for dp, tp, pp, size in ((48, 8, 1, 1), (32, 2, 6, 2), (32, 2, 6, 1)):
        c, on, layout, B, T, software = found["bloom2022_68"]
        laid = replace(layout, dp=dp, tp=tp, pp=pp, microbatches=B // dp // size)
        assert peak_memory(c, on, laid, B, T, software).total > on.hbm_bytes, laid


def test_what_programs_keep_gathered_and_in_eight_bits():
    tokens = 4 * 2048
    tuned, usual = (peak_memory(GPT, H100, Layout(tp=8), 4, 2048, software).working for software in (TUNED, USUAL))
    # All rows, where an eighth is counted: twice, and a gradient.
    assert usual - tuned == 2 * tokens * GPT.D * 3 * 7 / 8
    both = (Layout(policy="everything", products=t) for t in ("bf16", "fp8"))
    wide, narrow = (peak_memory(GPT, H100, layout, 4, 2048).activations for layout in both)
    # Both norms and what W_out reads lose a byte; attention keeps its output in two, and W_O reads one more.
    assert wide - narrow == tokens * GPT.L * (2 * GPT.D + GPT.F - GPT.D)
    less = peak_memory(GPT, H100, Layout(policy="everything", fp8_swiglu=True), 4, 2048).activations
    assert wide - less == tokens * GPT.L * GPT.F


def test_the_last_stage_counts_where_it_is_fuller():
    """A mixture whose first layers are dense, and a vocabulary that outweighs what microbatches keep."""
    wide = replace(GPT, V=2**22, L=4)
    assert peak_memory(wide, H100, Layout(pp=4, microbatches=8), 8, 2048).logits > 0
    assert peak_memory(GPT, H100, Layout(pp=4, microbatches=8, policy="everything"), 8, 2048).logits == 0
    mixed = replace(model("deepseek-v3"), L=8)
    first, last = (peak_memory(mixed, H100, Layout(pp=p), 8, 4096).weights for p in (1, 2))
    experts = parameters(mixed).experts / 5
    assert last > 4 * 2 * experts  # four of the five layers with experts stand on one stage


def test_stages_may_be_uneven_and_listed():
    """61 layers over 16 stages: four of them on the fullest; as they are listed, the two under DualPipe share a device."""
    c, laid = replace(GPT, L=61), Layout(pp=16, microbatches=32, layers="4x15+1")
    uneven, even = (peak_memory(x, H100, replace(laid, layers=""), 32, 2048) for x in (c, replace(GPT, L=64)))
    assert uneven.total == pytest.approx(even.total, rel=1e-6)  # the last norm is spread over layers
    assert peak_memory(c, H100, laid, 32, 2048) == uneven
    for schedule, layers, most in (("1F1B", "6+5x5+3x10", 6 * 16), ("DualPipe", "6+5x5+3x10", (6 + 3) / 2 * 17)):
        listed = replace(laid, layers=layers, schedule=schedule)
        assert peak_memory(c, H100, listed, 32, 2048).activations == most * 2 * 2048 * c.D


def test_tables_stand_where_layers_would():
    """30 layers and two tables on four devices of eight stages each: the ends have seven layers, the second device eight."""
    c, laid = replace(GPT, L=30, V=16000), Layout(pp=4, v=8, microbatches=32)
    layer = 2 * (parameters(c).total - c.V * c.D - parameters(c).positions) / 30
    held = peak_memory(c, H100, laid, 32, 2048).weights
    assert held == pytest.approx(8 * layer, rel=1e-3)  # of two bytes; the embedding is less than a layer
    wide = replace(c, V=160000)  # more than a layer: now the first is fullest
    tables = 2 * (parameters(wide).embedding + parameters(wide).positions)
    assert peak_memory(wide, H100, laid, 32, 2048).weights == pytest.approx(7 * layer + tables, rel=1e-3)
    assert peak_memory(wide, H100, replace(laid, v=1), 32, 2048).weights == pytest.approx(8 * layer + tables, rel=1e-3)


def test_what_allocators_reported():
    found = bench.memory(bench.rows())
    for name, was in SCORES["memory"].items():
        assert found[name]["memory"]["median"] <= was["memory"]["median"] + 1e-6, name
    limits = {
        "simumax_b200, dense": (3, 7), "simumax_b200, mixtures": (6, 7), "bloom2022_tuning, dense": (12, 25),
        "megatron_golden, dense": (6, 10),
    }  # fmt: skip
    for name, (most, worst) in limits.items():
        assert found[name]["memory"]["median"] <= most and found[name]["memory"]["worst"] <= worst, name
