"""Formulas of chapter 5, with settings of each: see tests/helpers/costs/formulas.py."""

from dataclasses import replace

from helpers.costs.inference import (
    engine_simulation,
    latency_and_throughput as answering,
    prefill_and_decode_step as passes,
    serving_constants,
    serving_estimate,
    serving_operations,
    sharded_decode_step as on_slice,
    sharding_limits as limits,
    speculative_decoding as guesses,
)
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.transformers.config import MLA, MoE
from helpers.costs.transformers.public_models import model
from tests.helpers.costs.tables import by_name
from tests.helpers.costs.transformers.decoders import DECODERS, any_mixture, any_size

V5E = chip("v5e")
SQUARE = Slice(V5E, (8, 8))


def _replica(n, *sizes):
    """A step, a prefill and what fits, of a mixed decoder on n chips, the chip's numbers and bytes of a weight traced too."""
    one = replace(V5E, hbm_bandwidth=1e12 + n, hbm_bytes=1e10 + n, flops={"bf16": 1e14 + n})
    r = passes.Replica(any_mixture(*sizes), one, n, weights=n / n, cache="int8")
    step, first, mixed = r.decode(8.0, 300.0), r.prefill(100.0), r.mixed(8.0, 300.0, 64.0, 32.0)
    return (
        step.seconds, step.time.lower, step.time.upper, first.seconds, mixed.seconds, r.largest_batch(300.0)
    )  # fmt: skip


def _cut(Y, Z, B, S):
    """A decode step, a prefill and a mixed step on a slice, and bytes on a chip."""
    r = passes.Replica(any_size(512, 4, 64, 1024), V5E)
    at = (
        on_slice.decode(r, SQUARE, Y, Z, B, S),
        on_slice.prefill(r, SQUARE, Y, Z, S, B),
        on_slice.mixed(r, SQUARE, Y, Z, B, S, S / 2, S / 2),
    )
    return *(x for p in at for x in (p.seconds, p.time.upper)), on_slice.held(r, SQUARE, Y, Z, B, S)


def _at_once(tp, requests, S):
    at, engine = serving_operations.Deployment(tp=tp), serving_constants.ENGINES["trtllm"]
    s = serving_estimate.Server(model("llama-3-8b"), chip("H100"), at, engine)
    return serving_estimate.tokens_per_second(s, S, S / 4 + 1, requests)


def _served(tp, dp, B, S):
    """Numbers of a server: passes, what a chip holds, what users see, with experts over all chips and a window."""
    tp, dp, B, S = (1.0 * x for x in (tp, dp, B, S))
    at = serving_operations.Deployment(tp=tp, dp=dp, ep=tp * dp, weights="fp8")
    c = any_size(512, 8, 64, 1024, window=64, full_every=2, moe=MoE(64, 2, 256, shared=1))
    s = serving_estimate.Server(c, chip("H100"), at, serving_constants.ENGINES["vllm"])
    seen = serving_estimate.loaded(s, S, S / 4 + 1, B * dp)
    passes = s.decode(B, S), s.prefill(S, B), s.mixed(B, S, S / 2, S / 2), seen.first, seen.gap
    return *(e.mid for e in passes), s.held, s.cache(S), s.most(S), seen.request, seen.batch, seen.read


def _listed(tp, rows, S):
    """FLOPs and weights of a served pass, linear attention and latent attention with an indexer."""
    out, (tp, rows, S) = [], (1.0 * x for x in (tp, rows, S))
    for name in ("qwen-3-next-80b-a3b", "deepseek-v3.2", "gpt-oss-20b"):
        at = serving_operations.Deployment(tp=tp, ep=tp)
        b = serving_operations.Batch(rows, S, rows * 64, rows, S / 2)
        ops = serving_operations.operations(model(name), at, b, rows)
        out += [sum(n.count * sum(p.flops for p in n.products) for n in ops.layers), ops.weights]
        out += [sum(n.count * getattr(n.reading, x) for n in ops.layers) for x in vars(ops.layers[0].reading)]
        out += [sum(n.count * n.routed for n in ops.layers) + ops.head.flops]
    return tuple(x + 0 * rows for x in out)


FORMULAS = {
    **by_name(
        (serving_operations.met, [(256.0, 8.0, 32.0), (8.0, 2.0, 1.0)]), (answering.attention_time, [(4.0, 8e8, 1.3e13)]),
        (answering.linear_time, [(4.0, 3e10, 3e10, 3e15, 1.3e13), (512.0, 3e10, 3e10, 3e15, 1.3e13)]),
        (answering.step_time, [(4.0, 8e8, 3e10, 3e10, 3e15, 1.3e13), (256.0, 8e8, 3e10, 3e10, 3e15, 1.3e13)]),
        (answering.throughput, [(4.0, 8e8, 3e10, 3e10, 3e15, 1.3e13)]),
        (answering.naive_work, [(7.0,), (100.0,)]),
        (answering.cached_work, [(7.0,)]), (answering.receptive_field, [(32.0, 4096.0)]),
        (answering.waiting, [(2.0, 0.25), (5.0, 0.25), (4.0, 0.25)]),
        (answering.cost_per_million, [(1.0, 16.0, 1e4)]),
        (answering.reload_time, [(6.7e9, 1.2e11, 1e-3)]), (answering.recompute_time, [(1024.0, 13e9, 3e14, 8e5)]),
        (answering.swap_time, [(1024.0, 8e5, 3e10, 16.0, 80.0, 1e-5), (1001.0, 8e5, 3e10, 16.0, 1.0, 0.0)]),
        (answering.smallest_page, [(1024.0, 8e5, 13e9, 3e14, 3e10, 8e5, 80.0, 1e-5), (1024.0, 8e5, 13e9, 3e14, 1e10, 8e5, 80.0, 1e-5)]),
        (limits.prefill_limit, [(16384.0, 1.97e14, 4.5e10, 2.0, 1.0)]), (limits.decode_limit, [(16384.0, 32.0, 9.0, 1.0, 2.0)]),
        (limits.latency_limit, [(16.0, 8192.0, 4.5e10)]),
        (limits.all_to_all_bytes, [(32.0, 32.0, 256.0, 8.0)]),
        (limits.all_to_all_time, [(32.0, 32.0, 256.0, 8.0, 2.0, 4.5e10), (4096.0, 32.0, 256.0, 4.0, 8.0, 4.5e10)]),
        (limits.cache_time, [(32.0, 8e6, 8.0, 16.0, 1.0, 8.1e11)]),
        (limits.one_d_time, [(64.0, 8192.0, 4.5e10)]),
        (limits.two_d_best, [(64.0, 8192.0, 32768.0, 64.0, 4.5e10)]), (limits.two_d_crossover, [(8192.0, 32768.0)]),
        (engine_simulation.transfer_time, [(6.7e9, 2.5e10)]), (guesses.expected_tokens, [(0.8, 4.0), (1.0, 4.0), (0.0, 3.0)]),
        (guesses.speed_up, [(0.8, 4.0, 0.05, 1.5), (1.0, 4.0, 0.05, 1.0)]), (guesses.flops_ratio, [(0.8, 4.0, 0.05)]),
    ),
    "tokens_per_second": (_at_once, [(8.0, 100.0, 512.0), (1.0, 3000.0, 100.0), (16.0, 7.0, 16384.0)]),
    "loaded": (_served, [(8.0, 1.0, 4.0, 2048.0), (1.0, 8.0, 64.0, 100.0), (16.0, 4.0, 512.0, 16384.0)]),
    "operations of serving": (_listed, [(1.0, 4.0, 100.0), (8.0, 64.0, 10000.0)]),
    "fullest by chance": (serving_operations.fullest, [(100.0, 1.0), (4.0, 8.0), (400.0, 64.0)]),
    "saturating_batch": (lambda E, k: answering.saturating_batch(V5E, "int8", "bf16", E, k), [(16.0, 2.0)]),
    "sampling_table":
        (lambda kv, B: tuple(vars(answering.sampling_table(kv, 3e10, 3e10, 3e15, 1.3e13, [B])[0]).values()), [(8e8, 4.0), (8e8, 512.0)]),
    "reload_crossover": (
        answering.reload_crossover,
        [
            (36864.0, 124e6, 2e14, 1.5e10, 36864.0, 0.0),
            (8e5, 13e9, 2e14, 1.5e10, 8e5, 1e-3),
            (8e5, 1e3, 2e14, 1e10, 0.0, 0.0),
        ],
    ),
    "replica": (_replica, [(n, *d) for n, d in zip((1.0, 8.0), DECODERS)]),
    "ici_ratio": (lambda n: limits.ici_ratio(V5E) * n, [(2.0,)]),
    "weights_times": (lambda *a: tuple(limits.weights_times(*a).values()), [(2e10, 16.0, 8.1e11, 4.5e10)]),
    "expert_weights": (lambda Y, Z: limits.expert_weights(any_mixture(64, 4, 4, 256), Y, Z), [(8.0, 4.0)]),
    "decode": (_cut, [(8.0, 8.0, 16.0, 4096.0), (64.0, 1.0, 5.0, 999.0), (2.0, 32.0, 5.0, 999.0)]),
    "remade_flops": (lambda N, R: limits.remade_flops(N, MLA(8.0, R, 6.0, 4.0, 5.0)), [(8.0, 16.0)]),
    "pair_flops": (lambda N, R: limits.pair_flops(N, MLA(8.0, R, 6.0, 4.0, 5.0)), [(8.0, 16.0)]),
    "absorbed_intensity": (lambda N, R: limits.absorbed_intensity(N, MLA(8.0, R, 6.0, 4.0, 5.0)), [(8.0, 16.0)]),
    "absorption_limit": (lambda R: limits.absorption_limit(MLA(8.0, R, 6.0, 4.0, 5.0)), [(16.0,)]),
    "tokens_of_a_pass": (lambda *a: guesses.tokens_of_a_pass(a), [(0.9, 0.5), (1.0, 0.0)]),
    "accepted": (lambda *a: guesses.accepted(a), [(0.9, 0.5), (1.0, 0.0)]),
    "together": (lambda *a: guesses.together(a, 3), [(0.9, 0.5)]),
    "own_parameters": (lambda *s: guesses.own_parameters(any_size(*s)), DECODERS),
    "draft_cost": (
        lambda D, L, N, F, B: guesses.draft_cost(passes.Replica(any_size(D, L, N, F), V5E), B, 300.0),
        [(*d, B) for d, B in zip(DECODERS, (4.0, 512.0))],
    ),
}  # fmt: skip
