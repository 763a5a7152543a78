"""Formulas of answering: the sources' numbers with their errors corrected, walks over tokens, and searches."""

from dataclasses import replace
from math import inf
from random import Random

import jax
import pytest

from helpers import trace
from helpers.costs.inference import latency_and_throughput as answering
from helpers.costs.inference.engine_simulation import interleaved
from helpers.costs.inference.prefill_and_decode_step import Replica, cheapest, smallest_slice
from helpers.costs.inference.sharded_decode_step import points
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import flops, kv_cache, parameters, works
from helpers.costs.transformers.public_models import model
from helpers.costs.transformers.shares_and_thresholds import attention_intensity
from helpers.kernels.transformers import decoder
from tests.helpers.costs.tables import refused, walks
from tests.helpers.costs.transformers.decoders import TOYS
from tests.helpers.kernels.abstract_arrays import int32
from tests.helpers.kernels.transformers.families import toy

V5E = chip("v5e")
SEED = Config(4096, 64, 32, 8, 256, 16384, 32128, tied=True, norm="none")  # questions 1 to 4


def rough(r: Replica, B, S):
    """A step by the short formula: no activations are read, and all weights are, the embedding too."""
    return answering.step_time(B, r.kv(S), r.parameters.matmul, r.weight_bytes, r.C, r.W_hbm)


def test_sampling_with_and_without_a_cache_token_by_token():
    c = Config(8, 1, 1, 1, 8, 32, 10)
    for n in (1, 2, 9):
        f = [flops(c, 1, T, count="all") for T in range(1, n + 1)]
        g = [flops(c, 1, 1, S, count="all") for S in range(1, n + 1)]
        one, pair = flops(c, 1, 1).mlp, flops(c, 1, 1).attention
        assert answering.naive_work(n) == (sum(x.mlp for x in f) / one, sum(x.attention for x in f) / pair)
        assert answering.cached_work(n) == (sum(x.mlp for x in g) / one, sum(x.attention for x in g) / pair)


def walk(c, S, bytes_each, share, keep, scale):
    """Bytes of a cache, layer by layer: neighbours of one kind share, the first of each group stores."""
    total, met = 0, {}
    for i in range(c.L):
        window = c.kind(i).window
        n = met[c.kind(i)] = met.get(c.kind(i), -1) + 1
        if n % share:
            continue
        rows = [t for t in range(S) if window is None or t < keep or S - t <= window]
        each = c.mla.kv_rank + c.mla.rope + scale / bytes_each if c.mla else 2 * c.K * (c.H + scale / bytes_each)
        total += len(rows) * each * bytes_each
    return total


@walks(TOYS)
def test_bytes_of_a_cache_by_a_walk(name):
    """Heads, windows, shared layers, first tokens and scales."""
    c = TOYS[name]
    for S, bytes_each, share, keep, scale in ((5, 2, 1, 0, 0), (40, 1, 2, 0, 4), (99, 2, 3, 4, 0), (200, 0.5, 1, 2, 2)):
        got = kv_cache(c, S, 3, bytes_each, share, keep, scale)
        assert got == pytest.approx(3 * walk(c, S, bytes_each, share, keep, scale))
    refused((lambda: kv_cache(c, 8, share=0), "share is 1 or more"))


@walks(TOYS)
def test_a_step_reads_the_cache_that_is_kept(name):
    c, B, S = TOYS[name], 3, 100
    w = works(c, B, 1, S, w=0, x=0, cache_bytes=1, absorbed=bool(c.mla))
    assert sum(work.bytes for work in w.values()) == w["attention"].bytes == kv_cache(c, S, B, 1)
    f = flops(c, B, 1, S, "causal", absorbed=bool(c.mla))
    priced = works(c, B, 1, S, count="causal", absorbed=bool(c.mla))
    assert {role: work.flops for role, work in priced.items()} == {role: n for role, n in f.by_role.items() if n}


@walks(["llama-2-13b", "mixtral-8x7b", "gemma-3-27b", "deepseek-v3", "gpt-oss-20b"])
def test_a_model_against_the_rough_step(name):
    """All experts are at work from here on. The rough step reads the embedding besides, the exact one activations."""
    r, B, S = Replica(model(name), V5E, 512), 64, 8192
    p, step, embedding = r.parameters, r.decode(B, S), r.parameters.total - r.parameters.matmul
    used = 1 if r.config.moe is None else min(1, B * r.config.moe.k / r.config.moe.E)
    assert used == 1
    skipped = 2 * (0 if r.config.tied else p.embedding) / r.W_hbm
    assert step.time.lower <= step.seconds <= step.time.upper and embedding != 0
    assert rough(r, B, S) - skipped <= step.seconds * (1 + 1e-3) <= 1.25 * rough(r, B, S)
    assert step.roles["attention"].bound == "hbm" or r.config.mla


def test_prefill_and_chunks():
    r = Replica(model("llama-3-8b"), V5E, 8)
    assert r.prefill(8192).bound == ("mlp", "math")
    assert r.prefill(8192).roles["unembedding"] == r.decode(1, 8192).roles["unembedding"]  # of the last token alone
    whole, parts = r.forward(1, 4096), [r.forward(1, 1024, S) for S in (1024, 2048, 3072, 4096)]
    done = lambda p: sum(t.math for t in p.roles.values())  # noqa: E731
    assert sum(map(done, parts)) == pytest.approx(done(whole))  # the same pairs of query and key
    assert sum(p.time.parts["hbm"] for p in parts) > 2 * whole.time.parts["hbm"]  # weights and keys are read again
    assert r.prefill(8192, 4).seconds == pytest.approx(4 * r.prefill(8192).seconds, rel=0.02)
    assert attention_intensity(4096, 4096, 1) == 4096 / 2 and attention_intensity(1, 10**9, 1) == pytest.approx(1)


def test_what_fits_and_what_is_no_replica():
    r = Replica(SEED, V5E, 16, weights="int8", cache="int8", math="int8")
    assert replace(r, reserve=1e9).room == r.room - 16 * 1e9
    alone = replace(r, chips=1)
    assert alone.largest_batch(1) == 0 and alone.room < 0
    refused(
        (lambda: smallest_slice(V5E, 1e15), "do not fit a pod of 256 v5e"),
        (lambda: Replica(SEED, V5E, 0), "on 1 chip or more, not 0"),
        (lambda: Replica(SEED, V5E, 1, math="fp8"), "v5e has no published rate for 'fp8'"),
        (lambda: r.prefill(0), "one new token or more, got B=1 and T=0"),
        (lambda: r.decode(1, 0), "S is at least T, not 0"),
        (lambda: Replica(SEED, V5E, 1, reserve=2e10), "a part can be reserved"),
    )
    for B, S in ((0, 1), (6, 131_072), (31, 25_000)):  # the largest batch fits, one more does not
        assert (r.largest_batch(S) >= B) and r.kv(S, r.largest_batch(S)) <= r.room < r.kv(S, r.largest_batch(S) + 1)


def test_the_cheapest_by_brute_force():
    slices = [Slice(V5E, shape) for shape in ((1, 2), (2, 2), (2, 4), (4, 4), (4, 8))]
    every = points(Replica(model("llama-3-8b"), V5E), 2048, (1, 4, 16, 64, 1024), slices)
    ok = [p for p in every if p.fits]
    assert 2 < len(ok) < len(every)
    for limit in (0.003, 0.02, 1.0):
        p = cheapest(every, limit)
        assert p in ok and p.latency <= limit and p.per_chip == max(q.per_chip for q in ok if q.latency <= limit)
    refused(
        (lambda: cheapest(every, 1e-4), "answers within 0.1 ms: the quickest that fits takes .* ms"),
        (lambda: cheapest([p for p in every if not p.fits], 1.0), "nothing fits"),
    )


def test_reload_or_recompute_by_search():
    """The crossover against times of a model's own prefill, over PCIe."""
    r = Replica(model("gpt-2"), V5E)  # one of its size: its own texts end long before
    S = r.reload_crossover()
    assert S == pytest.approx(answering.reload_crossover(36864, 12 * 12 * 768**2, 1.97e14, 1.5e10, pair_flops=36864))
    for T, faster in ((round(0.97 * S), False), (round(1.03 * S), True)):
        compute = sum(t.math for role, t in r.forward(1, T, logits=0).roles.items())
        assert (answering.reload_time(r.kv(T), r.pcie) < compute) == faster
    big, setup = Replica(model("llama-3-8b"), V5E, 8), 0.1
    T = big.reload_crossover(setup)
    compute = sum(t.math for t in big.forward(1, round(T), logits=0).roles.values())
    assert (
        answering.reload_time(big.kv(round(T)), big.pcie, setup) == pytest.approx(compute, rel=1e-3)
        and big.reload_crossover() == 0
    )
    assert answering.reload_crossover(8e5, 1e3, 2e14, 1e10) == float("inf")
    refused((lambda: Replica(model("gpt-2"), chip("v7")).pcie, "v7 has no published bandwidth to its host"))


def test_a_queue_waits_as_long_as_a_simulated_one():
    """Time to first token is queue and prefill; Poisson requests to one server, against the closed form."""
    draw, at, load = Random(1), 0.0, []
    for _ in range(4000):
        at += draw.expovariate(0.7)
        load.append((at, 1, 1))
    log = interleaved(load, 1, prefill=lambda T: 1.0, step=lambda B, S: 1.0)
    waited = sum(s.start - s.request.arrival for s in log.served) / len(load)
    assert waited == pytest.approx(answering.waiting(0.7, 1.0), rel=0.15)
    assert log.ttft == pytest.approx(waited + 1.0)


def test_a_price():
    """A published day (DeepSeek, "DeepSeek-V3/R1 inference system overview", 2025): 226.75 hosts of 8 GPUs at 2 dollars an hour
    for each GPU are 87,072 dollars, and they made 168e9 tokens."""
    a_million = answering.cost_per_million(2.0, 226.75 * 8, 168e9 / (24 * 60 * 60))
    assert a_million == pytest.approx(87_072 / 168e3) and round(a_million, 2) == 0.52
    # 7.2 an hour for 3.6 million tokens
    assert answering.cost_per_million(0.9, 8, 1000) == pytest.approx(2.0)


# When pages run out.

LLAMA, A100 = model("llama-2-13b"), chip("A100")
LAYERS = parameters(LLAMA).total - 2 * LLAMA.V * LLAMA.D
MADE = LAYERS, A100.rate()
PAIR = 4 * LLAMA.L * LLAMA.N * LLAMA.H
KV = kv_cache(LLAMA, 1)


def test_computing_again_as_the_program_is_counted():
    """A masked program computes all S² scores, and the logits besides."""
    c = toy(L=2)
    params = jax.eval_shape(lambda: decoder.init(c, jax.random.key(0)))
    weights, pair = parameters(c).matmul - c.V * c.D, 4 * c.L * c.N * c.H
    for S in (16, 48):
        counted = trace.count(lambda p, x: decoder.forward(p, x, c), params, int32(1, S)).matmul_flops
        wanted = answering.recompute_time(S, weights, 1.0, 2 * pair) + 2 * S * c.V * c.D
        assert counted == wanted


@walks([(1024, 1), (1024, 16), (1000, 16), (5, 128)])
def test_swapping_copy_by_copy(S, page):
    seconds, setup, copies = 0.0, 1e-5, 2 * LLAMA.L
    for _ in ("out", "in"):
        for start in range(0, S, page):
            assert start < S
            seconds += sum(setup + page * KV / copies / A100.pcie_bandwidth for _ in range(copies))
    assert answering.swap_time(S, KV, A100.pcie_bandwidth, page, copies, setup) == pytest.approx(seconds)


def test_the_smallest_page_by_search():
    """From which size of pages on, that fill up, swapping is no slower: and inf where PCIe alone takes longer than computing."""
    S, copies, setup = 5040, 80, 1e-5  # 5040 has many divisors
    least = answering.smallest_page(S, KV, *MADE, A100.pcie_bandwidth, PAIR, copies, setup)
    pages = [n for n in range(1, S + 1) if S % n == 0]
    again = answering.recompute_time(S, *MADE, PAIR)
    faster = [answering.swap_time(S, KV, A100.pcie_bandwidth, n, copies, setup) <= again for n in pages]
    assert faster == [n >= least for n in pages] and 0 < sum(faster) < len(pages)
    assert answering.smallest_page(S, KV, *MADE, A100.pcie_bandwidth / 10, PAIR, copies, setup) == inf
    assert answering.smallest_page(S, KV, *MADE, A100.pcie_bandwidth, PAIR) == 0  # copies that begin at once
