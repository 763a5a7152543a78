"""Measured expert layers: fitted on one source and held against the others; overlap against events; attention's caches by counting."""

import json

import pytest

from helpers.costs.experts.exchange import COPIES
from helpers.costs.experts.measured import (
    KernelShares,
    MeasuredLayer,
    cached_tokens,
    expert_work,
    fitted_shares,
    half_batches,
    kernel_errors,
    kernel_seconds,
)
from helpers.costs.rooflines.chips import chip
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.costs.transformers.public_models import model
from tests.helpers.costs.tables import walks
from tests.scratch import ROOT

DATA = json.loads((ROOT / "book/data/expert_layers.json").read_text(encoding="utf-8"))


def rows(source: str, kernel: str = "") -> list[dict]:
    """Rows of whole layers of a source, with the sizes of their models."""
    chosen = [r for r in DATA["rows"] if r["source"] == source and r["what"] == "layer" and kernel in r["kernel"]]
    return [r | DATA["models"][r["model"]] for r in chosen]


def measured(r: dict) -> MeasuredLayer:
    """A row beside the rates of its chip; where none is named, of a B200. nvfp4 weights are multiplied at the fp4 rate."""
    on = chip(r["chip"] or "B200")
    types = r["weights"], r["dispatch"], r["combine"]
    work = expert_work(r["tokens"], *(r[size] for size in ("D", "F", "E", "k", "ep")), *types)
    C = on.rate("fp4" if r["weights"] == "nvfp4" else "fp8")
    return MeasuredLayer(work, r["us"] * 1e-6, C, on.hbm_bandwidth, on.link_bandwidth)


def within(found: list[dict], shares: KernelShares) -> int:
    """Rows that are predicted within 25 %."""
    return sum(abs(e) <= 0.25 for e in kernel_errors([measured(r) for r in found], shares))


def test_sources_and_models_are_named():
    assert len(DATA["rows"]) == 141 and {r["source"] for r in DATA["rows"]} == DATA["sources"].keys()
    assert {r["model"] for r in DATA["rows"]} == DATA["models"].keys()
    assert all(r.get(way, "bf16") in COPIES for r in DATA["rows"] for way in ("dispatch", "combine", "weights"))
    for name in ("deepseek-v3", "qwen-3-235b-a22b"):
        moe, sizes = model(name).moe, DATA["models"][name]
        assert (model(name).D, moe.F, moe.E, moe.k) == tuple(sizes[x] for x in "DFEk")


def test_flops_over_time_are_the_rates_that_deepgemm_prints():
    for r in rows("deepgemm_316"):
        tflops = measured(r).work.flops / r["us"] / 1e6
        assert tflops == pytest.approx(r["said"]["tflops"], abs=0.6)


def test_bytes_of_one_token_are_those_that_deepgemm_prints():
    """V4-Flash, a token on each of 8 devices: 1,311 GB/s for 56.5 µs are 5.54 experts a device; predicted are 5.53. V4-Pro: 5.42 and
    5.68, of which chance moves one run by 0.19 an expert."""
    for r, close in zip([r for r in rows("deepgemm_316") if r["tokens"] == 1], (0.01, 0.06)):
        printed = r["said"]["hbm_gb_s"] * r["us"] * 1e3
        assert measured(r).work.weights == pytest.approx(printed, rel=close)


def test_fit():
    """Eight rows of #316: 49 µs, and 61, 53 and 49 % of the published rates. No share moved by 1 % does better."""
    layers = [measured(r) for r in rows("deepgemm_316")]
    got = fitted_shares(layers)
    assert (got.start, got.memory, got.arithmetic, got.links) == pytest.approx((4.9e-5, 0.61, 0.53, 0.49), rel=0.01)
    squares = lambda shares: sum(e * e for e in kernel_errors(layers, shares))  # noqa: E731
    assert max(map(abs, kernel_errors(layers, got))) < 0.2
    for start in (0.8, 1.25):
        assert squares(KernelShares(got.start * start, got.memory, got.arithmetic, got.links)) > squares(got)


def test_fit_finds_what_made_the_times():
    true = KernelShares(2e-5, 0.5, 0.4, 0.3)
    made = [
        expert_work(t, D, F, E, 6, 8, "fp8")
        for D, F, E in ((4096, 8192, 64), (2048, 64, 64))
        for t in (1, 8, 64, 1024, 8192)
    ]
    layers = [MeasuredLayer(w, kernel_seconds(w, true, 2e15, 4e12, 4e11), 2e15, 4e12, 4e11) for w in made]
    got = fitted_shares(layers)
    assert (got.start, got.memory, got.arithmetic, got.links) == pytest.approx((2e-5, 0.5, 0.4, 0.3), rel=0.02)


def test_other_sources_on_the_same_chip_are_predicted():
    """vLLM #49636 on B200: all six rows of DeepGEMM's kernel within 25 %, and 22 of 24 of FlashInfer's, whose types are others."""
    shares = fitted_shares([measured(r) for r in rows("deepgemm_316")])
    asked = rows("vllm_49636", "DeepGEMM"), rows("vllm_49636", "FlashInfer")
    assert [(within(found, shares), len(found)) for found in asked] == [(6, 6), (22, 24)]


def test_shares_do_not_carry_over_to_another_chip():
    """H200, DeepGEMM #383: 8 of 14 rows of one kernel. Fitted on half of its own rows, all of the other half."""
    found = rows("deepgemm_383", "one kernel")
    assert (within(found, fitted_shares([measured(r) for r in rows("deepgemm_316")])), len(found)) == (8, 14)
    own = fitted_shares([measured(r) for r in found[::2]])
    assert within(found[1::2], own) == 7 and own.arithmetic < 0.4 and own.memory > 0.8
    separate = rows("deepgemm_383", "DeepEP")
    assert [r["us"] for r in found] < [r["us"] for r in separate] and within(separate, own) < len(separate)


def test_exchange_in_public_steps():
    """Qwen3-235B: at least 10.7 % was exposed."""
    said = next(r["said"] for r in DATA["rows"] if r["what"] == "overlap")
    assert 1 - said["step_s_with_exchange_overlapped"] / said["step_s"] == pytest.approx(0.107, abs=0.0005)


@walks([(6.6, 4.6, 10.8, 22.1), (6.6, 14.1, 33.1, 67.8), (20.0, 1.0, 2.0, 10.0), (1.0, 1.0, 1.0, 90.0)])
def test_half_batches_by_events(w, kv, f, x):
    """Two halves take turns on the arithmetic and on the links, layer by layer, over many layers; weights are read by each."""
    layers, compute, links, ready = 400, 0.0, 0.0, [0.0, 0.0]
    for _ in range(layers):
        for half in (0, 1):
            compute = max(compute, ready[half]) + (w + (kv + f) / 2) / layers
            links = max(links, compute) + x / 2 / layers
            ready[half] = links
    alone, halves = half_batches(w, kv, f, x)
    assert max(compute, links) == pytest.approx(halves, rel=0.01) and alone == w + kv + f + x
    assert (halves < alone) == (x > w)


def test_attention_data_parallel():
    """V3 in fp8 on eight H200: what each layout reads and holds, counted device by device."""
    p, cache = parameters(model("deepseek-v3")), 61 * 576
    rest, experts, room = p.total - p.experts - p.embedding, p.experts, 0.9 * 1.41e11
    tokens = rest / cache
    reads = lambda S: (rest + cache * S / 8, rest / 8 + cache * S)  # noqa: E731
    assert reads(tokens)[0] == pytest.approx(reads(tokens)[1]) and reads(2 * tokens)[0] < reads(2 * tokens)[1]
    assert cache == 35136 and tokens == pytest.approx(457_000, rel=0.01)
    dp, tp = cached_tokens(8, room, experts, rest, cache)
    assert (
        experts / 8 + rest + cache * dp / 8 == pytest.approx(room) == pytest.approx(experts / 8 + rest / 8 + cache * tp)
    )
    assert (dp, tp) == pytest.approx((6.4e6, 1.2e6), rel=0.05)
