"""Bad input of the cost functions is answered with one sentence that says what would be right."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.arguments import whole
from helpers.costs.inference.engine_simulation import interleaved
from helpers.costs.inference.latency_and_throughput import waiting
from helpers.costs.inference.prefill_and_decode_step import Replica
from helpers.costs.inference.request_loads import mixed_load
from helpers.costs.racks.cluster import hosts
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.gpu_machine import SM
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.rooflines.roofline import Move, Work, critical_batch, matmul, on_chip, time
from helpers.costs.rooflines.torus import offloaded_matmul
from helpers.costs.sharding import collectives
from helpers.costs.sharding.collectives import chained
from helpers.costs.sharding.matmul_plans import cheapest
from helpers.costs.sharding.sharded_array import Axis, Mesh
from helpers.costs.training.dp_fsdp_tp import times
from helpers.costs.training.pipeline_schedules import in_flight
from helpers.costs.transformers.config import MLA, Config, MoE
from helpers.costs.transformers.layer_products import backward, einsum
from helpers.costs.transformers.parameters_and_flops import kv_cache
from helpers.costs.transformers.public_models import model
from helpers.costs.transformers.shares_and_thresholds import crossover
from helpers.kernels.inference.paged_kv_cache import Blocks
from tests.helpers.costs.tables import refused

LLAMA, V5E, W = model("llama-3-8b"), chip("v5e"), 4.5e10

SAID = [
    (lambda: Axis(-3), "n is a whole number of 1 or more, got -3"),
    (lambda: Mesh({"X": "a"}), "n is a number, got 'a'"),
    (lambda: MoE(2.5, 1, 8), "E is a whole number of 1 or more, got 2.5"),
    (lambda: MLA(None, 0, 1, 1, 1), "kv_rank is a whole number of 1 or more, got 0"),
    (lambda: crossover(LLAMA, count="casual"), "count is one of 'all', 'causal', 'half', not 'casual'"),
    (lambda: einsum("np,pm->nm", (3.0, 5.0), (6.0, 7.0)), "'p' is 5.0 in one array and 6.0 in the other"),
    (lambda: matmul(-1, 2, 3), "matmul: B is 0 or more, not -1"),
    (lambda: waiting(-1, 0.1), "waiting: rate is 0 or more, not -1"),
    (lambda: critical_batch(512, 512, 1e14, 0), "critical_batch divides by zero: give more than 0 for W"),
    (lambda: Work(1.0).intensity, "Work.intensity divides by zero: give more than 0 for bytes"),
    (lambda: collectives.bandwidth(1e9, Axis(1), W), "sends nothing and takes no time: give an axis of 2 or more"),
    (
        lambda: collectives.crossover((Axis(1), Axis(1)), W),
        "sends nothing and takes no time: give an axis of 2 or more",
    ),
    (lambda: collectives.all_gather(1, 4), "an Axis or several of them such as Axis\\(4\\), not 4"),
    (lambda: Slice("v5e", (4, 4)), "Slice: chip is a Chip, not 'v5e'"),
    (lambda: offloaded_matmul(8, 8, 8, Slice(chip("v7"), (4, 4, 4))), "v7 has no published bandwidth to its host"),
    (lambda: on_chip(Work(1, 1, (Move("pcie", 3),)), chip("v7")), "give its bytes/s as pcie="),
    (lambda: hosts("H100", np.array([2, 4])), "hosts: n is one number here, not an array"),
    (lambda: SM().resident_blocks(2048), "a block has 1 to 1024 threads with 1 or more registers each, got 2048"),
]


def test_works_and_times_add_up_by_sum():
    works = [matmul(1, 2, 3), matmul(4, 5, 6)]
    assert sum(works) == works[0] + works[1]
    times = [on_chip(w, V5E) for w in works]
    assert sum(times) == times[0] + times[1]
    with pytest.raises(TypeError):
        sum(works, 1)


def test_arrays_and_tracers_are_not_looked_at():
    whole(n=np.array([2.5]), m=jnp.array([-1]))
    np.testing.assert_allclose(waiting(np.array([-1.0, 2.0]), 0.25)[1], waiting(2.0, 0.25))
    assert np.isinf(jax.jit(lambda n: collectives.bandwidth(1.0, Axis(n), W, 0.0))(jnp.float32(1.0)))


# By one mechanism: texts, lists and hidden signs, and what is not of the declared type.
DECLARED = [
    (lambda: matmul("8", 8, 8), "matmul: .* is a number, not '8'"),
    (lambda: kv_cache(model("gpt-2"), [8]), r"kv_cache: S is a number, not \[8\]"),
    (lambda: Replica(model("gpt-2"), "v5e"), "Replica: chip is a Chip, not 'v5e'"),
    (lambda: einsum("ij,jk->ik", (2, -3), (-3, 4)), r"einsum: .* 0 or more, not .*-3"),
    (lambda: cheapest("A[I, J]", "B[J, K]", "C[I, K]", dict(I=8, J=8, K=-8), Mesh({"X": 4}), chip("v5e")),
     "cheapest: sizes is a dict, and each of its values a whole number of 1 or more"),
    (lambda: V5E.alpha_ici(1.5), "Chip.alpha_ici: axes is a whole number, not 1.5"),
    (lambda: Axis(4, "no"), "Axis: wraps is True or False, not 'no'"),
    (lambda: Slice(V5E, (4, 4), True), "Slice: wraps is a tuple or list, and each of it True or False or None, not True"),
    (lambda: Mesh.on(V5E, "XY"), "Mesh.on: slice is a Slice, not what is given, a Chip"),
    (lambda: Config(64, 2, 8, 8, 8, 256, 100, moe=3), "Config: moe is a MoE or None, not 3"),
    (lambda: mixed_load(3, prompts=(5,)), r"mixed_load: prompts is a tuple of a whole number and a whole number, not \(5,\)"),
    (lambda: mixed_load(3, prompts=(9, 5)), "drawn from \\(shortest, longest\\), of 1 token or more, not from \\(9, 5\\)"),
    (lambda: interleaved([(0, 4, 4)], 2, 5, lambda B, S: 1), "interleaved: prefill is a function, not 5"),
    (lambda: in_flight("1F1B", 4, 8, device=9), "the devices of a pipeline of 4 are 0 to 3, not 9"),
    (lambda: einsum("ij,jk->ik", 2, (3, 4)), "einsum: shapes is a tuple or list, and each of it a whole number, not 2"),
    (lambda: backward("ij->ij"), "an einsum of two arrays reads 'ij,jk->ik', got 'ij->ij'"),
    (lambda: times("FSDP", 10, 8, 8, Mesh({"X": 4}), V5E), "X is 4 and does not divide B = 10"),
    (lambda: Blocks(2.5, 4), "Blocks: pages is a whole number of 1 or more, not 2.5"),
    (lambda: Blocks(4, 2).allocate("a", "3"), "Blocks.allocate: length is a whole number, not '3'"),
]  # fmt: skip


def test_errors_say_what_would_be_right():
    refused(*SAID, *DECLARED)


def test_stand_ins_for_numbers_are_of_every_declared_number():
    """Arrays, tracers, fractions that are whole, and NumPy's numbers."""
    assert jax.jit(lambda n: chained(1.0, n, n, 1.0, 0.0))(jnp.float32(8)) == chained(1.0, np.int64(8), 8.0, 1.0, 0.0)
    # one chip has nobody to send to
    assert chained(1e9, 1, 4, 1e9) == 0 == collectives.all_reduce(1e9, Axis(1, wraps=False)).bytes
    assert Axis(np.int32(4)) == Axis(4.0) == Axis(4)
    assert waiting(np.float64(2), 0.25) == waiting(2, 0.25)
    assert np.isnan(time(Work(1.0, 1.0), float("nan"), 1.0).parts["math"])  # a rate that nobody has published
