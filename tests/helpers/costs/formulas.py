"""Formulas of helpers.costs with settings of their arguments, for `test_formulas.py`."""

from helpers import numeric
from helpers.costs.rooflines import gpu_machine, roofline
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.roofline import Move, Work
from helpers.costs.sharding import collective_prices as prices, collectives
from helpers.costs.sharding.sharded_array import Axis
from helpers.costs.transformers import (
    layer_products as shapes,
    parameters_and_flops as flops,
    shares_and_thresholds as thresholds,
    training_memory_bytes as memory,
)
from helpers.costs.transformers.config import MoE
from helpers.costs.transformers.states import Linear
from tests.helpers.costs.attention import formulas as attention
from tests.helpers.costs.experts import formulas as experts
from tests.helpers.costs.inference import formulas as inference
from tests.helpers.costs.racks import formulas as racks
from tests.helpers.costs.tables import by_name
from tests.helpers.costs.training import formulas as training
from tests.helpers.costs.transformers.decoders import DECODERS, any_mixture, any_size

V5E = chip("v5e")


def _moved(formula):
    """Bytes and hops of a collective over a ring of n and a line of m."""

    def both(V, n, m):
        ring, line, torus = (formula(V, a) for a in (Axis(n), Axis(m, False), (Axis(n), Axis(m, False))))
        return ring.bytes, ring.hops, line.bytes, line.hops, torus.bytes, torus.hops

    return both


def _unusual(D, L, N, F):
    """The same with linear attention in every other layer, and gates."""
    linear = Linear(heads=4, key_heads=2, key=16, value=8, kernel=4)
    moe = MoE(8, 2, 32, shared=1, shared_gate=True)
    return any_size(D, L, N, F, linear=linear, full_every=2, output_gate=True, moe=moe)


SAVING = ("everything", "matmuls", "block")
SIZES = [(1e6, 4.0, 4.0), (1e3, 7.0, 2.0), (1e9, 2.0, 8.0), (1e9, 1.0, 3.0)]

# name: (formula, settings). Each setting is a tuple of floats; formulas return one number or a tuple of them.
FIRST = {
    **by_name(
        (roofline.attainable, [(10.0, 2e14, 8e11), (1e4, 2e14, 8e11)]),
        (roofline.critical_batch, [(8192.0, 32768.0, 1.97e14, 8.1e11), (8192.0, 32768.0, 9.2e14, 1.5e10), (1.0, 1.0, 2.0, 1.0)]),
        (roofline.critical_batch_limit, [(1.97e14, 8.1e11)]), (roofline.split_D, [(1.97e14, 4.5e10)]),
        (roofline.weight_load, [(2e11, 2.0, 32.0, 1.2e12)]), (gpu_machine.waves, [(108.0, 108.0), (109.0, 108.0)]),
        (gpu_machine.wave_efficiency, [(96.0, 108.0), (217.0, 108.0)]), (gpu_machine.mxu_rate, [(1.5e9, 128.0, 8.0, 8.0)]),
        (gpu_machine.vpu_rate, [(1.5e9, 128.0, 8.0, 2.0)]), (thresholds.six_nd, [(7e9, 1e12)]),
        (thresholds.attention_intensity, [(1.0, 8192.0, 8.0), (4096.0, 4096.0, 1.0)]),
        (thresholds.attention_threshold, [(240.0, 8.0)]),
        (thresholds.moe_critical_batch, [(256.0, 8.0, 240.0, 1.0), (16.0, 2.0, 240.0, 2.0)]),
        (thresholds.capacity, [(1000.0, 8.0, 2.0, 1.25), (7.0, 4.0, 1.0, 1.0)]), (thresholds.train_seconds, [(7e9, 1e12, 1e18, 0.5)]),
        (thresholds.mfu, [(7e9, 1e12, 1e5, 1e18)]), (thresholds.hfu, [(1e21, 1e5, 1e18)]), (numeric.maximum, [(1.0, 3.0, 2.0)]),
        (numeric.minimum, [(1.0, 3.0, 2.0)]), (numeric.nonzero, [(0.0,), (3.0,)]), (numeric.ceil, [(1.2,), (2.0,)]),
        (numeric.significant, [(3.0,), (1234.5,)]),
        (numeric.ceil_near, [(1.2,), (1.1 * 50 / 5,)]), (numeric.floor_near, [(1.2,), (0.29 * 100,)]),
        (numeric.floor, [(1.2,), (-1.2,)]), (numeric.sqrt, [(2.0,)]), (numeric.log, [(2.0,), (64.0,)]),
    ),
    "in_two_tiers": (
        lambda V, n, m: tuple(
            x.bytes for k in ("AllReduce", *collectives.KINDS) for x in prices.in_two_tiers(k, V, Axis(n), m)
        ),
        [(1e9, 8.0, 4.0), (3e6, 4.0, 1.0)],
    ),
    "over_tiers": (
        lambda V, n, m, k: tuple(
            x + 0 * V for kind in collectives.KINDS for x in prices.over_tiers(kind, V, (n, m, k), 2.0)
        ),
        [(1e9, 8.0, 4.0, 2.0), (3e6, 1.0, 4.0, 1.0)],
    ),
    "dot": (lambda N: roofline.dot(N).intensity, [(1.0,), (4096.0,)]),
    "matmul": (lambda B, D, F: (roofline.matmul(B, D, F).flops, roofline.matmul(B, D, F, 1, 2, 4).bytes), [(3.0, 5.0, 7.0)]),
    "batched_matmul": (lambda B, D, F: roofline.batched_matmul(B, D, F).intensity, [(3.0, 5.0, 7.0), (1e3, 4e3, 4e3)]),
    "elementwise": (lambda n: roofline.elementwise(n, reads=2).intensity, [(7.0,)]),
    "split_matmul":
        (lambda B, D, F: roofline.time(roofline.split_matmul(B, D, F), 2e14, 8e11, ici=4.5e10, hop=1e-6).lower, [(64.0, 8192.0, 8192.0)]),
    "time": (
        lambda B, C, W: (lambda t: (t.math, t.comms, t.lower, t.upper))(
            roofline.time(roofline.matmul(B, 4096, 4096), C, W)
        ),
        [(8.0, 2e14, 8e11), (4096.0, 2e14, 8e11)],
    ),
    "on_chip": (lambda n: roofline.on_chip(Work(n, n, (Move("pcie", n),)), V5E).upper, [(1e9,)]),
    "all_gather": (_moved(collectives.all_gather), SIZES), "reduce_scatter": (_moved(collectives.reduce_scatter), SIZES),
    "all_reduce": (_moved(collectives.all_reduce), SIZES), "all_to_all": (_moved(collectives.all_to_all), SIZES),
    "chained": (lambda V, n, m: collectives.chained(V, n, m, 4.5e10), [(1e6, 8.0, 16.0), (1e3, 4.0, 1.0)]),
    "scramble": (_moved(collectives.scramble), SIZES),
    "seconds": (lambda b, W: collectives.seconds(Move("ici", b, 3), W), [(1e3, 4.5e10), (1e9, 4.5e10)]),
    "bandwidth": (lambda V, n: collectives.bandwidth(V, Axis(n), 4.5e10), [(1e3, 8.0), (1e9, 5.0)]),
    "crossover": (lambda n, W: collectives.crossover(Axis(n), W), [(8.0, 4.5e10), (3.0, 9e10)]),
    "overlapped": (lambda c, s, n: collectives.overlapped(c, s, n), [(1.0, 3.0, 8.0), (2.0, 3.0, 5.0), (1.0, 9.0, 1.0)]),
    "over_dcn":
        (lambda V, n, p: tuple(m.bytes for m in collectives.over_dcn("AllReduce", V, Axis(n), p)), [(1e9, 16.0, 4.0), (1e9, 4.0, 1.0)]),
    "parameters": (lambda *s: (lambda p: (p.total, p.active, p.matmul))(flops.parameters(any_mixture(*s))), DECODERS),
    "model_matrices": (lambda *s: sum(m.weights + m.met for m in shapes.model_matrices(_unusual(*s))), DECODERS),
    "keys_read": (lambda *s: shapes.keys_read(_unusual(*s), 2, 3, 64, False), DECODERS),
    "parameters of unusual parts": (lambda *s: flops.parameters(_unusual(*s)).total, DECODERS),
    "flops of unusual parts": (lambda *s: flops.flops(_unusual(*s), 2, 8).forward, DECODERS),
    "works of unusual parts": (lambda *s: sum(w.bytes for w in flops.works(_unusual(*s), 2, 1, 64).values()), DECODERS),
    "kv_cache of unusual parts": (lambda *s: flops.kv_cache(_unusual(*s), 64, 2), DECODERS),
    "pairs": (lambda T, S: flops.pairs(T, S, window=64), [(8.0, 32.0), (100.0, 300.0)]),
    "flops": (lambda *s: tuple(flops.flops(any_mixture(*s), 2, 128, count="causal").by_role.values()), DECODERS),
    "works": (lambda *s: tuple(w.bytes for w in flops.works(any_size(*s), 2, 128).values()), DECODERS),
    "kv_cache": (lambda S, N: flops.kv_cache(any_mixture(64, 4, N, 256), S), [(32.0, 4.0), (100.0, 8.0)]),
    "products": (lambda *s: tuple(memory.products(c := any_size(*s), c.kind(0)).values()), DECODERS),
    "arrays": (lambda *s: tuple(sum(memory.arrays(c := any_size(*s), c.kind(0), p, 99).values()) for p in SAVING), DECODERS),
    "saved": (lambda *s: memory.saved(any_mixture(*s), 2, 128, "everything"), DECODERS),
    "recomputed": (lambda *s: memory.recomputed(any_mixture(*s), 2, 128, "block"), DECODERS),
    "train_flops": (lambda *s: memory.train_flops(any_mixture(*s), 2, 128, "matmuls"), DECODERS),
    "training_memory": (lambda *s: memory.training_memory(any_mixture(*s), 2, 128).total, DECODERS),
    "six_nd_ratio": (lambda *s: thresholds.six_nd_ratio(any_mixture(*s), 4096), DECODERS),
    "attention_ratio": (lambda *s: thresholds.attention_ratio(any_mixture(*s), 4096, "causal"), DECODERS),
    "crossover of attention":
        (lambda *s: (thresholds.crossover(any_size(*s)), thresholds.crossover(any_mixture(*s), "projections", "causal")), DECODERS),
    "einsum": (lambda n, m: shapes.einsum("np,pm->nm", (n, 8), (8, m)).flops, [(3.0, 5.0)]),
    "where": (lambda a, b: numeric.where(a > b, a, -b), [(1.0, 2.0), (2.0, 1.0)]),
}  # fmt: skip
ROOMS = {
    "rooflines, sharding, transformers": FIRST, "training": training.FORMULAS, "inference": inference.FORMULAS,
    "attention": attention.FORMULAS, "racks": racks.FORMULAS, "experts": experts.FORMULAS,
}  # fmt: skip
