"""Passes of models with linear attention, an indexer, or caches that several layers read: what is priced, and what is refused."""

import pytest

from helpers.costs.inference import sharded_decode_step as on_slice
from helpers.costs.inference.latency_and_throughput import prefill_memory
from helpers.costs.inference.prefill_and_decode_step import Replica
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.transformers.parameters_and_flops import flops
from helpers.costs.transformers.public_models import model
from tests.helpers.costs.tables import walks

V5E = chip("v5e")
NAMES = ["qwen-3-next-80b-a3b", "deepseek-v3.2", "gemma-3n-e4b"]


@walks(NAMES)
def test_a_step_of_layers_of_several_kinds(name):
    """Its FLOPs and weights are the model's; cached numbers have the bytes of their type, states those of float32."""
    c, B, S = model(name), 4, 8192
    wide, narrow = (Replica(c, V5E, 64, cache=x).works(B, 1, S, absorbed=bool(c.mla)) for x in ("bf16", "int8"))
    assert sum(w.flops for w in wide.values()) == flops(c, B, 1, S, "causal", absorbed=bool(c.mla)).forward
    reads = sum(min(k.window or S, S) * n for k, n in c.groups if not k.linear) * 2 * c.K * c.H
    if c.mla:
        reads = c.L * (2048 * 576 + S * 128)
    assert wide["attention"].bytes - narrow["attention"].bytes == pytest.approx(B * reads)
    r = Replica(c, V5E, 64)
    both, step, piece = (
        sum(w.bytes for w in r.mixed_works(*x).values()) for x in ((B, S, 64, 0), (B, S, 0, 0), (0, 0, 64, 0))
    )
    assert max(step, piece) < both < step + piece


@walks(NAMES)
def test_what_a_sharded_pass_does_not_know_is_refused(name):
    s, r = Slice(V5E, (4, 4)), Replica(model(name), V5E, 16)
    for f in (
        lambda: on_slice.decode(r, s, 4, 4, 16, 1024),
        lambda: on_slice.mixed(r, s, 4, 4, 16, 1024, 64, 0),
        lambda: on_slice.prefill(r, s, 4, 4, 1024),
        lambda: on_slice.held(r, s, 4, 4, 16, 1024),
        lambda: prefill_memory(r.config, 1024),
        r.reload_crossover,
    ):
        with pytest.raises(
            ValueError, match=f"does not know .*, and {name} has one: parameters, flops and kv_cache count it$"
        ):
            f()
