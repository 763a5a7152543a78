"""Sequence parallelism, optimizers beside Adam, and pipelines whose devices have two stages."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest

from helpers import trace
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training.layout import BF16, MASTER, Bytes, Layout
from helpers.costs.training.operation_seconds import TUNED, Pace, Software
from helpers.costs.training.step_estimate import MUON_STEPS, step_seconds
from helpers.costs.training.training_step import peak_memory, step
from helpers.costs.transformers.config import Config, MoE
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.costs.transformers.public_models import model
from helpers.costs.transformers.training_memory_bytes import POLICIES
from tests.helpers.costs.tables import refused, walks
from tests.tiers import some

V5P = chip("v5p")
CUBE = Slice(V5P, (4, 4, 4))
DENSE = Config(4096, 32, 32, 32, 128, 16384, 8, norm="none")
EXPERTS = Config(1024, 8, 16, 4, 64, 4096, 1000, moe=MoE(E=16, k=2, F=512, shared=1, first_dense=2))


@walks([DENSE, EXPERTS, model("gemma-2-27b"), replace(DENSE, parallel=True)], some(POLICIES, 2))
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
    sent = (step(EXPERTS, replace(laid, sequence_parallel=s), 64 * 1024, 1024, CUBE).sent for s in (True, False))
    handed = ((x for x in some if x.kind in ("AllToAll", "Permute")) for some in sent)
    cut, whole = ({(x.kind, x.when): x.bytes * x.times for x in some} for some in handed)
    assert len(cut) == 4 and whole == cut


C = Config(1024, 8, 8, 8, 128, 4096, 32000)
H100 = chip("H100")


def newton_schulz(x):
    """Muon's steps towards the nearest orthogonal matrix (Jordan et al. 2024)."""
    for _ in range(MUON_STEPS):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x


def test_muon_does_the_products_of_its_steps():
    """FLOPs of the program, traced for every matrix of a layer, at the rate of large products."""
    adam, muon = (step_seconds(C, H100, Layout(optimizer=o), 1, 1024).parts["update"] for o in ("Adam", "Muon"))
    flops = 0
    for n, k in ((3 * 1024, 1024), (1024, 1024), (2 * 4096, 1024), (1024, 4096)):  # q, k and v, and gate and in, as one
        flops += trace.count(newton_schulz, jax.ShapeDtypeStruct(sorted((n, k)), jnp.float32)).matmul_flops
    assert muon - adam == pytest.approx(C.L * flops / Pace(H100).peak)
    shared = step_seconds(C, H100, Layout(dp=8, zero=1, optimizer="Muon"), 8, 1024).parts["update"]
    assert shared < muon / 7


# Two moments of 8 bits (Dettmers et al. 2022); one in float32 (Muon).
EIGHT_BITS, MOMENTUM = (Bytes(state=2), Bytes(state=4))


def test_an_optimizer_takes_its_bytes():
    P = parameters(C).total
    whole = Bytes(gradient=4, state=12)
    for stored, each in ((BF16, 12), (MASTER, 16), (EIGHT_BITS, 6), (MOMENTUM, 8), (whole, 18)):
        m = peak_memory(C, H100, Layout(stored=stored), 1, 1024)
        assert m.weights + m.gradients + m.optimizer == pytest.approx(each * P, rel=1e-12)
    times = [
        step_seconds(C, H100, Layout(stored=s), 1, 1024).parts["update"] for s in (EIGHT_BITS, MOMENTUM, BF16, MASTER)
    ]
    moved = 4 + 2 * 12 + 2  # gradient, state read and written, weight
    assert times == sorted(times)
    assert times[-1] == pytest.approx(moved * P / Pace(H100).memory, rel=1e-4)


def test_dualpipe_holds_two_stages_and_a_v_as_much_as_1f1b():
    laid = Layout(pp=4, microbatches=16)
    one, v, dual = (peak_memory(C, H100, replace(laid, schedule=s), 16, 1024) for s in ("1F1B", "ZB-V", "DualPipe"))
    stage = 2 * (parameters(C).total - 2 * C.V * C.D - C.D) / 4
    assert v.weights == pytest.approx(stage + 2 * 2 * C.V * C.D, rel=1e-4) and v.logits == one.logits > 0
    laid = replace(laid, policy="everything")  # now the first stage is fullest
    one, v, dual = (peak_memory(C, H100, replace(laid, schedule=s), 16, 4096) for s in ("1F1B", "ZB-V", "DualPipe"))
    assert v.activations == one.activations and dual.weights == pytest.approx(2 * stage + 2 * 2 * C.V * C.D, rel=1e-4)
    assert dual.activations == pytest.approx(5 / 4 * one.activations)


def test_errors_say_what_would_be_right():
    cases = (
        ({"optimizer": "SGD"}, "optimizer is one of 'Adam', 'Muon', not 'SGD'"),
        ({"schedule": "2F2B"}, "schedule is one of 'naive', 'GPipe', .* not '2F2B'"),
        ({"layers": "8*15"}, "layers are those of each device of a pipeline, such as 7.8x14.7, not '8.15'"),
    )
    refused(*((lambda more=more: Layout(**more), said) for more, said in cases))
