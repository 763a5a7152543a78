"""What attention moves against `helpers.costs`, and what the page says of impossible settings."""

import math

import numpy as np
import pytest

from helpers.costs.attention.flops_and_bytes import Attention, chunked, decode, flash, fused, naive
from helpers.costs.attention.io_complexity import Layout, block_bytes, largest_block
from helpers.costs.attention.linear_attention import linear
from helpers.costs.attention.time_and_intensity import Rates, in_turn, seconds
from helpers.costs.rooflines.chips import chip, menu
from helpers.figures.attention.attention_variants.figure import CHARTS, CURVES
from helpers.figures.attention.attention_variants.variants import (
    FORMS,
    PHASES,
    SMALLEST,
    WIDTHS,
    Setting,
    arguments,
    exponentials,
    rate,
    room,
    rows,
)
from helpers.live.curves import TICKS, spread
from tests.helpers.figures.standalone import SET, shown, status
from tests.helpers.figures.test_as_data import draw

NAME = "attention"


def test_every_form_is_what_costs_say():
    """A setting of each phase, its forms written out by hand."""
    of, at = chip("H100"), Rates(9.89e14, 3.35e12, exponentials(chip("H100")))
    v = Setting(4096, 3, 32, 8, 64, 512, 128, 4, 256, 64, 1, 2, 4, at.C, at.W, at.exps)
    assert rate(of, "bf16, scores and sums in float32") == at.C
    a = Attention(4096, N=32, K=8, H=64, B=3)
    near, open_, one = (Attention(4096, **base(a), window=512), Attention(4096, **base(a), causal=False), step(a))
    want = {
        ("prefill", "naive"): [naive(a)],
        ("prefill", "chunked"): [chunked(a, 128)],
        ("prefill", "flash1"): [flash(a, 128, 1)],
        ("prefill", "flash2"): [flash(a, 128, rows=512)],
        ("prefill", "flash3"): [flash(a, 128, 3, rows=512)],
        ("prefill", "window"): [flash(near, 128, rows=512)],
        ("prefill", "linear"): [linear(a)],
        ("unmasked", "flash2"): [flash(open_, 128, rows=512)],
        ("unmasked", "fused"): [fused(open_)],
        ("training", "fused"): [fused(a), fused(a, True)],
        ("training", "flash2"): [flash(a, 128, rows=512), flash(a, 64, 2, True, rows=256)],
        ("training", "flash3"): [flash(a, 128, 3, rows=512), flash(a, 64, 3, True, rows=256)],
        ("decode", "fused"): [fused(one)],
        ("decode", "flash2"): [decode(one)],
        ("decode", "window"): [decode(Attention(1, 4096, **base(a), window=512))],
        ("decode", "linear"): [linear(one)],
    }
    found = {phase: rows(phase, v) for phase in PHASES}
    for (phase, form), passes in want.items():
        got, times = found[phase][form], [seconds(p, at) for p in passes]
        least = [t.lower for t in times] if form == "flash3" else [in_turn(p, at) for p in passes]
        assert got["seconds"] == pytest.approx(sum(least)), (phase, form)
        assert got["bytes"] == pytest.approx(sum(p.bytes for p in passes)), (phase, form)
        assert got["flops"] == pytest.approx(sum(p.flops for p in passes)), (phase, form)
        whole = (times[0] if len(times) == 1 else times[0] + times[1]).parts
        chip_ = max(whole["math"], whole["exps"]) if form == "flash3" else whole["math"] + whole["exps"]
        waits = "hbm" if whole["hbm"] >= chip_ else "math" if whole["math"] >= whole["exps"] else "exps"
        assert ("math", "hbm", "exps")[int(got["bound"])] == waits, (phase, form)
    assert found["prefill"]["flash3"]["seconds"] < 0.7 * found["prefill"]["flash2"]["seconds"]  # heads of 64
    assert math.isnan(rows("prefill", Setting(**{**vars(v), "exps": math.inf}))["flash3"]["seconds"])
    two = rows("training", Setting(**{**vars(v), "gpu": 0}))["flash2"]  # what a TPU wants: two kernels
    kernels = [flash(a, 128, rows=512), flash(a, 64, 2, True, rows=256, kernels=2)]
    assert two["flops"] == sum(p.flops for p in kernels) and two["bytes"] == sum(p.bytes for p in kernels)


def base(a: Attention) -> dict:
    return {"N": a.N, "K": a.K, "H": a.H, "B": a.B}


def step(a: Attention) -> Attention:
    return Attention(1, a.S, **base(a))


def test_memory_is_that_of_the_arrays():
    """Of NumPy arrays of the shapes that each form has at its fullest moment."""
    S, B, N, K, H = 256, 2, 4, 2, 32
    q, kv = np.zeros((B, S, N, H), np.float16), np.zeros((B, S, K, H), np.float16)
    scores = np.zeros((B, N, S, S), np.float32)
    qkvo = 2 * q.nbytes + 2 * kv.nbytes
    assert arguments(Attention(S, N=N, K=K, H=H, B=B)) == qkvo
    v = Setting(S, B, N, K, H, 64, 32, 1, 32, 32, 0, 2, 4, 1.0, 1.0, 1.0)
    forward, both, step_ = (rows(phase, v) for phase in ("prefill", "training", "decode"))
    assert forward["fused"]["memory"] == qkvo + 2 * scores.nbytes  # scores and shares
    assert forward["flash2"]["memory"] == qkvo == forward["window"]["memory"]
    assert both["fused"]["memory"] == 2 * qkvo + 3 * scores.nbytes  # shares, their gradients and those of scores
    new = np.zeros((B, 1, N, H), np.float16)
    assert step_["flash2"]["memory"] == 2 * new.nbytes + 2 * kv.nbytes
    assert step_["window"]["memory"] == 2 * new.nbytes + 2 * kv[:, :64].nbytes
    state = np.zeros((B, K, H, H + 1), np.float32)
    assert step_["linear"]["memory"] == 2 * new.nbytes + 2 * kv[:, :1].nbytes + state.nbytes


def test_exponentials_of_a_gpu():
    assert exponentials(chip("H100")) == pytest.approx(3.9e12, rel=0.02)  # Shah et al. (2024)
    assert exponentials(chip("A100")) == pytest.approx(108 * 1.41e9 * 16, rel=0.005)  # boost clock of the data sheet
    assert exponentials(chip("A100-40GB")) == exponentials(chip("A100"))
    assert exponentials(chip("H200")) == exponentials(chip("H100"))
    for of in map(chip, menu()):  # of those that a reader can choose, without limit on a TPU alone
        assert math.isinf(exponentials(of)) == (of.kind == "tpu"), of.name


def test_the_block_that_fits_is_the_largest():
    for on_gpu, widths, M, H in ((0, list(WIDTHS)[0], 2048, 128), (1, list(WIDTHS)[2], 228, 96)):
        found = room(widths, on_gpu, M * 1024, H)
        at = Layout(*WIDTHS[widths][:2], scores=not on_gpu, sums=not on_gpu)
        for name, backward, smallest in (("fit", False, "need"), ("back", True, "need_back")):
            most = found[name]
            assert block_bytes(most, most, H, at, backward) <= M * 1024
            assert block_bytes(most + 16, most + 16, H, at, backward) > M * 1024
            assert found[smallest] == block_bytes(SMALLEST, SMALLEST, H, at, backward)
        assert found["fit"] == largest_block(M * 1024, H, at)


def test_what_is_more_than_the_chip_holds_is_named(figure):
    over = 0
    for seed in range(60):
        chosen = draw(figure, seed)
        values, said = figure.values(chosen), figure.said(chosen)
        more = [f for f in FORMS if values[f"{f}_memory"] > values["hbm"]]
        assert [f for f in FORMS if said[f"{f}_over"]] == more
        assert ("of memory: " + ", ".join(CURVES[f][0] for f in more) + "." in said["lacks"]) == bool(more)
        over += bool(more)
    assert over > 5


def test_names_of_curves_stand_apart():
    r = np.random.default_rng(1)
    for _ in range(200):
        at = {f: r.uniform(26, 274) for f in FORMS}
        put = spread(at, 26, 274, 15)
        heights = [put[f] for f in sorted(at, key=at.get)]
        assert (
            all(b - a > 15 - 1e-9 for a, b in zip(heights, heights[1:])) and 25.99 < heights[0] and heights[-1] < 274.01
        )


def test_the_chart_follows_its_menu(page, figure):
    for chart, (label, _) in CHARTS.items():
        page.get_by_label("Chart", exact=True).select_option(chart)
        line = page.locator('[data-curve="4"]').get_attribute("points").split()
        every = [figure.values({"chart": chart, "S": S}) for S in figure.drawing.over.grid]
        seen = [v[f"{f}_chart"] for v in every for f in FORMS if v[f"{f}_chart"] == v[f"{f}_chart"]]
        low, high = math.floor(math.log10(min(seen))), math.ceil(math.log10(max(seen)))
        assert high - low < TICKS
        for point, v in zip(line, every, strict=True):
            share = (math.log10(v["flash2_chart"]) - low) / (high - low)
            assert float(point.split(",")[1]) == pytest.approx(274 - 248 * share, abs=0.06)
        assert page.locator("[data-axis]").text_content() == label
        assert page.locator("svg title").text_content().startswith(chart[0].upper() + chart[1:] + " of each form")
    region = page.locator(".live-forms")
    assert region.get_attribute("tabindex") == "0" and region.get_attribute("aria-label")


def test_a_wrong_setting_says_what_would_be_right(page):
    page.evaluate(SET, {"K": 5})
    assert status(page) == (
        "N = 32 query heads cannot share K = 5 KV heads evenly, so all is unknown: K = 4 would do, or N = 30."
    )
    assert {v for name, v in shown(page).items() if "_over" not in name} == {"unknown"}
    assert not page.locator('[data-curve="4"]').get_attribute("points")
    page.evaluate(SET, {"K": 4, "widths": "float32"})
    assert status(page) == (
        "v5e has no published rate for float32, so all is unknown: choose other numbers, or a chip that has one, such as A100."
    )
    page.evaluate(SET, {"chip": "H100"})
    assert "unknown" not in status(page)
    page.evaluate(SET, {"M": 16})
    assert "not even blocks of 16 fit into 16 KiB: with heads of 128 they take 41.1 kB. Take more memory" in status(
        page
    )
    assert shown(page)["flash2_seconds"] == "unknown" != shown(page)["fused_seconds"]
