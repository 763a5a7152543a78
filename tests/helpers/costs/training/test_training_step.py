"""Training steps under layouts: memory, traffic and time against the sources' numbers and against simpler counts."""

from collections import Counter
from dataclasses import replace
from math import prod

import numpy as np
import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training import closed_forms, dp_fsdp_tp, training_step
from helpers.costs.training.layout import MASTER, Layout
from helpers.costs.training.training_step import step
from helpers.costs.transformers import parameters_and_flops as counts, training_memory_bytes as memory
from helpers.costs.transformers.config import Config, MoE
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.costs.transformers.public_models import model
from tests.helpers.costs.tables import refused, walks

V5P = chip("v5p")
CUBE, BIG = Slice(V5P, (4, 4, 4)), Slice(V5P, (16, 16, 16))
LLAMA = model("llama-2-13b")
DENSE = Config(4096, 32, 32, 32, 128, 16384, 8, norm="none")
EXPERTS = Config(1024, 8, 16, 4, 64, 4096, 1000, moe=MoE(E=16, k=2, F=512, shared=1, first_dense=2))


def test_zero_memory():
    """Bytes of a device under ZeRO-0 to 3, closed forms against the arrays that each device is left with."""
    P, X = parameters(LLAMA).total, 64
    for z in range(4):
        at = step(LLAMA, Layout(dp=X, zero=z), X * 4096, 4096, CUBE).memory
        want = closed_forms.zero_memory(P, X, z)
        assert (at.weights, at.gradients, at.optimizer) == pytest.approx(want)
        at = step(LLAMA, Layout(dp=X, zero=z, stored=MASTER), X * 4096, 4096, CUBE).memory
        assert at.optimizer - want[2] == pytest.approx(4 * P / (X if z else 1))
    vector = np.zeros(6400)
    shards = {
        z: [len(np.array_split(vector, X)[0]) if z >= least else len(vector) for least in (3, 2, 1)] for z in range(4)
    }
    for z, (weight, gradient, state) in shards.items():
        assert closed_forms.zero_memory(6400, X, z) == (2 * weight, 2 * gradient, 8 * state)
    weight, _, state = closed_forms.zero_memory(P, X, 3)
    assert weight + state == pytest.approx(10 * P / X)


def test_fsdp_holds_its_share_and_a_layer():
    """Weight bytes of a device are 1/X of all and one gathered layer."""
    at = step(LLAMA, Layout(fsdp=64), 64 * 4096, 4096, CUBE).memory
    P, D, F = parameters(LLAMA).total, 5120, 13824
    layer = 4 * D * D + 3 * D * F + 2 * D
    assert at.weights == pytest.approx(2 * P / 64, rel=1e-14)
    # and the next one; the last norm is spread over layers
    assert at.gathered == pytest.approx(2 * 2 * layer, rel=1e-3)
    assert step(LLAMA, Layout(dp=64), 64 * 4096, 4096, CUBE).memory.gathered == 0
    # nobody to share with
    assert step(LLAMA, Layout(tp=4, zero=3), 4096, 4096, Slice(V5P, (4, 1, 1))).memory.gathered == 0


def test_days_and_chip_hours_of_a_budget():
    at = step(LLAMA, Layout(fsdp=4096), 4 * 2**20, 1024, BIG)
    took = counts.flops(LLAMA, 4096, 1024, count="causal").train / (0.4 * 4096 * V5P.rate())
    assert at.mfu(took) == pytest.approx(0.4)
    assert at.days(1e12, took) == pytest.approx(1e12 / 2**22 * took / 86400)
    assert at.chip_hours(1e12, took) == pytest.approx(24 * 4096 * at.days(1e12, took))


def by_axis(at, axis):
    return sum(x.bytes * x.times * (2 if x.kind == "AllReduce" else 1) for x in at.sent if x.axes == axis)


def test_traffic_is_that_of_the_two_matmul_layer():
    """Of each MLP, the step sends over fsdp and tp what `dp_fsdp_tp.cost` says of FSDP+TP, which is run in its test."""
    B, D, F, X, Y, L = 64 * 512, 2048, 8192, 16, 4, 6
    c = Config(D, L, 16, 16, 128, F, 8, gated=False, norm="none")
    wider = Config(D, L, 16, 16, 128, 2 * F, 8, gated=False, norm="none")
    here, there = (step(a, Layout(fsdp=X, tp=Y, policy="everything"), B, 512, CUBE) for a in (c, wider))
    passes, more = (dp_fsdp_tp.cost("FSDP+TP", B, D, n, X, Y) for n in (F, 2 * F))
    grown = sum(p.bytes["X"] for p in more) - sum(p.bytes["X"] for p in passes)
    assert by_axis(there, ("fsdp",)) - by_axis(here, ("fsdp",)) == pytest.approx(L * grown)
    assert by_axis(here, ("tp",)) == pytest.approx(2 * L * sum(p.bytes["Y"] for p in passes))  # attention as much
    assert here.flops - 3 * counts.flops(c, 64, 512).attention == pytest.approx(6 * B * (parameters(c).matmul))


def test_what_is_sent_under_each_strategy():
    """Kinds, axes, and what a product waits for."""

    def kinds(layout, c=DENSE):
        at = step(c, replace(layout, policy="everything"), 64 * 4096, 4096, CUBE)
        out = Counter()
        for x in at.sent:
            out[x.kind, "+".join(x.axes), x.role, x.when, x.hides] += x.times / c.L
        return dict(out)

    AG, RS = "AllGather", "ReduceScatter"
    dp, fsdp = "cp+ep+dp", "fsdp"
    assert kinds(Layout(dp=64)) == {("AllReduce", dp, "gradients", "update", True): 1}
    shared = {(RS, dp, "gradients", "update", True): 1, (AG, dp, "weights", "update", True): 1}
    assert kinds(Layout(dp=64, zero=1)) == shared
    gathers = {(AG, fsdp, "weights", way, True): 1 for way in ("forward", "backward")}
    assert kinds(Layout(fsdp=64)) == gathers | {(RS, fsdp, "gradients", "backward", True): 1}
    assert kinds(Layout(dp=64, zero=3)).keys() == {(k[0], "cp+ep+fsdp+dp", *k[2:]) for k in kinds(Layout(fsdp=64))}
    ways, what = ("forward", "backward"), "activations"
    # Two blocks, on half of the layers.
    waited = {(kind, "tp", what, way, False): 1 for kind in (AG, RS) for way in ways}
    handed = {("Permute", "pp", what, way, True): 1 / 32 for way in ways}
    assert kinds(Layout(tp=32, pp=2)) == waited | handed | {(AG, "tp", what, "backward", True): 1}
    cp = kinds(Layout(cp=64))  # the MLP sends nothing: only keys and values, and gradients as under dp
    assert {k[2] for k in cp} == {"keys", "gradients"} and cp["AllReduce", dp, "gradients", "update", True] == 1
    ep = kinds(Layout(ep=16, dp=4), EXPERTS)
    assert ep["AllToAll", "tp+ep", "tokens", "forward", False] == 2 * 6 / 8  # there and back, in 6 of 8 layers


def test_nothing_kept_sends_the_forward_pass_again():
    """With policy "nothing" the backward pass sends all of the forward pass's, and its own."""

    def sums(policy):
        out = Counter()
        for x in step(EXPERTS, Layout(fsdp=2, tp=2, ep=4, cp=4, policy=policy), 64 * 1024, 1024, CUBE).sent:
            out[x.kind, x.axes, x.role, x.when] += x.times * x.bytes
        return out

    got, want = sums("nothing"), sums("everything")
    again = {k for k in want if k[3] == "forward"}
    assert {k[2] for k in again} == {"weights", "activations", "keys", "tokens"}
    for kind, axes, what, _ in again:
        back = (kind, axes, what, "backward")
        assert got[back] == pytest.approx(want[back] + want[kind, axes, what, "forward"])


@walks([("everything", 3, 3), ("matmuls", 3, 4), ("nothing", 4, 4)])
def test_fp8_is_for_products_with_weights(policy, passes, bf16):
    """Pairs of query and key, and the unembedding, stay at the rate of bf16."""
    s, laid = Slice(chip("H100"), (8,)), Layout(fsdp=8, policy=policy, products="fp8")
    f, at = counts.flops(EXPERTS, 64, 1024), step(EXPERTS, laid, 64 * 1024, 1024, s)
    slow = bf16 * f.attention + passes * f.unembedding
    want = passes * (f.layers - f.attention) / s.rate("fp8") + slow / s.rate()
    assert at.parts["math"] == pytest.approx(want)
    assert at.parts | {"math": 0} == step(EXPERTS, replace(laid, products="bf16"), 64 * 1024, 1024, s).parts | {
        "math": 0
    }


def test_pipeline_time_is_the_slowest_stage_and_the_bubble():
    """Arithmetic of p stages with m microbatches takes (m + p - 1)/m of a p-th, and the unembedding its stage."""
    s = Slice(V5P, (4, 1, 1))
    for m in (1, 4, 8):
        at = step(DENSE, Layout(pp=4, microbatches=m, policy="everything"), 8 * 4096, 4096, s)
        f = counts.flops(DENSE, 8, 4096)
        stage = 3 * f.layers / 4 + 3 * f.unembedding
        assert at.parts["math"] == pytest.approx(stage / V5P.rate() * (m + 3) / m)
        assert at.bubble == pytest.approx(3 / (m + 3))
    alone, cut = (
        step(DENSE, x, 2**15, 4096, s).memory for x in (Layout(dp=4, microbatches=2), Layout(pp=4, microbatches=8))
    )
    assert cut.activations == alone.activations  # a quarter of the layers, four microbatches under way
    assert cut.weights == pytest.approx(alone.weights / 4, rel=1e-3)


def test_the_fullest_stage_sets_the_pace():
    """126 layers on 16 stages: eight on all but two, seven on these; as the published layout of Llama 3.1 has it."""
    c, s = model("llama-3.1-405b"), Slice(chip("H100"), (8,))
    laid = Layout(tp=8, pp=16, fsdp=2, pods=32, microbatches=32)
    at, fuller = (step(replace(c, L=n), laid, 2**21, 8192, s) for n in (126, 128))
    assert at.parts["math"] < fuller.parts["math"] and at.parts["tp"] == pytest.approx(fuller.parts["tp"])
    seven = step(replace(c, L=112), laid, 2**21, 8192, s)
    layer = (fuller.parts["math"] - seven.parts["math"]) * (1 - at.bubble)
    assert at.parts["math"] * (1 - at.bubble) >= 8 * layer * (1 - 1e-9)
    assert at.flops == pytest.approx(memory.train_flops(c, 2**21 / 8192, 8192, "block"))
    for layers, most in (("8x15+6", 8), ("9+8x14+5", 9)):  # the first as without a list
        listed = step(c, replace(laid, layers=layers), 2**21, 8192, s)
        assert listed.parts["math"] == pytest.approx(at.parts["math"] * most / 8)


@walks([LLAMA, DENSE, EXPERTS, model("deepseek-v3"), model("gemma-2-27b")])
def test_devices_hold_the_model_and_no_more(c):
    """Over all devices the parameters add up to the model, and to its copied parts as often as they are copied."""
    p = parameters(c)

    def held(layout):
        return training_step.operations(c, layout, 64, 1024).held

    alone = held(Layout())
    assert alone.dense + alone.experts == pytest.approx(p.total, rel=1e-14)
    assert held(Layout(ep=2)).experts == p.experts / 2
    cut = held(Layout(tp=4))
    copied = p.norms + p.router
    if c.mla:
        shapes = c.mixer(c.kind(0)).matrices(c.D)
        copied += c.L * sum(prod(shapes[n]) for n in ("q_down", "kv_down"))
    assert 4 * (cut.dense + cut.experts) == pytest.approx(p.total + 3 * copied)


def test_memory_without_a_layout_is_that_of_chapter_3():
    """One chip holds what `training_memory_bytes.training_memory` says, but for the T·S shares, which a fused kernel keeps
    nowhere, and a logit's copy in bf16; besides, the largest gradient twice, and what one layer makes again."""
    one, largest = Slice(V5P, (1, 1, 1)), EXPERTS.D * EXPERTS.moe.E * 2 * EXPERTS.moe.F
    shares = {
        "everything": 2 * 4 * 512 * EXPERTS.L * EXPERTS.N * 512,
        "nothing": 2 * 4 * 512 * EXPERTS.L * EXPERTS.N * 512,
    }
    for policy in memory.POLICIES:
        at = step(EXPERTS, Layout(policy=policy), 4 * 512, 512, one)
        want = vars(memory.training_memory(EXPERTS, 4, 512, policy))
        want["activations"] -= shares.get(policy, 0)
        got = {role: getattr(at.memory, role) for role in want}
        assert got == pytest.approx(want | {"logits": 1.5 * want["logits"]})
        assert at.memory.gathered == 0 and (at.memory.working > 2 * largest) == (policy == "block")
        assert at.memory.working >= 2 * largest
        count = memory.train_flops(EXPERTS, 4, 512, policy)
        assert at.flops == pytest.approx(count, rel=1e-14)


def test_bounds_hold_between_them_what_a_program_takes():
    """Lower <= hidden <= upper, and FLOPs do not depend on the layout."""
    all_axes = Layout(dp=2, fsdp=2, tp=2, pp=2, ep=2, cp=2, microbatches=4, zero=1)
    layouts = Layout(fsdp=16, tp=4), Layout(dp=4, ep=16), all_axes, Layout(fsdp=64, pods=2)
    found = [step(EXPERTS, layout, 256 * 1024, 1024, CUBE) for layout in layouts]
    for at in found:
        assert at.time.lower <= at.hidden <= at.time.upper
        assert at.flops == pytest.approx(found[0].flops, rel=1e-14) and at.chips == 64 * at.layout.pods


def test_errors_say_what_would_be_right():
    refused(
        (lambda: Layout(dp=0), "dp is a whole number of 1 or more, got 0"),
        (lambda: Layout(zero=4), "zero is 0, 1, 2 or 3, not 4"),
        (lambda: Layout(tp=1.5), "tp is a whole number of 1 or more, got 1.5"),
        (lambda: step(LLAMA, Layout(fsdp=32), 2**20, 4096, CUBE), "fsdp=32 takes 32 chips and the slice has 64: multiply an axis by 2"),
        (lambda: step(LLAMA, Layout(fsdp=128), 2**20, 4096, CUBE), "128 chips and the slice has 64: divide an axis by 2"),
        (lambda: step(LLAMA, Layout(fsdp=4, tp=16), 2**20, 4096, CUBE), "tp=16 does not divide N=40, D=5120 and F=13824"),
        (lambda: step(DENSE, Layout(tp=3, pp=32), 96 * 32, 32, Slice(V5P, (4, 4, 6))), "does not lie along 4x4x6 chips"),
        (lambda: step(model("llama-2-13b", L=42), Layout(pp=64), 2**20, 4096, CUBE),
         "64 stages are more than L=42 layers and the two tables of the vocabulary: let pp be 44 or less"),
        (lambda: step(DENSE, Layout(pp=32, dp=2, schedule="interleaved", v=3), 2**20, 4096, CUBE),
         "96 stages are more than L=32 layers and the two tables of the vocabulary: let pp·v be 34 or less"),
        (lambda: step(EXPERTS, Layout(ep=64), 2**20, 1024, CUBE), "ep=64 does not divide E=16 experts: let it be 16"),
        (lambda: step(LLAMA, Layout(ep=64), 2**20, 1024, CUBE), "ep=64, and the model has no experts: leave it out"),
        (lambda: step(LLAMA, Layout(fsdp=64), 2**20 + 1, 1024, CUBE),
         "1048577 tokens are no whole number of sequences of T=1024: the next is 1049600"),
        (lambda: step(LLAMA, Layout(fsdp=64), 2**15, 1024, CUBE),
         "32 sequences do not divide over 64 shards x 1 microbatches: give a multiple of 64, the least is 65536 tokens"),
        (lambda: step(LLAMA, Layout(fsdp=64, microbatches=2), 96 * 1024, 1024, CUBE),
         "96 sequences do not divide over 64 shards x 2 microbatches: give a multiple of 128, the least is 131072 tokens"),
        (lambda: step(DENSE, Layout(cp=64), 1000, 1000, CUBE), "cp=64 does not divide T=1000 tokens of a sequence: let it be 50 or 100"),
        (lambda: step(model("llama-3-8b"), Layout(tp=16, fsdp=4, policy="all"), 2**20, 4096, CUBE), "'all' is no policy"),
        (lambda: step(DENSE, Layout(pp=4, fsdp=16, microbatches=2, schedule="interleaved", v=2), 2**20, 4096, CUBE),
         "an interleaved pipeline takes a multiple of pp=4 microbatches, not 2"),
        (lambda: step(LLAMA, Layout(fsdp=64, products="fp4"), 2**20, 4096, CUBE), "v5p has no published rate for 'fp4'"),
        (lambda: Layout(offload="all"), "offload is one of '', 'activations', 'optimizer', not 'all'"),
        (lambda: closed_forms.zero_memory(1, 1, 5), "zero is 0, 1, 2 or 3, not 5"),
        (lambda: step(LLAMA, Layout(fsdp=64), -(2**20), 1024, CUBE), "tokens and T are 1 or more, got tokens=-1048576"),
        (lambda: step(LLAMA, Layout(fsdp=64), 2**20, 0, CUBE), "tokens and T are 1 or more, got .* T=0"),
    )  # fmt: skip


@walks([("matmuls", 0), ("block", 1), ("nothing", 0)])
def test_what_is_computed_again_waits_for_its_input(policy, waits):
    """Under "block" the MLP's In comes from attention done again; attention's own is the layer's, which was kept."""
    sent = step(DENSE, Layout(fsdp=16, tp=4, policy=policy), 2**20, 4096, CUBE).sent
    again = {
        one.hides: one.times for one in sent if (one.kind, one.axes, one.when) == ("AllGather", ("tp",), "backward")
    }
    more = 2 if policy == "nothing" else 0  # the whole forward pass, in order
    assert again == {False: (2 + more + waits) * DENSE.L, True: (2 - waits) * DENSE.L}
