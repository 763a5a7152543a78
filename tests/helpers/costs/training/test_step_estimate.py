"""The estimate of a step against exact counts where it leaves nothing out, and against what was measured."""

import json
import random
from dataclasses import asdict, replace
from math import inf

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.sharding import collectives
from helpers.costs.sharding.sharded_array import Axis
from helpers.costs.training import step_estimate
from helpers.costs.training.step_estimate import Setup, _rate, _ring, half_of_peak_seconds, six_nd_seconds, step_seconds
from helpers.costs.training.step_estimate_constants import CONSTANTS, Constants
from helpers.costs.transformers.config import Config, MoE
from helpers.costs.transformers.parameters_and_flops import flops
from helpers.costs.transformers.public_models import model
from helpers.costs.transformers.training_memory_bytes import recomputed
from tests import bench_estimate as bench

PERFECT = Constants(gpu=1, tpu=1, memory=inf, link=inf, network=inf, launch=0, hop=0, skew=0, spread=1)
TIDY = Config(2048, 8, 16, 16, 128, 8192, 32768, gated=False)  # multiples of every tile
ROWS = bench.rows()
SCORED = [r for r in ROWS if not r.missing]
STORED = json.loads(bench.STORE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("policy", ["everything", "matmuls", "nothing", "block"])
def test_a_perfect_machine_takes_the_flops_and_no_longer(policy):
    """Against the exact counts of chapter 3. "block" skips a layer's last product there, and does it again here."""
    s, v5e = Setup(dp=4, tp=2, micro=2, policy=policy, fused=False), chip("v5e")
    e = step_seconds(TIDY, v5e, s, 16, 2048, PERFECT)
    again = recomputed(TIDY, 16, 2048, policy)
    if policy == "block" or policy == "nothing":
        again = flops(TIDY, 16, 2048).layers
    exact = (flops(TIDY, 16, 2048).train + again) / (s.chips * v5e.rate("bf16"))
    assert e.mid == pytest.approx(exact, rel=1e-12) and e.low == e.mid == e.high


def test_fused_attention_skips_what_the_mask_hides():
    long = step_seconds(TIDY, chip("v5e"), Setup(policy="everything"), 1, 2**17, PERFECT)
    f = flops(TIDY, 1, 2**17, count="causal")
    exact = (3 * (f.forward - f.attention) + 3.5 * f.attention / 0.75) / chip("v5e").rate("bf16")
    assert long.mid == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("rate", [0.63, 0.92])
def test_the_assumed_rate_of_attention_matters_little_but_for_long_sequences(monkeypatch, rate):
    """FlashAttention-2's 50 to 73 % of an A100's peak, over the share of it that a product reaches."""
    assert CONSTANTS.gpu * rate == pytest.approx({0.63: 0.5, 0.92: 0.73}[rate], rel=0.01)
    fused = [r for r in SCORED if r.args[2].fused]
    before = np.array([step_seconds(*r.args).mid for r in fused])
    monkeypatch.setattr(step_estimate, "FUSED", rate)
    moved = np.abs(np.array([step_seconds(*r.args).mid for r in fused]) / before - 1)
    assert 0.003 < np.median(moved) < 0.006 and 0.15 < moved.max() < 0.17
    assert fused[moved.argmax()].args[4] == max(r.args[4] for r in fused)


@pytest.mark.parametrize("p, v, m", [(2, 1, 8), (4, 2, 8), (8, 1, 64)])
def test_the_bubble_is_the_closed_form(p, v, m):
    c = replace(TIDY, V=1)  # no unembedding to speak of
    s = Setup(pp=p, interleave=v, fused=False)
    if 8 % (p * v) == 0:
        parts = step_seconds(c, chip("v5e"), s, m, 2048, PERFECT).parts
        assert parts["bubble"] / parts["kernels"] == pytest.approx((p - 1) / (v * m), rel=0.02)


def test_the_stage_with_the_unembedding_decides():
    heavy = replace(TIDY, V=32768 * 16)
    e = step_seconds(heavy, chip("v5e"), Setup(pp=4, policy="everything", fused=False), 32, 2048, PERFECT)
    f = flops(heavy, 1, 2048)
    each = (3 * f.layers / 4 + 3 * f.unembedding) / chip("v5e").rate("bf16")
    assert e.parts["kernels"] == pytest.approx(32 * each)


@pytest.mark.parametrize("n", [4, 8, 16])
def test_a_ring_costs_what_chapter_2_says(n):
    """Both ways round an even ring; chapter 2 does not cut the farthest shard in two, which is 1/n."""
    v5e, k = chip("v5e"), replace(PERFECT, link=1, hop=0)
    exact = collectives.all_gather(1e9, Axis(n)).bytes / v5e.link_bandwidth
    assert _ring(1e9, n, _rate(v5e, n, 1, k), 0) == pytest.approx(exact * (n - 1) / n)


def test_rates_of_groups():
    k = replace(PERFECT, link=1, network=1)
    a100, v5e = chip("A100"), chip("v5e")
    assert _rate(a100, 8, 1, k) == 3e11  # one host: NVLink
    assert _rate(a100, 32, 8, k) == 2.5e10  # a network card each
    assert _rate(a100, 32, 1, k) == 8 * 2.5e10  # all eight cards of a host carry one ring
    assert _rate(v5e, 16, 1, k) == 9e10 and _rate(v5e, 256, 1, k) == 1.8e11


def test_ends_and_parts():
    for r in SCORED:
        e = step_seconds(*r.args)
        assert 0 < e.low <= e.mid <= e.high
        assert sum(e.parts.values()) == pytest.approx(e.mid)
        assert all(x >= 0 for x in e.parts.values())
        c, on, s, B, T = r.args
        assert e.mid > 3 * flops(c, B, T, count="causal").forward / (s.chips * on.rate("bf16"))


@pytest.mark.parametrize("field", ["gpu", "memory", "link", "network"])
def test_a_better_machine_is_not_slower(field):
    args = model("llama-3-70b"), chip("H100"), Setup(dp=4, tp=8, pp=4, micro=2), 256, 4096
    assert step_seconds(*args, replace(CONSTANTS, **{field: 0.99})).mid < step_seconds(*args).mid


def test_a_host_updates_as_fast_as_was_published():
    """ZeRO-Offload: 10e9 parameters in 2.6 seconds, whatever number of the host's chips share them."""
    c, k = model("llama-2-13b"), replace(CONSTANTS, network=inf)
    one, eight = (
        step_seconds(c, chip("H200"), Setup(fsdp=n, offload="optimizer"), 8, 4096, k).parts["update"] for n in (1, 8)
    )
    assert one == pytest.approx(eight) and one == pytest.approx(2.6 * 12.85e9 / 10e9, rel=1e-3)


@pytest.mark.parametrize(
    "wrong, right",
    [
        (dict(tp=0), "tp is a whole number of 1 or more, got 0"),
        (dict(policy="full"), "policy is one of everything, matmuls, block, nothing, not 'full'"),
        (dict(zero=3), "zero is 0, 1 or 2, not 3: ZeRO-3 is fsdp"),
        (dict(offload="disk"), "offload is one of '', 'activations', 'optimizer', not 'disk'"),
    ],
)
def test_a_setup_that_cannot_be_says_why(wrong, right):
    with pytest.raises(ValueError) as e:
        Setup(**wrong)
    assert str(e.value) == right


def test_what_the_estimate_does_not_know_is_refused():
    with pytest.raises(ValueError, match="does not split into 4 copies of micro=2: take 8"):
        step_seconds(TIDY, chip("v5e"), Setup(dp=4, micro=2), 7, 2048)
    with pytest.raises(ValueError, match="dense decoders"):
        step_seconds(replace(TIDY, moe=MoE(8, 2, 512)), chip("v5e"), Setup(), 8, 2048)
    with pytest.raises(ValueError, match="nobody publishes how fast a host reads a v7"):
        step_seconds(TIDY, chip("v7"), Setup(offload="optimizer"), 8, 2048)


def test_whole_numbers_are_traced_too():
    """int32 would overflow long before a step's FLOPs."""
    args = model("llama-3-70b"), chip("H100")
    f = jax.jit(lambda dp, tp, micro: step_seconds(*args, Setup(dp=dp, tp=tp, pp=4, micro=micro), 512, 8192).mid)
    got = f(*map(jnp.int32, (4, 8, 2)))
    assert float(got) == pytest.approx(step_seconds(*args, Setup(dp=4, tp=8, pp=4, micro=2), 512, 8192).mid, rel=1e-5)


def test_rows_taken_together_are_rows_taken_one_by_one():
    for places, args in bench.stacked(SCORED):
        together = step_seconds(*args)
        for j, i in enumerate(places):
            alone = step_seconds(*SCORED[i].args)
            np.testing.assert_allclose(
                [together.low[j], together.mid[j], together.high[j]], [alone.low, alone.mid, alone.high], rtol=1e-12
            )


# The data and the scores


@pytest.mark.parametrize("r", SCORED, ids=lambda r: r.name)
def test_inputs_say_what_the_row_says(r):
    """Chips, batch and layers of the set-up agree with the row as it was collected."""
    data = json.loads(bench.DATA.read_text(encoding="utf-8"))
    row = next(m for m in data["measurements"] if m["id"] == r.name)
    c, _, s, B, T = r.args
    assert s.chips == row["chips"] and (B, T) == (row["global_batch_seqs"], row["seq"])
    assert B % (s.copies * s.micro) == 0 and r.seconds > 0


def test_no_name_and_no_measurement_reaches_the_estimate(tmp_path, monkeypatch):
    """Labels permuted and measured values replaced, predictions stay the same; so do rows in another order."""
    data = json.loads(bench.DATA.read_text(encoding="utf-8"))
    scored = {r.name: step_seconds(*r.args).mid for r in ROWS}
    before = [scored[m["id"]] for m in data["measurements"]]
    rows, draw = data["measurements"], random.Random(0)
    for label in ("source", "id"):
        mixed = [m[label] for m in rows]
        draw.shuffle(mixed)
        for m, new in zip(rows, mixed):
            m[label] = new
    for m in rows:
        m["measured"] = [{"metric": "step_time", "value": draw.uniform(1, 100)}]
    path = tmp_path / "published.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    monkeypatch.setattr(bench, "DATA", path)
    assert [step_seconds(*r.args).mid for r in bench.rows()] == before


def test_constants_are_those_that_were_scored():
    assert STORED["constants"] == asdict(CONSTANTS)


@pytest.mark.slow
def test_constants_are_what_the_calibration_rows_give():
    found = bench.fit(bench.rows(("calibration",)))
    for name, value in asdict(found).items():
        assert getattr(CONSTANTS, name) == pytest.approx(value, rel=0.02), name


def test_accuracy_may_only_improve():
    """Every scored source, on the medians, 90th percentiles and worst errors that were stored."""
    for case in ("fitted to these rows", "held out"):
        for source, was in STORED["cases"][case].items():
            now = bench.scores([r for r in SCORED if r.source == source], CONSTANTS)
            for x in ("median", "p90", "worst"):
                assert now["estimate"][x] <= was["estimate"][x] + 1e-6, (source, x)


def test_the_figures_that_are_claimed():
    """Each source of the calibration left out of the fit in turn, and below both baselines; what is not met is in the results."""
    apart = STORED["cases"]["each source left out of the fit"]
    mean = bench.mean(apart)["estimate"]
    assert mean["median"] < 8 and mean["p90"] < 18
    for of in (apart, STORED["cases"]["fitted to these rows"]):
        for f in of.values():
            assert f["estimate"]["median"] < min(f["half of peak"]["median"], f["6ND at 40 %"]["median"])


def test_scores_are_arithmetic():
    s = bench.score([110, 90, 100, 150], [100, 100, 100, 100])
    assert [s[x] for x in ("median", "worst", "bias", "p90")] == pytest.approx([10, 50, 5, 38])


def test_baselines():
    c, on = model("llama-2-7b"), chip("H100")
    assert six_nd_seconds(c, on, Setup(), 8, 4096) == pytest.approx(6 * 6738415616 * 8 * 4096 / (0.4 * 9.89e14))
    flat, deep = (half_of_peak_seconds(c, on, Setup(pp=p, policy="everything"), 8, 4096) for p in (1, 4))
    assert flat == pytest.approx(flops(c, 8, 4096, count="half").train / 0.5 / 9.89e14)
    assert deep == pytest.approx(flat / 4 * (1 + 3 / 8))
