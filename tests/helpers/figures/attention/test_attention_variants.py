"""What attention moves on the page against `helpers.costs`."""

import math
import random

import numpy as np
import pytest

from helpers.costs.attention.flops_and_bytes import Attention, chunked, decode, flash, fused, naive
from helpers.costs.attention.io_complexity import block_bytes, largest_block
from helpers.costs.attention.linear_attention import linear
from helpers.costs.attention.time_and_intensity import Rates, in_turn, seconds
from helpers.costs.rooflines.chips import chip
from helpers.figures.attention.attention_variants.chart import SHORT, TICKS, X, spread
from helpers.figures.attention.attention_variants.page import CHARTS, RULES
from helpers.figures.attention.attention_variants.variants import (
    ARGS,
    FORMS,
    PHASES,
    SMALLEST,
    WHAT,
    WIDTHS,
    Setting,
    arguments,
    exponentials,
    forms,
    layout,
    rate,
    rows,
)
from tests.helpers.figures.standalone import SET, follow, link, same, shown, status, strays
from tests.tiers import repeats

NAME = "attention"
NUMBERS = """cases => {
    const [data, functions] = window.liveFigures[0], box = document.getElementById(data.id), fields = box.querySelector("form").elements;
    const own = window.liveAttention(data, functions, box, { ...window.liveWords, text: (v, unit) => `${v} ${unit}` });
    return cases.map(chosen => {
        const args = { ...chosen }, said = { ...chosen };
        for (const c of data.controls) if (c.options) { fields[c.name].value = chosen[c.name]; delete args[c.name]; }
        return own.find(args, said);
    });
}"""


def draw(figure, seed: int) -> dict:
    """Some setting of all controls; heads that group more often than not."""
    r = random.Random(seed)
    at = {m.name: r.choice(list(m.options)) for m in figure.menus} | {s.name: r.choice(s.grid) for s in figure.sliders}
    if r.random() < 0.85:
        at["K"] = r.choice([k for k in figure.sliders[3].grid if at["N"] % k == 0])
    return at


def check(page, figure, chosen: dict) -> None:
    """The page says what Python does."""
    said, over = figure.said(chosen), figure.over(chosen)
    assert shown(page) == said, chosen
    assert status(page) == figure.sentence(chosen), chosen
    seen = page.eval_on_selector_all(
        "[data-form]", "rows => rows.map(r => [r.dataset.form, r.hidden, r.querySelector('[data-over]').textContent])"
    )
    assert seen == [[f, said[f"{f}_bytes"] == "unknown", over[f]] for f in FORMS], chosen


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


def test_exponentials_of_a_gpu(figure):
    assert exponentials(chip("H100")) == pytest.approx(3.9e12, rel=0.02)  # Shah et al. (2024)
    assert exponentials(chip("A100")) == pytest.approx(108 * 1.41e9 * 16, rel=0.005)  # boost clock of the data sheet
    assert exponentials(chip("A100-40GB")) == exponentials(chip("A100"))
    assert exponentials(chip("H200")) == exponentials(chip("H100"))
    for of in map(chip, figure.chips):  # of those that a reader can choose, without limit on a TPU alone
        assert math.isinf(exponentials(of)) == (of.kind == "tpu"), of.name


def test_the_block_that_fits_is_the_largest(figure):
    for name, widths, M, H in (("v5e", list(WIDTHS)[0], 2048, 128), ("H100", list(WIDTHS)[2], 228, 96)):
        fit, need, back, need_back = figure.fitting({"chip": name, "widths": widths, "M": M, "H": H})
        at = layout(widths, name == "H100")
        for most, backward, smallest in ((fit, False, need), (back, True, need_back)):
            assert (
                block_bytes(most, most, H, at, backward)
                <= M * 1024
                < block_bytes(most + 16, most + 16, H, at, backward)
            )
            assert smallest == block_bytes(SMALLEST, SMALLEST, H, at, backward)
        assert fit == largest_block(M * 1024, H, at)


def test_phases_know_their_forms():
    v = Setting(*[8.0] * len(ARGS))
    for phase in PHASES:
        assert tuple(rows(phase, v)) == forms(phase)
    assert set(SHORT) == set(FORMS) and "128" in RULES


def test_names_of_lines_stand_apart():
    r = random.Random(1)
    for _ in range(200):
        at = {f: r.uniform(26, 274) for f in FORMS}
        put = spread(at, 26, 274, 15)
        order = sorted(at, key=at.get)
        heights = [put[f] for f in order]
        assert (
            all(b - a > 15 - 1e-9 for a, b in zip(heights, heights[1:]))
            and 25.999 < heights[0]
            and heights[-1] < 274.001
        )


def test_every_model_and_chip_reads_as_python_says(page, figure):
    chips = list(figure.chips.values())
    for n, name in enumerate(figure.models):
        chosen = {"model": name, "chip": chips[n % len(chips)], "phase": list(PHASES.values())[n % 4]}
        page.evaluate(SET, chosen)
        check(page, figure, chosen)


def test_thirty_settings_read_as_python_says(page, figure):
    for seed in range(repeats(8, 30)):
        chosen = draw(figure, seed)
        page.evaluate(SET, chosen)
        check(page, figure, chosen)


def test_three_hundred_settings_number_for_number(page, figure):
    cases = [draw(figure, seed) for seed in range(1000, 1000 + repeats(80, 320))]
    kinds = {"known": 0, "no block": 0, "unknown": 0}
    for n, (chosen, numbers) in enumerate(zip(cases, page.evaluate(NUMBERS, cases), strict=True)):
        want = figure.values(chosen)
        if n % 40 == 0:
            want |= figure.drawn(chosen)
            assert set(want) == set(numbers)
        assert math.log10(numbers["high"] / numbers["low"]) < TICKS - 0.5, chosen
        for name, x in want.items():
            assert same(numbers[name], x), (chosen, name)
        unknown, flash2 = math.isnan(want["fused_bytes"]), math.isnan(want["flash2_bytes"])
        kinds["unknown" if unknown else "no block" if flash2 else "known"] += 1
        assert X.low <= math.log10(chosen["S"]) <= X.high
    assert kinds["known"] > repeats(25, 100) and min(kinds.values()) > repeats(2, 10), kinds


def test_the_chart_follows_its_menu(page, figure):
    for chart, what in CHARTS.items():
        page.get_by_label("Chart", exact=True).select_option(chart)
        line = page.locator('[data-mark="4"]').get_attribute("points").split()
        values = figure.drawn({"chart": chart})
        low, high = math.log10(values["low"]), math.log10(values["high"])
        for n, point in enumerate(line):
            share = (math.log10(values[f"flash2{n}"]) - low) / (high - low)
            assert float(point.split(",")[1]) == pytest.approx(274 - 248 * share, abs=0.01)
        assert chart in page.locator("[data-axis]").text_content()
        assert what in WHAT
        assert page.locator("svg title").text_content().startswith(chart[0].upper() + chart[1:] + " of each form")


def test_the_keyboard_moves_it(page, figure):
    slider = page.get_by_label("S, tokens", exact=True)
    slider.focus()
    for S in (12288, 16384):
        page.keyboard.press("ArrowRight")
        assert slider.get_attribute("aria-valuetext") == f"{S:,}"
        check(page, figure, {"S": S})
    page.get_by_label("Chip", exact=True).focus()
    page.keyboard.type("H100")
    check(page, figure, {"S": 16384, "chip": "H100"})
    assert page.locator("[role=status]").get_attribute("aria-live") == "polite"
    region = page.locator(".live-forms")
    assert region.get_attribute("tabindex") == "0" and region.get_attribute("aria-label")


def test_a_wrong_setting_says_what_would_be_right(page, figure):
    page.evaluate(SET, {"K": 5})
    assert status(page) == (
        "N = 32 query heads cannot share K = 5 KV heads evenly, so all is unknown: K = 4 would do, or N = 30."
    )
    assert set(shown(page).values()) == {"unknown"} and not page.locator('[data-mark="4"]').is_visible()
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


def test_a_setting_can_be_linked_to(page, figure, address):
    page.get_by_label("Heads of", exact=True).select_option("gpt-oss-120b")
    page.get_by_label("Phase", exact=True).select_option("decode, one token")
    page.get_by_label("S, tokens", exact=True).press("ArrowRight")
    page.keyboard.press("Tab")
    linked, said = link(page), status(page)
    assert "#live-attention?model=gpt-oss-120b&chip=v5e&phase=decode%2C+one+token&" in linked and linked.endswith(
        "&S=12288"
    )
    follow(page, linked)
    chosen = {"model": "gpt-oss-120b", "phase": "decode, one token", "S": 12288}
    assert status(page) == said == figure.sentence(chosen)
    follow(page, f"{address}#live-attention?model=toString&N=24&S=5000&B=3.5&chip=H100&K=0&b=128&R=7")
    assert strays(page) == "model = toString, B = 3.5, K = 0"
    check(page, figure, {"N": 24, "S": 5000, "chip": "H100", "b": 128, "R": 7})
