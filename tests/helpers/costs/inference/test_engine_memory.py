"""Shares of memory by hand, and a replica that is told the same in bytes."""

import pytest

from helpers.costs.inference.engine_memory import RESERVES, Reserve
from helpers.costs.inference.prefill_and_decode_step import Replica
from helpers.costs.rooflines.chips import chip
from helpers.costs.transformers.public_models import model


def test_by_hand():
    """80 GB, 16 GB of weights: 92 % or 90 % of all less the weights, or 90 % of the 64 GB that they leave."""
    left = {name: round(r.caches(80e9, 16e9) / 1e9, 1) for name, r in RESERVES.items()}
    assert left == {"vLLM": 57.6, "vLLM before": 56.0, "SGLang": 56.0, "TensorRT-LLM": 57.6}
    assert RESERVES["vLLM"].caches(80e9, 75e9) < 0 < RESERVES["TensorRT-LLM"].caches(80e9, 75e9)
    assert all(r.bytes(80e9, 16e9) + r.caches(80e9, 16e9) + 16e9 == pytest.approx(80e9) for r in RESERVES.values())
    assert all(r.source for r in RESERVES.values())


def test_as_a_replicas_reserve():
    h100, llama = chip("H100"), model("llama-3-8b")
    bare = Replica(llama, h100)
    for r in RESERVES.values():
        kept = Replica(llama, h100, reserve=r.bytes(h100.hbm_bytes, bare.weight_bytes))
        assert kept.room == pytest.approx(r.caches(h100.hbm_bytes, bare.weight_bytes))
        assert (
            kept.largest_batch(4096)
            == r.caches(h100.hbm_bytes, bare.weight_bytes) // bare.kv(4096)
            < bare.largest_batch(4096)
        )


def test_what_is_no_reserve():
    for share, of in ((1.0, "all"), (-0.1, "all"), (0.1, "some")):
        with pytest.raises(ValueError, match="a share from 0 to below 1 of 'all' or of the 'rest'"):
            Reserve(share, of, "")
