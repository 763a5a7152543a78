"""The list of a step's operations against the exact counts of chapter 3, which are derived without it."""

import pytest

from helpers.costs.training.layout import Layout
from helpers.costs.training.step_operations import operations
from helpers.costs.transformers.parameters_and_flops import flops, parameters
from helpers.costs.transformers.public_models import MODELS, model
from helpers.costs.transformers.training_memory_bytes import POLICIES, recomputed
from tests.helpers.costs.tables import refused, walks

B, T = 8, 4096


def total(c, layout, of):
    """Over all layers of a kind, devices but for pp's, and microbatches."""
    at = operations(c, layout, B, T)
    devices = layout.dp * layout.fsdp * layout.ep * layout.tp * layout.cp
    return sum(layer.count * of(layer) for layer in at.layers) * devices * at.rounds


PRICED = [n for n in MODELS if not model(n).gemma3n]


@walks([n for n in MODELS if n not in PRICED])
def test_what_is_not_priced_is_refused(name):
    sentence = f"^a training step does not know .*, and {name} has one: parameters"
    refused((lambda: operations(model(name), Layout(), B, T), sentence))


def by_role(c, layout):
    roles = {p.role for layer in operations(c, layout, B, T).layers for p in layer.products}
    return {r: total(c, layout, lambda layer, r=r: sum(p.flops for p in layer.products if p.role == r)) for r in roles}


def are_shared(c, layout):
    exact = flops(c, B, T).by_role
    shared = by_role(c, layout)
    assert shared == pytest.approx({role: exact[role] for role in shared}, rel=1e-12)


@walks(PRICED, [Layout(), Layout(dp=2, fsdp=2, microbatches=2), Layout(cp=2, pp=2)])
def test_products_of_all_devices_are_the_flops_of_the_model(name, layout):
    c = model(name)
    are_shared(c, layout)
    head = operations(c, layout, B, T).head.flops * layout.dp * layout.fsdp * layout.cp * layout.microbatches
    assert head == pytest.approx(flops(c, B, T).unembedding)


@walks([n for n in PRICED if not model(n).mla and model(n).K % 2 == 0])
def test_tp_shares_every_product(name):
    are_shared(model(name), Layout(tp=2, dp=2))


@walks(PRICED, ["causal", "all", "half"])
def test_what_a_step_computes_and_computes_again_is_what_chapter_3_counts(name, count):
    c = model(name)
    whole = operations(c, Layout(), B, T)
    assert 3 * sum(whole.forward(count)) == flops(c, B, T, count=count).train
    for policy in POLICIES:
        assert sum(whole.again(policy, count)) == recomputed(c, B, T, policy, count)


def test_what_tp_cannot_cut_is_done_by_each():
    one, many = (by_role(model("llama-3-8b"), Layout(tp=n))["projections"] for n in (8, 32))
    c = model("llama-3-8b")
    kv = 2 * B * T * c.L * c.D * 2 * c.K * c.H
    assert many - one == pytest.approx(3 * kv)  # four chips have each KV head
    mla, m = model("deepseek-v3"), model("deepseek-v3").mla
    narrow = 2 * B * T * mla.L * mla.D * (m.q_rank + m.kv_rank + m.rope)
    one, four = (by_role(mla, Layout(tp=n))["projections"] for n in (1, 4))
    assert four - one == pytest.approx(3 * narrow)


@walks(PRICED)
def test_its_weights_are_the_parameters_and_its_attention_counts_the_pairs(name):
    c, p = model(name), parameters(model(name))
    at = operations(c, Layout(), B, T)
    assert at.held.dense + at.held.experts == pytest.approx(p.total, rel=1e-14)
    assert at.held.experts == p.experts and at.head.weights == (p.unembedding or p.embedding)
    for masked, count in ((True, "causal"), (False, "all")):
        exact = flops(c, B, T, count=count).attention
        assert total(c, Layout(dp=2), lambda layer, m=masked: layer.attention.flops(m)) == pytest.approx(exact)


@walks([n for n in PRICED if model(n).moe])
def test_experts_are_shared_over_ep_and_tp(name):
    c = model(name)
    whole = operations(c, Layout(), B, T).layers[-1]
    for layout in (Layout(ep=4), Layout(ep=2, tp=2)):
        part = operations(c, layout, B, T).layers[-1]
        assert part.held.experts == pytest.approx(whole.held.experts / 4)
        rows = [p.m * p.groups for p in part.products if p.role == "experts"]
        assert rows == pytest.approx([B * T / 4 * c.moe.k] * 2)  # tokens are shared evenly


def test_a_backward_pass_has_both_gradients():
    for p in operations(model("llama-3-8b"), Layout(tp=8), B, T).layers[0].products:
        rows, weights = p.backward
        assert (rows.m, rows.n, rows.k) == (p.m, p.k, p.n) and (weights.m, weights.n, weights.k) == (p.k, p.n, p.m)
        assert rows.flops == weights.flops == p.flops


def test_gradients_are_scattered_when_a_stage_has_had_its_microbatches():
    for v, runs in ((1, 8), (2, 2)):  # of 8 microbatches; in pieces a device computes each for pp = 4 of them in a row
        listed = operations(model("llama-3-8b"), Layout(dp=2, pp=4, v=v, zero=2, microbatches=8), 16, T)
        assert [8 * s.backward for s in listed.layers[0].sends if s.role == "gradients" and "dp" in s.axes][2] == runs


def test_sequence_parallelism_shares_what_norms_read():
    c = model("llama-3-8b")
    cut, whole = (operations(c, Layout(tp=8, sequence_parallel=s), B, T).layers[0].streamed[0] for s in (True, False))
    assert whole - cut == pytest.approx(11 * B * T * c.D * 7 / 8)
