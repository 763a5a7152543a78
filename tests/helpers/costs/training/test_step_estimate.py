"""The estimate of a step against exact counts where it leaves nothing out, and against what was measured."""

import json
import random
from dataclasses import asdict, replace
from math import inf

import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.training.layout import Layout
from helpers.costs.training.layout_set import slowest_stage
from helpers.costs.training.operation_seconds import CONSTANTS, LAUNCHES, NARROWER, Software
from helpers.costs.training.step_estimate import Estimate, step_seconds, utilisation
from helpers.costs.training.step_operations import operations
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import flops
from helpers.costs.transformers.public_models import model
from helpers.costs.transformers.training_memory_bytes import recomputed
from tests.helpers.costs.tables import walks
from tests.tiers import some
from tools import bench_estimate as bench

from .test_operation_seconds import PERFECT

NOTHING = replace(PERFECT, link=inf)
TIDY = Config(2048, 8, 16, 16, 128, 8192, 32768, gated=False)  # multiples of every tile
STORED = Software(attention="stored")
ROWS = bench.rows()
DATA = json.loads(bench.DATA.read_text(encoding="utf-8"))
SCORES = json.loads(bench.STORE.read_text(encoding="utf-8"))


@walks(["everything", "matmuls", "nothing", "block"])
def test_a_perfect_machine_takes_the_flops_and_no_longer(policy):
    """Against the exact counts of chapter 3. "block" skips a layer's last product there, and does it again here."""
    layout, v5e = Layout(dp=4, tp=2, microbatches=2, policy=policy), chip("v5e")
    e = step_seconds(TIDY, v5e, layout, 16, 2048, STORED, NOTHING)
    again = recomputed(TIDY, 16, 2048, policy)
    if policy == "block" or policy == "nothing":
        again = flops(TIDY, 16, 2048).layers
    exact = (flops(TIDY, 16, 2048).train + again) / (layout.chips * v5e.rate("bf16"))
    assert e.mid == pytest.approx(exact, rel=1e-3) and e.mid > exact  # hops of a microsecond


@walks([(2, 1, 8), (4, 2, 8), (8, 1, 64)])
def test_the_bubble_is_the_closed_form(p, v, m):
    c = replace(TIDY, V=1)  # no unembedding to speak of
    layout = Layout(pp=p, v=v, microbatches=m, schedule="interleaved" if v > 1 else "1F1B", policy="everything")
    parts = step_seconds(c, chip("v5e"), layout, m, 2048, STORED, NOTHING).parts
    assert parts["bubble"] / parts["kernels"] == pytest.approx((p - 1) / (v * m), rel=1e-3)


def test_the_stage_with_the_unembedding_decides():
    heavy = replace(TIDY, V=32768 * 16)
    layout = Layout(pp=4, policy="everything", microbatches=32)
    e = step_seconds(heavy, chip("v5e"), layout, 32, 2048, STORED, NOTHING)
    f = flops(heavy, 1, 2048)
    each = (3 * f.layers / 4 + 3 * f.unembedding) / chip("v5e").rate("bf16")
    assert e.parts["kernels"] + e.parts["unembedding"] == pytest.approx(32 * each, rel=1e-3)


def test_a_second_microbatch_hides_what_experts_exchange():
    """At best as much as its layers compute; and no token goes to more domains than are allowed."""
    c, laid = model("deepseek-v3"), Layout(pp=16, ep=64, zero=1, microbatches=120, policy="everything")
    waits, hides, near = (
        step_seconds(c, chip("H100"), replace(laid, **more), 7680, 4096).parts
        for more in ({}, {"overlaps_experts": True}, {"overlaps_experts": True, "nodes": 4})
    )
    assert hides["kernels"] == waits["kernels"] and hides["experts"] < 0.5 * waits["experts"]
    assert near["experts"] < hides["experts"]
    far = step_seconds(c, chip("H100"), replace(laid, nodes=8), 7680, 4096).parts["experts"]
    four = step_seconds(c, chip("H100"), replace(laid, nodes=4), 7680, 4096).parts["experts"]
    assert far == pytest.approx(waits["experts"])  # chance reaches fewer than eight
    chance = 8 * (1 - (1 - 1 / 8) ** 8)  # domains that eight copies reach, of eight
    assert four / far == pytest.approx(4 / chance, rel=0.02)


def test_a_host_launches_a_layer_with_experts_in_its_own_time():
    """However few tokens there are: its kernels by the experts of a device, more of them in eight bits, and of graphs what they leave."""
    k, (rest, theirs, each) = replace(CONSTANTS, experts=0.02), LAUNCHES
    of_eight = rest + theirs + 8 * each
    for name, of, products, graphs, launches in (
        ("qwen-3-30b-a3b", "H100", "bf16", "usual", rest + theirs + 16 * each),
        ("qwen-3-30b-a3b", "H100", "fp8", "usual", NARROWER[0] + NARROWER[1] + 16 * NARROWER[2]),
        ("qwen-3-30b-a3b", "H100", "bf16", "whole", 0.0),
        ("qwen-3-30b-a3b", "GB200", "bf16", "usual", theirs + 16 * each),
        ("qwen-3-30b-a3b", "GB200", "mxfp8", "parts", NARROWER[1] + 16 * NARROWER[2]),
        ("qwen-3-30b-a3b", "GB200", "bf16", "none", rest + theirs + 16 * each),
        ("qwen-3-8b", "H100", "bf16", "none", 0.0),
    ):
        c, laid, made = model(name), Layout(ep=8, policy="everything", products=products), Software(graphs=graphs)
        laid = laid if c.moe else replace(laid, ep=1, dp=8)
        few, alone = (
            step_seconds(c, chip(of), laid, 8, 128, made, x).parts["kernels"] for x in (k, replace(k, experts=0.0))
        )
        waits = 0.02 * c.L * launches / of_eight
        assert max(waits, alone) <= few <= waits + alone, (name, of, graphs)
        many = [step_seconds(c, chip(of), laid, 512, 4096, made, x).parts["kernels"] for x in (k, CONSTANTS)]
        assert many[0] == pytest.approx(many[1], rel=0.03)


def test_interleaved_stages_hide_what_they_hand_on():
    """The next piece computes while an activation travels: a share is left, or what outlasts a microbatch of the stage."""
    c, layout = model("llama-3.1-405b"), Layout(tp=8, pp=16, v=4, microbatches=64, policy="everything")
    takes = [step_seconds(c, chip("H100"), a, 64, 8192).parts["sends"] for a in (replace(layout, v=1), layout)]
    assert takes[1] == pytest.approx(4 * CONSTANTS.data * takes[0])  # four times as often
    alone = step_seconds(c, chip("H100"), layout, 64, 8192, Software(overlaps=False)).parts["sends"]
    assert alone == pytest.approx(4 * takes[0])


def test_whole_layers_stand_beside_the_unembedding():
    """94 layers and two tables on 32 devices of three units: the last has two layers and the head (Qwen3-235B on 256 H100)."""
    for L, pp, v, last in ((94, 32, 3, 2), (94, 8, 4, 11), (61, 16, 1, 1), (62, 4, 1, 14), (64, 16, 1, 4)):
        c, layer = replace(TIDY, L=L), 3.0
        most = -(-L // pp)
        for head in (0.1, 4.0, 100.0):
            want = max(most * layer, last * layer + head, L / pp * layer + head / pp) if L % pp else most * layer + head
            got = slowest_stage(c, layer, head, Layout(pp=pp, v=v, microbatches=pp))
            assert got == pytest.approx(want), (L, pp, v, head)


def test_experts_exchange_four_times_and_six_if_the_layer_runs_again():
    """As the course's own program was counted to do (chapter 4): two AllToAlls forward, and two for the gradients."""
    layout = Layout(ep=8, fsdp=2, policy="block")
    (send,) = (s for s in operations(model("mixtral-8x7b"), layout, 16, 4096).layers[0].sends if s.role == "tokens")
    assert [sum(send.passes(policy)) for policy in ("everything", "matmuls", "block")] == [4, 4, 6]


def test_tuned_programs_gather_on_while_products_are_slowed():
    """Where gathers last longer than a layer, a share of them is not waited for besides."""
    c, layout = model("mixtral-8x7b"), Layout(fsdp=8, policy="everything")
    tuned, usual = (
        step_seconds(c, chip("H100"), layout, 8, 512, Software(tuned=t), replace(CONSTANTS, usual=1.0)).parts["weights"]
        for t in (True, False)
    )
    sent = (usual - tuned) / CONSTANTS.data
    assert tuned > CONSTANTS.data * sent > 0


def test_ends_and_parts():
    for r in ROWS:
        e = step_seconds(*r.args)
        assert 0 < e.low < e.mid < e.high
        assert sum(e.parts.values()) == pytest.approx(e.mid)
        assert all(x >= 0 for x in e.parts.values()), (r.name, e.parts)
        c, on, layout, B, T, _ = r.args
        rate = on.rate({"nvfp4": "fp4"}.get(layout.products, layout.products))
        assert e.mid > 3 * flops(c, B, T, count="causal").forward / (layout.chips * layout.pods * rate)


def test_a_host_updates_as_fast_as_was_published():
    """ZeRO-Offload: 10e9 parameters in 2.6 seconds, whatever number of the host's chips share them."""
    c, k = model("llama-2-13b"), replace(CONSTANTS, link=inf)
    one, eight = (
        step_seconds(c, chip("H200"), Layout(fsdp=n, offload="optimizer"), 8, 4096, constants=k).parts["update"]
        for n in (1, 8)
    )
    assert one == pytest.approx(eight) and one == pytest.approx(2.6 * 13.016e9 / 10e9, rel=1e-3)


def test_a_pod_has_so_many_chips():
    with pytest.raises(ValueError, match="1024 chips are more than the 256 of a v5e pod: let 4 pods share the batch"):
        step_seconds(TIDY, chip("v5e"), Layout(fsdp=1024), 1024, 2048)
    assert step_seconds(TIDY, chip("v5e"), Layout(fsdp=256, pods=4), 1024, 2048).mid > 0


def test_a_host_that_nobody_measured_is_refused():
    with pytest.raises(ValueError, match="nobody publishes how fast a host reads a v7"):
        step_seconds(TIDY, chip("v7"), Layout(offload="optimizer"), 8, 2048)


def test_a_chip_without_measured_steps_borrows_and_is_less_sure():
    own, new = chip("H100"), replace(chip("H100"), name="H900", generation="")
    a, b = (step_seconds(TIDY, on, Layout(), 8, 2048) for on in (own, new))
    assert (a.borrows, b.borrows) == ("", "H100") and b.high / b.low > 1.5 * a.high / a.low
    assert b.mid == pytest.approx(a.mid)


def test_utilisation_is_what_was_published_and_never_above_one():
    """Korthikanti et al. (2022), Table 5; their formula for the hardware's share counts what is done again three times."""
    published = {m["id"]: {x["metric"]: x["value"] for x in m["measured"]} for m in DATA["measurements"]}
    seen = 0
    for r in ROWS:
        c, on, layout, B, T, _ = r.args
        said = published[r.name]
        if r.source == "korthikanti2022" and "mfu" in said:
            mfu, hfu = utilisation(c, on, layout, B, T, r.seconds, "all")
            assert 100 * mfu == pytest.approx(said["mfu"], abs=0.25) and mfu < hfu < said["hfu"] / 100
            seen += 1
        assert max(utilisation(c, on, layout, B, T, step_seconds(*r.args).mid)) <= 1
    assert seen == 4


def test_rows_taken_together_are_rows_taken_one_by_one():
    for places, args in some(bench.stacked(ROWS), 12):
        together: Estimate = step_seconds(*args)
        for j, i in enumerate(places):
            assert together.mid[j] == pytest.approx(step_seconds(*ROWS[i].args).mid, rel=1e-9)


@walks(ROWS)
def test_inputs_say_what_the_row_says(r):
    """Chips, batch and layers of the layout agree with the row as it was collected."""
    row = next(m for m in DATA["measurements"] if m["id"] == r.name)
    _, _, layout, B, T, _ = r.args
    assert layout.chips * layout.pods == row["chips"] and (B, T) == (row["global_batch_seqs"], row["seq"])
    assert B % (layout.shards * layout.microbatches) == 0 and r.seconds > 0
    stated = row.get("parallelism", {})
    for axis, names in (("tp", ("tp", "ici_tensor_parallelism")), ("pp", ("pp",)), ("v", ("virtual_stages",))):
        said = next((stated[n] for n in names if stated.get(n)), None)
        assert said is None or getattr(layout, axis) == said


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
    assert SCORES["constants"] == asdict(CONSTANTS)
    assert len(asdict(CONSTANTS)) <= 15


@pytest.mark.slow
def test_constants_are_what_the_rows_give():
    found = bench.fit(ROWS)
    for name, value in asdict(found).items():
        assert getattr(CONSTANTS, name) == pytest.approx(value, rel=0.03), name


def test_a_change_that_moves_predictions_is_stored_with_them():
    """`python -m tools.bench_estimate --store` writes them; what moved is printed."""
    moved = {r.name: step_seconds(*r.args).mid / SCORES["rows"][r.name]["estimate"] - 1 for r in ROWS}
    far = {name: f"{x:+.1%}" for name, x in moved.items() if abs(x) > 1e-6}
    assert not far, f"{len(far)} of {len(ROWS)} predictions moved: {far}"


def test_accuracy_may_only_improve():
    """Every source, on the medians and 90th percentiles that were stored."""
    for source, was in SCORES["cases"]["in sample"].items():
        now = bench.scores([r for r in ROWS if r.source == source], CONSTANTS)
        for x in ("median", "p90"):
            assert now["estimate"][x] <= was["estimate"][x] + 1e-6, (source, x)


def test_the_figures_that_are_claimed():
    """Each source left out of the fit in turn; what is not met is in the results."""
    apart, together = SCORES["cases"]["each source left out of the fit"], SCORES["together"]["left out, all rows"]
    assert bench.mean(apart)["estimate"]["median"] <= 13 and together["estimate"]["median"] <= 10
    assert together["estimate"]["inside"] >= 0.75 and together["estimate"]["width"] <= 1.5
    assert together["estimate"]["median"] < min(together[b]["median"] for b in ("half of peak", "6ND at 40 %")) / 2
    for r in SCORES["layouts"].values():
        assert r["rank"] >= 0.6 and r["regret"] <= 2
    assert SCORES["layouts per second"] >= 1e5
