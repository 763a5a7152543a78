"""A training step under tensor parallelism with sequence parallelism and without: what is sent, and what each chip keeps."""

from dataclasses import replace

import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training.layout import Layout
from helpers.costs.training.operation_seconds import TUNED, Software
from helpers.costs.training.step_memory import peak_memory
from helpers.costs.training.training_step import step
from helpers.costs.transformers.config import Config, MoE
from helpers.costs.transformers.public_models import model
from helpers.costs.transformers.training_memory_bytes import POLICIES
from tests.helpers.costs.tables import walks

V5P = chip("v5p")
CUBE = Slice(V5P, (4, 4, 4))
DENSE = Config(4096, 32, 32, 32, 128, 16384, 8, norm="none")
EXPERTS = Config(1024, 8, 16, 4, 64, 4096, 1000, moe=MoE(E=16, k=2, F=512, shared=1, first_dense=2))


@walks([DENSE, EXPERTS, model("gemma-2-27b"), replace(DENSE, parallel=True)], POLICIES)
def test_sums_send_over_tp_what_gathers_and_scatters_do(c, policy):
    """As many bytes, in half as many collectives, all of them waited for; but In is there and not gathered again."""
    with_it = Layout(fsdp=8, tp=4, ep=2 if c.moe else 1, dp=1 if c.moe else 2, microbatches=2, policy=policy)
    cut, whole = (
        [x for x in step(c, at, 64 * 1024, 1024, CUBE).sent if x.axes == ("tp",)]
        for at in (with_it, replace(with_it, sequence_parallel=False))
    )
    assert {(x.kind, x.when, x.hides) for x in whole} == {("AllReduce", way, False) for way in ("forward", "backward")}
    assert {x.bytes for x in whole} == {2 * 64 * 1024 / 16 / 2 * c.D}  # bf16 of the tokens of a microbatch
    for way in ("forward", "backward"):
        by_kind = {k: sum(x.times for x in cut if (x.kind, x.when) == (k, way)) for k in ("AllGather", "ReduceScatter")}
        sums = sum(x.times for x in whole if x.when == way)
        assert sums == by_kind["ReduceScatter"]
        if way == "forward":
            assert sums == by_kind["AllGather"]
    blocks = 1 if c.parallel else 2
    again = {"everything": 0, "matmuls": 0, "block": blocks - 1, "nothing": blocks}[policy]
    if not c.moe:  # around attention and around the MLP
        assert [x.times for x in whole] == [2 * blocks * c.L, 2 * (blocks + again) * c.L]


def test_what_is_whole_on_each_chip_of_tp():
    """Korthikanti et al. (2022), equations 2 and 4: 10 + 24/t and 34/t bytes of s·b·h a layer, two of dropout's masks, and
    here no dropout; shares of N·S besides, of which they keep more, and fused attention none."""
    D, N, S, t = 1024, 16, 512, 4
    c = Config(D, 6, N, N, D // N, 4 * D, 1000, gated=False)
    for software, shares in ((TUNED, 0), (Software(attention="stored"), 2 * N * S / t)):
        whole, cut = (
            peak_memory(c, V5P, Layout(tp=t, policy="everything", sequence_parallel=sp), 1, S, software).activations
            for sp in (False, True)
        )
        assert whole == pytest.approx(c.L * S * ((10 - 2 + 24 / t) * D + shares))
        assert cut == pytest.approx(c.L * S * ((34 - 2) / t * D + shares))


@walks([("block", 1), ("matmuls", 2)])
def test_without_sequence_parallelism_inputs_of_layers_are_kept_whole(policy, D_wide):
    """A layer's input, and of the products o; what else they give lies along heads and F."""
    laid = Layout(tp=4, policy=policy)
    cut, whole = (
        step(DENSE, at, 4096, 4096, Slice(V5P, (4, 1, 1))).memory
        for at in (laid, replace(laid, sequence_parallel=False))
    )
    assert whole.activations - cut.activations == pytest.approx(2 * DENSE.L * 4096 * DENSE.D * D_wide * (1 - 1 / 4))
    if policy == "block":  # one layer again: its input, both norms' outputs, o
        assert whole.working - cut.working == pytest.approx(2 * 4096 * 4 * DENSE.D * (1 - 1 / 4))


def test_stages_and_experts_get_from_each_chip_of_tp_its_share():
    laid = Layout(tp=4, ep=4, pp=2, fsdp=2, microbatches=2)
    cut, whole = (
        {
            (x.kind, x.when): x.bytes * x.times
            for x in step(EXPERTS, at, 64 * 1024, 1024, CUBE).sent
            if x.kind in ("AllToAll", "Permute")
        }
        for at in (laid, replace(laid, sequence_parallel=False))
    )
    assert len(cut) == 4 and whole == cut
