"""Exercises 4.1 to 4.26: the solved functions against programs and published steps."""

import json
import math
from itertools import product

import jax
import jax.numpy as jnp
import pytest

from autograder.places import ROOT
from helpers import trace
from helpers.costs.training.pipeline_schedules import interleaved, simulate
from helpers.kernels import mesh

TOPIC = "ch04_training"


V5P = 4.59e14, 9e10


STRATEGIES = [
    ("dp_step", {"X": 4}, ["W[M, D, F]", "In[B_X, D]", "Target[B_X, D]"], "W[M, D, F]"),
    ("fsdp_step", {"X": 4}, ["W[M, D_X, F]", "In[B_X, D]", "Target[B_X, D]"], "W[M, D_X, F]"),
    ("mixed_step", {"X": 4, "Y": 2}, ["W[M, D_X, F_Y]", "In[B_X, D_Y]", "Target[B_X, D_Y]"], "W[M, D_X, F_Y]"),
]


def test_d19_the_table_is_what_the_programs_send(solved):
    """Bytes that the traced programs gather, scatter and reduce are those of 4.4 (in float32, twice as many)."""
    B, D, F = 64, 16, 24

    def bytes_of(name, on, ins, out, *static):
        m = mesh.mesh(tuple(on.values()), tuple(on))
        specs = tuple(mesh.spec(a) for a in ins)
        program = jax.shard_map(
            lambda *a: solved[name](*a, *static), mesh=m, in_specs=specs, out_specs=mesh.spec(out), check_vma=False
        )
        args = [jax.ShapeDtypeStruct(s, jnp.float32) for s in ((2, D, F), (B, D), (B, D))]
        sent = trace.merged(trace.sent(program, *args))
        weigh = {"AllGather": lambda c: c.out, "ReduceScatter": lambda c: c.shape, "AllReduce": lambda c: (2, *c.shape)}
        return sum(4 * math.prod(weigh[c.kind](c)) for c in sent)

    table = solved["layer_bytes"]
    assert bytes_of("dp_step", *STRATEGIES[0][1:], 0.1) == 2 * sum(table("dp", B, D, F, 4, 1, False))
    fsdp = table("fsdp", B, D, F, 4, 1, False)
    # Weights are kept, gathered once.
    assert bytes_of("fsdp_step", *STRATEGIES[1][1:], 0.1) == 2 * (sum(fsdp) - fsdp[0])
    tp = "tp_layer", {"Y": 4}, ["W[M, D, F_Y]", "In[B, D_Y]", "dOut[B, D_Y]"], "S[M, B, D_Y]"
    assert bytes_of(*tp) == 2 * sum(table("tp", B, D, F, 1, 4, False))
    mixed = table("mixed", B, D, F, 4, 2, False)
    no_din, kept = 2 * B * D / 4, 4 * D * F / 2
    assert bytes_of("mixed_step", *STRATEGIES[2][1:], 0.1) == 2 * (sum(mixed) - no_din - kept)


def played(solved, orders, lasts):
    """Slots from the first start to the last end, and whether all entries were reached."""
    start = solved["played"](orders, lasts)
    assert len(start) == sum(map(len, orders))
    return max(t + lasts[k] for (k, _, _), t in start.items())


@pytest.mark.parametrize("p, m", [(2, 2), (4, 8), (3, 3), (5, 9), (6, 6)])
def test_d12_and_d13_bubbles_of_the_schedules(solved, p, m):
    """GPipe and 1F1B wait 3(p - 1) slots, the split backward pass p - 1, in slots of a forward."""
    both = {"F": 1, "B": 2}
    gpipe, one = (played(solved, solved["schedule"](kind, p, m), both) for kind in ("gpipe", "1f1b"))
    split = played(solved, solved["golf"](p, m), {"F": 1, "B": 1, "W": 1})
    assert gpipe == one == 3 * (m + p - 1) and split == 3 * m + p - 1
    assert math.isclose((gpipe - 3 * m) / gpipe, solved["bubbles"](p, m, 1, 0.5)["gpipe"])
    for v in (2, 3) if m % p == 0 else ():
        thin = simulate(interleaved(p, m, v))
        assert math.isclose(thin.bubble, solved["bubbles"](p, m, v, 0.5)["interleaved"])


def test_golf_par_cannot_be_beaten(solved):
    """For two stages and two microbatches all orders are tried."""
    from itertools import permutations

    entries = [(k, i) for k in "FBW" for i in range(2)]
    legal = [
        o
        for o in permutations(entries)
        if all(o.index((a, i)) < o.index((b, i)) for a, b in ("FB", "BW") for i in (0, 1))
    ]
    times = []
    for a, b in product(legal, legal):
        start = solved["played"]([list(a), list(b)], {"F": 1, "B": 1, "W": 1})
        if len(start) == 12:
            times.append(max(start.values()) + 1)
    assert min(times) == 3 * 2 + 2 - 1


def test_d20_layouts_turn_from_fsdp_to_mixed_and_on_slow_links_to_pipelines(solved):
    """With the batch fixed, more chips want tensor parallelism; the same few chips on slower links stages."""
    best = solved["best_layout"]
    assert best(512, 256, 95e9, *V5P)[1:3] == (1, 1)
    assert best(128, 2048, 95e9, *V5P)[1] > 1
    slow, fast = (best(480, 80, 141e9, 4.59e14, W)[2] for W in (5e9, 9e10))
    assert slow > fast == 1


MPT = 6.65e9, 32, 4096, 3.12e14, 4  # of the visible cases of 4.24


@pytest.fixture(scope="module")
def published():
    """Published steps by name: what was measured, and predicted."""
    return json.loads((ROOT / "book/results/estimate.json").read_text("utf-8"))["rows"]


def test_4_23_explains_most_of_a_published_step_where_the_floor_does_not(solved, published):
    """GPT-3 under ZeRO-3: more GPUs, and hardly a shorter step."""
    for devices, flops, update in ((1536, 7.63e12, 0.0027), (384, 3.05e13, 0.011)):
        took = published[f"narayanan2021_t2_zero3_gpt3-175b_{devices}"]["measured"]
        layers, constants = [(flops, 3.62e9)] * 96, (3.12e14, 0.6, 8.9e10, 8.6e-5, 0.29)
        got = solved["step_parts"](layers, devices, 1, 1, *constants, update, took)
        assert abs(got["rest"]) < 0.17 * took and got["floor"] < 0.5 * took


def test_4_24_predicts_published_steps(solved, published):
    """From two lengths of a sequence the two shares give the time of another one, within a percent."""
    names = {1024: "160_7b_a100_40gb_8x_s1024", 2048: "159_7b_a100_40gb_8x_s2048", 8192: "153_7b_a100_40gb_8x_s8192"}
    took = {T: published[f"mosaic_{name}"]["measured"] for T, name in names.items()}
    longest = published["mosaic_152_7b_a100_40gb_8x_s16384"]["measured"]
    for T in (2048, 8192):
        got = solved["two_shares"]((1024, 98304, took[1024]), (T, 98304, took[T]), *MPT, 0.01, 16384, 65536)
        assert math.isclose(got["seconds"], longest, rel_tol=0.01)


def test_4_25_picks_a_layout_of_bloom_that_was_nearly_the_best(solved, published):
    runs = {61: (4, 8, 12), 58: (8, 8, 6), 70: (8, 4, 12), 73: (16, 4, 6), 76: (8, 2, 24)}
    rows = {shape: published[f"bloom2022_{run}"] for run, shape in runs.items()}
    layouts = [(shape, 1.0, row["estimate"]) for shape, row in rows.items()]
    got = solved["told_apart"](layouts, 0, [row["measured"] for row in rows.values()], 1.08)
    assert got["equals"] == [1, 2, 3] and got["pick"] == 3 and 0 < got["regret"] < 0.02


def test_4_26_in_sample_promises_too_much(solved, published):
    """All published steps, predicted by half of peak: three of four lie inside in sample, and fewer held out."""
    rows = [(r["source"], 1.0, r["half of peak"], 1.0, r["measured"]) for r in published.values()]
    got = solved["interval_worth"](rows, 0.75)
    assert 1 < got["in_sample"] < got["held_out"] and got["kept"] < 0.75
