"""What attention moves, form by form, against `helpers.costs`."""

import math

import pytest

from helpers.costs.attention.flops_and_bytes import Attention, flash
from helpers.costs.attention.io_complexity import largest_block
from helpers.costs.attention.time_and_intensity import Rates, in_turn, seconds, variants
from helpers.costs.rooflines.chips import chip, menu
from helpers.figures.attention.forms_side_by_side import FORMS, exponentials

NAME = "attention"


@pytest.mark.parametrize("name", ["v5e", "H100"])
def test_every_form_is_what_costs_say(figure, name):
    found, device = figure.values({"chip": name, "R": 4}), chip(name)
    a, M = Attention(16384, N=32, K=8), device.fast_bytes // device.cores
    rates, b = Rates(device.rate(), device.hbm_bandwidth, exponentials(device)), largest_block(M, 128)
    passes = variants(a, M, window=4096, sink_tokens=0)
    passes |= {f"flash{v}": flash(a, min(b, 512), v, rows=4 * b) for v in (2, 3)}
    passes["window"] = flash(Attention(16384, N=32, K=8, window=4096), min(b, 512), rows=4 * b)
    for form in FORMS:
        t = seconds(passes[form], rates)
        want = t.lower if form == "flash3" else in_turn(passes[form], rates)
        if form == "flash3" and device.kind == "tpu":
            assert math.isnan(found["flash3_seconds"])
            continue
        assert found[f"{form}_seconds"] == pytest.approx(want)
        assert found[f"{form}_bytes"] == pytest.approx(passes[form].bytes)
        on_chip = max(t.math, t.parts["exps"]) if form == "flash3" else t.math + t.parts["exps"]
        waits = "hbm" if t.parts["hbm"] >= on_chip else "math" if t.math >= t.parts["exps"] else "exps"
        assert ("math", "hbm", "exps")[int(found[f"{form}_bound"])] == waits, form


def test_exponentials_of_a_gpu():
    assert exponentials(chip("H100")) == pytest.approx(3.9e12, rel=0.02)  # Shah et al. (2024)
    assert exponentials(chip("A100")) == pytest.approx(108 * 1.41e9 * 16, rel=0.005)  # boost clock of the data sheet
    assert exponentials(chip("A100-40GB")) == exponentials(chip("A100"))
    assert exponentials(chip("H200")) == exponentials(chip("H100"))
    for device in map(chip, menu()):  # of those that a reader can choose, without limit on a TPU alone
        assert math.isinf(exponentials(device)) == (device.kind == "tpu"), device.name


def test_a_table_that_scrolls_can_be_reached_by_keys(page):
    region = page.locator(".live-forms")
    assert region.get_attribute("tabindex") == "0" and region.get_attribute("aria-label")
