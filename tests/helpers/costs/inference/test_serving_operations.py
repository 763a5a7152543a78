"""The list of a served pass against the exact counts of chapter 3; experts and devices by chance, by every routing and by drawing."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

from helpers.costs.inference.serving_operations import Batch, Deployment, expected_imbalance, fullest, met, operations
from helpers.costs.transformers.parameters_and_flops import flops, kv_cache, parameters
from helpers.costs.transformers.public_models import MODELS, model
from tests.helpers.costs.tables import refused, walks

PRICED = [n for n in MODELS if not model(n).gemma3n]
MIXTURES = [n for n in PRICED if model(n).moe]
B, S, T, DONE = 4, 5000, 3000, 1000
STEP, PIECES = Batch(decode=B, keys=S), Batch(prefill=2 * T, prompts=2, done=DONE)
MIXED = Batch(B, S, 2 * T, 2, DONE)


def weights(c, at, of=lambda p: True):
    """Of one device, experts whole."""
    ops = operations(c, at, STEP, B)
    every = sum(n.count * whole(c, at, p) for n in ops.layers for p in n.products if of(p))
    return every + (ops.head.weights if of(ops.head) else 0)


def whole(c, at, p):
    return p.n * p.k * (c.moe.E / at.ep if p.role == "experts" else 1)


def role(*names):
    return lambda p: p.role in names


def counted(c, b, logits, at=Deployment()):  # noqa: B008
    """FLOPs of one device by role; attention beside them."""
    ops, out = operations(c, at, b, logits), {"attention": 0.0}
    for n in ops.layers:
        out["attention"] += n.count * (n.reading.decode + n.reading.prefill)
        for p in n.products:
            out[p.role] = out.get(p.role, 0.0) + n.count * p.flops
    return out | {"unembedding": ops.head.flops}


@walks([n for n in MODELS if n not in PRICED])
def test_what_is_not_priced_is_refused(name):
    with pytest.raises(ValueError, match=f"^an estimate of serving does not know .*, and {name} has one: parameters"):
        operations(model(name), Deployment(), STEP, B)


@walks(PRICED)
def test_its_weights_are_the_parameters(name):
    """All matrices; the convolution of linear attention, of one part in ten thousand, is among "others"."""
    c, p = model(name), parameters(model(name))
    convolutions = sum(n for kind, n in c.groups if kind.linear) * (
        c.linear.channels * c.linear.kernel if c.linear else 0
    )
    matrices = p.attention - convolutions + p.mlp + p.experts + p.shared + p.router
    assert weights(c, Deployment()) == pytest.approx(matrices + c.D * c.V, rel=1e-14)
    assert convolutions < 1e-4 * matrices


@walks([n for n in PRICED if model(n).N % 4 == 0])
def test_tp_that_divides_shares_all_but_what_every_chip_needs(name):
    """Routers, latent attention's narrow matrices, indexers, and KV heads beyond K are copied."""
    c = model(name)
    one, router = weights(c, Deployment()), weights(c, Deployment(), role("router"))
    full = sum(n for kind, n in c.groups if not (kind.linear or kind.shares))
    m = c.mla
    narrow = c.L * (c.D * (m.kv_rank + m.rope + (m.q_rank or 0))) if m else 0
    narrow += c.L * sum(a * b for a, b in c.indexer.matrices(c.D, m.q_rank).values()) if c.indexer else 0
    for tp in (2, 4):
        kv = 0 if m else full * 2 * c.D * c.H * (max(c.K, tp) - c.K)
        more = tp * weights(c, Deployment(tp=tp)) - one
        assert more == pytest.approx((tp - 1) * (router + narrow) + kv, rel=1e-9, abs=1)


def test_heads_that_do_not_divide_are_padded():
    c = model("falcon-7b")  # 71 query heads on one KV head
    q, o = (p for p in operations(c, Deployment(tp=2), STEP, B).layers[0].products if p.role == "projections")
    assert (q.n, o.k) == (36 * 64 + 2 * 64, 36 * 64)
    assert counted(c, STEP, B, Deployment(tp=2))["attention"] == pytest.approx(
        counted(c, STEP, B)["attention"] * 36 / 71
    )


@walks(MIXTURES)
def test_experts_lie_over_all_chips(name):
    """Every expert somewhere once, cut over the chips that do not share them."""
    c = model(name)
    for at in (Deployment(tp=4), Deployment(tp=4, ep=4), Deployment(tp=2, dp=4, ep=2), Deployment(dp=8, ep=8)):
        assert at.group * weights(c, at, role("experts")) == pytest.approx(parameters(c).experts, rel=1e-12)


@walks(PRICED)
def test_products_are_the_flops_of_the_model(name):
    """Of a decode step, latent attention absorbed; of prompts from their start, and from what a cache has."""
    c = model(name)
    for b, logits, exact in (
        (STEP, B, flops(c, B, 1, S, "causal", absorbed=bool(c.mla))),
        (replace(PIECES, done=0), 2, flops(c, 2, T, count="causal", logits=1)),
        (PIECES, 2, flops(c, 2, T, T + DONE, "causal", logits=1)),
    ):
        assert counted(c, b, logits) == pytest.approx({r: n for r, n in exact.by_role.items() if n}, rel=1e-12)


@walks(PRICED)
def test_a_mixed_step_computes_both_and_reads_weights_once(name):
    """But for what absorbed latent attention multiplies, rows add up; so do caches that are read."""
    c = model(name)
    parts, both = [counted(c, b, 0) for b in (STEP, PIECES)], counted(c, MIXED, 0)
    assert both == pytest.approx({r: parts[0][r] + parts[1][r] for r in both}, rel=1e-12)
    step, pieces, mixed = (operations(c, Deployment(), b, 1) for b in (STEP, PIECES, MIXED))
    for x, y, xy in zip(step.layers, pieces.layers, mixed.layers):
        assert xy.reading.cached == pytest.approx(x.reading.cached + y.reading.cached)
        assert xy.reading.state == pytest.approx(x.reading.state + y.reading.state)
    assert max(step.weights, pieces.weights) <= mixed.weights < step.weights + pieces.weights


@walks(PRICED)
def test_a_step_reads_the_cache_that_kv_cache_counts(name):
    """Of one device: KV heads beyond K are copied, and a latent vector is not cut. Below an indexer's top and a window's reach too."""
    c = model(name)
    for tp, keys in product((1, 2, 16), (100, 20000)):
        layers = operations(c, Deployment(tp=tp), Batch(decode=3, keys=keys), 3).layers
        read = sum(n.count * n.reading.cached for n in layers)
        held, states = kv_cache(c, keys, 3, 1, state_bytes=0), sum(n.count * n.reading.state for n in layers)
        if c.linear:
            mixers = sum(n for kind, n in c.groups if kind.linear)
            held -= 3 * mixers * c.linear.inputs
            assert states == 3 * mixers * c.linear.state / tp
        if c.indexer:  # it reads of latent vectors those that it chose
            held -= 3 * c.L * (c.mla.kv_rank + c.mla.rope) * max(keys - c.indexer.top, 0)
        assert read == pytest.approx(held * (1 if c.mla else max(1 / tp, 1 / c.K)), rel=1e-12)


def test_caches_may_be_cut_along_sequences_beyond_the_heads():
    c, keys = model("llama-3-8b"), Batch(decode=1, keys=1000)
    copied, spread = (operations(c, Deployment(tp=32, spread=s), keys, 1).layers[0].reading for s in (False, True))
    assert copied.cached == 4 * spread.cached and copied.decode == spread.decode


@walks([(8, 2, 1), (64, 6, 10), (256, 8, 32), (16, 4, 3)])
def test_experts_met_are_those_that_chance_meets(E, k, tokens):
    draw, seen = np.random.default_rng(0), []
    for _ in range(600):
        chosen = np.argsort(draw.random((tokens, E)))[:, :k]
        seen.append(len(np.unique(chosen)))
    assert met(E, k, tokens) == pytest.approx(np.mean(seen), rel=0.02)
    assert min(k, E) <= met(E, k, tokens) + 1e-9 <= min(E, tokens * k) + 1e-6


@walks([(4, 8, None), (32, 8, None), (100, 64, None), (16, 256, None), (16, 8, 32), (4, 64, 8), (3, 8, 4)])
def test_the_fullest_device_has_what_chance_gives_it(mean, n, places):
    draw, taken = np.random.default_rng(0), mean * n
    counts = (
        draw.multivariate_hypergeometric([places] * n, taken, 2000)
        if places
        else draw.multinomial(taken, [1 / n] * n, 2000)
    )
    occupancy = mean / places if places else 0.0
    assert fullest(float(mean), n, occupancy) == pytest.approx(counts.max(axis=1).mean(), rel=0.07)


@walks(MIXTURES)
def test_rows_of_experts_are_the_tokens_of_all_groups(name):
    """Where a device has all experts; of devices that share them the fullest has more than its part, and no expert twice."""
    c = model(name)
    for rows in (1, 7, 512):
        for at in (Deployment(), Deployment(tp=8, dp=2), Deployment(tp=2, dp=4, ep=8), Deployment(dp=4, ep=4)):
            for n in operations(c, at, Batch(decode=rows, keys=10), 1).layers:
                some = [p for p in n.products if p.role == "experts"]
                assert len(some) == (2 if n.kind.moe else 0)
                for p in some:
                    part = rows * at.dp * c.moe.k / at.ep
                    assert p.m * p.groups == pytest.approx(fullest(part, at.ep)) and p.m * p.groups >= part - 1e-9
                    assert p.groups <= c.moe.E / at.ep
                    if at.ep == 1:
                        assert p.groups == pytest.approx(met(c.moe.E, c.moe.k, rows * at.dp))
                        assert p.m * p.groups == pytest.approx(part)


def test_a_deployment_that_cannot_be_says_why():
    cases = (
        (dict(weights="fp4"), "weights is one of bf16, fp8, int8, int4, mxfp4, nvfp4, not 'fp4'"),
        (dict(rest="int3"), "rest is one of bf16, fp8, int8, int4, mxfp4, nvfp4, not 'int3'"),
        (dict(cache="int4"), "cache is one of bf16, fp8, int8, nvfp4, not 'int4'"),
        (dict(tp=0), "tp is a whole number, 1 or more, not 0"),
        (dict(dp=1.5), "dp is a whole number, 1 or more, not 1.5"),
        (dict(tp=2, dp=3, ep=4), "ep is a part of tp·dp = 6 chips, not 4"),
        (dict(tp="8"), "tp is a number"),
    )
    refused(*((lambda fields=fields: Deployment(**fields), said) for fields, said in cases))


def test_four_bits_are_for_experts_where_there_are_some():
    at, dense, mixture = Deployment(weights="nvfp4", rest="fp8"), model("llama-3-8b"), model("deepseek-v3")
    roles = ("projections", "mlp", "experts", "shared", "router", "unembedding")
    assert [at.type_of(dense, r) for r in roles[:2]] == ["nvfp4", "nvfp4"]
    assert [at.type_of(mixture, r) for r in roles] == ["fp8", "nvfp4", "nvfp4", "nvfp4", "fp8", "bf16"]


def every_routing(tokens, E, k, devices):
    """Mean imbalance of all equally likely routings, one by one."""
    choices = [np.bincount([e * devices // E for e in some], minlength=devices) for some in combinations(range(E), k)]
    return np.mean([np.sum(some, 0).max() * devices / (tokens * k) for some in product(choices, repeat=tokens)])


@walks([(6, 4, 1, 2), (4, 4, 2, 2), (3, 6, 2, 3), (5, 3, 1, 3)])
def test_imbalance_over_every_routing(tokens, E, k, devices):
    """A few tokens are far from normal; the estimate is within a tenth even so."""
    wanted = every_routing(tokens, E, k, devices)
    assert expected_imbalance(tokens, E, k, devices) == pytest.approx(wanted, rel=0.1)


def test_what_has_no_imbalance():
    refused(
        (lambda: expected_imbalance(4, 6, 7, 2), "not k=7, E=6, 2 devices"),
        (lambda: expected_imbalance(4, 6, 2, 4), "not k=2, E=6, 4 devices"),
    )
