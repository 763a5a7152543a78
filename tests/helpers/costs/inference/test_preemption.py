"""What preemption costs: against a model's own prefill and what its program is counted to do, copy by copy, and by search;
and what engines leave to caches."""

from math import inf

import jax
import pytest

from helpers import trace
from helpers.costs.inference import preemption
from helpers.costs.inference.engine_memory import RESERVES, Reserve
from helpers.costs.inference.prefill_and_decode_step import Replica
from helpers.costs.rooflines.chips import chip
from helpers.costs.transformers.kv_cache import kv_cache
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.costs.transformers.public_models import model
from helpers.kernels.transformers import decoder
from tests.helpers.costs.tables import refused, walks
from tests.helpers.kernels.abstract_arrays import int32
from tests.helpers.kernels.transformers.families import toy

LLAMA, A100 = model("llama-2-13b"), chip("A100")
LAYERS = parameters(LLAMA).total - 2 * LLAMA.V * LLAMA.D
MADE = LAYERS, A100.rate()
PAIR = 4 * LLAMA.L * LLAMA.N * LLAMA.H
KV = kv_cache(LLAMA, 1)


def test_computing_again_is_a_prefill():
    r = Replica(LLAMA, A100)
    for S in (1024, 4000):
        wanted = sum(t.math for t in r.forward(1, S, logits=0).roles.values())
        assert preemption.recompute_time(S, *MADE, PAIR) == pytest.approx(wanted, rel=1e-3)


def test_computing_again_as_the_program_is_counted():
    """A masked program computes all S² scores, and the logits besides."""
    c = toy(L=2)
    params = jax.eval_shape(lambda: decoder.init(c, jax.random.key(0)))
    weights, pair = parameters(c).matmul - c.V * c.D, 4 * c.L * c.N * c.H
    for S in (16, 48):
        counted = trace.count(lambda p, x: decoder.forward(p, x, c), params, int32(1, S)).matmul_flops
        wanted = preemption.recompute_time(S, weights, 1.0, 2 * pair) + 2 * S * c.V * c.D
        assert counted == wanted


@walks([(1024, 1), (1024, 16), (1000, 16), (5, 128)])
def test_swapping_copy_by_copy(S, page):
    seconds, setup, copies = 0.0, 1e-5, 2 * LLAMA.L
    for _ in ("out", "in"):
        for start in range(0, S, page):
            assert start < S
            seconds += sum(setup + page * KV / copies / A100.pcie_bandwidth for _ in range(copies))
    assert preemption.swap_time(S, KV, A100.pcie_bandwidth, page, copies, setup) == pytest.approx(seconds)


def test_the_smallest_page_by_search():
    """From which size of pages on, that fill up, swapping is no slower: and inf where PCIe alone takes longer than computing."""
    S, copies, setup = 5040, 80, 1e-5  # 5040 has many divisors
    least = preemption.smallest_page(S, KV, *MADE, A100.pcie_bandwidth, PAIR, copies, setup)
    pages = [n for n in range(1, S + 1) if S % n == 0]
    again = preemption.recompute_time(S, *MADE, PAIR)
    faster = [preemption.swap_time(S, KV, A100.pcie_bandwidth, n, copies, setup) <= again for n in pages]
    assert faster == [n >= least for n in pages] and 0 < sum(faster) < len(pages)
    assert preemption.smallest_page(S, KV, *MADE, A100.pcie_bandwidth / 10, PAIR, copies, setup) == inf
    assert preemption.smallest_page(S, KV, *MADE, A100.pcie_bandwidth, PAIR) == 0  # copies that begin at once


def test_a_schedule_is_refused_where_it_has_no_end():
    schedule = lambda *a: lambda: preemption.paged_schedule([(0, 4, 9)], 1, *a)  # noqa: E731
    refused(
        (schedule(2, 4, 4, "swap"), "comes to 3 pages and there are 2: give the pool more"),
        (schedule(9, 4, 4, "keep"), "the policies are reserve, recompute and swap; got 'keep'"),
        (schedule(9, 0, 4, "swap"), "page: a whole number of 1 or more, not 0"),
    )


def test_what_engines_leave_for_caches():
    """80 GB, 16 GB of weights: 92 % or 90 % of all less the weights, or 90 % of the 64 GB that they leave."""
    left = {name: round(r.caches(80e9, 16e9) / 1e9, 1) for name, r in RESERVES.items()}
    assert left == {"vLLM": 57.6, "vLLM before": 56.0, "SGLang": 56.0, "TensorRT-LLM": 57.6}
    assert RESERVES["vLLM"].caches(80e9, 75e9) < 0 < RESERVES["TensorRT-LLM"].caches(80e9, 75e9)
    assert all(r.bytes(80e9, 16e9) + r.caches(80e9, 16e9) + 16e9 == pytest.approx(80e9) for r in RESERVES.values())
    assert all(r.source for r in RESERVES.values())


def test_a_replica_keeps_the_reserve_of_its_engine():
    h100, llama = chip("H100"), model("llama-3-8b")
    bare = Replica(llama, h100)
    for r in RESERVES.values():
        kept = Replica(llama, h100, reserve=r.bytes(h100.hbm_bytes, bare.weight_bytes))
        room = r.caches(h100.hbm_bytes, bare.weight_bytes)
        assert kept.room == pytest.approx(room)
        assert kept.largest_batch(4096) == room // bare.kv(4096) < bare.largest_batch(4096)


def test_what_is_no_reserve():
    for share, of in ((1.0, "all"), (-0.1, "all"), (0.1, "some")):
        with pytest.raises(ValueError, match="a share from 0 to below 1 of 'all' or of the 'rest'"):
            Reserve(share, of, "")
